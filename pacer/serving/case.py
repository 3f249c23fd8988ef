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
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from PIL import Image

from pacer.commitments.anchor import POLARITIES, Anchor
from pacer.commitments.rules.extract import extract_anchor, find_mentions
from pacer.core.contexts import Context, availability, context_of
from pacer.core.errors import DataError
from pacer.data.cleaning import sentence_ends
from pacer.data.dicom import header_view
from pacer.data.hygiene import LINE_ENDS, fault_of, is_absent
from pacer.data.radiographs import as_radiograph, read_image
from pacer.data.readers.views import View, parse_view
from pacer.data.values import shown
from pacer.data.wording import find_wording
from pacer.display.numbers import number
from pacer.display.tables import Displayed, Table

if TYPE_CHECKING:
    from torch import Tensor

    from pacer.reading.maps import AttributeChances, Probabilities

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
    return read_image(io.BytesIO(content), name, FORMATS), parse_view(
        header_view(io.BytesIO(content))[0]
    )


def load_text(text: str | None, name: str) -> str | None:
    """Return a text, with a space for each vertical tab and form feed; None if it has no visible
    character or only says that there is no text (``N/A``). Raises a DataError if the text is too
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


Direction = Literal["AP", "PA", "other"]
Sections = Literal["findings+impression", "findings", "impression"]

NOTICE = "For research only. Not for clinical decisions."
#: Note for a model that was trained on a generated corpus.
GENERATED_NOTE = (
    "this model was trained only on generated images and reports; its output for "
    "real radiographs is meaningless"
)


def _advice(source: object) -> str:
    """Return how to pass an image that is given in another form."""
    if hasattr(source, "read"):
        return "; pass what its method `read` returns"
    if isinstance(source, dict) and "bytes" in source:
        return '; of a picture that Hugging Face has not decoded, pass the value of "bytes"'
    return ""


@dataclass(frozen=True)
class Case:
    """The sources of one examination.

    Attributes:
        frontal, lateral: a path, the bytes of a file or a Pillow image.
        prior: the previous report as written. indication, history: likewise. A text without a
            visible character counts as absent, and so does an empty cell of pandas (NaN).
        view: of the frontal image, AP or PA. None: read from its DICOM file, else unknown
            (``other``).
        sections: those requested. None: those that the model was trained to write.
        commitment: findings that the report is written for, as
            :func:`~pacer.commitments.anchor.read_list` takes them. None: the model's.
        name: identifies the case in messages and results.

    Raises a DataError if a source is of another kind.
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
                what = "previous report" if field.name == "prior" else field.name
                raise DataError(f"{what} of {self.name}: expected text, got {shown(value)}")

    def images(self) -> dict[str, ImageSource]:
        """Return the images by name: ``frontal``, and ``lateral`` if there is one."""
        return {"frontal": self.frontal} | (
            {} if self.lateral is None else {"lateral": self.lateral}
        )


@dataclass(frozen=True)
class Prepared:
    """A checked case: images [1 or 3, H, W] uint8 as the encoder sees them, texts as the model
    reads them, and ``notes`` about the files."""

    name: str
    frontal: Tensor
    lateral: Tensor | None
    prior: str | None
    indication: str | None
    history: str | None
    view: Direction
    sections: Sections
    notes: tuple[str, ...]
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
    """The encoder depths from which the model took the evidence in one image.

    Attributes:
        image: the encoder's input, resized and cropped: [H, W] or [H, W, 3] uint8. weights: [rows,
            columns, K] float32, depth weights of each patch, which sum to 1; patch (r, c) covers
            the pixels from ``(r * H / rows, c * W / columns)``. depths: encoder block of each of
            the K weights, counted from 1.
    """

    image: np.ndarray
    weights: np.ndarray
    depths: tuple[int, ...]

    def means(self) -> dict[int, float]:
        """Return the mean weight of each depth."""
        return {
            depth: float(mean)
            for depth, mean in zip(self.depths, self.weights.mean((0, 1)), strict=True)
        }


