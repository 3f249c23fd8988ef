"""Building blocks of a page: sections, and the parts of a section in their order.

A new section is a function from :class:`~pacer.reporting.results.Results` to a :class:`Section`, added to the list in
:mod:`pacer.reporting.sections`. Its tables and figures become files, and it appears in the page's table of contents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from markupsafe import Markup

from pacer.metrics.display import Table
from pacer.reporting.charts import for_page

if TYPE_CHECKING:
    from pacer.reporting.cases import ExampleCase


@dataclass(frozen=True)
class Text:
    """A paragraph; ``style``: empty, ``note`` (a warning) or ``signature``."""

    kind: ClassVar = "text"
    text: str
    style: str = ""


@dataclass(frozen=True)
class TableBlock:
    """A table with its caption below, written to ``tables/NAME.md`` and ``.tex``. ``title``: a heading above it.
    ``folded``: label that unfolds it."""

    kind: ClassVar = "table"
    name: str
    table: Table
    title: str = ""
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
        return for_page(self.svg, self.name)


Part = Text | TableBlock | Figure


@dataclass(frozen=True)
class Section:
    """One section; ``name`` is its anchor on the page. ``cases``: studies with images and reports, below the parts."""

    name: str
    title: str
    parts: Sequence[Part] = ()
    cases: Sequence[ExampleCase] = ()


def shown(name: str, table: Table | None, title: str = "", *, folded: str = "") -> list[Part]:
    """Return a table below a title, or nothing if there is no table or it has only its first column."""
    return [] if table is None or len(table.columns) < 2 else [TableBlock(name, table, title, folded)]
