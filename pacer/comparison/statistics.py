"""Corpus scores as functions of sums over cases, so that any resample of the cases is scored by adding rows.

Each score has per-case statistics ``[n, k]`` and a function from their sums ``[..., k]`` to the score ``[...]``, which
equals what the reference package computes on the same cases. Undefined scores are NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from pycocoevalcap.bleu.bleu_scorer import BleuScorer

from pacer.metrics.chexbert.observations import OBSERVATIONS
from pacer.metrics.conventions import Convention

#: What pycocoevalcap adds to counts so that no logarithm of zero is taken.
_TINY, _SMALL = 1e-15, 1e-9
#: METEOR 1.5's parameters for English, task "rank": alpha, beta, gamma, delta, and the weights of exact, stem, synonym
#: and paraphrase matches.
_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])


#: Sums ``[..., k]`` -> scores ``[...]``.
ScoreOf = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Statistics:
    """``rows`` ``[n, k]`` of one score of one run, by case or by unit, and how their sums become the score."""

    rows: np.ndarray
    score: ScoreOf


def bleu_statistics(references: Sequence[str], hypotheses: Sequence[str]) -> np.ndarray:
    """Matches of 1- to 4-grams, 1- to 4-grams of the hypothesis, and both lengths: ``[n, 10]``, as pycocoevalcap
    counts them."""
    scorer = BleuScorer(n=4)
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        scorer += (hypothesis, [reference])
    rows = [[*case["correct"], *case["guess"], case["testlen"], case["reflen"][0]] for case in scorer.ctest]
    return np.array(rows, dtype=float).reshape(-1, 10)


def bleu(sums: np.ndarray, order: int = 4) -> np.ndarray:
    """Corpus BLEU up to ``order`` from sums of :func:`bleu_statistics`, with one reference a case."""
    correct, guess = sums[..., :order], sums[..., 4 : 4 + order]
    ratio = (sums[..., 8] + _TINY) / (sums[..., 9] + _SMALL)
    value = np.exp(np.log((correct + _TINY) / (guess + _SMALL)).mean(axis=-1))
    with np.errstate(over="ignore"):
        return value * np.where(ratio < 1, np.exp(1 - 1 / ratio), 1.0)


def meteor_statistics(counted: Sequence[Sequence[float]]) -> np.ndarray:
    """METEOR's counts of each pair ``[n, 23]``, ready to be added up: in a perfect match nothing is fragmented, so its
    one chunk does not count."""
    rows = np.array(counted, dtype=float).reshape(-1, 23)
    perfect = (rows[:, 21] == rows[:, 0]) & (rows[:, 22] == rows[:, 1]) & (rows[:, 20] == 1)
    rows[perfect, 20] = 0
    return rows


def meteor(sums: np.ndarray) -> np.ndarray:
    """METEOR 1.5 from sums of :func:`meteor_statistics` (Denkowski and Lavie 2014)."""
    length, function = sums[..., 0:2], sums[..., 2:4]
    matched = sums[..., 4:20].reshape(*sums.shape[:-1], 4, 2, 2)  # matcher, content or function, hypothesis or ref.
    weighted = np.tensordot(_DELTA * matched[..., 0, :] + (1 - _DELTA) * matched[..., 1, :], _WEIGHTS, (-2, 0))
    chunks, words = sums[..., 20], sums[..., 21] + sums[..., 22]
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = np.moveaxis(weighted / (_DELTA * (length - function) + (1 - _DELTA) * function), -1, 0)
        mean = 1 / ((1 - _ALPHA) / precision + _ALPHA / recall)
        value = mean * (1 - _GAMMA * (chunks / (words / 2)) ** _BETA)
    return np.nan_to_num(value)  # METEOR gives 0 where nothing matches


def mean_statistics(values: Sequence[float | None]) -> np.ndarray:
    """A score that is the mean of its rows, of those that have a value: ``[n, 2]``."""
    numbers = np.array(values, dtype=float)
    known = ~np.isnan(numbers)
    return np.stack([np.where(known, numbers, 0.0), known], axis=1)


def mean(sums: np.ndarray) -> np.ndarray:
    """The mean from sums of :func:`mean_statistics`; NaN without rows."""
    with np.errstate(invalid="ignore"):
        return sums[..., 0] / sums[..., 1]


def label_statistics(references: np.ndarray, hypotheses: np.ndarray, convention: Convention) -> np.ndarray:
    """Hits, predicted and present of each observation, ``[n, 3 * observations]``, of CheXbert labels ``[n, 14]``."""
    columns = [OBSERVATIONS.index(name) for name in convention.observations]
    truth, found = (np.isin(labels[:, columns], convention.present) for labels in (references, hypotheses))
    return np.concatenate([truth & found, found, truth], axis=1).astype(float)


def f1(sums: np.ndarray, weighted: bool = False) -> np.ndarray:
    """Micro or support-weighted F1 from sums of :func:`label_statistics`; NaN where undefined."""
    hits, predicted, present = np.moveaxis(sums.reshape(*sums.shape[:-1], 3, -1), -2, 0)
    with np.errstate(invalid="ignore"):
        if not weighted:
            return 2 * hits.sum(axis=-1) / (predicted + present).sum(axis=-1)
        each = np.nan_to_num(2 * hits / (predicted + present))  # without support it has no weight
        return (each * present).sum(axis=-1) / present.sum(axis=-1)


def precision(sums: np.ndarray) -> np.ndarray:
    """Micro precision from sums of :func:`label_statistics`; NaN where nothing is predicted."""
    hits, predicted, _ = np.moveaxis(sums.reshape(*sums.shape[:-1], 3, -1), -2, 0)
    with np.errstate(invalid="ignore"):
        return hits.sum(axis=-1) / predicted.sum(axis=-1)


def recall(sums: np.ndarray) -> np.ndarray:
    """Micro recall from sums of :func:`label_statistics`; NaN where nothing is present."""
    hits, _, present = np.moveaxis(sums.reshape(*sums.shape[:-1], 3, -1), -2, 0)
    with np.errstate(invalid="ignore"):
        return hits.sum(axis=-1) / present.sum(axis=-1)
