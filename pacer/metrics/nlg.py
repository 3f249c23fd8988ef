"""Language scores: BLEU-1 to 4, ROUGE-L, METEOR 1.5 and CIDEr as computed by ``pycocoevalcap``.

The texts are split at spaces only, without lower-casing or other tokenisation, as in LLM-RG4's code. The paper uses
"the repository evaluation implementation", against cleaned references (appendix "Clinical and Language Metrics"). BLEU
is the corpus score with the closest reference length. ROUGE-L (beta 1.2) and CIDEr are means over rows; METEOR is its
own corpus aggregate.
"""

import re
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import numpy as np
import polars as pl
from pycocoevalcap.bleu import bleu_scorer
from pycocoevalcap.cider import cider_scorer
from pycocoevalcap.rouge.rouge import Rouge

from pacer.metrics.meteor import meteor, meteor_counts, meteor_statistics

#: White space other than spaces.
_BREAK = re.compile(r"[^\S ]")
#: Constants that pycocoevalcap adds to counts to avoid the logarithm of zero.
_TINY, _SMALL = 1e-15, 1e-9


def single_line(text: str) -> str:
    """Return a text as one line, the form in which it is scored. Line breaks, tabs and the spaces around them become
    one space; doubled spaces stay, as in the pipeline's own reports. Without this, pycocoevalcap's ROUGE-L would treat
    two words separated by a line break as one."""
    if not _BREAK.search(text):
        return text
    return " ".join(filter(None, (line.strip() for line in _BREAK.split(text))))


def with_overlap(cases: pl.DataFrame) -> pl.DataFrame:
    """Add to rows of two texts ``rougeL`` and ``bleu_statistics``, and without values the columns of METEOR."""
    rouge, sides = Rouge(), [cases[side].to_list() for side in ("reference", "hypothesis")]
    rows = [float(rouge.calc_score([hypothesis], [reference])) for reference, hypothesis in zip(*sides, strict=True)]
    meteor = pl.lit(None, pl.Float64).alias("meteor"), pl.lit(None, pl.List(pl.Float64)).alias("meteor_statistics")
    counts = pl.Series("bleu_statistics", bleu_statistics(*sides).tolist(), pl.List(pl.Float64))
    return cases.with_columns(pl.Series("rougeL", rows, pl.Float64), counts, *meteor)


def meteor_columns(*tables: pl.DataFrame, stop: Event | None = None) -> list[list[pl.Series]]:
    """Return the ``meteor`` of the rows of ``reference`` and ``hypothesis`` in each table, and its counts,
    ``meteor_statistics``. One run of the program does all tables; raises a
    :class:`~pacer.metrics.meteor.MeteorError`, also when ``stop`` is set."""
    texts = pl.concat(table.select("reference", "hypothesis") for table in tables)
    counts = meteor_counts(texts["reference"].to_list(), texts["hypothesis"].to_list(), stop=stop)
    return [
        [
            pl.Series("meteor", meteor(meteor_statistics(part))),
            pl.Series("meteor_statistics", part.tolist(), dtype=pl.List(pl.Float64)),
        ]
        for part in np.split(counts, np.cumsum([len(table) for table in tables])[:-1])
    ]


@contextmanager
def meteor_beside(*tables: pl.DataFrame) -> Generator[Future[list[list[pl.Series]]]]:
    """Run :func:`meteor_columns` beside the block, and yield its result. The program never outlives the block."""
    stop = Event()
    with ThreadPoolExecutor(1) as thread:
        try:
            yield thread.submit(meteor_columns, *tables, stop=stop)
        finally:
            stop.set()


class _References(list):
    """Texts whose n-grams are counted whenever they are iterated: those of 200,000 would take gigabytes."""

    def __iter__(self) -> Iterator[list]:
        return (cider_scorer.cook_refs([text]) for text in super().__iter__())


def cider(cases: pl.DataFrame) -> float | None:
    """Return CIDEr, 0 to 10, of rows of two texts; None without two different references, because it weights n-grams by
    how few contain them."""
    references, hypotheses = (cases[side].to_list() for side in ("reference", "hypothesis"))
    if len({tuple(text.split()) for text in references}) < 2:
        return None
    scorer: Any = cider_scorer.CiderScorer()
    scorer.crefs, scorer.ctest = _References(references), map(cider_scorer.cook_test, hypotheses)
    scorer.document_frequency = Counter()  # to which looking up an unknown n-gram adds nothing
    scorer.compute_doc_freq()
    return float(np.mean(scorer.compute_cider()))


def bleu_statistics(references: Sequence[str], hypotheses: Sequence[str]) -> np.ndarray:
    """Return BLEU statistics ``[n, 10]`` as pycocoevalcap counts them: matched 1- to 4-grams, 1- to 4-grams of the
    hypothesis, and the lengths of hypothesis and reference."""
    pairs = zip(references, hypotheses, strict=True)
    cases = (bleu_scorer.cook_test(hypothesis, bleu_scorer.cook_refs([reference])) for reference, hypothesis in pairs)
    rows = [[*case["correct"], *case["guess"], case["testlen"], *case["reflen"]] for case in cases]
    return np.array(rows, dtype=float).reshape(-1, 10)


def bleu(sums: np.ndarray, order: int = 4) -> np.ndarray:
    """Return corpus BLEU up to ``order`` from sums of :func:`bleu_statistics`, with one reference per case."""
    correct, guess = sums[..., :order], sums[..., 4 : 4 + order]
    ratio = (sums[..., 8] + _TINY) / (sums[..., 9] + _SMALL)
    value = np.exp(np.log((correct + _TINY) / (guess + _SMALL)).mean(axis=-1))
    with np.errstate(over="ignore"):
        return value * np.where(ratio < 1, np.exp(1 - 1 / ratio), 1.0)