@dataclass(frozen=True, repr=False)
class Result(Displayed):
    """The model's result for one case.

    Attributes:
        report: only the report. generated: the raw text, including commitment and markers.
        commitment: positive, negative and uncertain findings stated before the report; None if
            there is no commitment (a model without Commit, or a text without one).
        fallback: whether no report was found in the text, so that ``report`` is the whole text.
        truncated: whether the token limit was reached, so the end may be missing. tokens: number
            generated.
        notes: sentences about anything unexpected: DICOM files that name another view or part of
            the body, and notes that apply to every report of the model.
        gate: of Calibrate, 0 to 1; None without it. frontal, lateral: routing; ``lateral`` is None
        without that view. context, view, sections: what the model was given and asked for.
        probabilities: of each finding, as read from the sources; None without the stage
            ``findings``.
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
    view: Direction
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
            rows += [
                (polarity, ", ".join(map(own.text, getattr(own, polarity))))
                for polarity in POLARITIES
            ]
        rows += [("contradicted by the report", ", ".join(self.contradictions()))] * bool(
            self.contradictions()
        )
        cells = (*rows, ("gate", number(self.gate)))
        return Table((self.context.upper(), self.name), cells, text_columns=2, notes=self.notes)

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

    def departures(self) -> dict[str, str | None]:
        """Return each finding of the commitment to which the report gives another polarity, with
        that polarity as the rules read it; None: not mentioned. Empty if the report agrees with its
        commitment, or one of them is absent."""
        committed, read = {} if self.fallback else self.findings(), extract_anchor(self.report)
        return {
            finding: read.polarity(finding)
            for finding in committed
            if read.polarity(finding) != committed[finding]
        }

    def contradictions(self) -> tuple[str, ...]:
        """Return the findings that the commitment affirms and the report denies, or the reverse."""
        listed = self.commitment if self.commitment is not None and not self.fallback else Anchor()
        return listed.contradicted(extract_anchor(self.report))

    def routing(self) -> dict[str, Routing]:
        """Return the routing by image: ``frontal``, and ``lateral`` if there is one."""
        return {"frontal": self.frontal} | (
            {} if self.lateral is None else {"lateral": self.lateral}
        )

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
    """Return the results' notes without repeats, then warnings about single reports, which begin
    with the context."""
    notes = [note for result in results for note in result.notes]
    for result in results:
        if result.given and (departures := result.departures()):
            notes.append(
                f"{result.context.upper()}: the report does not state as committed: "
                f"{', '.join(departures)}"
            )
        if not result.report:
            notes.append(
                f"{result.context.upper()}: empty report: no sentence agreed with the list"
            )
        if result.fallback:
            notes.append(
                f"{result.context.upper()}: no report was found in the generated text; all of it "
                "is shown"
            )
        if result.truncated:
            notes.append(
                f"{result.context.upper()}: truncated at the token limit; the end may be missing"
            )
    return list(dict.fromkeys(notes))


def unsupported_comparisons(report: str, prior: str | None) -> list[str]:
    """Return the findings whose comparison in a cleaned report does not fit the previous report:
    that one has what is called new, or does not affirm or suspect what is called unchanged, larger
    or gone."""
    earlier = extract_anchor(prior or "")
    unsupported, start = dict[str, None](), 0
    for end in sentence_ends(report):
        sentence, start = report[start:end], end
        wording = [sentence[first:last].lower() for first, last, _ in find_wording(sentence)]
        is_new = any("new" in words for words in wording)
        for mention in find_mentions(sentence) if wording else ():
            known = mention.finding in {*earlier.positive, *earlier.uncertain}
            if (
                known
                if is_new and mention.polarity == "positive"
                else not known and not is_new and mention.polarity
            ):
                unsupported[mention.finding] = None
    return list(unsupported)
