"""A study's table as Markdown, LaTeX and a page of its own, and its differences as a picture."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from pacer.core.io import write_text
from pacer.reporting.figures import for_page
from pacer.reporting.html import render
from pacer.reporting.tables import Table, first_cell_changes
from pacer.studies.chart import difference_chart
from pacer.studies.paired import COLUMNS
from pacer.studies.table import StudyTable

DIFFERENCES = "differences, case by case"


def write_table(table: StudyTable, folder: Path) -> list[Path]:
    """Write ``table.md``, ``table.tex``, ``table.html`` and, where rows were tested, ``table.svg`` into ``folder``;
    returns their paths."""
    chart = difference_chart(table.tested, table.seeds_of)
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
    return render("study.html", title=table.scores.caption, tables=_tables(table), chart=inline)


def _tables(table: StudyTable) -> list[Table]:
    """The scores; and the differences, where there are any."""
    if not table.tested:
        return [table.scores]
    lines = tuple((line.label, *line.cells) for line in table.tested)
    numeric = (False, False, *(True,) * (len(COLUMNS) - 1))
    caption = f"{table.scores.caption}: {DIFFERENCES}"
    rules = first_cell_changes(lines)
    return [table.scores, Table(("Compared", *COLUMNS), lines, caption, numeric, rules=rules)]
