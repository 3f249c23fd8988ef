"""From scores to a table of experiments: the mean of each row over contexts and replicates, the
differences of rows, and the paper's own numbers.

All computations use unrounded scores; only printed values are rounded.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from scipy.stats import ttest_1samp

from pacer.core.errors import DataError
from pacer.core.io import write_text
from pacer.display.numbers import change_cells, number, p_value
from pacer.display.tables import Heading, Table, first_cell_changes
from pacer.extras.studies.repository import Repository
from pacer.extras.studies.run import finished, kept_files, plan
from pacer.extras.studies.study import Study, load_published
from pacer.metrics.cases import MEAN
from pacer.metrics.result import read_scores
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
    """A finished run: the names of its row and replicate, the folder of its cases, its scores and
    signature, and whether it was made with the code and parameters of now."""

    row: str
    replicate: str
    folder: Path
    scores: Mapping[str, Any]
    signature: Signature
    is_current: bool = True


def collect(study: Study, repository: Repository) -> list[ScoredRun]:
    """Return the finished runs of a table; raises a DataError if their contexts differ."""
    runs = []
    for found in finished(plan(study, repository), repository):
        run, folder = found.run, kept_files(repository, found)
        is_current = found.name == run.name
        runs.append(ScoredRun(run.row, run.replicate, folder, *read_scores(folder), is_current))
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
    known = {(run.row, run.replicate): run for run in runs}
    for name, base in study.tested():
        pairs = [
            (known[base, label], known[name, label])
            for label in study.labels
            if {(base, label), (name, label)} <= known.keys()
        ]
        if not pairs:
            continue
        tested = dict[str, Difference]()
        if len({first.signature.data.get("records") for first, _ in pairs}) == 1:
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
    """Return the table of the scores that exist; that of the differences of the rows that it tests,
    if there are any; and the published one, if the runs were scored as it was."""
    differences, notes = compare_rows(study, runs)
    tables = [_scores(study, runs, notes), *_differences(study, differences)]
    if study.published is not None:
        published = load_published()[study.published]
        if all(is_scored_like(run, published) for run in runs):
            tables.append(published_table(published))
    return tables


def write_tables(tables: Sequence[Table], folder: Path) -> str:
    """Write ``table.md`` and ``table.tex`` into ``folder``; return the Markdown."""
    text = "\n".join(f"## {table.caption}\n\n{table.markdown(caption=False)}" for table in tables)
    write_text(folder / "table.md", text)
    write_text(folder / "table.tex", "\n".join(table.latex() for table in tables))
    return text


def _scores(study: Study, runs: Sequence[ScoredRun], notes: Sequence[str]) -> Table:
    """Return the rows by context, or their means, with a heading for each context and group."""
    contexts: Sequence[str] = [MEAN]
    if study.layout == "contexts" and runs:
        contexts = contexts_in(runs[0].scores)
    groups = dict.fromkeys(row.group for row in study.rows)
    lines, headings = list[tuple[str, ...]](), dict[int, Heading]()
    for context in contexts:
        for group in groups:
            if title := group if context == MEAN else f"{context.upper()} {group}".rstrip():
                headings[len(lines)] = Heading(title)
            names = [row.name for row in study.rows if row.group == group]
            lines += [(name, *_cells(study, runs, name, context)) for name in names]
    heads = ("Model", *(score_of(metric).column for metric in study.metrics))
    notes = [*_notes(study, runs), *notes]
    return Table(heads, tuple(lines), study.title, headings=headings, notes=tuple(notes))


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


def _differences(study: Study, differences: RowDifferences) -> list[Table]:
    """Return the table of the differences; p by Holm allows for the number of rows tested on a
    score."""
    cells = []
    for metric, found in differences.items():
        corrected = holm([one.p for one in found.values()])
        for (label, one), p in zip(found.items(), corrected, strict=True):
            cells.append((score_of(metric).column, label, *change_cells(one, one.p), p_value(p)))
    heads = ("Score", "Compared", "Difference", "95% interval", "p", "p (Holm)")
    caption = f"{study.title}: differences, case by case"
    rules = first_cell_changes(cells)
    return [Table(heads, tuple(cells), caption, text_columns=2, rules=rules)] if cells else []


def is_scored_like(run: ScoredRun, published: Mapping[str, Any]) -> bool:
    """Return whether a run was scored as a published table was: by CheXbert, with the same cleaning
    and sections of the reference, on as many records of each context if the paper gives these."""
    signature, records = run.signature, published["records"]
    counts = {context: run.scores[context].get("n") for context in contexts_in(run.scores)}
    return (
        signature.standin_labeller is False
        and signature.convention == "llm-rg4"
        and published["language"].items() <= signature.language.items()
        and records in ({}, counts)
    )


def published_table(published: Mapping[str, Any]) -> Table:
    """Return a table of the paper, as printed but for its marks of the best values."""
    lines, headings = list[tuple[str, ...]](), dict[int, Heading]()
    for block in published["blocks"]:
        headings[len(lines)] = Heading(block["name"], block.get("protocol", ""))
        for system, values in block["rows"].items():
            lines.append((system, *(value.strip("*_") for value in values.split())))
    heads = ("Model", *(score_of(metric).column for metric in published["metrics"]))
    origins = "; ".join(f"{name}, {text}" for name, text in published["provenance"].items())
    notes = (
        published["protocol"],
        f"Sources of the rows: {origins}.",
        "Compare only scores for all records of MIMIC-RG4's test split in these contexts.",
    )
    caption = f"{published['where']} of the paper: {published['title']}"
    return Table(heads, tuple(lines), caption, headings=headings, notes=notes)


def _notes(study: Study, runs: Sequence[ScoredRun]) -> list[str]:
    """Return notes on how the numbers were made, and on rows without results."""
    notes = []
    if old := sorted({run.row for run in runs if not run.is_current}):
        notes.append(f"Made with other code or parameters than those of now: {', '.join(old)}.")
    if runs and study.layout == "mean":
        contexts = ", ".join(context.upper() for context in contexts_in(runs[0].scores))
        notes.append(f"Plain mean over the contexts {contexts}, before rounding.")
    if len(study.labels) > 1:
        varied = ", ".join(study.replicates[0])
        notes.append(f"Mean ± sample standard deviation over {varied} {', '.join(study.labels)}.")
    notes += sorted({note for run in runs if (note := caution(run.signature)) is not None})
    done = {(run.row, run.replicate) for run in runs}
    for row in study.rows:
        if missing := [label for label in study.labels if (row.name, label) not in done]:
            needs = f" (it needs {', '.join(row.needs)})" if row.needs else ""
            notes.append(f"{row.name}: not run yet with {', '.join(missing)}{needs}.")
    return notes
