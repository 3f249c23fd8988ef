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
from pacer.extras.studies.plan import PARAMS, plan
from pacer.extras.studies.repository import Repository
from pacer.extras.studies.run import finished, kept_files
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
    signature and parameters, and whether it was made with the code and parameters of now. For
    scores of other outputs, replicate and parameters are None; they are compared with every
    replicate."""

    row: str
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

    @property
    def counts(self) -> dict[str, int | None]:
        """The number of scored records of each context."""
        return {context: self.scores[context].get("n") for context in contexts_in(self.scores)}


def collect(study: Study, repository: Repository) -> list[ScoredRun]:
    """Return the finished runs of a table, and the folders of its ``files`` rows; raises a
    DataError if contexts differ."""
    runs = []
    for found in finished(plan(study, repository), repository):
        folder = kept_files(repository, found)
        scores, signature = read_scores(folder)
        params = read_mapping(folder / PARAMS)
        run = found.run
        runs.append(
            ScoredRun(run.row, run.replicate, folder, scores, signature, params, found.is_current)
        )
    for row in study.rows:
        folder = repository.root / (row.files or "")
        if row.files is not None and (folder / SCORES_FILE).is_file():
            runs.append(ScoredRun(row.name, None, folder, *read_scores(folder), None))
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
    notes = []
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
            notes.append(PATIENTS_NOTE)
            try:
                tested = compare_repeats([(a.folder, b.folder) for a, b in pairs])
            except DataError as error:
                notes.append(f"{name} was not tested against {base}: {error}.")
        else:
            notes.append(REPLICATES_NOTE)
            for metric in study.metrics:
                values = [[context_mean(run.scores, metric) for run in pair] for pair in pairs]
                gaps = [b - a for a, b in values if a is not None and b is not None]
                if len(gaps) == len(pairs):
                    tested[metric] = student(gaps)
        for metric, differences in found.items():
            if metric in tested:
                differences[f"{name} − {base}"] = tested[metric]
    return found, list(dict.fromkeys(notes))


def student(gaps: Sequence[float]) -> Difference:
    """Return the mean difference, with Student's interval and p if the differences suffice and are
    not all equal."""
    if len(gaps) < ENOUGH or max(gaps) - min(gaps) < 1e-9:
        return Difference(None, None, fmean(gaps), None, None, None)
    test = ttest_1samp(gaps, 0.0)
    low, high = test.confidence_interval()
    return Difference(None, None, fmean(gaps), low, high, float(test.pvalue))


def difference_table(title: str, tested: RowDifferences) -> Table:
    """Return the table of the tested differences; p by Holm allows for the number of rows tested on
    a score."""
    heads = ("Score", "Compared", "Difference", "95% interval", "p", "p (Holm)")
    rows = []
    for metric, found in tested.items():
        adjusted = holm([difference.p for difference in found.values()])
        for (label, difference), p in zip(found.items(), adjusted, strict=True):
            cells = change_cells(difference, difference.p)
            rows.append((score_of(metric).column, label, *cells, p_value(p)))
    caption = f"{title}: differences, case by case"
    return Table(heads, tuple(rows), caption, text_columns=2, rules=first_cell_changes(rows))


def build_tables(study: Study, runs: Sequence[ScoredRun]) -> list[Table]:
    """Return the table of scores from the existing results, with a heading for each block, and the
    table of the differences of the rows that it tests, if there are any."""
    published = load_published().get(study.published or "")
    notes = _notes(study, runs)
    if published is not None:
        measured = (
            "all records of MIMIC-RG4's test split in its contexts, scored with CheXbert "
            f"(convention llm-rg4, target {published.target}, cleaner upstream)"
        )
        if runs and not any(stands_beside(published, run) for run in runs):
            notes.append(
                f"Published rows are not shown: they are for {measured}, and these runs are not."
            )
            published = None
        else:
            origins = "; ".join(f"{name}, {text}" for name, text in published.provenance.items())
            notes += [
                f"The published rows are as printed in {published.where} of the paper "
                f"({published.title}). {published.protocol}",
                f"Sources of the published rows: {origins}.",
                f"Rows can be compared with them only if they are for {measured}.",
            ]
    columns = [score_of(metric) for metric in study.metrics]
    better = [None, *(score.better for score in columns)]
    rows, headings, marks = list[tuple[str, ...]](), dict[int, Heading](), dict[Any, Mark]()
    for block in _blocks(study, runs, published):
        if block.heading.text:
            headings[len(rows)] = block.heading
        if block.is_marked:
            marks |= ranked(block.rows, better, len(rows))
        rows += block.rows
    tested, test_notes = compare_rows(study, runs)
    scores = Table(
        ("Model", *(score.column for score in columns)),
        tuple(rows),
        study.title,
        headings=headings,
        marks=marks,
        notes=(*notes, *_missing(study, runs), *study.notes, *test_notes),
    )
    differences = difference_table(study.title, tested)
    return [scores, differences] if differences.rows else [scores]


def write_tables(tables: Sequence[Table], folder: Path) -> str:
    """Write ``table.md`` and ``table.tex`` into ``folder``; return the Markdown."""
    text = "\n".join(f"## {table.caption}\n\n{table.markdown(caption=False)}" for table in tables)
    write_text(folder / "table.md", text)
    write_text(folder / "table.tex", "\n".join(table.latex() for table in tables))
    return text


class Block(NamedTuple):
    """Rows of cells that are ranked together, if ``is_marked``, and the name of their context or
    group."""

    belongs: str
    heading: Heading
    rows: Sequence[tuple[str, ...]]
    is_marked: bool = True


def _blocks(
    study: Study, runs: Sequence[ScoredRun], published: PublishedTable | None
) -> list[Block]:
    """Return the blocks of this repository, each followed by its published one, then the other
    published ones."""
    by_context = study.layout == "contexts"
    if by_context:
        ours = dict.fromkeys(contexts_in(runs[0].scores) if runs else [], study.rows)
    else:
        groups = dict.fromkeys(row.group for row in study.rows)
        ours = {name: [row for row in study.rows if row.group == name] for name in groups}
    blocks = []
    for name, members in ours.items():
        context, title = (name, name.upper()) if by_context else (MEAN, name)
        rows = [(row.name, *_cells(study, runs, row.name, context)) for row in members]
        blocks.append(Block(name, Heading(title), rows))
    if published is not None:
        for block in published.blocks:
            rows = published.rows(block, study.metrics)
            heading = Heading(f"{block.name} (published)", block.protocol)
            belongs = block.context if by_context else block.name
            blocks.append(Block(belongs, heading, rows, block.marked))
    order = [block.belongs for block in blocks]
    return sorted(blocks, key=lambda block: order.index(block.belongs))


def _cells(study: Study, runs: Sequence[ScoredRun], row: str, context: str) -> Iterator[str]:
    """Yield the cell of a row for each column: the mean over replicates, with ± sample standard
    deviation if there are several; a dash if one of its runs lacks the score."""
    scores = [run.scores for run in runs if run.row == row]
    for score in map(score_of, study.metrics):
        values = [context_mean(one, score.key, context) for one in scores]
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


def stands_beside(table: PublishedTable, run: ScoredRun) -> bool:
    """Return whether a run's scores are of the records of the published rows, by the same measures.
    Of other systems' scores, the corpus is known only by its number of records."""
    if run.params is None:
        is_test_split = bool(table.records)
    else:
        corpus, decode = run.params["corpus"], run.params["decode"]
        records = (corpus["source"], corpus["format"], corpus["limit"])
        used = (*records, decode["split"], decode["limit"])
        is_test_split = used == ("files", "rg4", None, "test", None)
    texts = {"target": table.target, "cleaner": "upstream", "unseen_comparisons": "keep"}
    return (
        is_test_split
        and (run.counts == table.records or not table.records)
        and run.signature.standin_labeller is False
        and run.signature.convention == "llm-rg4"
        and texts.items() <= run.signature.language.items()
    )


