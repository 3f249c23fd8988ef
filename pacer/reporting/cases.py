"""Example cases: one study in every context it was decoded in, with what the model saw, committed to and wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.io import hash_bytes, read_jsonl
from pacer.metrics.chexbert.observations import OBSERVATIONS
from pacer.reporting import images
from pacer.reporting.routing import PRESENT, depth_names
from pacer.reporting.routing_figures import over_radiograph
from pacer.reporting.support import Piece, Statement, changes, pieces, statements
from pacer.reporting.tables import CONTEXT_SOURCES
from pacer.rules.version import Version

Commitment = Mapping[str, list[str]]


@dataclass(frozen=True)
class View:
    """One radiograph: its address on the page and, per depth, (label, mean weight, address of the routing map), with
    the files of the same: by ending ``svg`` text or ``png`` bytes."""

    name: str
    address: str
    maps: tuple[tuple[str, float, str], ...] = ()
    limit: float = 0.0
    files: Mapping[str, str | bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Reading:
    """What the model wrote for one record, beside its reference.

    ``generated``, ``reference``: cut where their support changes. ``gained``, ``lost``: statements that the generated
    report has and lacks against that of the first context. ``compares``: wording of comparison with an earlier
    examination in the generated report, and in the reference.
    """

    context: str
    sources: str
    reference: list[Piece]
    prior_report: str | None
    generated: list[Piece]
    gained: list[str]
    lost: list[str]
    compares: tuple[tuple[str, ...], tuple[str, ...]]
    fallback: bool
    gate: float | None
    commitment: Commitment | None
    rouge: float | None
    agreed: tuple[str, ...]
    missed: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    study_id: str
    subject_id: str
    view: str
    views: tuple[View, ...]
    readings: tuple[Reading, ...]


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


def example_cases(
    records: pl.DataFrame,
    predictions: Mapping[str, dict],
    routing: Mapping[str, np.ndarray],
    image_paths: Mapping[str, str],
    scored: pl.DataFrame | None,
    preferred: Sequence[str],
    count: int | None,
    version: Version,
    depths: Sequence[int] | None = None,
) -> list[Case]:
    """The cases to show.

    Args:
        records: the corpus; records without a prediction are passed over.
        image_paths: path of each image id. scored: ``cases.parquet``, where scores exist.
        preferred, count: see :func:`choose_studies`.
        version: of the rules that read reports. depths: encoder blocks of the depths on the routing maps; numbered
            when None.

    Raises:
        DataError: an image of a shown case is missing.
    """
    decoded = records.filter(pl.col("record_id").is_in(list(predictions)))
    chosen = choose_studies(decoded, preferred, count)
    scores = {} if scored is None else {row["record_id"]: row for row in scored.iter_rows(named=True)}
    cases = []
    for study in chosen:
        rows = {row["context"]: row for row in decoded.filter(pl.col("study_id") == study).iter_rows(named=True)}
        rows = {context: rows[context] for context in CONTEXTS if context in rows}
        readings = _readings(list(rows.values()), predictions, scores, version)
        any_row = next(iter(rows.values()))
        views = []
        for name in ("frontal", "lateral"):
            image_id = next((row[name] for row in rows.values() if row[name] is not None), None)
            if image_id is None:
                continue
            weights = next(
                (routing[key] for row in rows.values() if (key := f"{row['record_id']}/{name}") in routing), None
            )
            views.append(_view(name, image_id, image_paths, weights, depths))
        cases.append(Case(study, any_row["subject_id"], any_row["view"], tuple(views), readings))
    return cases


def _readings(
    rows: Sequence[dict], predictions: Mapping[str, dict], scores: Mapping[str, dict], version: Version
) -> tuple[Reading, ...]:
    said = [
        (statements(row["report"], version), statements(predictions[row["record_id"]]["report"], version))
        for row in rows
    ]
    return tuple(
        _reading(
            row,
            predictions[row["record_id"]],
            scores.get(row["record_id"], {}),
            own,
            said[0] if place else None,
            version,
        )
        for place, (row, own) in enumerate(zip(rows, said, strict=True))
    )


def _reading(
    record: dict,
    prediction: dict,
    score: dict,
    said: tuple[frozenset[Statement], frozenset[Statement]],
    first: tuple[frozenset[Statement], frozenset[Statement]] | None,
    version: Version,
) -> Reading:
    """One record. ``said``: statements of its reference and of its generated report; ``first``: those of the first
    context."""
    reference, generated = (_present(score.get(f"{side}_labels")) for side in ("reference", "hypothesis"))
    gained, lost = changes(said[1], first[1]) if first is not None else ([], [])
    return Reading(
        context=record["context"],
        sources=CONTEXT_SOURCES[record["context"]],
        reference=pieces(record["report"], "reference", said[1], version, first[0] if first else None),
        prior_report=record.get("prior_report"),
        generated=pieces(prediction["report"], "generated", said[0], version, first[1] if first else None),
        gained=gained,
        lost=lost,
        compares=(tuple(score.get("hypothesis_wording") or ()), tuple(score.get("reference_wording") or ())),
        fallback=bool(prediction["fallback"]),
        gate=prediction.get("gate"),
        commitment=prediction.get("anchor"),
        rouge=score.get("rougeL"),
        agreed=tuple(name for name in reference if name in generated),
        missed=tuple(name for name in reference if name not in generated),
        added=tuple(name for name in generated if name not in reference),
    )


def _present(labels: list[int] | None) -> tuple[str, ...]:
    """Observations that a label row counts as present; "No Finding" is no finding."""
    if labels is None:
        return ()
    pairs = zip(OBSERVATIONS, labels, strict=True)
    return tuple(name for name, label in pairs if label in PRESENT and name != "No Finding")


def _view(
    name: str, image_id: str, image_paths: Mapping[str, str], weights: np.ndarray | None, depths: Sequence[int] | None
) -> View:
    if image_id not in image_paths:
        raise DataError(f"image {image_id} is not in the table of images")
    grey = images.read_grey(Path(image_paths[image_id]))
    address = images.data_uri(grey)
    if weights is None:
        return View(name, address)
    maps = [
        (label, float(mean), images.data_uri(overlay))
        for label, mean, overlay in zip(
            depth_names(weights.shape[1], depths), weights.mean(axis=0), images.overlays(grey, weights), strict=True
        )
    ]
    svg, png = over_radiograph(grey, weights, depths, name)
    return View(name, address, tuple(maps), images.weight_range(weights), {"svg": svg, "png": png})


def finding_rates(scored: pl.DataFrame) -> dict[str, dict[str, float]]:
    """Share of records in which references and generated reports mention each observation as present."""
    rates = {}
    for index, name in enumerate(OBSERVATIONS):
        rates[name] = {
            side: scored[f"{column}_labels"].list.get(index).is_in(PRESENT).to_numpy().mean().item()
            for side, column in (("reference", "reference"), ("generated", "hypothesis"))
        }
    return rates
