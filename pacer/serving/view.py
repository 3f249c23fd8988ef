"""Results as HTML for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image

from pacer.anchors.vocabulary import FINDINGS
from pacer.core.contexts import Context
from pacer.reporting.html import TEMPLATES
from pacer.reporting.images import LONGEST_EDGE, data_uri
from pacer.serving.case import Result
from pacer.serving.differences import Word, compared, compared_with_all
from pacer.serving.maps import film
from pacer.serving.sentences import marked_sentences, unsaid
from pacer.serving.terminal import NAMES

OWN = Path(__file__).parent / "templates"
#: Values are escaped; the report page's templates are at hand.
_ENVIRONMENT = Environment(
    loader=FileSystemLoader([OWN, TEMPLATES]),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
#: Upper end of a gate, and what it means; Calibrate starts at 0.1.
_GATES = ((0.05, "hardly at all"), (0.25, "a little"), (0.6, "moderately"), (1.0, "strongly"))


def render(template: str, **content: Any) -> str:
    return _ENVIRONMENT.get_template(template).render(**content)


def gate_words(gate: float) -> str:
    """How much Calibrate corrects the prompt, in words."""
    return next(words for limit, words in _GATES if gate <= limit)


def problem(sentence: str) -> str:
    """A refusal in the place of what was asked for."""
    return render("problem.html", sentence=sentence)


def preview(image: Image.Image, name: str, caption: str) -> str:
    """A radiograph that was handed in, reduced."""
    small = image.copy()
    small.thumbnail((LONGEST_EDGE, LONGEST_EDGE), Image.Resampling.LANCZOS)
    return render("preview.html", address=data_uri(small), name=name, caption=caption)


def context_line(context: Context | None) -> str:
    """In which context the report will be written; None: there is no frontal image yet."""
    return render("context.html", context=context, sources=NAMES.get(context or ""))


def result_page(result: Result) -> str:
    """One report: commitment, marked sentences, gate, routing maps, notes and timings."""
    films = [
        film(name, found)
        for name, found in (("Frontal", result.frontal), ("Lateral", result.lateral))
        if found is not None
    ]
    commitment = result.commitment
    sentences = marked_sentences(result.report, None if result.fallback else commitment)
    return render(
        "result.html",
        result=result,
        films=films,
        sentences=sentences,
        sources=NAMES[result.context],
        unsaid=[] if commitment is None or result.fallback else unsaid(result.report, commitment),
        gate=None if result.gate is None else gate_words(result.gate),
        notes=_notes(result),
    )


def contexts_page(results: Mapping[Context, Result]) -> str:
    """The same case in several contexts: the findings that differ, and every report with the words that do."""
    first, *others = results.values()
    words = {first.context: compared_with_all(first.report, [other.report for other in others])}
    words |= {other.context: compared(other.report, first.report) for other in others}
    rows = [(finding, [result.findings().get(finding) for result in results.values()]) for finding in FINDINGS]
    return render(
        "contexts.html",
        results=results,
        first=first.context,
        sources=NAMES,
        runs={context: _runs(found) for context, found in words.items()},
        differing=[(finding, states) for finding, states in rows if len(set(states)) > 1],
        gates={
            context: None if result.gate is None else gate_words(result.gate) for context, result in results.items()
        },
        notes=list(dict.fromkeys(note for result in results.values() for note in _notes(result, result.context))),
    )


def _runs(words: Sequence[Word]) -> list[tuple[bool, str]]:
    """Words in a row that are marked alike, as one text."""
    return [(own, " ".join(word.text for word in run)) for own, run in groupby(words, key=lambda word: word.own)]


def _notes(result: Result, context: Context | None = None) -> list[str]:
    """Sentences about what a person may not expect; those of one report alone begin with its ``context``."""
    name = "" if context is None else f"{context.upper()}: "
    found = list(result.notes)
    if result.fallback:
        found.append(f"{name}no report could be found in the text, which stands for it")
    if result.truncated:
        found.append(f"{name}as many tokens as are allowed; the end may be missing")
    return found
