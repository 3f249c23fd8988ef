"""A case as a person has it, the same case prepared as in training, and what the model says about it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from pacer.commitments.anchor import POLARITIES, Anchor
from pacer.core.contexts import Context, availability, context_of
from pacer.serving.sources import ImageSource

if TYPE_CHECKING:
    from torch import Tensor

View = Literal["AP", "PA", "other"]
Sections = Literal["findings+impression", "findings", "impression"]

NOTICE = "For research only. Not for clinical decisions."
#: Of a model that was trained on a generated corpus.
GENERATED_NOTE = (
    "this model learnt from generated images and reports alone; its statements about real radiographs are meaningless"
)


@dataclass(frozen=True)
class Case:
    """The sources of one examination.

    Attributes:
        frontal, lateral: a path, the bytes of a file or a Pillow image.
        prior: the previous report as it was written. indication, history: the same. Texts without a visible character
            count as absent.
        view: of the frontal image, AP or PA; None: as its DICOM file says, else unknown (``other``).
        sections: asked for; None: those that the model was trained to write.
        name: stands in messages and results.
    """

    frontal: ImageSource
    lateral: ImageSource | None = None
    prior: str | None = None
    indication: str | None = None
    history: str | None = None
    view: str | None = None
    sections: str | None = None
    name: str = "case"

    def images(self) -> dict[str, ImageSource]:
        """``frontal``, and ``lateral`` where there is one."""
        return {"frontal": self.frontal} | ({} if self.lateral is None else {"lateral": self.lateral})


class Truncation(NamedTuple):
    """Tokens that were cut off as training cuts them: of the previous report, of indication and history together."""

    prior_tokens: int
    clinical_context_tokens: int


@dataclass(frozen=True)
class Prepared:
    """A case that can be used: images [1 or 3, H, W] uint8 as the encoder sees them, texts as the model reads them;
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
    truncation: Truncation

    def all_notes(self) -> tuple[str, ...]:
        """Sentences about what might surprise a person: of the files, and what was cut off."""
        return self.notes + tuple(
            f"{count:,} tokens of the {what} were cut off, as in training"
            for count, what in zip(self.truncation, ("previous report", "indication and history"))
            if count
        )

    @property
    def context(self) -> Context:
        return context_of(self.lateral is not None, self.prior is not None)

    def in_context(self, context: Context) -> Prepared:
        """The same case without the sources that the context does not have."""
        lateral, prior = availability(context)
        truncation = self.truncation if prior else self.truncation._replace(prior_tokens=0)
        return replace(
            self, lateral=self.lateral if lateral else None, prior=self.prior if prior else None, truncation=truncation
        )


@dataclass(frozen=True)
class Routing:
    """Where one image's evidence was taken from.

    Attributes:
        image: what the encoder saw, resized and cropped: [H, W] or [H, W, 3] uint8. weights: [rows, columns, K]
            float32, depth weights of each patch, which sum to 1; patch (r, c) covers the pixels from
            ``(r * H / rows, c * W / columns)``. depths: encoder block of each of the K weights, 1 is the first.
    """

    image: np.ndarray
    weights: np.ndarray
    depths: tuple[int, ...]

    def means(self) -> dict[int, float]:
        """Mean weight of each depth."""
        return {depth: float(mean) for depth, mean in zip(self.depths, self.weights.mean((0, 1)), strict=True)}


@dataclass(frozen=True)
class Result:
    """What the model says about one case.

    Attributes:
        report: the report alone. generated: the raw text, commitment and markers included.
        commitment: positive, negative and uncertain findings that were stated before the report; None where there are
            none (a model without Commit, or a text that holds none).
        fallback: no report could be found in the text, so all of it stands for the report.
        truncated: as many tokens as are allowed, so the end may be missing. tokens: generated.
        truncation: of the inputs.
        notes: sentences about what might surprise a person: truncation, DICOM files that name another view, and
            what holds for every report of the model.
        gate: of Calibrate, 0 to 1; None without. frontal, lateral: routing; lateral None without the view.
        context, view, sections: what the model was given and asked for.
    """

    name: str
    context: Context
    report: str
    generated: str
    commitment: Anchor | None
    fallback: bool
    truncated: bool
    tokens: int
    truncation: Truncation
    notes: tuple[str, ...]
    gate: float | None
    view: View
    sections: Sections
    frontal: Routing = field(repr=False)
    lateral: Routing | None = field(repr=False)

    def findings(self) -> dict[str, str]:
        """Each finding of the commitment and its polarity: positive, negative or uncertain."""
        if self.commitment is None:
            return {}
        return {finding: polarity for polarity in POLARITIES for finding in getattr(self.commitment, polarity)}

    def routing(self) -> dict[str, Routing]:
        """``frontal``, and ``lateral`` where there is one."""
        return {"frontal": self.frontal} | ({} if self.lateral is None else {"lateral": self.lateral})

    def as_dict(self) -> dict[str, Any]:
        """For JSON, with the mean depth weights of each image."""
        routing = {
            view: {"means": {str(depth): round(mean, 6) for depth, mean in routing.means().items()}}
            for view, routing in self.routing().items()
        }
        return {
            "case": self.name,
            "context": self.context,
            "report": self.report,
            "commitment": None if self.commitment is None else self.commitment.as_dict(),
            "generated": self.generated,
            "fallback": self.fallback,
            "truncated": self.truncated,
            "tokens": self.tokens,
            "cut": self.truncation._asdict(),
            "notes": list(self.notes),
            "gate": self.gate,
            "view": self.view,
            "sections": self.sections,
            "depth_weights": routing,
        }


def notes_of(results: Collection[Result]) -> list[str]:
    """Sentences about what might surprise a person, each once; those of one report alone begin with its context."""
    notes = [note for result in results for note in result.notes]
    for result in results:
        if result.fallback:
            notes.append(f"{result.context.upper()}: no report could be found in the text, which stands for it")
        if result.truncated:
            notes.append(f"{result.context.upper()}: stopped at the token limit; the end may be missing")
    return list(dict.fromkeys(notes))
