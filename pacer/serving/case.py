"""A case from a user, the same case prepared as in training, and the model's result for it.

Images of any kind and texts are checked before any work. Every refusal is a
:class:`~pacer.core.errors.DataError` of one sentence, which names the case and the source but never
quotes its content.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from PIL import Image

from pacer.core.anchor import POLARITIES, Anchor
from pacer.core.contexts import Context, availability, context_of
from pacer.core.errors import DataError
from pacer.display.numbers import number
from pacer.display.tables import Displayed, Table
from pacer.images.dicom import header_view
from pacer.images.radiographs import as_radiograph, read_image
from pacer.images.views import View, parse_view
from pacer.tables.hygiene import LINE_ENDS, fault_of, is_absent
from pacer.tables.values import shown
from pacer.text.cleaning.cleaners import sentence_ends
from pacer.text.cleaning.wording import find_wording
from pacer.text.rules import extract_anchor, find_mentions

if TYPE_CHECKING:
    from torch import Tensor

    from pacer.decoding.lists.maps import Probabilities

#: A path, the bytes of a file, or an image that Pillow has opened.
ImageSource = str | PathLike | bytes | Image.Image

#: Larger files are refused. An uncompressed radiograph of 4,000 by 5,000 pixels of 16 bits has 40
#: million bytes.
MAX_BYTES = 100_000_000
#: Longer texts are refused: reports have hundreds to a few thousand characters, and the encoder
#: reads only the start.
MAX_CHARACTERS = 20_000
#: Pillow's names of the formats accepted besides DICOM; others start programs or contain videos.
FORMATS = ("JPEG", "PNG", "TIFF", "BMP")


def load_image(source: ImageSource, name: str) -> tuple[Image.Image, View | None]:
    """Return one radiograph as training sees it, mode "L" or "RGB", and the view that a DICOM file
    names. Raises a DataError if the file is too large, empty, damaged, not an image or not one
    radiograph.

    Args:
        name: of case and source, for messages.
    """
    if isinstance(source, Image.Image):
        return as_radiograph(source, name), None
    if isinstance(source, str | PathLike):
        try:
            with open(source, "rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise DataError(
                f"image {name}: the file {source} cannot be read: {error.strerror}"
            ) from None
        # the file extension marks a DICOM file without preamble, as in a corpus
        name = f"{name}, {source}"
    else:
        content = source
    if len(content) > MAX_BYTES:
        raise DataError(f"image {name}: the file has more than {MAX_BYTES:,} bytes")
    view, _ = header_view(io.BytesIO(content))
    return read_image(io.BytesIO(content), name, FORMATS), parse_view(view)


def load_text(text: str | None, name: str) -> str | None:
    """Return a text, with a space for each vertical tab and form feed; None if it has no visible
    character or only states that there is no text (``N/A``). Raises a DataError if the text is too
    long, or contains control characters."""
    if text is None:
        return None
    if len(text) > MAX_CHARACTERS:
        raise DataError(
            f"{name}: {len(text):,} characters, but the limit is {MAX_CHARACTERS:,}; shorten it"
        )
    if fault := fault_of(text):
        raise DataError(f"{name}: {fault}")
    text = re.sub(LINE_ENDS, " ", text)
    return None if not text.strip() or is_absent(text) else text


Projection = Literal["AP", "PA", "other"]
#: Sections that a report can have.
ReportSections = Literal["findings+impression", "findings", "impression"]

NOTICE = "For research only. Not for clinical decisions."
#: Note for a model that was trained on a generated corpus.
GENERATED_NOTE = (
    "this model was trained only on generated images and reports; its output for "
    "real radiographs is meaningless"
)


def _advice(source: object) -> str:
    """Return how to pass an image that is given in another form."""
    if hasattr(source, "read"):
        return "; pass the bytes that its method `read` returns"
    if isinstance(source, dict) and "bytes" in source:
        return '; for an image that Hugging Face has not decoded, pass the value of "bytes"'
    return ""


@dataclass(frozen=True)
class Case:
    """The sources of one examination.

    A text without a visible character counts as absent, and so does an empty cell of pandas (NaN).
    Raises a DataError if a source is of another kind.
    """

    #: A path, the bytes of a file or a Pillow image.
    frontal: ImageSource
    #: A path, the bytes of a file or a Pillow image.
    lateral: ImageSource | None = None
    #: The previous report as written.
    prior: str | None = None
    #: As written.
    indication: str | None = None
    #: As written.
    history: str | None = None
    #: View of the frontal image, AP or PA. None: that of its DICOM file, else ``other``.
    view: str | None = None
    #: Sections to write. None: those that the model was trained to write.
    sections: str | None = None
    #: Identifies the case in messages and results.
    name: str = "case"
    #: Findings that the report is written for, as :func:`~pacer.core.anchor.read_list` takes
    #: them. None: those that the model finds.
    commitment: str | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            is_image = field.name in ("frontal", "lateral")
            if isinstance(value, float) and math.isnan(value):
                value = None
                object.__setattr__(self, field.name, None)
            if value is None and field.default is None:
                continue
            if is_image and not isinstance(value, ImageSource):
                raise DataError(
                    f"image {self.name}, {field.name}: expected a path, the bytes of a file or an "
                    f"image of Pillow, got {shown(value)}{_advice(value)}"
                )
            if not is_image and not isinstance(value, str):
                source = "previous report" if field.name == "prior" else field.name
                raise DataError(f"{source} of {self.name}: expected text, got {shown(value)}")

    def images(self) -> dict[str, ImageSource]:
        """Return the images by name: ``frontal``, and ``lateral`` if there is one."""
        if self.lateral is None:
            return {"frontal": self.frontal}
        return {"frontal": self.frontal, "lateral": self.lateral}


@dataclass(frozen=True)
class Prepared:
    """A checked case, with texts as the model reads them."""

    name: str
    #: The encoder's input, [1 or 3, H, W] uint8.
    frontal: Tensor
    #: Likewise.
    lateral: Tensor | None
    prior: str | None
    indication: str | None
    history: str | None
    view: Projection
    sections: ReportSections
    #: Sentences about the files.
    notes: tuple[str, ...]
    #: Findings that the report is written for. None: those that the model finds.
    commitment: Anchor | None = None

    @property
    def context(self) -> Context:
        return context_of(self.lateral is not None, self.prior is not None)

    def in_context(self, context: Context) -> Prepared:
        """Return the case without the sources that the context lacks."""
        lateral, prior = availability(context)
        return replace(
            self, lateral=self.lateral if lateral else None, prior=self.prior if prior else None
        )


@dataclass(frozen=True)
class Routing:
    """The encoder depths from which the model took the evidence in one image."""

    #: The encoder's input, resized and cropped: [H, W] or [H, W, 3] uint8.
    image: np.ndarray
    #: Depth weights of each patch, [rows, columns, K] float32, which sum to 1; patch (r, c) covers
    #: the pixels from ``(r * H / rows, c * W / columns)``.
    weights: np.ndarray
    #: Encoder block of each of the K weights, counted from 1.
    depths: tuple[int, ...]

    def means(self) -> dict[int, float]:
        """Return the mean weight of each depth."""
        return {
            depth: float(mean)
            for depth, mean in zip(self.depths, self.weights.mean((0, 1)), strict=True)
        }


@dataclass(frozen=True, repr=False)
class Result(Displayed):
    """The model's result for one case."""

    name: str
    #: The sources that the model was given.
    context: Context
    #: Only the report.
    report: str
    #: The raw text, including commitment and markers.
    generated: str
    #: Positive, negative and uncertain findings stated before the report; None if there is no
    #: commitment (a model without Commit, or a text without one).
    commitment: Anchor | None
    #: Whether no report was found in the text, so that ``report`` is the whole text.
    fallback: bool
    #: Whether the token limit was reached, so the end may be missing.
    truncated: bool
    #: Number of generated tokens.
    tokens: int
    #: Sentences about anything unexpected: DICOM files that name another view or part of the body,
    #: and notes that apply to every report of the model.
    notes: tuple[str, ...]
    #: The gate of Calibrate, 0 to 1; None without it.
    gate: float | None
    #: The view that the prompt states.
    view: Projection
    #: The sections named in the prompt.
    sections: ReportSections
    #: Routing of the frontal image.
    frontal: Routing
    #: Routing of the lateral image; None without one.
    lateral: Routing | None
    #: Probability of each finding, predicted from the sources; None without a list predictor.
    probabilities: Probabilities | None = None
    #: Whether a person set ``commitment``.
    given: bool = False

    def table(self) -> Table:
        """Return the report, its commitment, and the gate."""
        rows = [("report", self.report)]
        own = self.commitment
        if own is not None:
            for polarity in POLARITIES:
                rows.append((polarity, ", ".join(map(own.text, getattr(own, polarity)))))
        contradictions = self.contradictions()
        if contradictions:
            rows.append(("contradicted by the report", ", ".join(contradictions)))
        rows.append(("gate", number(self.gate)))
        heads = (self.context.upper(), self.name)
        return Table(heads, tuple(rows), text_columns=2, notes=self.notes)

    def findings(self) -> dict[str, str]:
        """Return each finding of the commitment with its polarity: positive, negative or
        uncertain."""
        if self.commitment is None:
            return {}
        return {
            finding: polarity
            for polarity in POLARITIES
            for finding in getattr(self.commitment, polarity)
        }

    def mismatches(self) -> dict[str, str | None]:
        """Return each finding of the commitment to which the report gives another polarity, with
        that polarity as the rules read it; None: not mentioned. Empty if the report agrees with its
        commitment, or one of them is absent."""
        if self.fallback:
            return {}
        in_report = extract_anchor(self.report)
        return {
            finding: in_report.polarity(finding)
            for finding, polarity in self.findings().items()
            if in_report.polarity(finding) != polarity
        }

    def contradictions(self) -> tuple[str, ...]:
        """Return the findings that the commitment affirms and the report denies, or the reverse."""
        listed = self.commitment if self.commitment is not None and not self.fallback else Anchor()
        return listed.contradicted(extract_anchor(self.report))

    def routing(self) -> dict[str, Routing]:
        """Return the routing by image: ``frontal``, and ``lateral`` if there is one."""
        if self.lateral is None:
            return {"frontal": self.frontal}
        return {"frontal": self.frontal, "lateral": self.lateral}

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
        }


