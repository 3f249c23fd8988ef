"""A study's table as Markdown, LaTeX and a page of its own, and its differences as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from markupsafe import Markup

from pacer.core.io import write_text
from pacer.reporting.figures import for_page
from pacer.reporting.html import render
from pacer.reporting.tables import Heading, Mark, Table
from pacer.studies.chart import difference_chart
from pacer.studies.paired import COLUMNS
from pacer.studies.table import StudyTable

DIFFERENCES = "differences, case by case"


def write_table(table: StudyTable, folder: Path) -> list[Path]:
    """Write ``table.md``, ``table.tex``, ``table.html`` and, where rows were tested, ``table.svg`` into ``folder``;
    returns their paths."""
    chart = difference_chart(table.comparison, table.seeds_of)
    texts = {"md": markdown(table), "tex": latex(table), "html": page(table, chart)} | ({"svg": chart} if chart else {})
    paths = [folder / f"table.{ending}" for ending in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        write_text(path, text)
    return paths


def markdown(table: StudyTable) -> str:
    """The title, one table a block with the notes, and the differences."""
    return "\n".join(f"## {part.caption}\n\n{part.markdown(caption=False)}" for part in _tables(table))


def latex(table: StudyTable) -> str:
    """A table with headings for the blocks, the notes below, and one of the differences."""
    return "\n".join(part.latex() for part in _tables(table))


def page(table: StudyTable, chart: str | None = None) -> str:
    """A page that needs nothing else."""
    inline = chart and Markup(for_page(chart, "differences"))
    return render("study.html", title=table.title, tables=list(_tables(table)), chart=inline)


def _tables(table: StudyTable) -> Iterator[Table]:
    """The blocks one below the other under their headings; and the differences, where there are any."""
    rows: list[tuple[str, ...]] = []
    headings: dict[int, Heading] = {}
    marks: dict[tuple[int, int], Mark] = {}
    rules, quiet = set(), set()
    for block in table.blocks:
        rules.add(len(rows))
        if block.title:
            headings[len(rows)] = Heading(block.title, block.note)
        for line in block.lines:
            marks |= {(len(rows), place): cell.mark for place, cell in enumerate(line.cells, 1) if cell.mark}
            quiet |= {len(rows)} if block.published else set()
            rows.append((line.label, *(cell.text for cell in line.cells)))
    yield Table(
        ("Model", *table.columns),
        tuple(rows),
        table.title,
        rules=frozenset(rules),
        quiet=frozenset(quiet),
        headings=headings,
        marks=marks,
        notes=table.notes,
    )
    if table.comparison:
        lines = [(line.label, *line.cells) for line in table.comparison]
        first = frozenset(index for index, line in enumerate(lines) if index and line[0] != lines[index - 1][0])
        numeric = (False, False, *(True,) * (len(COLUMNS) - 1))
        heads = ("Compared", *COLUMNS)
        yield Table(heads, tuple(lines), f"{table.title}: {DIFFERENCES}", numeric, rules=first)
