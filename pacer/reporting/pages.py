"""The page of one examination: the reports of systems on it, beside its reference (paper,
Figure 2)."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.contexts import CONTEXTS, SOURCES
from pacer.core.errors import DataError
from pacer.core.io import check_unused, hash_json, write_text
from pacer.core.schemas import read_records
from pacer.metrics.cases import UNKNOWN
from pacer.metrics.result import Result
from pacer.reporting.examples import Example, Reading, pictures
from pacer.reporting.html import render
from pacer.reporting.marks import beside
from pacer.reporting.results import image_paths


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
    files = image_paths(images) if images.is_file() else {}
    shown = [_example(study, cases, contexts, corpus, files) for study in studies]
    for path, example in zip(paths, shown, strict=True):
        write_text(path, render("show.html", study=example))
    return paths


def _name_of_page(study: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]", "_", study)[:80]
    return f"study-{name}.html" if name == study else f"study-{name}-{hash_json(study)[:8]}.html"


def _example(
    study: str,
    systems: Sequence[tuple[str, Path, pl.DataFrame]],
    contexts: Sequence[str],
    records: pl.DataFrame | None,
    images: Mapping[str, str],
) -> Example:
    """Return one examination; ``systems``: name, folder and cases of each. Reports of several
    systems are side by side in a row for each context, those of one system in one row."""
    corpus = {} if records is None else {row["record_id"]: row for row in _of_study(records, study)}
    by_system = {name: _reports(cases, folder, study) for name, folder, cases in systems}
    shared = [
        name for name in (*CONTEXTS, UNKNOWN) if all(name in rows for rows in by_system.values())
    ]
    contexts = contexts or shared or list(next(iter(by_system.values())))[:1]
    for rows, (_, folder, _) in zip(by_system.values(), systems, strict=True):
        missing = [context for context in contexts if context not in rows]
        if missing:
            raise DataError(
                f"{folder} has no report for study {study} in context {missing[0]} (it has: "
                f"{', '.join(rows)})"
            )
    readings: list[list[Reading]] = []
    shown: list[Mapping[str, Any]] = []
    for context in contexts:
        cases = {name: rows[context] for name, rows in by_system.items()}
        if len({case["reference"] for case in cases.values()}) > 1:
            raise DataError(
                f"{' and '.join(cases)} have different references for study {study} in context "
                f"{context}; score both against the same references"
            )
        record = corpus.get(next(iter(cases.values()))["record_id"], {})
        shown.append(record)
        row = [_reading(context, name, case) for name, case in cases.items()]
        row[0] = row[0]._replace(prior_report=record.get("prior_report"))  # once is enough
        readings.append(row)
    if len(systems) == 1:
        readings = [[reading for row in readings for reading in row]]
    return Example(f"Study {study}", "", pictures(shown, images, {}, ()), readings)


def _reading(context: str, name: str, case: Mapping[str, Any]) -> Reading:
    reference, report = beside(_as_written(case, "reference"), _as_written(case, "hypothesis"))
    title = name if context == UNKNOWN else f"{context.upper()} {name}"
    return Reading(title, SOURCES.get(context, ""), report, reference)


def _as_written(case: Mapping[str, Any], side: str) -> str:
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
