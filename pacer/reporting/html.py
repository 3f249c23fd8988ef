"""Self-contained HTML pages from ``templates/``."""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, folder: Path = TEMPLATES, **content: Any) -> str:
    """Fill a template. Values are escaped unless they are markup; a name without a value is an error.

    Args:
        folder: templates of another package, which may use the ones here.
    """
    return _environment(folder).get_template(template).render(**content)


@cache
def _environment(folder: Path) -> Environment:
    return Environment(
        loader=FileSystemLoader([folder, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
