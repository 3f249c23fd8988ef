"""The report stage: reads what a run left, writes the page, the tables and the figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pacer.config import Params
from pacer.core.contexts import CONTEXTS, SOURCES
from pacer.core.io import atomic_directory, write_text
from pacer.reporting.html import render
from pacer.reporting.results import read_results
from pacer.reporting.section import Section
from pacer.reporting.sections import SECTIONS
from pacer.reporting.signature import signature_line
from pacer.reporting.tables import number


def build_report(
    corpus: Path, anchors: Path, emphasis: Path, predictions: Path, metrics: Path, out: Path, params: Params
) -> None:
    """Write ``out/index.html`` (self-contained), ``out/tables/`` (Markdown, LaTeX) and ``out/figures/`` (SVG, and PNG
    where a radiograph is drawn); ``out`` is replaced as a whole.

    Args:
        corpus, anchors, emphasis, predictions, metrics: what the stages of these names left.
        params: of the run.

    Raises:
        DataError: an input is missing or malformed.
    """
    results = read_results(corpus, anchors, emphasis, predictions, metrics, params)
    decoded, line = results.decoded, signature_line(results.signature)
    facts = {
        "Split": ", ".join(sorted(set(decoded["split"]))),
        "Records": number(decoded.height),
        "Studies": number(decoded["study_id"].n_unique()),
        "Patients": number(decoded["subject_id"].n_unique()),
    }
    present = set(decoded["context"])
    contexts = {context.upper(): SOURCES[context] for context in CONTEXTS if context in present}
    sections = [section for make in SECTIONS if (section := make(results)) is not None]
    page = render("report.html", facts=facts, contexts=contexts, sections=sections, signature=line)
    with atomic_directory(out) as folder:
        write_text(folder / "index.html", page)
        for section in sections:
            _write_files(section, folder, results.note, line)


def _write_files(section: Section, folder: Path, note: str | None, line: str) -> None:
    """The section's tables, each with the warning about stand-ins and the signature of its numbers, and its figures."""
    for part in section.tables():
        table = replace(part.table, caption=f"{part.table.caption} {note or ''}".strip())
        write_text(folder / "tables" / f"{part.name}.md", f"{table.markdown()}\n`{line}`\n")
        write_text(folder / "tables" / f"{part.name}.tex", f"% {line}\n{table.latex()}")
    for figure in section.figures():
        write_text(folder / "figures" / f"{figure.name}.svg", figure.svg)
        if figure.png:
            (folder / "figures" / f"{figure.name}.png").write_bytes(figure.png)
