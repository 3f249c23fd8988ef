"""Language scores: BLEU-1 to 4, ROUGE-L, METEOR 1.5 and CIDEr as computed by ``pycocoevalcap``.

The texts are split at spaces only, without lower-casing or other tokenisation, as in LLM-RG4's
code. The paper uses "the repository evaluation implementation", against cleaned references
(appendix "Clinical and Language Metrics"). BLEU is the corpus score with the closest reference
length. ROUGE-L (beta 1.2) and CIDEr are means over rows. METEOR is its own corpus aggregate: its
program (:mod:`pacer.metrics.meteor`) counts for each pair, and scores of pairs and of a corpus
are functions of these counts and their sums.

The example has two records, with the counts that METEOR's program gives for them; the second report
lacks a word of its reference.

>>> references = ["no effusion or edema .", "small left effusion or edema ."]
>>> reports = ["no effusion or edema .", "small effusion or edema ."]
>>> counts = [
...     [5, 5, 3, 3, 2, 2, 3, 3, *[0] * 12, 1, 5, 5],
...     [5, 6, 2, 2, 3, 3, 2, 2, *[0] * 12, 2, 5, 5],
... ]
>>> cases = pl.DataFrame({"reference": references, "hypothesis": reports}).with_columns(
...     *meteor_columns(np.array(counts), 2), rougeL=pl.Series(map(rouge_l, references, reports))
... )
>>> from pacer.metrics.score_kinds import ContextCases, values_of
>>> values = values_of(SCORES, ContextCases(cases, "llm-rg4"))
>>> {key: round(value, 3) for key, value in values.items()}  # doctest: +NORMALIZE_WHITESPACE
{'bleu1': 0.905, 'bleu2': 0.846, 'bleu3': 0.814, 'bleu4': 0.778, 'rougeL': 0.947,
 'meteor': 0.501, 'cider': 5.872}
"""

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count, pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pacer.metrics.conventions import Convention
from pacer.metrics.meteor import COUNTS
from pacer.metrics.score_kinds import ContextCases, Numbers, Score, Sums, mean, mean_rows

#: White space other than spaces.
_BREAK = re.compile(r"[^\S ]")
#: Constants that pycocoevalcap adds to counts to avoid the logarithm of zero.
_TINY, _SMALL = 1e-15, 1e-9
#: METEOR's parameters for English, task "rank": alpha, beta, gamma, delta, and the weights of
#: exact, stem, synonym and paraphrase matches.
_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])
#: The longest n-grams of BLEU and CIDEr.
_ORDERS = 4
#: How ROUGE-L weights recall, and CIDEr differences in length.
_ROUGE_BETA, _CIDER_SIGMA = 1.2, 6.0
#: A number that is no n-gram.
_NO_NGRAM = np.uint64(2**64 - 1)
#: Words whose n-grams are counted at a time.
_WORDS_AT_A_TIME = 1 << 18
_BLEU = "corpus level, closest reference length (pycocoevalcap)"
#: How the scores against original findings differ from their twins.
_ORIGINAL: dict[str, Any] = {
    "meaning": "the same score against the original findings",
    "place": "originals",
    "of_originals": True,
    "interval": False,
    "tested": False,
}


def single_line(text: str) -> str:
    """Return a text on one line, as it is scored: line breaks, tabs and spaces around them become
    one space, or pycocoevalcap's ROUGE-L would not split words there. Doubled spaces stay, as in
    the pipeline's own reports."""
    if not _BREAK.search(text):
        return text
    return " ".join(filter(None, (line.strip() for line in _BREAK.split(text))))


def meteor_columns(counts: np.ndarray | None, pairs: int) -> list[pl.Series]:
    """Return the ``meteor`` of pairs with these counts ``[n, 23]``, and the counts,
    ``meteor_statistics``; null columns without counts."""
    nothing = [None] * pairs
    values, rows = (
        (nothing, nothing)
        if counts is None
        else (meteor(meteor_statistics(counts)), counts.tolist())
    )
    return [
        pl.Series("meteor", values, pl.Float64),
        pl.Series("meteor_statistics", rows, pl.List(pl.Float64)),
    ]


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
    """Pairs of texts whose words are numbers; ``lengths`` ``[n, 2]``.

    An n-gram is one number whose digits are words; to count it in each pair, the pair is one more
    digit. Numbers beyond 64 bits are cut, so two n-grams can be taken for one: among ten million,
    with a probability below 1 in 100,000.
    """

    def __init__(self, references: Iterable[str], hypotheses: Iterable[str]):
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._sides, lengths = (array("I"), array("I")), []
        for words, texts in zip(self._sides, (references, hypotheses), strict=True):
            ends = [0]
            for text in texts:
                words.extend(map(numbers.__getitem__, text.split()))
                ends.append(len(words))
            lengths.append(np.diff(ends))
        self._base = np.array(len(numbers) | 1, dtype=np.uint64)  # odd, so that no word is cut off
        self.lengths = np.stack(lengths, axis=1)

    def ngrams(self, order: int, sides: int = 2) -> Iterator[_Ngrams]:
        """Yield the n-grams with ``order`` words, for some pairs at a time; those of the references
        alone if ``sides`` is 1."""
        lengths = self.lengths[:, :sides]
        ends = np.cumsum(np.insert(lengths, 0, 0, axis=0), axis=0)
        part = ends[1:].sum(axis=1) // _WORDS_AT_A_TIME
        for first, last in pairwise([0, *np.flatnonzero(np.diff(part)) + 1, len(part)]):
            pairs = last - first  # their references, then their hypotheses
            text = np.repeat(np.arange(sides * pairs), lengths[first:last].T.ravel())
            spans = zip(self._sides, ends[first], ends[last], strict=False)
            words = np.concatenate([side[start:end] for side, start, end in spans], dtype=np.uint64)
            ngrams = words
            for place in range(1, order):
                ngrams = ngrams[:-1] * self._base + words[place:]
            begins = np.flatnonzero(text[: len(ngrams)] == text[order - 1 :])
            side, pair = np.divmod(text[begins], pairs)
            in_pairs = ngrams[begins] + pair.astype(np.uint64) * self._base**order
            place = np.argsort(in_pairs)
            starts = np.flatnonzero(np.diff(in_pairs[place], prepend=~in_pairs[place[:1]]))
            hypothesis = np.add.reduceat(side[place], starts)
            both = np.diff(starts, append=len(place))
            cells = place[starts]
            yield _Ngrams(first + pair[cells], ngrams[begins[cells]], both - hypothesis, hypothesis)


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
    known = [ngrams.words for ngrams in texts.ngrams(order, sides=1)]
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


