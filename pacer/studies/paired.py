"""Comparison of a study's rows: their differences, and whether these are more than chance."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from scipy.stats import ttest_1samp

from pacer.core.errors import DataError
from pacer.metrics.display import Table, first_cell_changes, p_value
from pacer.metrics.scores import score_of
from pacer.metrics.signature import Signature
from pacer.metrics.statistics.bootstrap import Difference, holm
from pacer.reporting.score_tables import context_mean
from pacer.studies.study import Study

#: Repeats (folder of the first system, folder of the second) -> score -> difference, second minus first, by patient.
Compare = Callable[[Sequence[tuple[Path, Path]]], Mapping[str, Difference]]
#: Minimum number of replicates for an interval over them.
ENOUGH = 3
_HOLM = "p (Holm) is corrected for the number of rows tested on a score."
PATIENTS_NOTE = (
    "Differences are between means over all contexts and replicates. Intervals use the paired bootstrap, p values "
    "approximate randomization, with 10,000 resamples each of patients with all their records (of examinations if "
    f"patients are unknown). {_HOLM} They generalise to other patients, not to retrained models."
)
REPLICATES_NOTE = (
    "Differences are between means over all contexts, then over the replicates, which have different records. "
    f"Intervals and p values use Student's paired t-test. {_HOLM}"
)


class ScoredRun(NamedTuple):
    """A finished run: its row and replicate, the folder of its cases, its scores, signature and record. For scores of
    other outputs, replicate and record are None; they are compared with every replicate."""

    row: int
    replicate: str | None
    folder: Path
    scores: Mapping[str, Any]
    signature: Signature
    record: Mapping[str, Any] | None

    @property
    def records(self) -> str | None:
        """The hash of the scored records."""
        return self.signature.data.get("records")


class RowDifference(NamedTuple):
    """A difference in ``metric``, ``label`` "row − base": over patients, or over replicates if each has other
    records."""

    label: str
    metric: str
    difference: Difference


def compare_rows(study: Study, runs: Sequence[ScoredRun], compare: Compare) -> tuple[list[RowDifference], list[str]]:
    """Compare every pair of rows that a study tests; return the differences and notes about them."""
    lines: list[RowDifference] = []
    notes: dict[str, None] = {}
    by_row = [{run.replicate: run for run in runs if run.row == row} for row in range(len(study.rows))]
    for index, base in study.tested():
        row, against = study.rows[index].name, study.rows[base].name
        pairs = {
            label: (first, second)
            for label in (study.labels if {*by_row[index], *by_row[base]} - {None} else [None])
            if (first := by_row[base].get(label, by_row[base].get(None))) is not None
            and (second := by_row[index].get(label, by_row[index].get(None))) is not None
        }
        if not pairs:
            continue
        over_patients = len({first.records for first, _ in pairs.values()}) == 1
        try:
            tested = (
                compare([(first.folder, second.folder) for first, second in pairs.values()]) if over_patients else {}
            )
        except DataError as error:
            notes[f"{row} was not tested against {against}: {error}."] = None
            continue
        for metric in study.metrics:
            difference = tested.get(metric)
            if not over_patients:
                apart = [
                    second - first
                    for one, two in pairs.values()
                    if (first := context_mean(one.scores, metric)) is not None
                    and (second := context_mean(two.scores, metric)) is not None
                ]
                difference = student(apart) if len(apart) == len(pairs) else None
            if difference is not None:
                lines.append(RowDifference(f"{row} − {against}", metric, difference))
        notes[PATIENTS_NOTE if over_patients else REPLICATES_NOTE] = None
        if len(pairs) < len(study.labels) and None not in pairs:
            notes[f"{row} was tested only with {', '.join(map(str, pairs))}."] = None
    return lines, list(notes)


def student(apart: Sequence[float]) -> Difference:
    """Return the mean difference, with Student's interval and p if the differences suffice and are not all equal."""
    low = high = p = None
    if len(apart) >= ENOUGH and max(apart) - min(apart) > 1e-9:
        test = ttest_1samp(apart, 0.0)
        (low, high), p = test.confidence_interval(), float(test.pvalue)
    return Difference(None, None, fmean(apart), low, high, p)


def difference_table(title: str, tested: Sequence[RowDifference]) -> Table:
    """Return the table of the tested differences; p by Holm allows for the number of rows tested on a score."""
    heads = ("Compared", "Score", "Difference", "95 % interval", "p", "p (Holm)")
    adjusted = {
        metric: iter(holm([line.difference.p for line in tested if line.metric == metric]))
        for metric in {line.metric for line in tested}
    }
    rows = []
    for label, metric, difference in tested:
        cells = (*difference.cells(difference.p), p_value(next(adjusted[metric])))
        rows.append((label, score_of(metric).column, *cells))
    numeric = (False, False, *(True,) * (len(heads) - 2))
    caption = f"{title}: differences, case by case"
    return Table(heads, tuple(rows), caption, numeric, rules=first_cell_changes(rows))
