"""Comparison of scored runs on the same records, case by case: is the difference more than chance?
Of several systems, each with the first: one table, one correction of p, and the losses that are
shown."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from pacer.core.errors import ConfigError, DataError
from pacer.core.machine import check_not_forked
from pacer.display.numbers import IN_BRACKETS, change_cells, number, score_cell
from pacer.display.tables import Displayed, Table, first_cell_changes
from pacer.metrics.cases import row_name
from pacer.metrics.conventions import CONVENTIONS
from pacer.metrics.result import Result
from pacer.metrics.scores import score_of, scores_with_intervals
from pacer.metrics.signature import Signature
from pacer.statistics import halves
from pacer.statistics.halves import (
    PERCENT,
    UNITS,
    Difference,
    Key,
    Summed,
    Units,
    context_sums,
    differences,
    holm,
    units_of,
)
from pacer.tables.ids import check_pairs

_STANDIN = (
    "F1 uses a stand-in for CheXbert: compare it only between these runs, not with published F1"
)
#: Note on two runs of one training each; ``bench/results/seeds.md`` has F1 by seed.
_SEEDS = (
    "each system is one training run, and intervals and p do not cover other training seeds, "
    "which move F1 by some hundredths on the default dataset"
)
#: Packages of the labeller, whose versions do not matter without one.
_OF_LABELLER = ("torch", "transformers", "tokenizers")
#: Changes to the reports before scoring.
_REWRITTEN = ("clean_hypotheses", "deduplicate", "extract")


@dataclass(frozen=True)
class Compared:
    """A system compared with the first. ``scores``: context (and ``mean``) -> score -> difference.
    ``changed``: the number of records whose reports differ. ``notes``: on what is counted and
    compared, and on what was scored differently."""

    scores: dict[str, dict[str, Difference]]
    changed: int
    notes: list[str]

    @property
    def last(self) -> tuple[str, dict[str, Difference]]:
        """The mean over contexts, or the only context, with its differences."""
        return list(self.scores.items())[-1]


@dataclass(frozen=True)
class SystemDifference:
    """A difference in the mean over contexts, or in the only one; ``p_holm``: corrected for all
    systems and scores."""

    score: str
    system: str
    difference: Difference
    p_holm: float | None


@dataclass(frozen=True, repr=False)
class Comparison(Displayed):
    """Systems compared with the ``first``; ``others``: each by name. ``unit``: what was split into
    halves ``resamples`` times; ``units``: how many. ``tested``: see :class:`SystemDifference`."""

    first: str
    convention: str
    unit: str
    units: int
    records: int
    resamples: int
    others: dict[str, Compared]
    tested: list[SystemDifference]

    @property
    def scores(self) -> dict[str, dict[str, Difference]]:
        """The differences of the second system; ``others`` has those of all."""
        return next(iter(self.others.values())).scores

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
            for row in self.tested:
                if row.score == key:
                    sentences += self._loss(row, most, certain=certain)
        return sentences

    def _loss(self, row: SystemDifference, most: float, *, certain: bool) -> list[str]:
        found = row.difference
        if found.difference is None or found.low is None or found.high is None:
            raise DataError(
                f"max_loss of {row.score} (--max-loss): {row.system} has no interval, which needs "
                f"{halves.LEAST_UNITS} {UNITS[self.unit]} that count in both runs (here "
                f"{found.units}) and a score that is defined in 99% of the halves"
            )
        is_lower_better = score_of(row.score).better == "lower"
        loss, least = (
            (found.difference, found.low) if is_lower_better else (-found.difference, -found.high)
        )
        if least <= most and (certain or loss <= most):
            return []
        change, interval, _ = change_cells(found, None)
        doubt = "" if least > most else ", which may be chance, so the check passes"
        return [
            f"{row.system} loses more than {most:g} in {row.score} against {self.first}: {change} "
            f"({PERCENT} interval {interval}){doubt}"
        ]

    @property
    def splits(self) -> str:
        """How the intervals were made."""
        return (
            f"{self.records:,} records; {self.resamples:,} random splits of {self.units:,} "
            f"{UNITS[self.unit]} into halves"
        )

    def table(self) -> Table:
        """Return the differences: of two systems by context and score, of several by score and
        system. Scores without any change are in a line below the table."""
        units = UNITS[self.unit]
        (name, second), *further = self.others.items()
        if further:
            heads = ("Score", "System", self.first, "Value", "Change", f"{PERCENT} interval")
            heads += ("p (Holm)",)
            rows = [
                (
                    score_of(row.score).heading,
                    row.system,
                    *_both(row.difference),
                    *change_cells(row.difference, row.p_holm),
                )
                for row in self.tested
                if _is_changed(row.difference)
            ]
            tests = sum(row.p_holm is not None for row in self.tested)
            notes = [
                f"{self.splits}; context {second.last[0]}; p is corrected for all {tests} "
                f"differences from {self.first} (Holm)"
            ]
        else:
            heads = ("Context", "Score", self.first, name, units.capitalize())
            heads += (f"{name} − {self.first}", f"{PERCENT} interval", "p")
            rows = [
                (
                    row_name(context),
                    score_of(key).heading,
                    *_both(one),
                    number(one.units),
                    *change_cells(one, one.p),
                )
                for context, scores in second.scores.items()
                for key, one in scores.items()
                if _is_changed(one)
            ]
            labelled = any("f1" in scores for scores in second.scores.values())
            of_f1 = f"F1 by {self.convention}" if labelled else "no CheXbert F1 without a labeller"
            notes = [
                f"{self.splits}, seed {halves.SEED}; {of_f1}; p values are not corrected for the "
                "number of rows"
            ]
        if self.units < halves.LEAST_UNITS:
            notes.append(f"no intervals and no p values: {halves.too_few(self.units, units)}")
        return Table(
            heads,
            tuple(rows),
            text_columns=2,
            rules=first_cell_changes(rows),
            notes=(*notes, *self._notes(only_last=bool(further))),
        )

    def _notes(self, *, only_last: bool) -> list[str]:
        """Return the notes on all systems, with their names where they are not on all, and on seeds
        at the end. ``only_last``: the table has only the last context."""
        systems: dict[str, list[str]] = {}
        for name, other in self.others.items():
            contexts = dict([other.last]) if only_last else other.scores
            for note in (*self._unchanged(contexts, other.changed), *other.notes):
                systems.setdefault(note, []).append(name)
        return [
            note if len(named) == len(self.others) else f"{', '.join(named)}: {note}"
            for note, named in sorted(systems.items(), key=lambda of: of[0] == _SEEDS)
        ]

    def _unchanged(
        self, contexts: Mapping[str, Mapping[str, Difference]], changed: int
    ) -> list[str]:
        """Return a line on the scores without any change in these contexts, if there are any."""
        equal = {
            score_of(key).heading: [
                row_name(context)
                for context, scores in contexts.items()
                if key in scores and not _is_changed(scores[key])
            ]
            for key in dict.fromkeys(key for scores in contexts.values() for key in scores)
        }
        told = ", ".join(
            heading if len(named) == len(contexts) else f"{heading} ({', '.join(named)})"
            for heading, named in equal.items()
            if named
        )
        reports = f"{changed:,} of {self.records:,} reports differ"
        return [f"no change in {told}; {reports}"] if told else []


def _is_changed(one: Difference) -> bool:
    """Return whether a score is not the same in both runs, or undefined. Without rounding errors,
    which are 0 in the interval."""
    return one.difference != 0 if one.low is None else any((one.low, one.high))


def _both(one: Difference) -> list[str]:
    """Return the cells of both scores of a difference."""
    return [
        score_cell(value, count=count)
        for value, count in zip((one.first, one.second), one.counts, strict=True)
    ]


#: A scored system: in memory, or the path of its folder.
System = Result | str | Path


def compare(
    first: System | Mapping[str, System],
    second: System | None = None,
    *,
    convention: str | None = None,
    resamples: int = 10_000,
) -> Comparison:
    """Compare two scored systems case by case, or each of several with the first; differences are
    minus the first. Compared are the tested scores of the registry and the numbers of
    ``score.columns``, by context and for the mean over contexts. Systems without a labeller are
    compared without CE F1.

    Args:
        first, second: what ``pacer.score`` returned, or folders with ``cases.parquet`` and
            ``signature.json``, or folders that have them in ``metrics/``, with the names A and B;
            or ``{name: system}`` alone, the first system first.
        convention: of the F1; by default the one that both systems were scored with.
        resamples: random splits into halves, at least 19: of patients if these are known, else of
            examinations, else of records; see
            :func:`~pacer.statistics.halves.differences`.

    Raises:
        DataError: a folder has no cases, ids do not pair one to one, or labellers or references
            differ.
        ConfigError: an argument has a value that is not allowed, or the systems were scored with
            different conventions and none is chosen.
        PacerError: the process was forked from one that has used PACER.
    """
    check_not_forked("pacer.compare")
    if convention not in (None, *CONVENTIONS):
        raise ConfigError(f"convention {convention!r} is not one of {', '.join(CONVENTIONS)}")
    if resamples < halves.LEAST_SPLITS:
        raise ConfigError(
            f"resamples: expected at least {halves.LEAST_SPLITS} splits, got {resamples}"
        )
    if not isinstance(first, Mapping) and second is not None:
        first, second = {"A": first, "B": second}, None
    if not isinstance(first, Mapping) or second is not None or len(first) < 2:
        raise ConfigError("expected two systems, or a mapping of names to at least two systems")
    (name, baseline), *rest = first.items()
    others: dict[str, Compared] = {}
    for other, run in rest:
        pair = _paired(baseline, run, convention)
        others[other] = _compared(pair, resamples)
    rows = [(key, other, one) for other, of in others.items() for key, one in of.last[1].items()]
    keys = list(dict.fromkeys(key for key, *_ in rows))
    rows.sort(key=lambda row: keys.index(row[0]))
    corrected = holm([one.p for *_, one in rows])
    return Comparison(
        name,
        pair.convention,
        pair.units.name,
        pair.units.count,
        len(pair.cases),
        resamples,
        others,
        [SystemDifference(*row, p) for row, p in zip(rows, corrected, strict=True)],
    )


def _compared(pair: "_Paired", resamples: int) -> Compared:
    scores = differences(*pair.sums, resamples)
    notes = [_STANDIN] if pair.signatures[0].standin_labeller else []
    if any(any(one.counts) for of in scores.values() for one in of.values()):
        notes.append(
            f"{IN_BRACKETS}; interval and p need {halves.LEAST_UNITS} {UNITS[pair.units.name]} "
            "that count in both runs"
        )
    notes += [*pair.remarks, *_scored_differently(*pair.signatures)]
    if all(signature.predictions for signature in pair.signatures):
        notes.append(_SEEDS)
    return Compared(scores, pair.changed, notes)


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
        ids = list(dict.fromkeys(("record_id", "context", f"{repeat.units.name}_id")))
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
    """Two runs with the same records. ``cases``: of the first; ``sums``: the tested scores of both
    over ``units``; ``changed``: how many reports differ; ``remarks``: on patients and columns."""

    cases: pl.DataFrame
    signatures: tuple[Signature, Signature]
    convention: str
    units: Units
    sums: tuple[dict[Key, Summed], dict[Key, Summed]]
    changed: int
    remarks: list[str]


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
    tested, others_tested = (
        {score.key: score for score in scores_with_intervals(*of) if score.tested}
        for of in (
            (cases, own, signature.left_out),
            (other_cases, others_own, other_signature.left_out),
        )
    )
    units = units_of(cases)
    remarks = [units.note] if units.note else []
    if units.codes.tolist() != units_of(other_cases).codes.tolist():
        remarks.append(
            f"the runs group their records into different {UNITS[units.name]}; the ids of the "
            "first run are used"
        )
    remarks += [
        f"{name}: compared over {cases[name].count():,} of {len(cases):,} records"
        for name in columns
        if cases[name].null_count()
    ]
    remarks += [
        f"{score.heading} is left out: only the {side} run has this score"
        for side, one, another in (
            ("first", tested, others_tested),
            ("second", others_tested, tested),
        )
        for key, score in one.items()
        if key not in another
    ]
    shared = [score for key, score in tested.items() if key in others_tested]
    sums, other_sums = (
        context_sums(table, convention, shared, units) for table in (cases, other_cases)
    )
    changed = int((cases["hypothesis"] != other_cases["hypothesis"]).sum())
    signatures = (signature, other_signature)
    return _Paired(cases, signatures, convention, units, (sums, other_sums), changed, remarks)


def _scored_differently(first: Signature, second: Signature) -> list[str]:
    """Return a note on versions, the user's scores and changes to reports that are not the same."""
    names = {**first.versions, **second.versions}
    if first.clinical is None:
        names = names.keys() - _OF_LABELLER
    both = [(name, first.versions.get(name), second.versions.get(name)) for name in sorted(names)]
    both += [
        (name, first.scores[name], second.scores.get(name))
        for name in first.score_columns
        if name in second.score_columns and name in first.scores
    ]
    if first.protocol and second.protocol:
        both += [(name, first.protocol.get(name), second.protocol.get(name)) for name in _REWRITTEN]
    differ = [f"{name} {one} and {other}" for name, one, other in both if one != other]
    alike = "score both alike, because this can be part of the differences"
    return [f"scored differently: {'; '.join(differ)}; {alike}"] if differ else []


def _labeller(signature: Signature) -> Any:
    """Return what two runs must share: the labeller's files. ``None``: no labeller; unequal to all
    if unknown."""
    return None if signature.clinical is None else signature.labeller.get("files") or object()