def bleu_statistics(references: Iterable[str], hypotheses: Iterable[str]) -> np.ndarray:
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


def bleu_rows(cases: pl.DataFrame, _: Convention) -> np.ndarray:
    """Return the statistics of BLEU by case, as in :func:`bleu_statistics`."""
    return bleu_statistics(cases["reference"], cases["hypothesis"])


def bleu1(sums: np.ndarray, _: Convention) -> np.ndarray:
    """Return BLEU-1 from sums of :func:`bleu_rows`."""
    return bleu(sums, 1)


def bleu2(sums: np.ndarray, _: Convention) -> np.ndarray:
    """Return BLEU-2 from sums of :func:`bleu_rows`."""
    return bleu(sums, 2)


def bleu3(sums: np.ndarray, _: Convention) -> np.ndarray:
    """Return BLEU-3 from sums of :func:`bleu_rows`."""
    return bleu(sums, 3)


def bleu4(sums: np.ndarray, _: Convention) -> np.ndarray:
    """Return BLEU-4 from sums of :func:`bleu_rows`."""
    return bleu(sums, 4)


def rouge_rows(cases: pl.DataFrame, _: Convention) -> np.ndarray:
    """Return ROUGE-L by case, and 1, as in :func:`~pacer.metrics.score_kinds.mean_rows`."""
    # the copy keeps the last digits of ROUGE-L as they were in earlier versions: numpy adds the
    # transposed view that `mean_rows` returns in another order
    return np.ascontiguousarray(mean_rows(cases["rougeL"].to_numpy()))


def rouge(sums: np.ndarray, _: Convention) -> np.ndarray:
    """Return ROUGE-L from sums of :func:`rouge_rows`."""
    return mean(sums)


def meteor_rows(cases: pl.DataFrame, _: Convention) -> np.ndarray:
    """Return METEOR's counts by case, as in :func:`meteor_statistics`."""
    return meteor_statistics(cases["meteor_statistics"].to_list())


def meteor_score(sums: np.ndarray, _: Convention) -> np.ndarray:
    """Return METEOR from sums of :func:`meteor_rows`."""
    return meteor(sums)


def cider_score(context: ContextCases) -> Numbers:
    """Return CIDEr, which is no function of sums: its weights depend on all references."""
    return {"cider": cider(context.cases)}


def original_count(context: ContextCases) -> Numbers:
    """Return the number of records with original findings."""
    return {"original_n": len(context.cases)}


BLEU_1 = Score(
    key="bleu1",
    title="BLEU-1",
    meaning=_BLEU,
    place="scores",
    needs=("reference", "hypothesis"),
    sums=Sums(bleu_rows, bleu1),
    short="B@1",
)
BLEU_4 = replace(
    BLEU_1,
    key="bleu4",
    title="BLEU-4",
    sums=Sums(bleu_rows, bleu4),
    tested=True,
    short="B@4",
)
ROUGE_L = Score(
    key="rougeL",
    title="ROUGE-L",
    meaning="F with beta 1.2, tokens split at single spaces, mean over reports (pycocoevalcap)",
    place="scores",
    needs=("rougeL",),
    sums=Sums(rouge_rows, rouge),
    tested=True,
    short="R-L",
)
SCORES = (
    BLEU_1,
    replace(BLEU_1, key="bleu2", title="BLEU-2", sums=Sums(bleu_rows, bleu2), short="B@2"),
    replace(BLEU_1, key="bleu3", title="BLEU-3", sums=Sums(bleu_rows, bleu3), short="B@3"),
    BLEU_4,
    ROUGE_L,
    Score(
        key="meteor",
        title="METEOR",
        meaning="METEOR 1.5, -l en -norm, its own corpus aggregate (pycocoevalcap)",
        place="scores",
        needs=("meteor_statistics",),
        sums=Sums(meteor_rows, meteor_score),
        tested=True,
        short="MTR",
    ),
    Score(
        key="cider",
        title="CIDEr",
        meaning="CIDEr-D, document frequencies from the context's references, mean over reports "
        "(pycocoevalcap)",
        place="scores",
        needs=("reference", "hypothesis"),
        compute=cider_score,
    ),
    replace(BLEU_1, key="original_bleu1", beside="Original BLEU-1", short="Orig. B@1", **_ORIGINAL),
    replace(BLEU_4, key="original_bleu4", beside="Original BLEU-4", short="Orig. B@4", **_ORIGINAL),
    replace(
        ROUGE_L, key="original_rougeL", beside="Original ROUGE-L", short="Orig. R-L", **_ORIGINAL
    ),
    Score(
        key="original_n",
        title="n",
        meaning="records with original findings",
        place="originals",
        needs=("reference", "hypothesis"),
        compute=original_count,
        of_originals=True,
        better=None,
        decimals=0,
    ),
)
