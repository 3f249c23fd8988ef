"""Example cases: one study in every context it was decoded in, with what the model saw, committed to and wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from pacer.core.contexts import CONTEXTS, SOURCES
from pacer.core.errors import DataError
from pacer.core.hygiene import file_name
from pacer.core.io import hash_bytes, read_jsonl
from pacer.metrics.chexbert.observations import OBSERVATIONS
from pacer.reporting import images
from pacer.reporting.routing import PRESENT, depth_names, over_radiograph
from pacer.reporting.support import Piece, changes, pieces, statements

if TYPE_CHECKING:
    from pacer.reporting.results import Results

Commitment = Mapping[str, list[str]]


@dataclass(frozen=True)
class CaseImage:
    """One radiograph: its address on the page and, per depth, (label, mean weight, address of the routing map), with
    the content of the files of the same, by ending."""

    name: str
    address: str
    maps: tuple[tuple[str, float, str], ...] = ()
    limit: float = 0.0
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class ContextReport:
    """What the model wrote for one record, beside its reference.

    ``generated``, ``reference``: cut where their support changes. ``compares``: wording of comparison with an earlier
    examination in the generated report, and in the reference. ``differences``: by heading, what the generated report
    says and no longer says against that of the first context, and what the labeller finds in it and the reference.
    """

    context: str
    reference: list[Piece]
    prior_report: str | None
    generated: list[Piece]
    compares: tuple[tuple[str, ...], tuple[str, ...]]
    fallback: bool
    gate: float | None
    commitment: Commitment | None
    rouge: float | None
    differences: Mapping[str, Sequence[str]]

    @property
    def sources(self) -> str:
        return SOURCES[self.context]


@dataclass(frozen=True)
class ExampleCase:
    study_id: str
    subject_id: str
    view: str
    views: tuple[CaseImage, ...]
    readings: tuple[ContextReport, ...]

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Name and content of the drawings of its radiographs."""
        for view in self.views:
            for ending, content in view.files.items():
                yield f"case-{file_name(self.study_id)}-{view.name}.{ending}", content


def predictions_by_id(directory: Path) -> dict[str, dict]:
    """All predictions of the main run, by record id.

    Raises:
        DataError: the directory holds no predictions of any context.
    """
    found = [path for context in CONTEXTS if (path := Path(directory) / f"{context}.jsonl").exists()]
    if not found:
        raise DataError(f"{directory} holds no predictions; expected {', '.join(f'{c}.jsonl' for c in CONTEXTS)}")
    return {row["record_id"]: row for path in found for row in read_jsonl(path)}


def choose_studies(records: pl.DataFrame, preferred: Sequence[str], count: int | None) -> list[str]:
    """Studies to show: the preferred ones, then those decoded in most contexts, in an order fixed by their ids.

    Args:
        records: decoded records: ``study_id``. preferred: studies whose routing the decoding kept.
        count: at most so many; None: the preferred ones alone.
    """
    contexts = dict(records.group_by("study_id").len().iter_rows())
    first = [study for study in preferred if study in contexts]
    if count is None:
        return first
    others = sorted(set(contexts) - set(first), key=lambda study: (-contexts[study], hash_bytes(str(study).encode())))
    return [*first, *others][:count]


def example_cases(results: Results) -> list[ExampleCase]:
    """The studies to show, as many as ``results.examples`` says.

    Raises:
        DataError: an image of a shown case is missing.
    """
    chosen = choose_studies(results.decoded, results.decoding.get("examples", []), results.examples)
    scores = {row["record_id"]: row for row in results.cases.iter_rows(named=True)}
    rows = results.decoded.rows_by_key("study_id", named=True, include_key=True)
    return [
        _case(sorted(rows[study], key=lambda row: CONTEXTS.index(row["context"])), results, scores) for study in chosen
    ]


def _case(rows: Sequence[dict], results: Results, scores: Mapping[str, dict]) -> ExampleCase:
    """One study; ``rows``: its records, in the order of contexts."""
    predictions = results.predictions
    said = [(statements(row["report"]), statements(predictions[row["record_id"]]["report"])) for row in rows]
    readings = []
    for row, (reference, generated) in zip(rows, said, strict=True):
        prediction, score = predictions[row["record_id"]], scores.get(row["record_id"], {})
        first = said[0] if row is not rows[0] else (None, None)
        gained, lost = changes(generated, first[1]) if first[1] is not None else ([], [])
        expected, found = (_present(score.get(f"{side}_labels")) for side in ("reference", "hypothesis"))
        readings.append(
            ContextReport(
                context=row["context"],
                reference=pieces(row["report"], "reference", generated, first[0]),
                prior_report=row.get("prior_report"),
                generated=pieces(prediction["report"], "generated", reference, first[1]),
                compares=(tuple(score.get("hypothesis_wording") or ()), tuple(score.get("reference_wording") or ())),
                fallback=bool(prediction["fallback"]),
                gate=prediction.get("gate"),
                commitment=prediction.get("anchor"),
                rouge=score.get("rougeL"),
                differences={
                    "Says, unlike the first context": gained,
                    "No longer says": lost,
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
            views.append(_view(name, image, results.image_paths, weights, results.params.features.depths))
    return ExampleCase(rows[0]["study_id"], rows[0]["subject_id"], rows[0]["view"], tuple(views), tuple(readings))


def _present(labels: list[int] | None) -> tuple[str, ...]:
    """Observations that a label row counts as present; "No Finding" is no finding."""
    if labels is None:
        return ()
    pairs = zip(OBSERVATIONS, labels, strict=True)
    return tuple(name for name, label in pairs if label in PRESENT and name != "No Finding")


def _view(
    name: str, image_id: str, image_paths: Mapping[str, str], weights: np.ndarray | None, depths: Sequence[int]
) -> CaseImage:
    if image_id not in image_paths:
        raise DataError(f"image {image_id} is not in the table of images")
    grey = images.read_grey(Path(image_paths[image_id]))
    address = images.data_uri(grey)
    if weights is None:
        return CaseImage(name, address)
    overlays = images.overlays(grey, weights)
    means = (float(mean) for mean in weights.mean(axis=0))
    names = depth_names(weights.shape[1], depths)
    maps = tuple(zip(names, means, map(images.data_uri, overlays), strict=True))
    svg, png = over_radiograph(grey, weights, depths, name)
    return CaseImage(name, address, maps, images.weight_range(weights), {"svg": svg.encode(), "png": png})
