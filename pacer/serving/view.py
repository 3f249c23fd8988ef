"""Results as HTML for the page."""

import json
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup
from PIL import Image

from pacer.commitments.anchor import FINDINGS, POLARITIES, Anchor
from pacer.commitments.description import Attributes, words
from pacer.core.contexts import SOURCES
from pacer.decoding.attributes import CLASSES
from pacer.reporting import html
from pacer.reporting.images import LONGEST_EDGE, data_uri, routing_overlay
from pacer.reporting.marks import committed, spans, statements
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


class Choice(NamedTuple):
    """A kind of attribute of a finding: its words in the model's list and in the person's, and the options by word."""

    model: str
    person: str
    options: Mapping[str, str]


def result_page(result: Result, model: Anchor | None = None, commits: bool = True, kinds: Collection[str] = ()) -> str:
    """Return the HTML of one report: commitment, marked report, gate, routing maps and notes.

    Args:
        model: the model's own commitment, if a person changed it. commits: whether the model writes for a list.
        kinds: of attributes in its lists.
    """
    overlays = [
        routing_overlay(name, Image.fromarray(routing.image), routing.weights, routing.depths)
        for name, routing in result.routing().items()
    ]
    # none if there is no commitment, or no report after it
    commitment = None if result.fallback else result.commitment
    uncommitted = [] if commitment is None else sorted(statements(result.report) - committed(commitment))
    marked = spans(result.report, "commitment", None, commitment=commitment)
    listed, generated = result.findings(), model or result.commitment or Anchor()
    rows = {
        finding: {"model": generated.polarity(finding) or "", "person": listed.get(finding, "")} for finding in FINDINGS
    }
    chances, person = {}, result.commitment or Anchor()
    if result.attributes is not None:
        chances = result.attributes.as_dict()
        if result.given:  # and so completed with what was read, as the model's list must be to be compared
            generated = generated.completed(result.attributes.stated())
    choices = {
        finding: {kind: _choice(finding, kind, generated, person, chances.get(finding, {})) for kind in kinds}
        for finding in FINDINGS
    }
    changed = dict[str, dict[str, Any]]()
    for finding, states in rows.items():
        of_kinds = {kind: one for kind, one in choices[finding].items() if one.model != one.person}
        if of_kinds or states["model"] != states["person"]:
            said = {kind: {"model": one.model, "person": one.person} for kind, one in of_kinds.items()}
            changed[finding] = states | ({"attributes": said} if said else {})
    return render(
        "result.html",
        result=result,
        rows=rows,
        choices=choices,
        changed=changed,
        kinds=kinds,
        saved=json.dumps(result.as_dict() | {"changed": changed}, indent=2, ensure_ascii=False),
        states=POLARITIES,
        commits=commits,
        overlays=overlays,
        spans=marked,
        wrong_side=any("wrong-side" in span.marks for span in marked),
        sources=SOURCES[result.context],
        unbacked=[(finding, kind) for finding, kind in uncommitted if kind in POLARITIES],
        notes=notes_of([result]),
    )


def _choice(finding: str, kind: str, model: Anchor, person: Anchor, chances: Mapping[str, float]) -> Choice:
    """Return the choice of a kind of a finding. An option has its probability, where it was read."""
    lists = (one.attributes.get(finding, Attributes()).only([kind]) for one in (model, person))
    own, listed = (" ".join(words(attributes)) for attributes in lists)
    known = {word: f"{word} {chances[word]:.2f}" if word in chances else word for word in CLASSES[kind]}
    # the generator completes a person's list with what it reads
    options = {"": f"{kind}: {'as read' if chances.keys() & known else 'none'}"} | known
    options.setdefault(listed, listed)  # such as two severities
    return Choice(own, listed, options)
