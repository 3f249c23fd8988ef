"""Examples: the images of one examination, and reports on it beside their references, as the report
page, `pacer show` and the page of `pacer serve` draw them (``templates/macros.html``)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pacer.core.anchor import Anchor
from pacer.core.contexts import CONTEXTS, SOURCES
from pacer.reporting.html import RoutingOverlay, data_uri, read_grey, square_overlay
from pacer.reporting.marks import Span, beside
from pacer.reporting.results import Results
from pacer.text.rules import extract_anchor


class Picture(NamedTuple):
    """A radiograph."""

    #: Frontal or lateral.
    name: str
    #: Its address on the page.
    address: str
    #: The maps over it; None without depth weights.
    overlay: RoutingOverlay | None = None


class Reading(NamedTuple):
    """A report, and what belongs to it."""

    #: What the report was written from, or by.
    title: str
    #: The sources in words, if the title does not name them.
    sources: str
    report: Sequence[Span]
    #: None: there is no reference.
    reference: Sequence[Span] | None = None
    prior_report: str | None = None
    #: None: the model states no commitment, or it could not be read.
    commitment: Anchor | None = None
    #: The findings in which the report states the opposite of its commitment.
    contradicted: Sequence[str] = ()
    #: The gate of Calibrate, 0 to 1; None without it.
    gate: float | None = None
    #: Whether no report was found in the generated text, all of which is shown.
    fallback: bool = False


class Example(NamedTuple):
    """One examination."""

    title: str
    #: Its patient and view.
    note: str
    pictures: Sequence[Picture]
    #: Rows of reports side by side.
    rows: Sequence[Sequence[Reading]]


def pictures(
    rows: Sequence[Mapping[str, Any]],
    paths: Mapping[str, str],
    routing: Mapping[str, np.ndarray],
    depths: Sequence[int],
) -> list[Picture]:
    """Return the radiographs of an examination whose files are on this machine. ``rows``: its
    records; ``routing``: depth weights by ``<record_id>/<view>``, of which the first are drawn."""
    found: list[Picture] = []
    for view in ("frontal", "lateral"):
        path = next((Path(paths[row[view]]) for row in rows if row.get(view) in paths), None)
        if path is None or not path.is_file():
            continue
        grey = read_grey(path)
        keys = [f"{row.get('record_id')}/{view}" for row in rows]
        weights = next((routing[key] for key in keys if key in routing), None)
        overlay = None if weights is None else square_overlay(grey, weights, depths)
        found.append(Picture(view, data_uri(grey), overlay))
    return found


def run_examples(results: Results) -> list[Example]:
    """Return the examinations that decoding marked as examples (``decode.examples``), in every
    context in which they were decoded."""
    return [
        _run_example(results, study)
        for study in results.decoding.get("examples", [])
        if study in results.decoded["study_id"]
    ]


def _run_example(results: Results, study: str) -> Example:
    rows = sorted(
        results.decoded.filter(study_id=study).to_dicts(),
        key=lambda row: CONTEXTS.index(row["context"]),
    )
    view = f", {rows[0]['view']}" if rows[0]["view"] in ("AP", "PA") else ""
    # manifests of earlier versions have no depths
    depths = results.decoding.get("depths") or results.params.features.depths
    return Example(
        f"Study {study}",
        f"patient {rows[0]['subject_id']}{view}",
        pictures(rows, results.image_paths, results.routing, depths),
        [[_run_reading(row, results.predictions[row["record_id"]]) for row in rows]],
    )


def _run_reading(record: Mapping[str, Any], prediction: Mapping[str, Any]) -> Reading:
    reference, report = beside(record["report"], prediction["report"])
    commitment = None if prediction["anchor"] is None else Anchor.of_lists(prediction["anchor"])
    contradicted = (
        () if commitment is None else commitment.contradicted(extract_anchor(prediction["report"]))
    )
    return Reading(
        record["context"].upper(),
        SOURCES[record["context"]],
        report,
        reference,
        record["prior_report"],
        commitment,
        contradicted,
        prediction.get("gate"),
        prediction["fallback"],
    )
