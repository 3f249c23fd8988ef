"""The model card: what an exported model is, its training data, and what it must not be used for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.contexts import CONTEXTS, SOURCES
from pacer.core.pointers import is_standin
from pacer.data.schemas import read_about, read_records
from pacer.model.checkpoint import CheckpointRecord
from pacer.reporting.html import render
from pacer.serving.package import PackageSettings


def model_card(
    record: CheckpointRecord,
    settings: PackageSettings,
    records: Path,
    origins: Mapping[str, Mapping[str, Any]],
    *,
    with_backbones: bool,
) -> str:
    """Return the card in Markdown, from ``templates/card.md``.

    Args:
        records: ``records.parquet``. origins: provenance of each frozen model.
    """
    counts = {
        (split, context): count
        for split, context, count in read_records(records).group_by("split", "context").agg(pl.len()).iter_rows()
    }
    card = render(
        "card.md",
        Path(__file__).parent / "templates",
        record=record,
        settings=settings,
        sources=SOURCES,
        gate_inputs=record.model.calibrate.gate_inputs if record.model.calibrate else "none",
        with_backbones=with_backbones,
        origins={name: _origin(dict(origin)) for name, origin in origins.items()},
        about=read_about(records),
        contexts=[context for context in CONTEXTS if any(context == known for _, known in counts)],
        counts=counts,
    )
    return f"{card}\n"


def _origin(origin: dict[str, Any]) -> str:
    if is_standin(origin):
        recipe = f": {origin['model']}, trained on {origin['data']}" if {"model", "data"} <= origin.keys() else ""
        return f"a small stand-in made by the pipeline{recipe}"
    if origin.get("provider") == "hub":
        return f"{origin.get('id')}, revision {origin.get('commit') or origin.get('revision')}"
    return f"provider {origin.get('provider', 'unknown')}"
