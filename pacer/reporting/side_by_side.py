"""One study, two systems beside the reference, context by context: the paper's Figure 2 as a page and as a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from pacer.comparison.compare import read_run
from pacer.core.contexts import SOURCES, availability
from pacer.core.errors import DataError
from pacer.core.hygiene import file_name
from pacer.core.io import write_text
from pacer.external.report_files import HYPOTHESIS_COLUMNS, read_reports
from pacer.metrics.lines import joined
from pacer.records.schemas import RECORD_SCHEMA, check_columns, read_images
from pacer.reporting.html import render
from pacer.reporting.images import data_uri, read_grey
from pacer.reporting.marked_svg import draw
from pacer.reporting.support import Piece, pieces, statements

_READ = (
    "Findings and their polarity are read by the rules of commitments, wording of comparison by its own: it matches "
    "where the other text has wording of the same rule. Sides, places and degrees are not compared, and the reference "
    "is a report, not the truth."
)
#: What every system's reports are read as.
_COLUMNS = ("context", "record_id", "reference", "hypothesis")


class View(NamedTuple):
    """A radiograph: its address as data, and its height by its width."""

    name: str
    address: str
    ratio: float


class Reading(NamedTuple):
    """One context: what the reference and each system say, cut where their support changes."""

    context: str
    prior_report: str | None
    texts: tuple[list[Piece], ...]

    @property
    def sources(self) -> str:
        return SOURCES[self.context]


class SideBySide(NamedTuple):
    """``systems``: their names; ``notes``: how to read it, and what is not shown and why."""

    study: str
    systems: tuple[str, ...]
    views: tuple[View, ...]
    readings: tuple[Reading, ...]
    notes: tuple[str, ...]


def side_by_side(
    study: str, systems: Sequence[tuple[str, Path]], contexts: Sequence[str], records: Path, images: Path
) -> SideBySide:
    """Look a study up in the systems' reports.

    Args:
        study: id of a study; or of an examination, as its record ids have it behind the context.
        systems: name and place of each: a scored run (:func:`~pacer.comparison.compare.read_run`), or a file of reports
            by record id (:mod:`pacer.external.report_files`).
        records, images: tables of the corpus, for references of files of reports, previous reports and radiographs;
            may be missing where all systems are scored runs.

    Raises:
        DataError: a system has no report of the study in one of the contexts, or several, or another reference.
    """
    own = None
    if records.is_file():
        check_columns(records, RECORD_SCHEMA)
        columns = ("record_id", "context", "study_id", "frontal", "lateral", "report", "prior_report")
        own = _of_study(pl.scan_parquet(records).select(columns), study).collect()
    found = [_reports(path, study, contexts, own, records) for _, path in systems]
    for (name, _), reports in zip(systems[1:], found[1:], strict=True):
        for context in contexts:
            if reports[context]["reference"] != found[0][context]["reference"]:
                raise DataError(
                    f"study {study} has another reference in context {context} in {name} than in {systems[0][0]}; "
                    "score both against the same references"
                )
    said = {
        context: [
            statements(found[0][context]["reference"]),
            *(statements(one[context]["hypothesis"]) for one in found),
        ]
        for context in contexts
    }
    rows: dict[str, dict] = {}
    if own is not None:
        ids = [report["record_id"] for report in found[0].values()]
        rows = {row["context"]: row for row in own.filter(pl.col("record_id").is_in(ids)).iter_rows(named=True)}
    readings = []
    for context in contexts:
        texts = [found[0][context]["reference"], *(one[context]["hypothesis"] for one in found)]
        others = [frozenset().union(*said[context][1:]), *[said[context][0]] * len(found)]
        first = said[contexts[0]] if context != contexts[0] else [None] * len(texts)
        cut = (
            pieces(text, "generated" if place else "reference", other, before)
            for place, (text, other, before) in enumerate(zip(texts, others, first, strict=True))
        )
        prior = rows[context]["prior_report"] if context in rows else None
        readings.append(Reading(context, prior, tuple(cut)))
    views, missing = _views(rows, records, images)
    return SideBySide(study, tuple(name for name, _ in systems), views, tuple(readings), (_READ, *missing))


def _of_study(table: pl.LazyFrame, study: str) -> pl.LazyFrame:
    named = pl.concat_str("context", pl.lit(f"-{study}"))
    return table.filter((pl.col("study_id") == study) | (pl.col("record_id") == study) | (pl.col("record_id") == named))


def _reports(
    path: Path, study: str, contexts: Sequence[str], own: pl.DataFrame | None, records: Path
) -> dict[str, dict[str, str]]:
    """Context -> record id, reference and report of one system."""
    if path.is_file():
        if own is None:
            raise DataError(f"{path} has no references, and {records} does not exist; name the corpus with --records")
        file = read_reports(path, HYPOTHESIS_COLUMNS)
        given = pl.DataFrame(
            {"record_id": map(file.key, range(len(file.texts))), "hypothesis": file.texts}, strict=False
        )
        table = own.with_columns(reference="report").join(given.drop_nulls(), on="record_id")
    else:
        table = _of_study(read_run(path)[0].lazy(), study).collect()
    reports: dict[str, dict[str, str]] = {}
    for row in table.select(_COLUMNS).iter_rows(named=True):
        context = row["context"]
        if context in reports:
            raise DataError(
                f"{path} has several reports of {study} in context {context}, {reports[context]['record_id']} and "
                f"{row['record_id']}; name one examination by what its record id has behind {context}-"
            )
        reports[context] = row | {"reference": joined(row["reference"]), "hypothesis": joined(row["hypothesis"])}
    for context in contexts:
        if context not in reports:
            there = f"it has {', '.join(reports)}: choose with --context" if reports else "name another study"
            raise DataError(f"{path} has no report of study {study} in context {context}; {there}")
    return reports


def _views(rows: dict[str, dict], records: Path, images: Path) -> tuple[tuple[View, ...], list[str]]:
    """The radiographs of the shown records, and why one is not shown."""
    if not rows:
        return (), [f"No radiograph and no previous report is shown: {records} does not hold these records."]
    views, missing = [], []
    paths = dict(read_images(images).select("image_id", "path").iter_rows()) if images.is_file() else {}
    for name in ("frontal", "lateral"):
        with_it = (row[name] for context, row in rows.items() if name == "frontal" or availability(context)[0])
        image = next(filter(None, with_it), None)
        if image is None:
            continue
        try:
            if image not in paths:
                raise DataError(f"{images} does not name it")
            grey = read_grey(Path(paths[image]))
            views.append(View(name, data_uri(grey), grey.height / grey.width))
        except DataError as error:
            missing.append(f"The {name} radiograph is not shown: {error}.")
    return tuple(views), missing


def write_side_by_side(shown: SideBySide, folder: Path) -> list[Path]:
    """Write page and drawing, named by the study, into ``folder``."""
    stem = folder / f"study-{file_name(shown.study)}"
    texts = {stem.with_suffix(".html"): render("show.html", shown=shown), stem.with_suffix(".svg"): draw(shown)}
    for path, text in texts.items():
        write_text(path, text)
    return [*texts]
