"""Results as HTML for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

from PIL import Image

from pacer.commitments.anchor import FINDINGS
from pacer.core.contexts import SOURCES, Context
from pacer.reporting import html
from pacer.reporting.images import LONGEST_EDGE, data_uri
from pacer.serving.case import Result, notes_of
from pacer.serving.differences import Word, compared_contexts
from pacer.serving.maps import routing_overlay
from pacer.serving.sentences import marked_sentences, unsaid

OWN = Path(__file__).parent / "templates"
#: Upper end of a gate, and what it means; Calibrate starts at 0.1.
_GATES = ((0.05, "hardly at all"), (0.25, "a little"), (0.6, "moderately"), (1.0, "strongly"))


render = partial(html.render, folder=OWN)


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


def result_page(result: Result) -> str:
    """One report: commitment, marked sentences, gate, routing maps, notes and timings."""
    overlays = [routing_overlay(name.capitalize(), routing) for name, routing in result.routing().items()]
    commitment = result.commitment
    sentences = marked_sentences(result.report, None if result.fallback else commitment)
    return render(
        "result.html",
        result=result,
        overlays=overlays,
        sentences=sentences,
        sources=SOURCES[result.context],
        unsaid=[] if commitment is None or result.fallback else unsaid(result.report, commitment),
        gate=None if result.gate is None else gate_words(result.gate),
        notes=notes_of([result]),
    )


def contexts_page(results: Mapping[Context, Result]) -> str:
    """The same case in several contexts: the findings that differ, and every report with the words that do."""
    rows = [(finding, [result.findings().get(finding) for result in results.values()]) for finding in FINDINGS]
    return render(
        "contexts.html",
        results=results,
        first=next(iter(results)),
        sources=SOURCES,
        runs={context: _runs(words) for context, words in compared_contexts(results).items()},
        differing=[(finding, states) for finding, states in rows if len(set(states)) > 1],
        gates={
            context: None if result.gate is None else gate_words(result.gate) for context, result in results.items()
        },
        notes=notes_of(results.values()),
    )


def _runs(words: Sequence[Word]) -> list[tuple[bool, str]]:
    """Words in a row that are marked alike, as one text."""
    return [(own, " ".join(word.text for word in run)) for own, run in groupby(words, key=lambda word: word.own)]
