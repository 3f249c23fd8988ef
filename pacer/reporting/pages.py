"""The page of one examination: the reports of systems on it, beside its reference (paper,
Figure 2)."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.contexts import CONTEXTS, SOURCES, WITH_SOURCE
from pacer.core.errors import DataError
from pacer.core.io import check_unused, hash_json, write_text
from pacer.core.schemas import read_images, read_records
from pacer.metrics.cases import UNKNOWN
from pacer.metrics.result import Result
from pacer.reporting.html import data_uri, read_grey, render
from pacer.reporting.marks import Statements, spans, statements_of


def show_studies(
    studies: Sequence[str],
    systems: Sequence[tuple[str, Path]],
    contexts: Sequence[str],
    records: Path,
    images: Path,
    out: Path,
    *,
    force: bool = False,
) -> list[Path]:
    """Write a page for each examination (the id of a study or record) into the folder ``out``, and
    return their paths. A page that exists is replaced only with ``force``.

    Args:
        contexts: contexts to show; empty: all in which every system has a report.
        records: table of the corpus, for previous reports.
        images: table of the corpus, for radiographs.

    Raises:
        DataError: a system has no report in a context, or several, or references differ.
        ConfigError: a page exists.
    """
    paths = [out / _name_of_page(study) for study in studies]
    check_unused(*paths, force=force)
    corpus = read_records(records) if records.is_file() else None
    cases = [(name, place, Result.read(place, whole=False).cases) for name, place in systems]
    pages = [_study_page(study, cases, contexts, corpus, images) for study in studies]
    for path, page in zip(paths, pages, strict=True):
        write_text(path, page)
    return paths


def _name_of_page(study: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]", "_", study)[:80]
    return f"study-{name}.html" if name == study else f"study-{name}-{hash_json(study)[:8]}.html"


def _study_page(
    study: str,
    systems: Sequence[tuple[str, Path, pl.DataFrame]],
    contexts: Sequence[str],
    records: pl.DataFrame | None,
    images: Path,
) -> str:
    """Return the page of one examination; ``systems``: name, folder and cases of each."""
    corpus = {} if records is None else {row["record_id"]: row for row in _of_study(records, study)}
    by_system = [_reports(cases, folder, study) for _, folder, cases in systems]
    shared = [name for name in (*CONTEXTS, UNKNOWN) if all(name in rows for rows in by_system)]
    contexts = contexts or shared or list(by_system[0])[:1]
    for rows, (_, folder, _) in zip(by_system, systems, strict=True):
        missing = [context for context in contexts if context not in rows]
        if missing:
            raise DataError(
                f"{folder} has no report for study {study} in context {missing[0]} (it has: "
                f"{', '.join(rows)})"
            )
    reports = [[rows[context] for context in contexts] for rows in by_system]
    readings: list[dict[str, Any]] = []
    first: list[Statements] | None = None
    for context, *rows in zip(contexts, *reports, strict=True):
        texts = [_as_written(rows[0], "reference"), *(_as_written(row) for row in rows)]
        if any(row["reference"] != rows[0]["reference"] for row in rows):
            names = " and ".join(name for name, *_ in systems)
            raise DataError(
                f"{names} have different references for study {study} in context {context}; score "
                "both against the same references"
            )
        in_reference, *in_reports = [statements_of(text) for text in texts]
        by_name = dict(zip((name for name, *_ in systems), in_reports, strict=True))
        before = first or [None for _ in texts]
        marked = [spans(texts[0], "generated", by_name, before[0])]
        for text, of_first in zip(texts[1:], before[1:], strict=True):
            marked.append(spans(text, "reference", {"": in_reference}, of_first))
        first = first or [in_reference, *in_reports]
        prior_report = corpus.get(rows[0]["record_id"], {}).get("prior_report")
        readings.append(
            {
                "context": context,
                "sources": SOURCES.get(context, ""),
                "prior_report": prior_report,
                "texts": marked,
            }
        )
    of_first = [corpus[row["record_id"]] for row in reports[0] if row["record_id"] in corpus]
    views = _views(of_first, images)
    with_lateral = [context.upper() for context in contexts if context in WITH_SOURCE[1]]
    return render(
        "show.html",
        study=study,
        systems=systems,
        views=views,
        given=with_lateral,
        readings=readings,
    )


def _as_written(case: Mapping[str, Any], side: str = "hypothesis") -> str:
    """Return a text of a case before it was cleaned and put on one line; earlier versions did not
    keep it."""
    text: str = case.get(f"{side}_raw") or case[side]
    return text.strip()


def _of_study(table: pl.DataFrame, study: str) -> list[dict[str, Any]]:
    examination = pl.col("record_id") == pl.concat_str("context", pl.lit(f"-{study}"))
    return table.filter(
        pl.any_horizontal(pl.col("study_id", "record_id") == study, examination)
    ).to_dicts()


def _reports(cases: pl.DataFrame, place: Path, study: str) -> dict[str, dict[str, Any]]:
    """Return a system's case of the examination by context."""
    by_context: dict[str, dict[str, Any]] = {}
    for row in _of_study(cases, study):
        other = by_context.setdefault(row["context"], row)
        if other is not row:
            several = f"{other['record_id']} and {row['record_id']}"
            raise DataError(
                f"{place} has several reports for study {study}: {several}; pass one of these ids"
            )
    if not by_context:
        raise DataError(
            f"{place} has no report for study {study}; pass the id of a study or record in its "
            f"cases, such as {cases['record_id'][0]}"
        )
    return by_context


def _views(rows: Sequence[Mapping[str, Any]], images: Path) -> dict[str, str]:
    """Return the radiographs of the records as addresses, without those whose file does not exist
    here."""
    named = read_images(images).select("image_id", "path").iter_rows() if images.is_file() else ()
    paths = {image: Path(path) for image, path in named if Path(path).is_file()}
    present = {
        view: row[view] for view in ("frontal", "lateral") for row in rows if row[view] in paths
    }
    return {view: data_uri(read_grey(paths[image])) for view, image in present.items()}