def notes_of(results: Collection[Result]) -> list[str]:
    """Return the distinct notes of the results, followed by warnings about single reports, which
    begin with the context."""
    notes = [note for result in results for note in result.notes]
    for result in results:
        context = result.context.upper()
        mismatches = ", ".join(result.mismatches())
        if result.given and mismatches:
            notes.append(f"{context}: the report does not state as committed: {mismatches}")
        if not result.report:
            notes.append(f"{context}: empty report: no sentence agreed with the commitment")
        if result.fallback:
            notes.append(
                f"{context}: no report was found in the generated text; all of it is shown"
            )
        if result.truncated:
            notes.append(f"{context}: truncated at the token limit; the end may be missing")
    return list(dict.fromkeys(notes))


def unsupported_comparisons(report: str, prior: str | None) -> list[str]:
    """Return the findings of a cleaned report whose comparison does not fit the previous report. A
    new finding must not be affirmed or suspected in the previous report; one that is unchanged,
    larger or gone must be."""
    earlier = extract_anchor(prior or "")
    unsupported: list[str] = []
    for start, end in pairwise([0, *sentence_ends(report)]):
        sentence = report[start:end]
        wording = [sentence[first:last].lower() for first, last, _ in find_wording(sentence)]
        if not wording:
            continue
        is_new = any("new" in words for words in wording)
        for mention in find_mentions(sentence):
            in_prior = mention.finding in (*earlier.positive, *earlier.uncertain)
            if is_new and mention.polarity == "positive":
                is_unsupported = in_prior
            else:
                is_unsupported = not in_prior and not is_new and mention.polarity is not None
            if is_unsupported:
                unsupported.append(mention.finding)
    return list(dict.fromkeys(unsupported))
