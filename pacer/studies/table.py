"""From scores to a study's table: mean over contexts, replicates, rounding, best and second best;
differences of rows.

All computations use unrounded scores; only printed values are rounded. Marks follow the printed
values, as in the paper: all rows with the best printed value are bold, all with the second best are
underlined.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from scipy.stats import ttest_1samp

from pacer.core.errors import DataError
from pacer.core.io import write_text
from pacer.display.numbers import number, p_value
from pacer.display.tables import MARKS, Heading, Mark, Table, first_cell_changes
from pacer.metrics.cases import MEAN
from pacer.metrics.result import read_scores, scores_of
from pacer.metrics.score_kinds import Direction
from pacer.metrics.scores import score_of
from pacer.metrics.signature import Signature
from pacer.metrics.statistics.halves import Difference, holm
from pacer.reporting.charts import curve_chart
from pacer.reporting.score_tables import caution, context_mean, contexts_in
from pacer.studies.plan import PARAMS, SCORES
from pacer.studies.repository import Repository
from pacer.studies.run import SIGNATURE, finished, kept_files
from pacer.studies.study import (
    PrintedValue,
    PublishedBlock,
    PublishedTable,
    Study,
    load_published,
    stands_beside,
)

#: Repeats (folder of the first system, folder of the second) -> score -> difference, second minus
#: first, by patient.
Compare = Callable[[Sequence[tuple[Path, Path]]], Mapping[str, Difference]]
#: Minimum number of replicates for an interval over them.
ENOUGH = 3
_HOLM = "p (Holm) is corrected for the number of rows tested for each score."
PATIENTS_NOTE = (
    "Differences are between means over all contexts and replicates. Intervals and p values come "
    "from 10,000 random splits into halves of the patients with all their records (of the "
    f"examinations if patients are unknown). {_HOLM} The results generalise to other patients, not "
    "to retrained models."
)
REPLICATES_NOTE = (
    "Differences are between means over all contexts, then over the replicates, which have "
    f"different records. Intervals and p values use Student's paired t-test. {_HOLM}"
)


class ScoredRun(NamedTuple):
    """A finished run: its row and replicate, the folder of its cases, its scores, signature and
    parameters, and whether it was made with the code and parameters of now. For scores of other
    outputs, replicate and parameters are None; they are compared with every replicate."""

    row: int
    replicate: str | None
    folder: Path
    scores: Mapping[str, Any]
    signature: Signature
    params: Mapping[str, Any] | None
    is_current: bool = True

    @property
    def records(self) -> str | None:
        """The hash of the scored records."""
        return self.signature.data.get("records")


class RowDifference(NamedTuple):
    """A difference in ``metric``, ``label`` "row − base": over patients, or over replicates with
    different records."""

    label: str
    metric: str
    difference: Difference


def compare_rows(
    study: Study, runs: Sequence[ScoredRun], compare: Compare
) -> tuple[list[RowDifference], list[str]]:
    """Compare every pair of rows that a study tests; return the differences and notes about
    them."""
    lines: list[RowDifference] = []
    notes: dict[str, None] = {}
    by_row = [
        {run.replicate: run for run in runs if run.row == row} for row in range(len(study.rows))
    ]
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
        folders = [(first.folder, second.folder) for first, second in pairs.values()]
        try:
            tested = compare(folders) if over_patients else {}
        except DataError as error:
            notes[f"{row} was not tested against {against}: {error}."] = None
            continue
        for metric in study.metrics:
            difference = tested.get(metric)
            if not over_patients:
                values = [
                    [context_mean(run.scores, metric) for run in pair] for pair in pairs.values()
                ]
                gaps = [
                    second - first
                    for first, second in values
                    if first is not None and second is not None
                ]
                difference = student(gaps) if len(gaps) == len(pairs) else None
            if difference is not None:
                lines.append(RowDifference(f"{row} − {against}", metric, difference))
        notes[PATIENTS_NOTE if over_patients else REPLICATES_NOTE] = None
        if len(pairs) < len(study.labels) and None not in pairs:
            notes[f"{row} was tested only with {', '.join(map(str, pairs))}."] = None
    return lines, list(notes)


def student(gaps: Sequence[float]) -> Difference:
    """Return the mean difference, with Student's interval and p if the differences suffice and are
    not all equal."""
    low = high = p = None
    if len(gaps) >= ENOUGH and max(gaps) - min(gaps) > 1e-9:
        test = ttest_1samp(gaps, 0.0)
        (low, high), p = test.confidence_interval(), float(test.pvalue)
    return Difference(None, None, fmean(gaps), low, high, p)


def difference_table(title: str, tested: Sequence[RowDifference]) -> Table:
    """Return the table of the tested differences; p by Holm allows for the number of rows tested on
    a score."""
    heads = ("Compared", "Score", "Difference", "95% interval", "p", "p (Holm)")
    metrics = {line.metric for line in tested}
    adjusted = {
        metric: iter(holm([line.difference.p for line in tested if line.metric == metric]))
        for metric in metrics
    }
    rows = [
        (
            label,
            score_of(metric).column,
            *difference.cells(difference.p),
            p_value(next(adjusted[metric])),
        )
        for label, metric, difference in tested
    ]
    caption = f"{title}: differences, case by case"
    return Table(heads, tuple(rows), caption, text_columns=2, rules=first_cell_changes(rows))


class Block(NamedTuple):
    """Rows that are ranked together: label -> cells."""

    heading: Heading
    rows: Mapping[str, Sequence[PrintedValue]]


def collect(study: Study, repository: Repository) -> list[ScoredRun]:
    """Return a study's finished runs, and the folders of its ``files`` rows; raises a DataError if
    contexts differ."""
    runs = []
    for found in finished(study, repository):
        read = partial(repository.read, found.commit)
        row = study.rows[found.row].name
        scores, signature = scores_of(
            row, read(f"{found.scores}/{SCORES}"), read(f"{found.scores}/{SIGNATURE}")
        )
        folder = kept_files(repository, found)
        params = read(PARAMS)
        run = (found.row, found.replicate, folder, scores, signature, params, found.is_current)
        runs.append(ScoredRun(*run))
    for place, row in enumerate(study.rows):
        if (
            row.files is not None
            and (folder := repository.root / row.files).joinpath(SCORES).is_file()
        ):
            runs.append(ScoredRun(place, None, folder, *read_scores(folder), None))
    contexts = {tuple(contexts_in(run.scores)): study.rows[run.row].name for run in runs}
    if len(contexts) > 1:
        scored = "; ".join(f"{name} in {', '.join(names)}" for names, name in contexts.items())
        raise DataError(
            f"study {study.name}: all rows must be scored in the same contexts, but these differ: "
            f"{scored}"
        )
    return runs


def build_table(
    study: Study, runs: Sequence[ScoredRun], compare: Compare | None = None
) -> tuple[Table, Sequence[RowDifference]]:
    """Return the table of a study from its existing results, with a heading for each block, and the
    differences of the rows that it names, if ``compare`` is given to test them."""
    published = load_published()[study.published] if study.published is not None else None
    comparable = (
        [stands_beside(published, r.scores, r.signature, r.params) for r in runs]
        if published
        else []
    )
    blocks = _blocks(
        study,
        runs,
        () if published is None or (comparable and not any(comparable)) else published.blocks,
    )
    starts = accumulate((len(block.rows) for block in blocks), initial=0)
    opening = dict(zip(starts, blocks, strict=False))
    lines = [line for block in blocks for line in block.rows.items()]
    tested, test_notes = compare_rows(study, runs, compare) if compare is not None else ([], [])
    notes = _notes(study, runs) + _published_notes(published, comparable)
    table = Table(
        ("Model", *(score.column for score in study.columns)),
        tuple((label, *(cell.text or "–" for cell in cells)) for label, cells in lines),
        study.title,
        rules=frozenset(opening),
        headings={row: block.heading for row, block in opening.items() if block.heading.text},
        marks={
            (row, column): cell.mark
            for row, (_, cells) in enumerate(lines)
            for column, cell in enumerate(cells, 1)
            if cell.mark
        },
        notes=(*notes, *_missing(study, runs), *study.notes, *test_notes),
    )
    return table, tested


def study_curve(study: Study, runs: Sequence[ScoredRun]) -> str:
    """Draw precision against recall of the rows (means over contexts and replicates); empty without
    any."""
    points = {}
    for place, row in enumerate(study.rows):
        of_row = [run.scores for run in runs if run.row == place]
        values = [
            [context_mean(scores, key) for scores in of_row] for key in ("recall", "precision")
        ]
        recall, precision = ([value for value in of_key if value is not None] for of_key in values)
        if len(recall) == len(precision) == len(of_row) > 0:
            points[row.name] = fmean(recall), fmean(precision)
    return curve_chart(points, study.curve, study.title) if study.curve and points else ""


def write_table(scores: Table, tested: Sequence[RowDifference], folder: Path) -> str:
    """Write ``table.md`` and ``table.tex`` into ``folder``; return the Markdown."""
    tables = [scores, *([difference_table(scores.caption, tested)] if tested else [])]
    text = "\n".join(f"## {table.caption}\n\n{table.markdown(caption=False)}" for table in tables)
    write_text(folder / "table.md", text)
    write_text(folder / "table.tex", "\n".join(table.latex() for table in tables))
    return text


def _blocks(
    study: Study, runs: Sequence[ScoredRun], published: Sequence[PublishedBlock]
) -> list[Block]:
    """Return the blocks of this repository, each followed by its published one, then the other
    published ones."""
    blocks, theirs = list[Block](), list[tuple[str, Block]]()
    for block in published:
        rows = {
            name: [row.get(key, PrintedValue()) for key in study.metrics]
            for name, row in block.rows.items()
        }
        shown = Block(Heading(f"{block.name} (published)", block.protocol), rows)
        theirs.append((block.context if study.layout == "contexts" else block.name, shown))
    if study.layout == "contexts":
        contexts = contexts_in(runs[0].scores) if runs else []
        ours = [(context, context.upper(), context, study.rows) for context in contexts]
    else:
        groups = dict.fromkeys(row.group for row in study.rows)
        ours = [
            (group, group or "", MEAN, [row for row in study.rows if row.group == group])
            for group in groups
        ]
    for belongs, title, context, members in ours:
        values = {row.name: _values(study, runs, study.rows.index(row), context) for row in members}
        blocks.append(
            Block(Heading(title), ranked(values, [score.better for score in study.columns]))
        )
        blocks += [block for name, block in theirs if name == belongs]
    return blocks + [block for _, block in theirs if block not in blocks]


def ranked(
    rows: Mapping[str, Sequence[str | None]], better: Sequence[Direction | None]
) -> dict[str, list[PrintedValue]]:
    """Mark best and second best in every column of a block, by the means of :func:`printed`, except
    where ``better`` is None. A column with fewer than two values has no marks."""
    marks: list[dict[str, Mark]] = []
    for column, best in zip(zip(*rows.values(), strict=True), better, strict=True):
        values = [cell.split()[0] for cell in column if cell is not None] if best else []
        order = sorted(set(values), key=float, reverse=best == "higher")
        marks.append(dict(zip(order, MARKS, strict=False)) if len(values) > 1 else {})
    return {
        label: [
            PrintedValue(c, m.get(c.split()[0]) if c else None)
            for c, m in zip(cells, marks, strict=True)
        ]
        for label, cells in rows.items()
    }


def printed(values: Sequence[float], decimals: int = 3) -> str | None:
    """Format one value per replicate as rounded mean, with ± sample standard deviation if there are
    several."""
    if not values:
        return None
    mean = number(float(fmean(values)), decimals)
    return mean if len(values) == 1 else f"{mean} ± {stdev(values):.{decimals}f}"


def _values(study: Study, runs: Sequence[ScoredRun], row: int, context: str) -> list[str | None]:
    """Return the printed values of a row for each column; None if one of its runs lacks the
    score."""
    cells = []
    for score in study.columns:
        values = [context_mean(run.scores, score.key, context) for run in runs if run.row == row]
        defined = [value for value in values if value is not None]
        cells.append(printed(defined, score.decimals) if None not in values else None)
    return cells


def _notes(study: Study, runs: Sequence[ScoredRun]) -> list[str]:
    """Return notes on how the numbers were made."""
    params = [run.params for run in runs if run.params is not None]
    notes = []
    if old := sorted({study.rows[run.row].name for run in runs if not run.is_current}):
        notes.append(f"Made with other code or parameters than those of now: {', '.join(old)}.")
    if runs and study.layout == "mean":
        contexts = ", ".join(context.upper() for context in contexts_in(runs[0].scores))
        notes.append(f"Plain mean over the contexts {contexts}, before rounding.")
    notes.append(
        "Bold: best in its block; underlined: second best; equal printed values share a mark."
    )
    if len(study.labels) > 1:
        varied = ", ".join(study.replicates[0])
        notes.append(f"Mean ± sample standard deviation over {varied} {', '.join(study.labels)}.")
    if params:
        splits = sorted({used["decode"]["split"] for used in params})
        notes.append(f"Scored on split {', '.join(splits)}.")
    if any(used["corpus"]["source"] == "phantom" for used in params):
        notes.append("Rows from this repository come from a generated corpus, not from patients.")
    notes += sorted({note for run in runs if (note := caution(run.signature)) is not None})
    for label in study.labels:
        same = [run for run in runs if run.replicate in (label, None)]
        if (
            len({_protocol(run.signature) for run in same}) > 1
            or len({run.records for run in same if run.params}) > 1
        ):
            notes.append(
                "Not all rows were scored alike (labeller, convention, target, cleaning or records "
                "differ)."
            )
            break
    return notes


def _published_notes(published: PublishedTable | None, comparable: Sequence[bool]) -> list[str]:
    """Return notes on the published rows: their sources, and whether our runs are
    ``comparable``."""
    if published is None:
        return []
    measured = (
        "all records of MIMIC-RG4's test split in its contexts, scored with CheXbert (convention "
        f"llm-rg4, target {published.target}, cleaner upstream)"
    )
    if comparable and not any(comparable):
        return [f"Published rows are not shown: they are for {measured}, and these runs are not."]
    printed_as = (
        f"The published rows are as printed in {published.where} of the paper ({published.title})."
    )
    origins = "; ".join(f"{system}, {text}" for system, text in published.provenance.items())
    notes = [f"{printed_as} {published.protocol}", f"Sources of the published rows: {origins}."]
    if not comparable:
        notes.append(
            f"There is no run yet. Published rows are kept only if your runs also cover {measured}."
        )
    if not all(comparable):
        notes.append(f"Not all of our rows can be compared with them: they are for {measured}.")
    return notes


def _missing(study: Study, runs: Sequence[ScoredRun]) -> list[str]:
    """Return notes on rows without results, and what they need."""
    done = {(run.row, run.replicate) for run in runs}
    scored = {
        key for run in runs for context in contexts_in(run.scores) for key in run.scores[context]
    }
    notes = [
        f"No run has the score {metric}."
        for metric in study.metrics
        if runs and metric not in scored
    ]
    for index, row in enumerate(study.rows):
        if row.files is not None and (index, None) not in done:
            notes.append(
                f"{row.name}: {row.files} has no scores; run `pacer score --out {row.files}`."
            )
        missing = [
            label for label in study.labels if row.files is None and (index, label) not in done
        ]
        if missing:
            needs = f" (it needs {', '.join(row.needs)})" if row.needs else ""
            notes.append(f"{row.name}: not run yet with {', '.join(missing)}{needs}.")
    return notes


def _protocol(signature: Signature) -> str:
    """Return what must be equal in rows that are compared."""
    language, files = signature.language, signature.labeller.get("files")
    counts = {context: scores.get("n") for context, scores in signature.counts.items()}
    return repr(
        (signature.convention, files, language.get("target"), language.get("cleaner"), counts)
    )
