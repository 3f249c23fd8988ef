"""From scores to a table of experiments: mean over contexts, replicates, rounding, best and second
best; differences of rows.

All computations use unrounded scores; only printed values are rounded. Marks follow the printed
values, as in the paper: all rows with the best printed value are bold, all with the second best are
underlined.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import polars as pl
from scipy.stats import ttest_1samp

from pacer.config.strict import read_mapping
from pacer.core.errors import DataError
from pacer.core.io import write_text
from pacer.display.numbers import change_cells, number, p_value
from pacer.display.tables import MARKS, Heading, Mark, Table, first_cell_changes
from pacer.extras.studies.repository import Repository
from pacer.extras.studies.run import PARAMS, finished, kept_files, plan
from pacer.extras.studies.study import PublishedTable, Study, load_published
from pacer.metrics.cases import MEAN
from pacer.metrics.result import SCORES_FILE, read_scores
from pacer.metrics.score_kinds import Direction
from pacer.metrics.scores import score_of
from pacer.metrics.signature import Signature
from pacer.reporting.score_tables import caution, context_mean, contexts_in
from pacer.statistics.comparison import compare_repeats
from pacer.statistics.halves import Difference, holm

#: Score -> "row − base" -> the difference over patients, or over replicates with other records.
RowDifferences = dict[str, dict[str, Difference]]
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
    """A finished run: the names of its row and replicate, the folder of its cases, its scores,
    signature and parameters, and whether it was made with the code and parameters of now. Scores of
    other outputs have neither replicate nor parameters; they are compared with every replicate."""

    row: str
    replicate: str | None
    folder: Path
    scores: Mapping[str, Any]
    signature: Signature
    params: Mapping[str, Any] | None = None
    is_current: bool = True

    @property
    def records(self) -> str | None:
        """The hash of the scored records."""
        return self.signature.data.get("records")

    @property
    def protocol(self) -> dict[str, Any]:
        """What must be equal in rows that are compared, and with published rows."""
        language = self.signature.language
        return {
            "n": {context: self.scores[context].get("n") for context in contexts_in(self.scores)},
            "labeller": self.signature.labeller.get("files"),
            "convention": self.signature.convention,
            "target": language.get("target"),
            "cleaner": language.get("cleaner"),
            "unseen_comparisons": language.get("unseen_comparisons"),
        }


def collect(study: Study, repository: Repository) -> list[ScoredRun]:
    """Return the finished runs of a table, and the folders of its ``files`` rows; raises a
    DataError if contexts differ."""
    runs = []
    for found in finished(plan(study, repository), repository):
        folder = kept_files(repository, found)
        run = found.run
        runs.append(
            ScoredRun(
                run.row,
                run.replicate,
                folder,
                *read_scores(folder),
                read_mapping(folder / PARAMS),
                found.is_current,
            )
        )
    for row in study.rows:
        folder = repository.root / (row.files or "")
        if row.files is not None and (folder / SCORES_FILE).is_file():
            runs.append(ScoredRun(row.name, None, folder, *read_scores(folder)))
    contexts = {", ".join(contexts_in(run.scores)): run.row for run in runs}
    if len(contexts) > 1:
        scored = "; ".join(f"{name} in {names}" for names, name in contexts.items())
        raise DataError(
            f"{study.name}: all rows must be scored in the same contexts, but these differ: "
            f"{scored}"
        )
    return runs


def compare_rows(study: Study, runs: Sequence[ScoredRun]) -> tuple[RowDifferences, list[str]]:
    """Compare every pair of rows that a table tests; return the differences and notes about
    them."""
    found: RowDifferences = {metric: {} for metric in study.metrics}
    notes = dict[str, None]()
    known = {(run.row, run.replicate or label): run for run in runs for label in study.labels}
    for name, base in study.tested():
        pairs = [
            (known[base, label], known[name, label])
            for label in study.labels
            if {(base, label), (name, label)} <= known.keys()
        ]
        if not pairs:
            continue
        tested = dict[str, Difference]()
        if len({first.records for first, _ in pairs}) == 1:
            notes[PATIENTS_NOTE] = None
            try:
                tested = compare_repeats([(a.folder, b.folder) for a, b in pairs])
            except DataError as error:
                notes[f"{name} was not tested against {base}: {error}."] = None
        else:
            notes[REPLICATES_NOTE] = None
            for metric in study.metrics:
                values = [[context_mean(run.scores, metric) for run in pair] for pair in pairs]
                gaps = [b - a for a, b in values if a is not None and b is not None]
                if len(gaps) == len(pairs):
                    tested[metric] = student(gaps)
        for metric in found.keys() & tested.keys():
            found[metric][f"{name} − {base}"] = tested[metric]
    return found, list(notes)


def student(gaps: Sequence[float]) -> Difference:
    """Return the mean difference, with Student's interval and p if the differences suffice and are
    not all equal."""
    if len(gaps) < ENOUGH or max(gaps) - min(gaps) < 1e-9:
        return Difference(None, None, fmean(gaps), None, None, None)
    test = ttest_1samp(gaps, 0.0)
    low, high = test.confidence_interval()
    return Difference(None, None, fmean(gaps), low, high, float(test.pvalue))


def build_tables(study: Study, runs: Sequence[ScoredRun]) -> list[Table]:
    """Return the table of scores from the existing results, with a heading for each block, and the
    table of the differences of the rows that it tests, if there are any; p by Holm allows for the
    number of rows tested on a score."""
    published = load_published().get(study.published or "")
    is_beside = not runs or any(stands_beside(published, run) for run in runs)
    beside = published if is_beside else None
    columns = [score_of(metric) for metric in study.metrics]
    better = [None, *(score.better for score in columns)]
    rows, headings, marks = list[tuple[str, ...]](), dict[int, Heading](), dict[Any, Mark]()
    for heading, lines, is_marked in _blocks(study, runs, beside):
        if heading.text:
            headings[len(rows)] = heading
        if is_marked:
            marks |= ranked(lines, better, len(rows))
        rows += lines
    tested, test_notes = compare_rows(study, runs)
    notes = [*_notes(study, runs), *_published_notes(published, beside), *study.notes, *test_notes]
    heads = ("Model", *(score.column for score in columns))
    scores = Table(
        heads, tuple(rows), study.title, headings=headings, marks=marks, notes=tuple(notes)
    )
    cells = [
        (score_of(metric).column, label, *change_cells(one, one.p), p_value(p))
        for metric, found in tested.items()
        for (label, one), p in zip(
            found.items(), holm([one.p for one in found.values()]), strict=True
        )
    ]
    heads = ("Score", "Compared", "Difference", "95% interval", "p", "p (Holm)")
    caption = f"{study.title}: differences, case by case"
    differences = Table(
        heads, tuple(cells), caption, text_columns=2, rules=first_cell_changes(cells)
    )
    return [scores, differences] if cells else [scores]


def write_tables(tables: Sequence[Table], folder: Path) -> str:
    """Write ``table.md`` and ``table.tex`` into ``folder``; return the Markdown."""
    text = "\n".join(f"## {table.caption}\n\n{table.markdown(caption=False)}" for table in tables)
    write_text(folder / "table.md", text)
    write_text(folder / "table.tex", "\n".join(table.latex() for table in tables))
    return text


def _blocks(
    study: Study, runs: Sequence[ScoredRun], published: PublishedTable | None
) -> list[tuple[Heading, list[tuple[str, ...]], bool]]:
    """Return the blocks of rows that are ranked together, each followed by its published one, with
    their headings and whether they have marks; then the other published ones."""
    by_context = study.layout == "contexts"
    if by_context:
        names = contexts_in(runs[0].scores) if runs else []
    else:
        names = list(dict.fromkeys(row.group for row in study.rows))
    blocks = dict[str, list]()
    for name in names:
        context, title = (name, name.upper()) if by_context else (MEAN, name)
        lines = [
            (row.name, *_cells(study, runs, row.name, context))
            for row in study.rows
            if by_context or row.group == name
        ]
        blocks[name] = [(Heading(title), lines, True)]
    if published is not None:
        for block in published.blocks:
            heading = Heading(f"{block.name} (published)", block.protocol)
            one = (heading, published.rows(block, study.metrics), block.marked)
            blocks.setdefault(block.context if by_context else block.name, []).append(one)
    return [block for several in blocks.values() for block in several]


def _cells(study: Study, runs: Sequence[ScoredRun], row: str, context: str) -> Iterator[str]:
    """Yield the cell of a row for each column: the mean over replicates, with ± sample standard
    deviation if there are several; a dash if one of its runs lacks the score."""
    for score in map(score_of, study.metrics):
        values = [context_mean(run.scores, score.key, context) for run in runs if run.row == row]
        known = [value for value in values if value is not None]
        if not known or len(known) < len(values):
            yield "–"
        else:
            spread = f" ± {stdev(known):.{score.decimals}f}" if len(known) > 1 else ""
            yield number(fmean(known), score.decimals) + spread


def ranked(
    rows: Sequence[Sequence[str]], better: Sequence[Direction | None], start: int = 0
) -> dict[tuple[int, int], Mark]:
    """Return the best and second best of every column by (row from ``start`` on, column), by the
    means of the cells, except where ``better`` is None. A column with fewer than two values has no
    marks."""
    marks = {}
    for column, best in enumerate(better):
        means = pl.Series([cells[column].split()[0] for cells in rows])
        means = means.cast(pl.Float64, strict=False)  # a dash is no value
        if best and means.count() > 1:
            places = means.rank("dense", descending=best == "higher")
            for row, place in enumerate(places, start):
                if place in (1, 2):
                    marks[row, column] = MARKS[place - 1]
    return marks


#: Source, format and limit of the corpus, and split and limit of decoding, of the published rows.
_TEST_SPLIT = ("files", "rg4", None, "test", None)


def stands_beside(table: PublishedTable | None, run: ScoredRun) -> bool:
    """Return whether a run was scored as the published rows were, on the same records. Of other
    systems' scores, the corpus is known only by its number of records."""
    if table is None or run.signature.standin_labeller is not False:
        return False
    wanted: dict[str, Any] = {"convention": "llm-rg4", "target": table.target}
    wanted |= {"cleaner": "upstream", "unseen_comparisons": "keep"}
    if table.records:
        wanted["n"] = table.records
    if run.params is None:
        is_test_split = bool(table.records)
    else:
        corpus, decode = run.params["corpus"], run.params["decode"]
        read = (corpus["source"], corpus["format"], corpus["limit"])
        is_test_split = (*read, decode["split"], decode["limit"]) == _TEST_SPLIT
    return is_test_split and wanted.items() <= run.protocol.items()


