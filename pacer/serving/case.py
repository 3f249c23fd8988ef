"""A case from a user, the same case prepared as in training, and the model's result for it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pacer.commitments.anchor import POLARITIES, Anchor
from pacer.commitments.rules.extract import extract_anchor
from pacer.core.audits import number
from pacer.core.contexts import Context, availability, context_of
from pacer.metrics.display import Displayed, Table
from pacer.serving.sources import ImageSource

if TYPE_CHECKING:
    from torch import Tensor

    from pacer.decoding.reader import AttributeChances, Probabilities

View = Literal["AP", "PA", "other"]
Sections = Literal["findings+impression", "findings", "impression"]

NOTICE = "For research only. Not for clinical decisions."
#: Note for a model that was trained on a generated corpus.
GENERATED_NOTE = (
    "this model was trained only on generated images and reports; what it says about real radiographs means nothing"
)


@dataclass(frozen=True)
class Case:
    """The sources of one examination.

    Attributes:
        frontal, lateral: a path, the bytes of a file or a Pillow image.
        prior: the previous report as written. indication, history: likewise. A text without a visible character counts
            as absent.
        view: of the frontal image, AP or PA. None: read from its DICOM file, else unknown (``other``).
        sections: those requested. None: those that the model was trained to write.
        commitment: findings that the report is written for, as :func:`~pacer.commitments.anchor.read_list` takes them.
            None: the model's.
        name: identifies the case in messages and results.
    """

    frontal: ImageSource
    lateral: ImageSource | None = None
    prior: str | None = None
    indication: str | None = None
    history: str | None = None
    view: str | None = None
    sections: str | None = None
    name: str = "case"
    commitment: str | None = None

    def images(self) -> dict[str, ImageSource]:
        """Return the images by name: ``frontal``, and ``lateral`` if there is one."""
        return {"frontal": self.frontal} | ({} if self.lateral is None else {"lateral": self.lateral})


@dataclass(frozen=True)
class Prepared:
    """A checked case: images [1 or 3, H, W] uint8 as the encoder sees them, texts as the model reads them, and
    ``notes`` about the files."""

    name: str
    frontal: Tensor
    lateral: Tensor | None
    prior: str | None
    indication: str | None
    history: str | None
    view: View
    sections: Sections
    notes: tuple[str, ...]
    commitment: Anchor | None = None

    @property
    def context(self) -> Context:
        return context_of(self.lateral is not None, self.prior is not None)

    def in_context(self, context: Context) -> Prepared:
        """Return the case without the sources that the context lacks."""
        lateral, prior = availability(context)
        return replace(self, lateral=self.lateral if lateral else None, prior=self.prior if prior else None)


@dataclass(frozen=True)
class Routing:
    """The encoder depths from which the model took the evidence in one image.

    Attributes:
        image: the encoder's input, resized and cropped: [H, W] or [H, W, 3] uint8. weights: [rows, columns, K]
            float32, depth weights of each patch, which sum to 1; patch (r, c) covers the pixels from
            ``(r * H / rows, c * W / columns)``. depths: encoder block of each of the K weights, counted from 1.
    """

    image: np.ndarray
    weights: np.ndarray
    depths: tuple[int, ...]

    def means(self) -> dict[int, float]:
        """Return the mean weight of each depth."""
        return {depth: float(mean) for depth, mean in zip(self.depths, self.weights.mean((0, 1)), strict=True)}


@dataclass(frozen=True, repr=False)
class Result(Displayed):
    """The model's result for one case.

    Attributes:
        report: only the report. generated: the raw text, including commitment and markers.
        commitment: positive, negative and uncertain findings stated before the report; None if there is no commitment
            (a model without Commit, or a text without one).
        fallback: whether no report was found in the text, so that ``report`` is the whole text.
        truncated: whether the token limit was reached, so the end may be missing. tokens: number generated.
        notes: sentences about anything unexpected: DICOM files that name another view or part of the body, and notes
            that apply to every report of the model.
        gate: of Calibrate, 0 to 1; None without it. frontal, lateral: routing; ``lateral`` is None without that view.
        context, view, sections: what the model was given and asked for.
        probabilities: of each finding, as read from the sources; None without the stage ``findings``.
        attributes: likewise, of each side, severity and course; None if the reading has none.
        given: whether ``commitment`` is a person's.
    """

    name: str
    context: Context
    report: str
    generated: str
    commitment: Anchor | None
    fallback: bool
    truncated: bool
    tokens: int
    notes: tuple[str, ...]
    gate: float | None
    view: View
    sections: Sections
    frontal: Routing
    lateral: Routing | None
    probabilities: Probabilities | None = None
    attributes: AttributeChances | None = None
    given: bool = False

    def table(self) -> Table:
        """Return the report, what it was written for, and the gate."""
        rows = [("report", self.report)]
        if (own := self.commitment) is not None:
            rows += [(polarity, ", ".join(map(own.text, getattr(own, polarity)))) for polarity in POLARITIES]
        rows += [("contradicted by the report", ", ".join(self.contradictions()))] * bool(self.contradictions())
        cells = (*rows, ("gate", number(self.gate)))
        return Table((self.context.upper(), self.name), cells, numeric=(False, False), notes=self.notes)

    def findings(self) -> dict[str, str]:
        """Return each finding of the commitment with its polarity: positive, negative or uncertain."""
        if self.commitment is None:
            return {}
        return {finding: polarity for polarity in POLARITIES for finding in getattr(self.commitment, polarity)}

    def departures(self) -> dict[str, str | None]:
        """Return each finding of the commitment to which the report gives another polarity, with that polarity as the
        rules read it; None: not mentioned. Empty if the report agrees with its commitment, or one of them is absent."""
        committed, read = {} if self.fallback else self.findings(), extract_anchor(self.report)
        return {
            finding: read.polarity(finding) for finding in committed if read.polarity(finding) != committed[finding]
        }

    def contradictions(self) -> tuple[str, ...]:
        """Return the findings that the commitment affirms and the report denies, or the reverse."""
        listed = self.commitment if self.commitment is not None and not self.fallback else Anchor()
        return listed.contradicted(extract_anchor(self.report))

    def routing(self) -> dict[str, Routing]:
        """Return the routing by image: ``frontal``, and ``lateral`` if there is one."""
        return {"frontal": self.frontal} | ({} if self.lateral is None else {"lateral": self.lateral})

    def as_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON, with the mean depth weights of each image."""
        routing = {
            view: {"means": {str(depth): round(mean, 6) for depth, mean in routing.means().items()}}
            for view, routing in self.routing().items()
        }
        return {
            "case": self.name,
            "context": self.context,
            "report": self.report,
            "commitment": None if self.commitment is None else self.commitment.as_dict(),
            "commitment_given": self.given,
            "findings": None if self.probabilities is None else self.probabilities.as_dict(),
            "generated": self.generated,
            "fallback": self.fallback,
            "truncated": self.truncated,
            "tokens": self.tokens,
            "notes": list(self.notes),
            "gate": self.gate,
            "view": self.view,
            "sections": self.sections,
            "depth_weights": routing,
        } | ({} if self.attributes is None else {"attributes": self.attributes.as_dict()})


def notes_of(results: Collection[Result]) -> list[str]:
    """Return the results' notes without repeats, then warnings about single reports, which begin with the context."""
    notes = [note for result in results for note in result.notes]
    for result in results:
        if result.given and (departures := result.departures()):
            notes.append(
                f"{result.context.upper()}: the report departs from the commitment on: {', '.join(departures)}"
            )
        if not result.report:
            notes.append(f"{result.context.upper()}: empty report: every sentence affirmed an unlisted finding")
        if result.fallback:
            notes.append(f"{result.context.upper()}: no report was found in the generated text; all of it is shown")
        if result.truncated:
            notes.append(f"{result.context.upper()}: truncated at the token limit; the end may be missing")
    return list(dict.fromkeys(notes))
