"""Outputs of a run, which are read once for all sections of its report, and its example cases.

An example is one examination in every context in which it was decoded, with the model's inputs,
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

from pacer.config import Params
from pacer.core.anchor import Anchor
from pacer.core.contexts import CONTEXTS, SOURCES
from pacer.core.errors import DataError
from pacer.core.io import read_json, read_jsonl
from pacer.core.schemas import read_images, read_records
from pacer.display.numbers import number
from pacer.metrics.runs import short_hash
from pacer.reporting.html import RoutingOverlay, data_uri, read_grey, square_overlay
from pacer.reporting.marks import Span, Statements, spans, statements_of
from pacer.statistics.halves import LEAST_UNITS, PERCENT, UNITS, too_few
from pacer.statistics.system import Scores


@dataclass(frozen=True)
class Results:
    """The results of one run."""

    params: Params
    records: pl.DataFrame
    image_paths: Mapping[str, str]
    #: The audits of corpus, pictures, emphasis and commitments.
    audits: Sequence[Mapping[str, Any]]
    #: By record id.
    predictions: Mapping[str, dict]
    #: The manifest of the predictions.
    decoding: Mapping[str, Any]
    #: Depth weights ``[N, K]`` by ``<record_id>/<view>``; empty without a router.
    routing: Mapping[str, np.ndarray]
    scored: Scores
    #: The first characters of the hash of the file of the scores.
    scores_hash: str

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
        """A sentence on how the intervals were computed."""
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
    files = [f"{context}.jsonl" for context in CONTEXTS]
    generated = [predictions / name for name in files if (predictions / name).exists()]
    if not generated:
        raise DataError(f"{predictions} holds no predictions; expected {', '.join(files)}")
    routing = predictions / "routing.safetensors"
    # without a router all weight is on the endpoint, so there is nothing to draw
    has_routing = routing.exists() and params.refine.variant != "endpoint"
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
        routing=load_file(routing) if has_routing else {},
        scored=scored,
        scores_hash=short_hash(metrics),
    )


@dataclass(frozen=True)
class CaseImage:
    """One radiograph."""

    name: str
    #: Its address on the page.
    address: str
    #: The maps over it; None without depth weights.
    overlay: RoutingOverlay | None


@dataclass(frozen=True)
class ContextReport:
    """The model's report for one record, with its reference."""

    #: The row of the corpus.
    record: Mapping[str, Any]
    #: The sources in words.
    sources: str
    #: The row of the predictions.
    prediction: Mapping[str, Any]
    #: The row of the scored cases.
    score: Mapping[str, Any]
    commitment: Anchor | None
    #: The reference with its marks.
    reference: list[Span]
    #: The report with its marks.
    generated: list[Span]


@dataclass(frozen=True)
class ExampleCase:
    """One examination with its images and one report per context."""

    study_id: str
    subject_id: str
    view: str
    images: Sequence[CaseImage]
    reports: Sequence[ContextReport]


def example_cases(results: Results) -> list[ExampleCase]:
    """Return the examinations that decoding marked as examples (``decode.examples``); raises as
    :func:`study_case`."""
    decoded = set(results.decoded["study_id"])
    return [
        study_case(results, study)
        for study in results.decoding.get("examples", [])
        if study in decoded
    ]


def study_case(results: Results, study: str) -> ExampleCase:
    """Return one decoded examination, its reports in the order of contexts; raises a DataError if
    an image is missing."""
    scores = {
        row["record_id"]: row
        for row in results.scored.cases.filter(study_id=study).iter_rows(named=True)
    }
    rows = sorted(
        results.decoded.filter(study_id=study).to_dicts(),
        key=lambda row: CONTEXTS.index(row["context"]),
    )
    reports = []
    first: tuple[Statements, Statements] | tuple[None, None] = (None, None)
    for row in rows:
        prediction = results.predictions[row["record_id"]]
        reference = statements_of(row["report"])
        generated = statements_of(prediction["report"])
        commitment = None if prediction["anchor"] is None else Anchor.of_lists(prediction["anchor"])
        reports.append(
            ContextReport(
                row,
                SOURCES[row["context"]],
                prediction,
                scores.get(row["record_id"], {}),
                commitment,
                reference=spans(row["report"], "generated", {"": generated}, first[0]),
                generated=spans(
                    prediction["report"], "reference", {"": reference}, first[1], commitment
                ),
            )
        )
        if first[0] is None:
            first = (reference, generated)
    images = [
        _image(name, rows, results)
        for name in ("frontal", "lateral")
        if any(row[name] for row in rows)
    ]
    return ExampleCase(rows[0]["study_id"], rows[0]["subject_id"], rows[0]["view"], images, reports)


def _image(name: str, rows: Sequence[dict], results: Results) -> CaseImage:
    """Return the frontal or lateral radiograph of an examination, with the depth weights of the
    first record that has any."""
    image = next(row[name] for row in rows if row[name] is not None)
    grey = read_grey(Path(results.image_paths[image]))
    keys = (f"{row['record_id']}/{name}" for row in rows)
    weights = next((results.routing[key] for key in keys if key in results.routing), None)
    # manifests of earlier versions have no depths
    depths = results.decoding.get("depths") or results.params.features.depths
    overlay = None if weights is None else square_overlay(name, grey, weights, depths)
    return CaseImage(name, data_uri(grey), overlay)
