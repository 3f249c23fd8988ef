"""Outputs of a run, read once for all sections of its report; and its example cases.

An example is one study in every context in which it was decoded, with the model's inputs,
commitment and report.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors.numpy import load_file

from pacer.commitments.anchor import Anchor
from pacer.config import Params
from pacer.core.contexts import CONTEXTS, SOURCES
from pacer.core.errors import DataError
from pacer.core.io import read_json, read_jsonl
from pacer.data.schemas import read_images, read_records
from pacer.display.numbers import number
from pacer.metrics.statistics.halves import LEAST_UNITS, PERCENT, too_few
from pacer.metrics.statistics.intervals import UNITS
from pacer.metrics.system import Scores
from pacer.reporting.html import RoutingOverlay, data_uri, read_grey, square_overlay
from pacer.reporting.marks import Said, Span, said, spans


@dataclass(frozen=True)
class Results:
    """The results of one run. ``predictions``: by record id. ``audits``: of corpus, pictures,
    emphasis and anchors. ``decoding``: the manifest of the predictions. ``routing``: depth weights
    ``[N, K]`` by ``<record_id>/<view>``; empty without a router."""

    params: Params
    records: pl.DataFrame
    image_paths: Mapping[str, str]
    audits: Sequence[Mapping[str, Any]]
    predictions: Mapping[str, dict]
    decoding: Mapping[str, Any]
    routing: Mapping[str, np.ndarray]
    scored: Scores

    @cached_property
    def decoded(self) -> pl.DataFrame:
        """The records that have a prediction. Raises a DataError if there are none."""
        decoded = self.records.filter(pl.col("record_id").is_in(list(self.predictions)))
        if decoded.is_empty():
            raise DataError(
                "no prediction matches a record of the corpus; decode again with this corpus"
            )
        return decoded

    @property
    def resampling(self) -> str:
        """How the intervals were made, in words."""
        intervals = self.scored.intervals
        units = UNITS[intervals.unit]
        note = f" {intervals.note}." if intervals.note else ""
        if intervals.units < LEAST_UNITS:
            return f"No intervals: {too_few(intervals.units, units)}.{note}"
        return (
            f"Intervals: {PERCENT}, from {number(intervals.resamples)} random splits of the "
            f"{number(intervals.units)} {units} into halves.{note}"
        )


def read_results(
    corpus: Path,
    anchors: Path,
    emphasis: Path,
    pictures: Path,
    predictions: Path,
    metrics: Path,
    params: Params,
) -> Results:
    """Read the output folders of the stages of these names. Raises a DataError if a file is missing
    or malformed."""
    scored = Scores.read(metrics)
    generated = [
        path for context in CONTEXTS if (path := predictions / f"{context}.jsonl").exists()
    ]
    if not generated:
        raise DataError(
            f"{predictions} holds no predictions; expected "
            f"{', '.join(f'{c}.jsonl' for c in CONTEXTS)}"
        )
    routing = predictions / "routing.safetensors"
    # without a router all weight is on the endpoint, so there is nothing to draw
    routed = routing.exists() and params.refine.variant != "endpoint"
    return Results(
        params=params,
        records=read_records(corpus / "records.parquet"),
        image_paths=dict(
            read_images(corpus / "images.parquet").select("image_id", "path").iter_rows()
        ),
        audits=[
            read_json(folder / "audit.json") for folder in (corpus, pictures, emphasis, anchors)
        ],
        predictions={row["record_id"]: row for path in generated for row in read_jsonl(path)},
        decoding=read_json(predictions / "manifest.json"),
        routing=load_file(routing) if routed else {},
        scored=scored,
    )


@dataclass(frozen=True)
class CaseImage:
    """One radiograph: its address on the page, and the maps over it if there are depth weights."""

    name: str
    address: str
    overlay: RoutingOverlay | None


@dataclass(frozen=True)
class ContextReport:
    """The model's report for one record, with its reference. ``record``, ``prediction``, ``score``:
    its rows of corpus, predictions and scored cases. ``sources``: in words. ``generated``,
    ``reference``: the texts with their marks."""

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
    """Return the studies that decoding marked as examples (``decode.examples``); raises as
    :func:`study_case`."""
    decoded = set(results.decoded["study_id"])
    return [
        study_case(results, study)
        for study in results.decoding.get("examples", [])
        if study in decoded
    ]


def study_case(results: Results, study: str) -> ExampleCase:
    """Return one decoded study, its reports in the order of contexts; raises a DataError if an
    image is missing."""
    scores = {
        row["record_id"]: row
        for row in results.scored.cases.filter(study_id=study).iter_rows(named=True)
    }
    rows = sorted(
        results.decoded.filter(study_id=study).to_dicts(),
        key=lambda row: CONTEXTS.index(row["context"]),
    )
    reports = []
    first: tuple[Said, Said] | tuple[None, None] = (None, None)
    for row in rows:
        prediction, score = results.predictions[row["record_id"]], scores.get(row["record_id"], {})
        wanted, written = row["report"], prediction["report"]
        reference, generated = said(wanted), said(written)
        commitment = None if prediction["anchor"] is None else Anchor.of_lists(prediction["anchor"])
        reports.append(
            ContextReport(
                row,
                SOURCES[row["context"]],
                prediction,
                score,
                commitment,
                reference=spans(wanted, "generated", {"": generated}, first[0]),
                generated=spans(written, "reference", {"": reference}, first[1], commitment),
            )
        )
        first = first if first[0] else (reference, generated)
    pictures = [
        _image(name, rows, results)
        for name in ("frontal", "lateral")
        if any(row[name] for row in rows)
    ]
    return ExampleCase(
        rows[0]["study_id"], rows[0]["subject_id"], rows[0]["view"], pictures, reports
    )


def _image(name: str, rows: Sequence[dict], results: Results) -> CaseImage:
    """Return a study's frontal or lateral radiograph, with the depth weights of the first record
    that has any."""
    image = next(row[name] for row in rows if row[name] is not None)
    grey = read_grey(Path(results.image_paths[image]))
    keys = (f"{row['record_id']}/{name}" for row in rows)
    weights = next((results.routing[key] for key in keys if key in results.routing), None)
    depths = (
        results.decoding.get("depths") or results.params.features.depths
    )  # earlier versions name none
    overlay = None if weights is None else square_overlay(name, grey, weights, depths)
    return CaseImage(name, data_uri(grey), overlay)
