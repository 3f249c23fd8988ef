"""The report stage: reads the outputs of a run; writes the page, the tables and the figures."""

from dataclasses import replace
from pathlib import Path

from pacer.config import Params
from pacer.core.contexts import CONTEXTS, SOURCES
from pacer.core.io import atomic_directory, write_text
from pacer.reporting.html import render
from pacer.reporting.results import read_results
from pacer.reporting.section import Figure, TableBlock
from pacer.reporting.sections import SECTIONS
from pacer.reporting.signature import signature_line


def build_report(
    corpus: Path,
    anchors: Path,
    emphasis: Path,
    pictures: Path,
    predictions: Path,
    metrics: Path,
    out: Path,
    params: Params,
) -> None:
    """Write ``out/index.html`` (self-contained), ``out/tables/`` (Markdown, LaTeX) and ``out/figures/`` (SVG).

    The whole folder ``out`` is replaced.

    Args:
        corpus, anchors, emphasis, predictions, metrics: output folders of the stages of these names.
        pictures: output of the stage ``features``.
        params: of the run.

    Raises:
        DataError: an input is missing or malformed.
    """
    results = read_results(corpus, anchors, emphasis, pictures, predictions, metrics, params)
    line, present = signature_line(results.signature), set(results.decoded["context"])
    contexts = {context.upper(): SOURCES[context] for context in CONTEXTS if context in present}
    sections = [section for make in SECTIONS if (section := make(results)) is not None]
    page = render("report.html", contexts=contexts, sections=sections)
    parts = [part for section in sections for part in section.parts]
    with atomic_directory(out) as folder:
        write_text(folder / "index.html", page)
        for part in parts:
            if isinstance(part, TableBlock):
                # a file needs its own note on stand-ins, and the definition of its numbers
                notes = (*part.table.notes, *([results.note] if results.note else []))
                table = replace(part.table, notes=notes)
                write_text(folder / "tables" / f"{part.name}.md", f"{table.markdown()}\n`{line}`\n")
                write_text(folder / "tables" / f"{part.name}.tex", f"% {line}\n{table.latex()}")
            elif isinstance(part, Figure):
                write_text(folder / "figures" / f"{part.name}.svg", part.svg)