def _published_notes(published: PublishedTable | None, beside: PublishedTable | None) -> list[str]:
    if published is None:
        return []
    measured = (
        "all records of MIMIC-RG4's test split in its contexts, scored with CheXbert (convention "
        f"llm-rg4, target {published.target}, cleaner upstream)"
    )
    if beside is None:
        return [f"Published rows are not shown: they are for {measured}, and these runs are not."]
    origins = "; ".join(f"{name}, {text}" for name, text in beside.provenance.items())
    return [
        f"The published rows are as printed in {beside.where} of the paper ({beside.title}). "
        f"{beside.protocol}",
        f"Sources of the published rows: {origins}.",
        f"Rows can be compared with them only if they are for {measured}.",
    ]


def _notes(study: Study, runs: Sequence[ScoredRun]) -> list[str]:
    """Return notes on how the numbers were made, and on rows without results."""
    notes = []
    if old := sorted({run.row for run in runs if not run.is_current}):
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
    notes += sorted({note for run in runs if (note := caution(run.signature)) is not None})
    ways = {
        label: {repr((run.protocol, run.records)) for run in runs if run.replicate == label}
        for label in study.labels
    }
    if any(len(of_label) > 1 for of_label in ways.values()):
        notes.append(
            "Not all rows were scored alike (labeller, convention, target, cleaning or records "
            "differ)."
        )
    done = {(run.row, run.replicate) for run in runs}
    for row in study.rows:
        missing = [label for label in study.labels if (row.name, label) not in done]
        if row.files is not None:
            if (row.name, None) not in done:
                notes.append(
                    f"{row.name}: {row.files} has no scores; run `pacer score --out {row.files}`."
                )
        elif missing:
            needs = f" (it needs {', '.join(row.needs)})" if row.needs else ""
            notes.append(f"{row.name}: not run yet with {', '.join(missing)}{needs}.")
    return notes
