"""Rows of a study case by case: who is compared with whom, and what of it is more than chance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from scipy.stats import ttest_1samp

from pacer.core.errors import DataError
from pacer.core.io import read_json
from pacer.metrics.statistics.bootstrap import Difference, holm
from pacer.reporting.score_tables import context_mean, difference_cells
from pacer.reporting.tables import p_value
from pacer.studies.study import HEADINGS, Study

#: Row and seed.
Run = tuple[int, int | None]
#: Repeats (folder of the first system, folder of the second) -> score -> difference, second minus first.
Compare = Callable[[Sequence[tuple[Path, Path]]], Mapping[str, Difference]]


def compare_worlds(repeats: Sequence[tuple[Path, Path]]) -> dict[str, Difference]:
    """Differences of means over contexts, a pair of numbers each world, by Student's t; equal ones have no interval."""
    runs = [[read_json(folder / "scores.json") for folder in pair] for pair in repeats]
    found = {}
    for metric in HEADINGS:
        first, second = ([context_mean(pair[side], metric) for pair in runs] for side in (0, 1))
        one, two = ([value for value in values if value is not None] for values in (first, second))
        if not len(one) == len(two) == len(runs):
            continue
        apart = [b - a for a, b in zip(one, two, strict=True)]
        low = high = p = None
        if max(apart) - min(apart) > 1e-9:
            test = ttest_1samp(apart, 0.0)
            (low, high), p = test.confidence_interval(), float(test.pvalue)
        found[metric] = Difference(fmean(one), fmean(two), fmean(apart), low, high, p, 0)
    return found


COLUMNS = ("Score", "Difference", "95 % interval", "p", "p (Holm)")
NOTE = (
    "Differences are of means over all contexts{seeds}. Interval: paired bootstrap; p: approximate randomisation, "
    "10,000 resamples each, of patients with all their records (examinations where patients are not known). p (Holm) "
    "allows for the number of rows that are tested on a score. All are about other patients for these trained models, "
    "not about other trainings."
)
WORLDS_NOTE = (
    "Differences are of means over all contexts, then over the worlds, each with stand-ins and a training of its own. "
    "Interval and p: Student's t for pairs. p (Holm) allows for the number of rows that are tested on a score."
)


class Tested(NamedTuple):
    """A line of a comparison, ``label`` "row − base", with its cells under :data:`COLUMNS`; the difference in
    ``metric``, and the differences with each seed that both rows have."""

    label: str
    cells: tuple[str, ...]
    metric: str
    difference: Difference
    by_seed: Mapping[int | None, float]


def compare_rows(
    study: Study, folders: Mapping[Run, Path], scores: Mapping[Run, Mapping[str, Any]], compare: Compare
) -> tuple[list[Tested], list[str]]:
    """Every pair of rows that a study tests; and why some were not.

    Args:
        folders, scores: of (row, seed); the seed of foreign scores is None, and they stand against every seed.
    """
    found: list[tuple[int, int, str, Difference]] = []
    seeds: dict[tuple[int, int], list[int | None]] = {}
    notes = []
    for index, base in study.tested():
        row = study.rows[index]
        repeats = _repeats(index, base, folders)
        seeds[index, base] = list(repeats)
        if not repeats:
            continue
        try:
            differences = compare(list(repeats.values()))
        except DataError as error:
            notes.append(f"{row.name} was not tested against {study.rows[base].name}: {error}.")
            continue
        found += [(index, base, metric, differences[metric]) for metric in study.metrics if metric in differences]
        if None not in repeats and len(repeats) < len(study.seeds):
            notes.append(f"{row.name} was tested with seed {', '.join(map(str, repeats))} alone.")
    lines = [
        Tested(
            f"{study.rows[index].name} − {study.rows[base].name}",
            (HEADINGS[metric], *difference_cells(difference), p_value(p)),
            metric,
            difference,
            _apart((index, base), seeds[index, base], metric, scores),
        )
        for (index, base, metric, difference), p in zip(found, _holm_by_score(found), strict=True)
    ]
    return lines, list(dict.fromkeys(notes))


def _repeats(index: int, base: int, folders: Mapping[Run, Path]) -> dict[int | None, tuple[Path, Path]]:
    """Seed -> the base's folder and the row's, of every seed that both have."""
    found = {}
    for seed in dict.fromkeys(seed for row, seed in folders if row in (base, index)):
        first, second = (folders.get((row, seed), folders.get((row, None))) for row in (base, index))
        if first is not None and second is not None:
            found[seed] = first, second
    return found


def _apart(
    rows: tuple[int, int], seeds: Iterable[int | None], metric: str, scores: Mapping[Run, Mapping[str, Any]]
) -> dict[int | None, float]:
    """Seed -> the row's score less its base's."""
    found = {}
    for seed in seeds:
        own, base = (context_mean(scores.get((row, seed)) or scores[row, None], metric) for row in rows)
        if own is not None and base is not None:
            found[seed] = own - base
    return found


def _holm_by_score(found: Sequence[tuple[int, int, str, Difference]]) -> list[float | None]:
    """The p value of every test, allowing for the number of rows that are tested on its score."""
    adjusted: list[float | None] = [None] * len(found)
    for score in {metric for _, _, metric, _ in found}:
        places = [place for place, (_, _, metric, _) in enumerate(found) if metric == score]
        for place, p in zip(places, holm([found[place][3].p for place in places]), strict=True):
            adjusted[place] = p
    return adjusted
