"""A study's table as Markdown, LaTeX and a page of its own."""

from __future__ import annotations

from pathlib import Path

from pacer.core.io import write_text
from pacer.reporting.html import render
from pacer.reporting.tables import latex_text
from pacer.studies.table import Cell, StudyTable

_MARKDOWN = {"best": "**{}**", "second": "<u>{}</u>", None: "{}"}
_LATEX = {"best": "\\textbf{{{}}}", "second": "\\underline{{{}}}", None: "{}"}
#: What ``latex_text`` does not know.
_SIGNS = {"±": "$\\pm$"}


def write_table(table: StudyTable, folder: Path) -> list[Path]:
    """Write ``table.md``, ``table.tex`` and ``table.html`` into ``folder``; returns their paths."""
    texts = {"md": markdown(table), "tex": latex(table), "html": page(table)}
    paths = [folder / f"table.{ending}" for ending in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        write_text(path, text)
    return paths


def markdown(table: StudyTable) -> str:
    """The title, one table a block, and the notes."""
    parts = [f"## {table.title}"]
    rule = "| :--- |" + " ---: |" * len(table.columns)
    for block in table.blocks:
        if block.title:
            parts.append(f"**{block.title}**" + (f" {block.note}" if block.note else ""))
        lines = ["| " + " | ".join(("", *table.columns)) + " |", rule]
        for line in block.lines:
            cells = (_MARKDOWN[cell.mark].format(cell.text) for cell in line.cells)
            lines.append("| " + " | ".join((line.label.replace("|", "\\|"), *cells)) + " |")
        parts.append("\n".join(lines))
    parts.append("\n".join(f"- {note}" for note in table.notes))
    return "\n\n".join(parts) + "\n"


def latex(table: StudyTable) -> str:
    """One ``booktabs`` tabular; blocks are set apart by rules and headings, the notes stand below."""
    width = len(table.columns) + 1
    lines = []
    for block in table.blocks:
        lines.append("\\midrule")
        if block.title:
            lines.append(f"\\multicolumn{{{width}}}{{@{{}}l}}{{\\emph{{{latex_text(block.title)}}}}} \\\\")
        lines += [
            " & ".join((latex_text(line.label), *(_latex_cell(cell) for cell in line.cells))) + " \\\\"
            for line in block.lines
        ]
    head = " & ".join(("", *(latex_text(column) for column in table.columns))) + " \\\\"
    notes = " ".join(_latex_signs(latex_text(note)) for note in table.notes)
    return "\n".join([
        "% needs \\usepackage{booktabs}", "\\begin{table}", "\\centering",
        f"\\caption{{{latex_text(table.title)}}}",
        f"\\begin{{tabular}}{{@{{}}l{'r' * len(table.columns)}@{{}}}}", "\\toprule", head, *lines, "\\bottomrule",
        "\\end{tabular}", "\\par\\smallskip",
        f"\\begin{{minipage}}{{\\linewidth}}\\footnotesize {notes}\\end{{minipage}}", "\\end{table}",
    ]) + "\n"  # fmt: skip


def page(table: StudyTable) -> str:
    """A page that needs nothing else."""
    return render("study.html", table=table)


def _latex_cell(cell: Cell) -> str:
    return _LATEX[cell.mark].format(_latex_signs(latex_text(cell.text)))


def _latex_signs(text: str) -> str:
    for sign, command in _SIGNS.items():
        text = text.replace(sign, command)
    return text
