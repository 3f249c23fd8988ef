"""A table of formatted cells, as Markdown, LaTeX and (through ``templates/macros.html``) HTML; how numbers are written.

The report page, the tables of studies, the command line and the model card all use it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from pacer.core.errors import DataError

Mark = Literal["best", "second"]
MARKS: tuple[Mark, ...] = get_args(Mark)

_MARKDOWN = {"best": "**{}**", "second": "<u>{}</u>", None: "{}"}
_LATEX = {"best": "\\textbf{{{}}}", "second": "\\underline{{{}}}", None: "{}"}
_SPECIAL = {
    **{character: "\\" + character for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"−": "$-$", "–": "--", "±": "$\\pm$", "<": "$<$", ">": "$>$"},
}


class Heading(NamedTuple):
    """A line over a group of rows, and what else is to be known of them."""

    text: str
    note: str = ""


class Check(NamedTuple):
    """One line of an audit: what was looked at, what was found, and whether all is well."""

    name: str
    found: str
    good: bool = True


@contextmanager
def reading_audit(of: str) -> Generator[None]:
    """An audit that lacks a part is a :class:`DataError` that says what to make again."""
    try:
        yield
    except KeyError as error:
        raise DataError(f"the {of} audit lacks {error}; make the {of} again") from None


@dataclass(frozen=True)
class Table:
    """Rows of already formatted cells under ``columns``.

    Where the first cell of a row is that of the row above, in the same group, it is shown once.

    Attributes:
        numeric: which columns align right; all but the first unless said.
        summary: the index of a row set apart (the mean), or None. rules: the rows that open a new group.
        quiet: rows of less weight (intervals, published values). headings: by the row that they stand over.
        marks: best and second best, by (row, column). notes: lines below the table.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    numeric: tuple[bool, ...] = ()
    summary: int | None = None
    rules: frozenset[int] = frozenset()
    quiet: frozenset[int] = frozenset()
    headings: Mapping[int, Heading] = field(default_factory=dict)
    marks: Mapping[tuple[int, int], Mark] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.numeric:
            object.__setattr__(self, "numeric", (False,) + (True,) * (len(self.columns) - 1))

    def opens(self, row: int) -> bool:
        """Whether a group begins with this row."""
        return row == 0 or row == self.summary or row in self.rules or row in self.headings

    def repeats(self, row: int) -> bool:
        """Whether the first cell says again what stands above it."""
        return not self.opens(row) and self.rows[row][0] == self.rows[row - 1][0]

    def _cells(self, row: int) -> Iterator[tuple[str, Mark | None]]:
        """The cells of a row as they are shown, and their marks."""
        for column, cell in enumerate(self.rows[row]):
            yield "" if column == 0 and self.repeats(row) else cell, self.marks.get((row, column))

    def markdown(self, *, caption: bool = True) -> str:
        """A GitHub-flavoured Markdown table for each group with a heading, the caption above and the notes below."""
        head = [self.columns, ["---:" if right else ":---" for right in self.numeric]]
        tables: list[tuple[str, list[str]]] = []
        for index in range(len(self.rows)):
            if not tables or index in self.headings:
                heading = self.headings.get(index)
                title = f"**{heading.text}**" + (f" {heading.note}" if heading.note else "") if heading else ""
                tables.append((title, [_line(cells) for cells in head]))
            cells = (_MARKDOWN[mark].format(cell.replace("|", "\\|")) for cell, mark in self._cells(index))
            tables[-1][1].append(_line(cells))
        parts = [
            self.caption if caption else "",
            *(part for title, lines in tables for part in (title, "\n".join(lines))),
        ]
        return "\n\n".join(filter(None, (*parts, "\n".join(f"- {note}" for note in self.notes)))) + "\n"

    def latex(self) -> str:
        """A ``booktabs`` tabular in a ``table`` environment; notes, those of headings too, stand below."""
        lines = []
        for index in range(len(self.rows)):
            if index and self.opens(index):
                lines.append("\\midrule")
            if heading := self.headings.get(index):
                text = f"\\emph{{{latex_text(heading.text)}}}"
                lines.append(f"\\multicolumn{{{len(self.columns)}}}{{@{{}}l}}{{{text}}} \\\\")
            lines.append(" & ".join(_latex_cell(cell, mark) for cell, mark in self._cells(index)) + " \\\\")
        notes = [
            *self.notes,
            *(f"{heading.text}: {heading.note}" for heading in self.headings.values() if heading.note),
        ]
        below = f"\\begin{{minipage}}{{\\linewidth}}\\footnotesize {latex_text(' '.join(notes))}\\end{{minipage}}"
        parts = [
            "% needs \\usepackage{booktabs}",
            "\\begin{table}",
            "\\centering",
            "\\footnotesize",
            "\\setlength{\\tabcolsep}{3pt}",
            *([f"\\caption{{{latex_text(self.caption)}}}"] if self.caption else []),
            f"\\begin{{tabular}}{{@{{}}{''.join('r' if right else 'l' for right in self.numeric)}@{{}}}}",
            "\\toprule",
            " & ".join(map(latex_text, self.columns)) + " \\\\",
            "\\midrule",
            *lines,
            "\\bottomrule",
            "\\end{tabular}",
            *(["\\par\\smallskip", below] if notes else []),
            "\\end{table}",
        ]
        return "\n".join(parts) + "\n"


def first_cell_changes(rows: Sequence[tuple[str, ...]]) -> frozenset[int]:
    """The rows whose first cell is not that of the row above: each opens a group."""
    return frozenset(at for at in range(1, len(rows)) if rows[at][0] != rows[at - 1][0])


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _latex_cell(cell: str, mark: Mark | None) -> str:
    """The mark is the mean's; a spread over seeds is set small, so that six columns fit on a page."""
    mean, _, spread = cell.partition(" ± ")
    return _LATEX[mark].format(latex_text(mean)) + (f"$_{{\\pm {spread}}}$" if spread else "")


def latex_text(text: str) -> str:
    """``text`` with the characters that LaTeX gives a meaning escaped."""
    return "".join(_SPECIAL.get(character, character) for character in text)


def number(value: float | int | None, digits: int = 3) -> str:
    """A score as ``0.123``, a count as ``1,234``, and an undefined value as an en dash."""
    if value is None:
        return "–"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.{digits}f}"


def score_cell(value: float | int | None) -> str:
    """A score of ``scores.json``, where ``None`` says that it has no denominator: never 0."""
    return "undefined" if value is None else number(value)


def signed(value: float | None, digits: int = 3) -> str:
    """A difference with its sign."""
    return "–" if value is None else f"{value:+.{digits}f}".replace("-", "−")


def p_value(p: float | None) -> str:
    """A p value with three decimals, never 0."""
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def percent(part: float, whole: float) -> str:
    """``part`` of ``whole`` as a percentage, a dash when ``whole`` is 0."""
    return f"{100 * part / whole:.1f} %" if whole else "–"
