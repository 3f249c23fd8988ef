"""Outputs of a run, read once for all sections of its report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors.numpy import load_file

from pacer.config import Params
from pacer.core.audits import number
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.io import read_json, read_jsonl
from pacer.data.schemas import read_images, read_records
from pacer.metrics.result import read_result
from pacer.metrics.signature import Signature
from pacer.metrics.statistics.bootstrap import LEAST_UNITS, PERCENT, too_few
from pacer.metrics.statistics.intervals import UNITS, Intervals, score_intervals
from pacer.reporting.signature import caution


@dataclass(frozen=True)
class Results:
    """The results of one run.

    Attributes:
        records: the corpus; predictions: by record id; cases: ``cases.parquet``, one row per scored record.
        audits: of corpus, emphasis and anchors. decoding: the manifest of the predictions.
        routing: depth weights ``[N, K]`` by ``<record_id>/<view>``; empty without a router.
        promise: content of ``promise.json``.
    """

    params: Params
    records: pl.DataFrame
    image_paths: Mapping[str, str]
    audits: Sequence[Mapping[str, Any]]
    predictions: Mapping[str, dict]
    decoding: Mapping[str, Any]
    routing: Mapping[str, np.ndarray]
    scores: Mapping[str, Any]
    signature: Signature
    cases: pl.DataFrame
    promise: Mapping[str, Any] | None = None

    @cached_property
    def decoded(self) -> pl.DataFrame:
        """The records that have a prediction.

        Raises:
            DataError: there are none.
        """
        decoded = self.records.filter(pl.col("record_id").is_in(list(self.predictions)))
        if decoded.is_empty():
            raise DataError("no prediction matches a record of the corpus; decode again with this corpus")
        return decoded

    @cached_property
    def note(self) -> str | None:
        """A warning if models are stand-ins."""
        return caution(self.signature)

    @property
    def convention(self) -> str:
        return self.signature.convention or "llm-rg4"

    @cached_property
    def intervals(self) -> Intervals:
        """Confidence intervals of the scores, by context."""
        return score_intervals(self.cases, self.convention, columns=self.signature.score_columns)

    @property
    def resampling(self) -> str:
        """How the intervals were made, in words."""
        intervals = self.intervals
        samples, units = number(intervals.resamples), f"{number(intervals.units)} {UNITS[intervals.unit]}"
        if intervals.units < LEAST_UNITS:
            return f"{too_few(intervals.units, UNITS[intervals.unit]).capitalize()}."
        return f"Intervals: {PERCENT}, percentiles of {samples} bootstrap samples of the {units}."


def read_results(
    corpus: Path, anchors: Path, emphasis: Path, predictions: Path, metrics: Path, params: Params
) -> Results:
    """Read the output folders of the stages of these names.

    Raises:
        DataError: a file is missing or malformed.
    """
    scores, cases, signature = read_result(metrics)
    generated = [path for context in CONTEXTS if (path := predictions / f"{context}.jsonl").exists()]
    if not generated:
        raise DataError(f"{predictions} holds no predictions; expected {', '.join(f'{c}.jsonl' for c in CONTEXTS)}")
    routing = predictions / "routing.safetensors"
    # without a router all weight is on the endpoint, so there is nothing to draw
    routed = routing.exists() and params.refine.variant != "endpoint"
    return Results(
        params=params,
        records=read_records(corpus / "records.parquet"),
        image_paths=dict(read_images(corpus / "images.parquet").select("image_id", "path").iter_rows()),
        audits=[read_json(folder / "audit.json") for folder in (corpus, emphasis, anchors)],
        predictions={row["record_id"]: row for path in generated for row in read_jsonl(path)},
        decoding=read_json(predictions / "manifest.json"),
        promise=read_json(predictions / "promise.json") if (predictions / "promise.json").is_file() else None,
        routing=load_file(routing) if routed else {},
        scores=scores,
        signature=signature,
        cases=cases,
    )
