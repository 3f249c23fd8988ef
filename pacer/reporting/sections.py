"""The report page, its tables and its figures, from the outputs of a run.

A section is a function from results to a :class:`Section`, or None if it is empty; :data:`SECTIONS`
has them in order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from markupsafe import Markup

from pacer.core.contexts import CONTEXTS, SOURCES
from pacer.core.io import atomic_directory, write_text
from pacer.display.tables import Table
from pacer.metrics.cases import is_labelled
from pacer.metrics.runs import SPREAD, parameter_line
from pacer.metrics.score_kinds import Place
from pacer.metrics.scores import score_of, scores_at
from pacer.metrics.signature import Signature
from pacer.reporting import charts, score_tables
from pacer.reporting.breakdowns import group_scores, label_intervals
from pacer.reporting.examples import Example, run_examples
from pacer.reporting.findings import of_systems, verdict_table
from pacer.reporting.html import render
from pacer.reporting.results import Results
from pacer.statistics.halves import LEAST_UNITS, UNITS

_COUNTS_NO_FINDING = (
    "P, R and F1 also count No Finding as an observation: a report of a normal image that says so "
    "counts as a hit. Positive F1 counts only findings that are present."
)


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar = "text"
    text: str


@dataclass(frozen=True)
class Warnings:
    """What to know before the numbers are trusted."""

    kind: ClassVar = "warnings"
    lines: Sequence[str]


@dataclass(frozen=True)
class TableBlock:
    """A table, written to ``tables/NAME.md`` and ``.tex``, below a heading."""

    kind: ClassVar = "table"
    name: str
    table: Table
    title: str = ""
    #: The label that unfolds the table; empty: it is always shown.
    folded: str = ""


@dataclass(frozen=True)
class Figure:
    """A chart, written to ``figures/NAME.svg``."""

    kind: ClassVar = "figure"
    name: str
    svg: str
    caption: str

    @property
    def inline(self) -> Markup:
        """The SVG as markup for the page."""
        return charts.for_page(self.svg, self.name)


Part = Text | Warnings | TableBlock | Figure


@dataclass(frozen=True)
class Section:
    """One section."""

    #: Its id on the page.
    name: str
    title: str
    parts: Sequence[Part] = ()
    #: Examinations with images and reports, below the parts.
    examples: Sequence[Example] = ()


def shown(name: str, table: Table | None, title: str = "", *, folded: str = "") -> list[Part]:
    """Return a table below a title, or nothing if there is no table or it has only its first
    column."""
    if table is None or len(table.columns) < 2:
        return []
    return [TableBlock(name, table, title, folded)]


def scores(results: Results) -> Section:
    """Warnings about the scores, followed by the scores with their intervals."""
    values = results.scored.scores
    signature = results.scored.signature
    split = ", ".join(sorted(set(results.decoded["split"])))
    counts_no_finding = "No Finding" in (signature.clinical or {}).get("observations", ())
    table = score_tables.score_table(
        values,
        caption="Precision (P), recall (R) and F1 of the labeller's findings over the decoded "
        f"records of a context in split {split}, and language scores; the mean is the plain mean "
        "of the contexts. Compare models within a context, but not contexts with each other: "
        "references state what the sources of their context show.",
        intervals=results.scored.intervals,
        notes=(
            f"{results.resampling} CIDEr has no interval: its word weights depend on all reports "
            "in a context.",
            *([_COUNTS_NO_FINDING] if counts_no_finding else []),
        ),
    )
    conventions = score_tables.convention_table(
        results.scored.conventions,
        "A convention says which labels count as present and how scores are averaged. The table "
        "counts the same labels as other research groups do (mean of the contexts); numbers from "
        "two conventions cannot be compared.",
    )
    originals = signature.language.get("original_references", "not recorded")
    columns = score_tables.score_table(
        values,
        list(map(score_of, signature.score_columns)),
        "Means of your scores, over the records with a value: "
        + "; ".join(
            f"{name}, {signature.scores.get(name, 'score.columns')}"
            for name in signature.score_columns
        ),
        counted=signature.counted,
        intervals=results.scored.intervals,
    )
    parts: list[Part] = []
    if signature.parameters:
        line = parameter_line(signature.parameters)
        spread = SPREAD.replace("`", "")  # Markdown means nothing on the page
        parts.append(Text(f"One run: {line}. {spread}"))
    caution = score_tables.caution(signature)
    if lines := [*filter(None, [caution]), *results.scored.warnings]:
        parts.append(Warnings(lines))
    parts.append(TableBlock("scores", table))
    parts += shown("definitions", _definitions(signature), folded="Definitions of the scores")
    parts += shown("conventions", conventions, folded="By label convention")
    parts += _placed(
        results,
        "originals",
        f"Scores against the findings in the source, before cleaning: {originals}.",
        "Against the original findings",
    )
    parts += shown("columns", _with_resampling(columns, results), "Further scores")
    parts += _placed(
        results,
        "contents",
        "F1 of affirmed, denied and uncertain findings, as the rules read them in reports and "
        "references, agreement in side, severity and course, and shares of reports that compare "
        "with an earlier examination without a previous report, and of words that repeat.",
        "What the reports state",
    )
    parts += _placed(
        results,
        "commitments",
        "Agreement of generated and reference commitments, how often a report contradicts its "
        "commitment, the mean gate of Calibrate (0: the prompt is not adapted to the sources, "
        "1: fully), and the share of generations from which no report could be read.",
        "Commitments, gate and extraction",
    )
    return Section("scores", "Scores", parts)


def _definitions(signature: Signature) -> Table:
    """Return the definition of each score, as the signature has it."""
    rows = tuple((score_of(key).title, text) for key, text in signature.scores.items())
    return Table(("Score", "Definition"), rows, text_columns=2)


def _placed(results: Results, place: Place, caption: str, title: str = "") -> list[Part]:
    """Return the table of the scores that the registry puts in a place, named after it."""
    table = score_tables.score_table(
        results.scored.scores, scores_at(place), caption, counted=results.scored.signature.counted
    )
    return shown(place, table, title)


def sources(results: Results) -> Section:
    """How scores change if sources are changed."""
    controls = score_tables.control_table(
        results.scored.scores,
        results.scored.cases,
        "Micro-F1 of the labeller's observations with the case's sources and with others, and the "
        "share of reports that stay the same; a model that ignores its sources loses nothing.",
    )
    parts: list[Part] = (
        shown("controls", controls)
        if controls
        else [Text("No control was decoded, so this page cannot show whether the sources matter.")]
    )
    return Section("sources", "Use of the sources", parts)


def observations(results: Results) -> Section | None:
    """Scores of each observation of the labeller; None without one."""
    if not is_labelled(results.scored.cases):
        return None
    labels = label_intervals(results.scored.cases, results.scored.convention)
    labeller = "CheXbert"
    if results.scored.signature.standin_labeller:
        labeller = "a stand-in for CheXbert, made by this pipeline"
    elif results.scored.signature.standin_labeller is None:
        labeller = "a labeller of unknown origin"
    table = score_tables.label_table(
        labels,
        "Clinical efficacy by observation over all contexts together, and F1 in each. Labelled by "
        f"{labeller}, not by the rules that By finding uses. Many more "
        "records in reports than in references mean over-reporting, many fewer mean omission.",
    )
    return Section(
        "observations",
        "By observation",
        [TableBlock("observations", _with_resampling(table, results))],
    )


def findings(results: Results) -> Section:
    """How often the reports are right about each finding."""
    rows = of_systems({"reports": results.scored.findings})
    table = verdict_table(
        rows,
        "What PACER's rules, not the labeller, read in references and reports, finding by finding, "
        "over all contexts together.",
    )
    return Section("findings", "By finding", [TableBlock("findings", table)])


def groups(results: Results) -> Section | None:
    """Scores by group of records, to find groups with worse reports."""
    table = score_tables.group_table(
        group_scores(
            results.scored.cases, results.scored.convention, results.scored.signature.groups
        ),
        "F1 by view, and by the text columns of the file score.columns, over all contexts "
        f"together; groups differ in their findings, and those with fewer than {LEAST_UNITS} "
        f"{UNITS[results.scored.intervals.unit]} have no interval.",
    )
    parts = [TableBlock("groups", _with_resampling(table, results))]
    return Section("groups", "By group", parts) if table.rows else None


def cases(results: Results) -> Section | None:
    """Example examinations, in every context in which they were decoded."""
    studies = run_examples(results)
    return Section("cases", "Example cases", examples=studies) if studies else None


def training(results: Results) -> Section | None:
    """The losses of training and validation; None if the folder has no curves."""
    if not results.curves:
        return None
    caption = (
        "Losses of training and validation in each phase. The losses of two phases have "
        "different terms and cannot be compared. The files of all curves are in metrics/*/plots."
    )
    chart = Figure("training", charts.training_chart(results.curves), caption)
    return Section("training", "Training", [chart])


def corpus(results: Results) -> Section:
    """The audits of the corpus, the emphasis and the targets of the commitments."""
    lines = [line for audit in results.audits for line in audit["checks"]]
    rows = tuple((line["name"], line["detail"]) for line in lines)
    cell_styles = {(place, 1): "" if line["good"] else "no" for place, line in enumerate(lines)}
    title = f"Audit: {sum(map(bool, cell_styles.values()))} of {len(lines)} lines need attention"
    parts = [
        TableBlock("corpus", score_tables.corpus_table(results.audits[0])),
        TableBlock(
            "audit",
            Table(("Check", "Result"), rows, text_columns=2, cell_styles=cell_styles),
            folded=title,
        ),
    ]
    return Section("corpus", "Corpus and commitment targets", parts)


def _with_resampling(table: Table, results: Results) -> Table:
    """Add the note that explains the intervals of a table."""
    return replace(table, notes=(*table.notes, results.resampling))


SECTIONS: tuple[Callable[[Results], Section | None], ...] = (
    scores,
    sources,
    findings,
    observations,
    groups,
    cases,
    training,
    corpus,
)


def build_report(results: Results, out: Path) -> None:
    """Replace ``out`` by ``index.html`` (self-contained), ``tables/`` (Markdown, LaTeX) and
    ``figures/`` (SVG). An example is shown without an image whose file is missing. Raises a
    DataError if nothing was decoded."""
    line = score_tables.signature_line(results.scored.signature)
    caution = score_tables.caution(results.scored.signature)
    present = set(results.decoded["context"])
    contexts = {context.upper(): SOURCES[context] for context in CONTEXTS if context in present}
    possible = [section_of(results) for section_of in SECTIONS]
    sections = [section for section in possible if section is not None]
    page = render(
        "report.html",
        contexts=contexts,
        sections=sections,
        signature=line,
        scores_hash=results.scores_hash,
    )
    parts = [part for section in sections for part in section.parts]
    with atomic_directory(out) as folder:
        write_text(folder / "index.html", page)
        for part in parts:
            if isinstance(part, TableBlock):
                # a file needs its own note on stand-ins, and the definition of its numbers
                table = part.table
                if caution:
                    table = replace(table, notes=(*table.notes, caution))
                write_text(folder / "tables" / f"{part.name}.md", f"{table.markdown()}\n`{line}`\n")
                write_text(folder / "tables" / f"{part.name}.tex", f"% {line}\n{table.latex()}")
            elif isinstance(part, Figure):
                write_text(folder / "figures" / f"{part.name}.svg", part.svg)
