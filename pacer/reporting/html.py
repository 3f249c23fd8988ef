"""The page: one HTML file that needs nothing else, from ``templates/report.html``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"


def render_page(*, charts: dict[str, str], **content: Any) -> str:
    """Fill the page.

    Args:
        charts: inline SVG by name; the only values that are not escaped.
        content: the other values that ``templates/report.html`` names; a name without a value is an error.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drawn = {name: Markup(svg) for name, svg in charts.items()}
    return environment.get_template("report.html").render(charts=drawn, **content)
