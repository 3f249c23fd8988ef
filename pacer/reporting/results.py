"""Outputs of a run, which are read once for all sections of its report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors.numpy import load_file

from pacer.config import Params
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.io import read_json, read_jsonl
from pacer.core.schemas import read_images, read_records
from pacer.display.numbers import number
from pacer.metrics.runs import short_hash
from pacer.reporting.charts import Curves
from pacer.statistics.halves import LEAST_UNITS, PERCENT, UNITS, too_few
from pacer.statistics.system import Scores

PHASES = ("warmup", "parent", "calibrate")
#: Most points of a curve on the page.
POINTS = 200


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
    #: The losses of each phase that was trained here.
    curves: Mapping[str, Curves]

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
        image_paths=image_paths(corpus / "images.parquet"),
        audits=[
            read_json(folder / "audit.json") for folder in (corpus, pictures, emphasis, anchors)
        ],
        predictions={row["record_id"]: row for path in generated for row in read_jsonl(path)},
        decoding=read_json(predictions / "manifest.json"),
        routing=load_file(routing) if has_routing else {},
        scored=scored,
        scores_hash=short_hash(metrics),
        curves=_curves(metrics),
    )


def image_paths(images: Path) -> dict[str, str]:
    """Return the path of each image in the table of a corpus."""
    return dict(read_images(images).select("image_id", "path").iter_rows())


def _curves(metrics: Path) -> dict[str, Curves]:
    """Return the losses of the phases whose curves are in their folders of ``metrics``."""
    folders = {phase: metrics / phase / "plots" / "metrics" for phase in PHASES}
    return {
        phase: Curves(
            _curve(folder / "loss.tsv"),
            {
                context: _curve(folder / "validation" / f"{context}.tsv")
                for context in CONTEXTS
                if (folder / "validation" / f"{context}.tsv").is_file()
            },
        )
        for phase, folder in folders.items()
        if (folder / "loss.tsv").is_file()
    }


def _curve(path: Path) -> tuple[list[float], list[float]]:
    """Return the updates and values of a curve, as means of neighbours if it has more than
    :data:`POINTS` points."""
    table = pl.read_csv(path, separator="\t", glob=False)
    together = len(table) // POINTS + 1
    rows = table.group_by(pl.int_range(pl.len()) // together, maintain_order=True).mean()
    return rows["step"].to_list(), rows[table.columns[1]].to_list()
