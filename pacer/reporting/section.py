"""What a page consists of: sections, and the parts of a section in their order.

A new section is a function from :class:`~pacer.reporting.results.Results` to a :class:`Section` in the list of
:mod:`pacer.reporting.sections`; its tables and figures become files, and it appears in the page's contents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from markupsafe import Markup

from pacer.reporting.figures import for_page
from pacer.reporting.tables import Check, Table

if TYPE_CHECKING:
    from pacer.reporting.cases import ExampleCase


@dataclass(frozen=True)
class Text:
    """A paragraph; ``style``: nothing, ``note`` (a warning), ``signature`` or ``title`` (a heading)."""

    kind: ClassVar = "text"
    text: str
    style: str = ""


@dataclass(frozen=True)
class TableBlock:
    """A table, its caption below it; written to ``tables/NAME.md`` and ``.tex``. ``folded``: what unfolds it."""

    kind: ClassVar = "table"
    name: str
    table: Table
    folded: str = ""


@dataclass(frozen=True)
class Figure:
    """A chart; written to ``figures/NAME.svg``."""

    kind: ClassVar = "figure"
    name: str
    svg: str
    caption: str

    @property
    def inline(self) -> Markup:
        """The SVG as markup for the page."""
        return Markup(for_page(self.svg, self.name))


@dataclass(frozen=True)
class Checks:
    """Names and what was found, folded under a title."""

    kind: ClassVar = "checks"
    title: str
    checks: Sequence[Check]


@dataclass(frozen=True)
class ExampleCases:
    """Studies shown with images and reports."""

    kind: ClassVar = "cases"
    cases: Sequence[ExampleCase]


Part = Text | TableBlock | Figure | Checks | ExampleCases


@dataclass(frozen=True)
class Section:
    """``name`` is the section's address on the page."""

    name: str
    title: str
    parts: Sequence[Part]


def shown(name: str, table: Table | None, title: str = "", *, folded: str = "") -> list[Part]:
    """A table below a title, or nothing where there is no table or it has no column but its first."""
    if table is None or len(table.columns) < 2:
        return []
    return [*([Text(title, "title")] if title else []), TableBlock(name, table, folded)]
