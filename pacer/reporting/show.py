"""A page that shows one study by some systems with the reference, context by context, as in the paper's Figure 2."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.contexts import CONTEXTS, SOURCES, WITH_SOURCE
from pacer.core.errors import DataError
from pacer.core.io import hash_json, write_text
from pacer.data.schemas import read_images, read_records
from pacer.metrics.cases import UNKNOWN
from pacer.metrics.statistics.comparison import read_run
from pacer.reporting.html import data_uri, read_grey, render
from pacer.reporting.marks import Statement, spans, statements


def show_study(
    study: str, systems: Sequence[tuple[str, Path]], contexts: Sequence[str], records: Path, images: Path, out: Path
) -> Path:
    """Write the page of a study, or of one examination, into ``out``, and return its path.

    Args:
        systems: name and folder of each scored run. contexts: to show; none: all in which every system has a report.
        records, images: tables of the corpus, for radiographs and previous reports.

    Raises:
        DataError: a system has no report of the study in a context, or several, or the systems' references differ.
    """
    known = _of_study(read_records(records), study) if records.is_file() else []
    corpus = {row["record_id"]: row for row in known}
    by_system = [_reports(place, study) for _, place in systems]
    shared = [name for name in (*CONTEXTS, UNKNOWN) if all(name in rows for rows in by_system)]
    contexts = contexts or shared or list(by_system[0])[:1]
    reports = [_chosen(rows, place, study, contexts) for rows, (_, place) in zip(by_system, systems, strict=True)]
    readings: list[dict[str, Any]] = []
    first: list[frozenset[Statement]] = []
    for context, *rows in zip(contexts, *reports, strict=True):
        texts = [rows[0]["reference"], *(row["hypothesis"] for row in rows)]
        if any(row["reference"] != texts[0] for row in rows):
            names = " and ".join(name for name, _ in systems)
            raise DataError(
                f"{names} have different references for study {study} in context {context}; score both against the "
                "same references"
            )
        reference, *generated = stated = [statements(text) for text in texts]
        first = first or stated
        by_name = dict(zip((name for name, _ in systems), generated, strict=True))
        marked = [spans(texts[0], "generated", frozenset().union(*generated), first[0], named=by_name)]
        marked += [
            spans(text, "reference", reference, before) for text, before in zip(texts[1:], first[1:], strict=True)
        ]
        prior_report = corpus.get(rows[0]["record_id"], {}).get("prior_report")
        readings.append(
            {"context": context, "sources": SOURCES.get(context, ""), "prior_report": prior_report, "texts": marked}
        )
    views = _views([corpus[row["record_id"]] for row in reports[0] if row["record_id"] in corpus], images)
    with_lateral = [context.upper() for context in contexts if context in WITH_SOURCE[1]]
    name = re.sub(r"[^A-Za-z0-9_-]", "_", study)[:80]
    path = out / f"study-{name if name == study else f'{name}-{hash_json(study)[:8]}'}.html"
    write_text(
        path, render("show.html", study=study, systems=systems, views=views, given=with_lateral, readings=readings)
    )
    return path


def _of_study(table: pl.DataFrame, study: str) -> list[dict[str, Any]]:
    examination = pl.col("record_id") == pl.concat_str("context", pl.lit(f"-{study}"))
    return table.filter(pl.any_horizontal(pl.col("study_id", "record_id") == study, examination)).to_dicts()


def _reports(place: Path, study: str) -> dict[str, dict[str, Any]]:
    """Return a system's case of the study by context."""
    by_context: dict[str, dict[str, Any]] = {}
    for row in _of_study(read_run(place)[0], study):
        other = by_context.setdefault(row["context"], row)
        if other is not row:
            several = f"{other['record_id']} and {row['record_id']}"
            raise DataError(f"{place} has several reports for study {study}: {several}; pass one of these ids")
    if not by_context:
        raise DataError(f"{place} has no report for study {study}; pass a study id or a record id of its cases")
    return by_context


def _chosen(
    by_context: Mapping[str, dict[str, Any]], place: Path, study: str, contexts: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a system's rows in these contexts."""
    if missing := [context for context in contexts if context not in by_context]:
        there = ", ".join(by_context)
        raise DataError(f"{place} has no report for study {study} in context {missing[0]} (it has: {there})")
    return [by_context[context] for context in contexts]


def _views(rows: Sequence[Mapping[str, Any]], images: Path) -> dict[str, str]:
    """Return the radiographs of the records as addresses, without those whose file does not exist here."""
    named = read_images(images).select("image_id", "path").iter_rows() if images.is_file() else ()
    paths = {image: Path(path) for image, path in named if Path(path).is_file()}
    shown = {view: row[view] for view in ("frontal", "lateral") for row in rows if row[view] in paths}
    return {view: data_uri(read_grey(paths[image])) for view, image in shown.items()}
