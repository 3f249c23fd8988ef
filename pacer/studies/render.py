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
_SIGNS = {"±": "$\\pm$", "<": "$<$", ">": "$>$"}
#: Heading of the rows of a comparison, and of the whole.
COMPARED, DIFFERENCES = "Compared", "differences, case by case"


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
    if table.comparison:
        lines = [
            "| " + " | ".join((COMPARED, *table.comparison_columns)) + " |",
            "| :--- | :--- |" + " ---: |" * (len(table.comparison_columns) - 1),
        ]
        lines += [
            "| " + " | ".join(cell.replace("|", "\\|") for cell in line.shown) + " |" for line in table.comparison
        ]
        parts.append("\n".join(lines))
    parts.append("\n".join(f"- {note}" for note in table.notes))
    return "\n\n".join(parts) + "\n"


def latex(table: StudyTable) -> str:
    """``booktabs`` tables: blocks are set apart by rules and headings, the notes stand below; then the differences."""
    width = len(table.columns) + 1
    lines = []
    for block in table.blocks:
        lines.append("\\midrule")
        if block.title:
            lines.append(f"\\multicolumn{{{width}}}{{@{{}}l}}{{\\emph{{{_latex_text(block.title)}}}}} \\\\")
        lines += [
            " & ".join((_latex_text(line.label), *(_latex_cell(cell) for cell in line.cells))) + " \\\\"
            for line in block.lines
        ]
    head = " & ".join(("", *(_latex_text(column) for column in table.columns))) + " \\\\"
    protocols = [f"{block.title}: {block.note}" for block in table.blocks if block.note]
    notes = _latex_text(" ".join((*table.notes, *protocols)))
    tables = [_latex_table(table.title, "l" + "r" * len(table.columns), [head, *lines], notes)]
    if table.comparison:
        lines = [" & ".join(map(_latex_text, (COMPARED, *table.comparison_columns))) + " \\\\"]
        for line in table.comparison:
            lines += ["\\midrule"] * line.first + [" & ".join(map(_latex_text, line.shown)) + " \\\\"]
        align = "ll" + "r" * (len(table.comparison_columns) - 1)
        tables.append(_latex_table(f"{table.title}: {DIFFERENCES}", align, lines))
    return "% needs \\usepackage{booktabs}\n" + "\n".join(tables)


def _latex_table(caption: str, align: str, lines: list[str], notes: str = "") -> str:
    below = ["\\par\\smallskip", f"\\begin{{minipage}}{{\\linewidth}}\\footnotesize {notes}\\end{{minipage}}"]
    return (
        "\n".join(
            [
                "\\begin{table}",
                "\\centering",
                "\\footnotesize",
                "\\setlength{\\tabcolsep}{3pt}",
                f"\\caption{{{_latex_text(caption)}}}",
                f"\\begin{{tabular}}{{@{{}}{align}@{{}}}}",
                "\\toprule",
                *lines,
                "\\bottomrule",
                "\\end{tabular}",
                *(below if notes else []),
                "\\end{table}",
            ]
        )
        + "\n"
    )


def page(table: StudyTable) -> str:
    """A page that needs nothing else."""
    return render("study.html", table=table)


def _latex_cell(cell: Cell) -> str:
    """The mark is the mean's; a spread over seeds is set small, so that six columns fit on a page."""
    mean, _, spread = cell.text.partition(" ± ")
    return _LATEX[cell.mark].format(_latex_text(mean)) + (f"$_{{\\pm {spread}}}$" if spread else "")


def _latex_text(text: str) -> str:
    escaped = latex_text(text)
    for sign, command in _SIGNS.items():
        escaped = escaped.replace(sign, command)
    return escaped
