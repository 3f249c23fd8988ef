"""Example cases: one study in every context it was decoded in, with what the model saw, committed to and wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pacer.core.contexts import CONTEXTS, SOURCES
from pacer.core.errors import DataError
from pacer.core.hygiene import file_name
from pacer.core.io import read_jsonl
from pacer.metrics.chexbert.observations import OBSERVATIONS, POSITIVE, UNCERTAIN
from pacer.reporting import images
from pacer.reporting.routing import over_radiograph
from pacer.reporting.section import Figure
from pacer.reporting.support import Piece, pieces, statements

if TYPE_CHECKING:
    from pacer.reporting.results import Results


@dataclass(frozen=True)
class CaseImage:
    """One radiograph: its address on the page, and the maps over it where there are depth weights."""

    name: str
    address: str
    maps: Figure | None = None


@dataclass(frozen=True)
class ContextReport:
    """What the model wrote for one record, beside its reference.

    ``record``, ``prediction``, ``score``: its rows of corpus, predictions and scored cases. ``generated``,
    ``reference``: cut where their support changes. ``labels``: by heading, what the labeller finds in either.
    """

    record: Mapping[str, Any]
    prediction: Mapping[str, Any]
    score: Mapping[str, Any]
    reference: list[Piece]
    generated: list[Piece]
    labels: Mapping[str, Sequence[str]]

    @property
    def sources(self) -> str:
        """The sources of its context in words."""
        return SOURCES[self.record["context"]]


@dataclass(frozen=True)
class ExampleCase:
    """One study with its images and a report per context."""

    study_id: str
    subject_id: str
    view: str
    views: tuple[CaseImage, ...]
    readings: tuple[ContextReport, ...]

    @property
    def figures(self) -> list[Figure]:
        return [view.maps for view in self.views if view.maps is not None]


def predictions_by_id(directory: Path) -> dict[str, dict]:
    """All predictions of the main run, by record id.

    Raises:
        DataError: the directory holds no predictions of any context.
    """
    found = [path for context in CONTEXTS if (path := Path(directory) / f"{context}.jsonl").exists()]
    if not found:
        raise DataError(f"{directory} holds no predictions; expected {', '.join(f'{c}.jsonl' for c in CONTEXTS)}")
    return {row["record_id"]: row for path in found for row in read_jsonl(path)}


def example_cases(results: Results) -> list[ExampleCase]:
    """The studies that decoding marked, as many as ``decode.examples`` says.

    Raises:
        DataError: an image of a shown case is missing.
    """
    scores = {row["record_id"]: row for row in results.cases.iter_rows(named=True)}
    rows = results.decoded.rows_by_key("study_id", named=True, include_key=True)
    return [
        _case(sorted(rows[study], key=lambda row: CONTEXTS.index(row["context"])), results, scores)
        for study in results.decoding.get("examples", [])
        if study in rows
    ]


def _case(rows: Sequence[dict], results: Results, scores: Mapping[str, dict]) -> ExampleCase:
    """One study; ``rows``: its records, in the order of contexts."""
    predictions = results.predictions
    said = [(statements(row["report"]), statements(predictions[row["record_id"]]["report"])) for row in rows]
    readings = []
    for row, (reference, generated) in zip(rows, said, strict=True):
        prediction, score = predictions[row["record_id"]], scores.get(row["record_id"], {})
        first = said[0] if row is not rows[0] else (None, None)
        expected, found = (_present(score.get(f"{side}_labels")) for side in ("reference", "hypothesis"))
        readings.append(
            ContextReport(
                row,
                prediction,
                score,
                reference=pieces(row["report"], "reference", generated, first[0]),
                generated=pieces(prediction["report"], "generated", reference, first[1]),
                labels={
                    "Labeller: agreed": [name for name in expected if name in found],
                    "Labeller: missed": [name for name in expected if name not in found],
                    "Labeller: added": [name for name in found if name not in expected],
                },
            )
        )
    views = []
    for name in ("frontal", "lateral"):
        image = next((row[name] for row in rows if row[name] is not None), None)
        if image is not None:
            keys = (f"{row['record_id']}/{name}" for row in rows)
            weights = next((results.routing[key] for key in keys if key in results.routing), None)
            views.append(_view(rows[0]["study_id"], name, image, results, weights))
    return ExampleCase(rows[0]["study_id"], rows[0]["subject_id"], rows[0]["view"], tuple(views), tuple(readings))


def _present(labels: list[int] | None) -> tuple[str, ...]:
    """Observations that a label row counts as present; "No Finding" is no finding."""
    if labels is None:
        return ()
    pairs = zip(OBSERVATIONS, labels, strict=True)
    return tuple(name for name, label in pairs if label in (POSITIVE, UNCERTAIN) and name != "No Finding")


def _view(study: str, name: str, image: str, results: Results, weights: np.ndarray | None) -> CaseImage:
    if image not in results.image_paths:
        raise DataError(f"image {image} is not in the table of images")
    grey = images.read_grey(Path(results.image_paths[image]))
    maps = None
    if weights is not None:
        svg, png = over_radiograph(grey, weights, results.params.features.depths, name)
        caption = f"{name} radiograph with the depth weights of each patch: red is more, blue less than the even share"
        maps = Figure(f"case-{file_name(study)}-{name}", svg, caption.capitalize(), png)
    return CaseImage(name, images.data_uri(grey), maps)
