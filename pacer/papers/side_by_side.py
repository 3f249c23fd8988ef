"""One study, two systems beside the reference, context by context: the paper's Figure 2, alone and on a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl
from markupsafe import Markup

from pacer.comparison.compare import read_run
from pacer.core.contexts import SOURCES, availability
from pacer.core.errors import DataError
from pacer.core.hygiene import file_name
from pacer.core.io import write_text
from pacer.external.report_files import HYPOTHESIS_COLUMNS, read_reports
from pacer.metrics.lines import joined
from pacer.papers.marked_svg import draw
from pacer.records.schemas import RECORD_SCHEMA, check_columns, read_images
from pacer.reporting.html import render
from pacer.reporting.images import data_uri, read_grey
from pacer.reporting.support import Piece, pieces, statements

TEMPLATES = Path(__file__).parent / "templates"
_READ = (
    "Findings and their polarity are read by the rules of commitments, wording of comparison by its own: it matches "
    "where the other text has wording of the same rule and direction. Sides, places and degrees are not compared, and "
    "the reference is a report, not the truth."
)


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


class Report(NamedTuple):
    """What a system says of a record, and its reference there."""

    record_id: str
    reference: str
    text: str


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
    own: dict[str, dict] | None = None
    if records.is_file():
        check_columns(records, RECORD_SCHEMA)
        own = {row["record_id"]: row for row in _of_study(pl.scan_parquet(records), study)}
    reports = [_reports(path, study, contexts, own, records) for _, path in systems]
    readings, shown, first = [], [], None
    for context, *here in zip(contexts, *reports, strict=True):
        if len({report.reference for report in here}) > 1:
            raise DataError(
                f"study {study} has another reference in context {context} in {systems[1][0]} than in {systems[0][0]}; "
                "score both against the same references"
            )
        texts = [here[0].reference, *(report.text for report in here)]
        reference, *said = (statements(text) for text in texts)
        others = [frozenset().union(*said), *[reference] * len(said)]
        before = first or [None] * len(texts)
        cut = [
            pieces(text, "generated" if place else "reference", other, earlier)
            for place, (text, other, earlier) in enumerate(zip(texts, others, before, strict=True))
        ]
        first = first or [reference, *said]
        row = (own or {}).get(here[0].record_id, {})
        shown += [row] if row else []
        readings.append(Reading(context, row.get("prior_report"), tuple(cut)))
    views, missing = _views(shown, records, images)
    return SideBySide(study, tuple(name for name, _ in systems), views, tuple(readings), (_READ, *missing))


def _of_study(table: pl.LazyFrame, study: str) -> list[dict]:
    named = pl.concat_str("context", pl.lit(f"-{study}"))
    mine = (pl.col("study_id") == study) | (pl.col("record_id") == study) | (pl.col("record_id") == named)
    return table.filter(mine).collect().to_dicts()


def _reports(
    path: Path, study: str, contexts: Sequence[str], own: dict[str, dict] | None, records: Path
) -> list[Report]:
    """One system's, in the order of the contexts."""
    if path.is_file():
        if own is None:
            raise DataError(f"{path} has no references, and {records} does not exist; name the corpus with --records")
        file = read_reports(path, HYPOTHESIS_COLUMNS)
        given = [
            (own[key], text) for at, text in enumerate(file.texts) if (key := file.key(at)) in own and text is not None
        ]
        rows = [row | {"reference": row["report"], "hypothesis": text} for row, text in given]
    else:
        rows = _of_study(read_run(path)[0].lazy(), study)
    found: dict[str, Report] = {}
    for row in rows:
        context, report = row["context"], Report(row["record_id"], joined(row["reference"]), joined(row["hypothesis"]))
        if context in found:
            raise DataError(
                f"{path} has several reports of {study} in context {context}, {found[context].record_id} and "
                f"{report.record_id}; name one examination by what its record id has behind {context}-"
            )
        found[context] = report
    for context in contexts:
        if context not in found:
            there = f"it has {', '.join(found)}: choose with --context" if found else "name another study"
            raise DataError(f"{path} has no report of study {study} in context {context}; {there}")
    return [found[context] for context in contexts]


def _views(rows: Sequence[dict], records: Path, images: Path) -> tuple[tuple[View, ...], list[str]]:
    """The radiographs of the shown records, and why one is not shown."""
    if not rows:
        return (), [f"No radiograph and no previous report is shown: {records} does not hold these records."]
    views, missing = [], []
    paths = dict(read_images(images).select("image_id", "path").iter_rows()) if images.is_file() else {}
    lateral = next((row["lateral"] for row in rows if availability(row["context"])[0]), None)
    for name, image in (("frontal", rows[0]["frontal"]), ("lateral", lateral)):
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
    stem, drawing = folder / f"study-{file_name(shown.study)}", draw(shown)
    page = render("show.html", TEMPLATES, shown=shown, drawing=Markup(drawing))
    texts = {stem.with_suffix(".html"): page, stem.with_suffix(".svg"): drawing}
    for path, text in texts.items():
        write_text(path, text)
    return [*texts]
