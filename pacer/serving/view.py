"""Results as HTML for the page."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from markupsafe import Markup
from PIL import Image

from pacer.commitments.anchor import FINDINGS, POLARITIES, Anchor
from pacer.core.contexts import SOURCES
from pacer.reporting import html
from pacer.reporting.images import LONGEST_EDGE, data_uri, routing_overlay
from pacer.reporting.marks import LONGITUDINAL, committed, spans, statements
from pacer.serving.case import Result, notes_of

TEMPLATES = Path(__file__).parent / "templates"
render = partial(html.render, folder=TEMPLATES)


def problem(sentence: str) -> str:
    """Return the HTML of a refusal, shown instead of the requested content."""
    return Markup('<p class="problem" role="alert">{}</p>').format(sentence)


def preview(image: Image.Image, name: str, caption: str) -> str:
    """Return the HTML of an uploaded radiograph, reduced in size."""
    small = image.copy()
    small.thumbnail((LONGEST_EDGE, LONGEST_EDGE), Image.Resampling.LANCZOS)
    figure = Markup(
        '<figure class="preview"><img src="{}" alt="{} radiograph as uploaded"><figcaption>{}</figcaption></figure>'
    )
    return figure.format(data_uri(small), name, caption)


def result_page(result: Result, model: Anchor | None = None, commits: bool = True) -> str:
    """Return the HTML of one report: commitment, marked report, gate, routing maps and notes.

    Args:
        model: the model's own commitment, if a person changed it. commits: whether the model writes for a list.
    """
    overlays = [
        routing_overlay(name, Image.fromarray(routing.image), routing.weights, routing.depths)
        for name, routing in result.routing().items()
    ]
    # none if there is no commitment, or no report after it
    commitment = None if result.commitment is None or result.fallback else committed(result.commitment)
    uncommitted = [] if commitment is None else sorted(statements(result.report) - commitment)
    listed, generated = result.findings(), model or result.commitment or Anchor()
    rows = {
        finding: {"model": generated.polarity(finding) or "", "person": listed.get(finding, "")} for finding in FINDINGS
    }
    changed = {finding: states for finding, states in rows.items() if states["model"] != states["person"]}
    return render(
        "result.html",
        result=result,
        rows=rows,
        saved=json.dumps(result.as_dict() | {"changed": changed}, indent=2, ensure_ascii=False),
        states=POLARITIES,
        commits=commits,
        overlays=overlays,
        spans=spans(result.report, "commitment", commitment),
        sources=SOURCES[result.context],
        unbacked=[(finding, kind) for finding, kind in uncommitted if kind != LONGITUDINAL],
        notes=notes_of([result]),
    )