def _notes(study: Study, runs: Sequence[ScoredRun]) -> list[str]:
    """Return notes on how the numbers were made."""
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
    if splits := sorted({run.params["decode"]["split"] for run in runs if run.params}):
        notes.append(f"Scored on split {', '.join(splits)}.")
    notes += sorted({note for run in runs if (note := caution(run.signature)) is not None})
    for label in study.labels:
        same = [run for run in runs if run.replicate in (label, None)]
        records = {run.records for run in same if run.params}
        if len(records) > 1 or len({_protocol(run) for run in same}) > 1:
            notes.append(
                "Not all rows were scored alike (labeller, convention, target, cleaning or records "
                "differ)."
            )
            break
    return notes


def _protocol(run: ScoredRun) -> str:
    """Return what must be equal in rows that are compared."""
    language = run.signature.language
    texts = language.get("target"), language.get("cleaner")
    return repr([run.signature.convention, run.signature.labeller.get("files"), texts, run.counts])


def _missing(study: Study, runs: Sequence[ScoredRun]) -> list[str]:
    """Return notes on rows without results, and what they need."""
    done = {(run.row, run.replicate) for run in runs}
    notes = []
    for row in study.rows:
        if row.files is None:
            missing = [label for label in study.labels if (row.name, label) not in done]
            needs = f" (it needs {', '.join(row.needs)})" if row.needs else ""
            if missing:
                notes.append(f"{row.name}: not run yet with {', '.join(missing)}{needs}.")
        elif (row.name, None) not in done:
            notes.append(
                f"{row.name}: {row.files} has no scores; run `pacer score --out {row.files}`."
            )
    return notes
