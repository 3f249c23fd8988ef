"""Example cases: one study in every context in which it was decoded, with the model's inputs, commitment and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacer.commitments.anchor import Anchor
from pacer.core.contexts import CONTEXTS, SOURCES
from pacer.reporting.images import RoutingOverlay, data_uri, read_grey, square_overlay
from pacer.reporting.marks import Span, Statement, spans, statements

if TYPE_CHECKING:
    from pacer.reporting.results import Results


@dataclass(frozen=True)
class CaseImage:
    """One radiograph: its address on the page, and the maps over it if there are depth weights."""

    name: str
    address: str
    overlay: RoutingOverlay | None


@dataclass(frozen=True)
class ContextReport:
    """The model's report for one record, with its reference.

    ``record``, ``prediction``, ``score``: its rows of corpus, predictions and scored cases. ``sources``: in words.
    ``commitment``: the prediction's; None without one. ``generated``, ``reference``: the texts with their marks.
    """

    record: Mapping[str, Any]
    sources: str
    prediction: Mapping[str, Any]
    score: Mapping[str, Any]
    commitment: Anchor | None
    reference: list[Span]
    generated: list[Span]


@dataclass(frozen=True)
class ExampleCase:
    """One study with its images and one report per context."""

    study_id: str
    subject_id: str
    view: str
    images: Sequence[CaseImage]
    reports: Sequence[ContextReport]


def example_cases(results: Results) -> list[ExampleCase]:
    """Return the studies that decoding marked as examples (``decode.examples`` sets their number).

    Raises:
        DataError: an image of a shown case is missing.
    """
    decoded = set(results.decoded["study_id"])
    return [study_case(results, study) for study in results.decoding.get("examples", []) if study in decoded]


def study_case(results: Results, study: str) -> ExampleCase:
    """Return one decoded study, its reports in the order of contexts.

    Raises:
        DataError: an image of it is missing.
    """
    scores = {row["record_id"]: row for row in results.cases.filter(study_id=study).iter_rows(named=True)}
    rows = sorted(results.decoded.filter(study_id=study).to_dicts(), key=lambda row: CONTEXTS.index(row["context"]))
    reports = []
    first: tuple[frozenset[Statement], ...] = ()
    for row in rows:
        prediction, score = results.predictions[row["record_id"]], scores.get(row["record_id"], {})
        wanted, written = row["report"], prediction["report"]
        reference, generated = stated = statements(wanted), statements(written)
        first = first or stated
        commitment = None if prediction["anchor"] is None else Anchor.of_lists(prediction["anchor"])
        reports.append(
            ContextReport(
                row,
                SOURCES[row["context"]],
                prediction,
                score,
                commitment,
                reference=spans(wanted, "generated", generated, first[0]),
                generated=spans(written, "reference", reference, first[1], commitment),
            )
        )
    pictures = [_image(name, rows, results) for name in ("frontal", "lateral") if any(row[name] for row in rows)]
    return ExampleCase(rows[0]["study_id"], rows[0]["subject_id"], rows[0]["view"], pictures, reports)


def _image(name: str, rows: Sequence[dict], results: Results) -> CaseImage:
    """Return a study's frontal or lateral radiograph, with the depth weights of the first record that has any."""
    image = next(row[name] for row in rows if row[name] is not None)
    grey = read_grey(Path(results.image_paths[image]))
    keys = (f"{row['record_id']}/{name}" for row in rows)
    weights = next((results.routing[key] for key in keys if key in results.routing), None)
    overlay = None if weights is None else square_overlay(name, grey, weights, results.params.features.depths)
    return CaseImage(name, data_uri(grey), overlay)
