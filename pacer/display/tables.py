"""One table for pages, files, terminals and notebooks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import pairwise
from typing import NamedTuple

from tabulate import SEPARATING_LINE, DataRow, Line, TableFormat, tabulate

_SPECIAL = {character: "\\" + character for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": "$-$",
    "–": "--",
    "±": "$\\pm$",
    "<": "$<$",
    ">": "$>$",
}

_BOOKTABS = TableFormat(
    lineabove=Line("\\toprule", "", "", ""),
    linebelowheader=Line("\\midrule", "", "", ""),
    linebetweenrows=None,
    linebelow=Line("\\bottomrule", "", "", ""),
    headerrow=DataRow("", " & ", " \\\\"),
    datarow=DataRow("", " & ", " \\\\"),
    padding=0,
    with_header_hide=None,
)


class Heading(NamedTuple):
    """A line above a group of rows, and a note about them."""

    text: str
    note: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of formatted cells. If the first cell of a row repeats that of the row above in the same
    group, only the first is shown."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    #: The first columns, as many as this, hold text; the others hold numbers and align right.
    text_columns: int = 1
    #: Index of a row that is set apart (the mean).
    summary: int | None = None
    #: The rows that begin a new group.
    rules: frozenset[int] = frozenset()
    #: Less prominent rows (intervals, published values).
    dim_rows: frozenset[int] = frozenset()
    #: Headings of groups, by the row below them.
    headings: Mapping[int, Heading] = field(default_factory=dict)
    #: Cells in bold (the best), by row and column.
    bold: frozenset[tuple[int, int]] = frozenset()
    #: Colours of cells on a page (classes of ``style.css``), by row and column.
    cell_styles: Mapping[tuple[int, int], str] = field(default_factory=dict)
    #: Lines below the table.
    notes: tuple[str, ...] = ()

    def without(self, column: str) -> "Table":
        """Return the table without a column of text, and so without groups; a table with bold
        cells cannot lose one."""
        place = self.columns.index(column)
        return replace(
            self,
            columns=(*self.columns[:place], *self.columns[place + 1 :]),
            rows=tuple((*row[:place], *row[place + 1 :]) for row in self.rows),
            text_columns=self.text_columns - 1,
            rules=frozenset(),
        )

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns hold numbers."""
        return tuple(column >= self.text_columns for column in range(len(self.columns)))

    def begins_group(self, row: int) -> bool:
        """Return whether a group begins with this row."""
        return row == 0 or row == self.summary or row in self.rules or row in self.headings

    def repeats(self, row: int) -> bool:
        """Return whether the first cell repeats that of the row above."""
        return not self.begins_group(row) and self.rows[row][0] == self.rows[row - 1][0]

    def _cells(self, row: int) -> list[tuple[str, bool]]:
        """Return the cells of a row as shown, and whether each is bold."""
        shown = ["" if self.repeats(row) else self.rows[row][0], *self.rows[row][1:]]
        return [(cell, (row, column) in self.bold) for column, cell in enumerate(shown)]

    def _tabulated(
        self, rows: Sequence[Sequence[str] | str], columns: Sequence[str], form: str | TableFormat
    ) -> str:
        sides = ["right" if right else "left" for right in self.numeric]
        return tabulate(rows, columns, form, disable_numparse=True, colalign=sides)

    def text(self) -> str:
        """Return the table and its notes for a terminal."""
        return "\n".join(
            [
                tabulate(self.rows, self.columns, disable_numparse=True, maxcolwidths=100),
                *self.notes,
            ]
        )

    def html(self) -> str:
        """Return the table and its notes for a notebook."""
        below = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return tabulate(self.rows, self.columns, "html", disable_numparse=True) + below

    def markdown(self, *, caption: bool = True) -> str:
        """Return one GitHub-flavoured Markdown table per headed group, with the caption above and
        the notes below."""
        parts = [self.caption] if caption and self.caption else []
        starts = sorted({0, *self.headings})
        for start, end in pairwise([*starts, len(self.rows)]):
            if heading := self.headings.get(start):
                parts.append(f"**{heading.text}** {heading.note}".strip())
            rows = [
                [_markdown_cell(cell, is_bold) for cell, is_bold in self._cells(row)]
                for row in range(start, end)
            ]
            parts.append(self._tabulated(rows, self.columns, "pipe"))
        if self.notes:
            parts.append("\n".join(f"- {note}" for note in self.notes))
        return "\n\n".join(parts) + "\n"

    def latex(self) -> str:
        """Return a ``booktabs`` tabular in a ``table`` environment, with all notes (also of
        headings) below."""
        rows: list[Sequence[str] | str] = []
        for row in range(len(self.rows)):
            if row and self.begins_group(row):
                rows.append(SEPARATING_LINE)
            if heading := self.headings.get(row):
                rows.append([f"\\rlap{{\\emph{{{latex_text(heading.text)}}}}}"])
            rows.append([_latex_cell(cell, is_bold) for cell, is_bold in self._cells(row)])
        alignment = "".join("r" if right else "l" for right in self.numeric)
        notes = [*self.notes, *(f"{text}: {note}" for text, note in self.headings.values() if note)]
        latex_notes = "\\par ".join(map(latex_text, notes))
        below = f"\\begin{{minipage}}{{\\linewidth}}\\footnotesize {latex_notes}\\end{{minipage}}"
        parts = [
            "% needs \\usepackage{booktabs}",
            "\\begin{table}",
            "\\centering",
            "\\footnotesize",
            "\\setlength{\\tabcolsep}{3pt}",
        ]
        if self.caption:
            parts.append(f"\\caption{{{latex_text(self.caption)}}}")
        parts += [
            f"\\begin{{tabular}}{{@{{}}{alignment}@{{}}}}",
            self._tabulated(rows, [latex_text(column) for column in self.columns], _BOOKTABS),
            "\\end{tabular}",
        ]
        if notes:
            parts += ["\\par\\smallskip", below]
        parts.append("\\end{table}")
        return "\n".join(parts) + "\n"


def first_cell_changes(rows: Sequence[tuple[str, ...]]) -> frozenset[int]:
    """Return the rows whose first cell differs from the row above; each begins a group."""
    return frozenset(at for at in range(1, len(rows)) if rows[at][0] != rows[at - 1][0])


def _markdown_cell(cell: str, is_bold: bool) -> str:
    text = cell.replace("|", "\\|")
    return f"**{text}**" if is_bold else text


def _latex_cell(cell: str, is_bold: bool) -> str:
    """Format a cell. Only the mean is bold; the spread over seeds is in small type, so that six
    columns fit on a page."""
    mean, _, spread = cell.partition(" ± ")
    text = f"\\textbf{{{latex_text(mean)}}}" if is_bold else latex_text(mean)
    return text + (f"$_{{\\pm {spread}}}$" if spread else "")


def latex_text(text: str) -> str:
    """Escape the characters of ``text`` that are special in LaTeX."""
    return "".join(_SPECIAL.get(character, character) for character in text)


class Displayed:
    """Base of results that Python and notebooks show as a table."""

    def table(self) -> Table:
        """Return the result as a table."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()
