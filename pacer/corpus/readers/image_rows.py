"""Conversion of image rows to examinations, shared by the readers of tables and of MIMIC-CXR.

An examination with two images has two rows, which repeat the examination's fields. A field missing
from one row is taken from the other; if the rows contradict each other, the examination is bad. The
previous report is found by date and time (:mod:`pacer.corpus.priors`).

Bad and unused examinations still take part in this search. A bad examination counts as an earlier
examination without a report, and an examination with a report but no frontal image can be a prior.
"""

import re
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import polars as pl

from pacer.corpus.account import BAD, LEFT_OUT, Notes, Rows
from pacer.corpus.patients import TABLE, is_placeholder_id
from pacer.corpus.priors import CHOICE_SCHEMA, choose_priors, read_moments
from pacer.corpus.readers.views import header_views
from pacer.corpus.sections import Sections, cut_report
from pacer.images.views import is_special, parse_view
from pacer.tables.hygiene import (
    ANY_RESIDUE,
    CONTROL,
    EMPTY_CELL,
    LOST,
    PLACEHOLDER,
    id_fault,
    is_absent,
    without_residue,
)
from pacer.tables.values import DATE_FORMS, TIME_FORMS, mapped, quoted

#: Required columns of the rows.
REQUIRED = ("subject", "study", "view", "image")
#: The sections of a report. At least one of them is required, or a whole report, which is cut into
#: sections.
REPORT = ("findings", "impression")
WHOLE = "whole_report"
#: The previous report of the row's own examination; without it, the report of an earlier
#: examination is used.
PREVIOUS = "previous_report"
OPTIONAL = (WHOLE, "date", "time", "order", "indication", "history", "split", PREVIOUS)
COLUMNS = (*REQUIRED, *REPORT, *OPTIONAL)
#: Columns whose text is used unchanged.
TEXTS = (*REPORT, "indication", "history")
#: Names of the previous report's texts in messages.
OF_PREVIOUS = {f"prior_{name}": f"{name} of the previous study" for name in REPORT}
#: Column for the reason why a reader excludes an examination; its report, if any, can still be a
#: previous report.
UNUSED = "unused"

#: Words for a split, and our names of the splits.
SPLITS: dict[str, str] = TABLE["splits"]
_STUDY = ["subject", "study"]
#: Views in order of preference.
_VIEWS = ("PA", "AP", "other", "lateral")
#: Fields in which the rows of an examination must agree, and the columns that are compared; images
#: have different times.
_COMPARED = {"date": "day", "order": "number_of_order", "split": "known_split"}
_COMPARED |= {name: name for name in (*TEXTS, PREVIOUS)}
#: Two entries of a patient with the same text are one examination if at most this time lies between
#: them.
_EXAMINATION = timedelta(hours=1)
#: Fields whose refused values may be quoted.
_QUOTED = ("subject", "date", "time", "order", "split")
#: An unknown heading is listed only if it occurs more often than this.
_MAX_UNLISTED = 5
#: An examination with images of two days is accepted if they were taken within this time.
_STUDY_LASTS = timedelta(days=1)
#: Dates and de-identified words, in which two texts of an examination may differ.
_MONTH = r"(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_REMOVED = (
    r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}"
    rf"|\b{_MONTH}\s[0-9]{{1,2}},?\s[0-9]{{4}}|[0-9]{{1,2}}\s{_MONTH}\s[0-9]{{4}}"
    r"|_+|\[[^\[\]]*\]|<[^<>]*>|X{3,}|\s+"
)
#: Text below the report itself, in which two accessions of one report differ.
_BELOW = r"(?s)\b(?:addendum|accession|signed|dictated)\b.*"


class _Fault(NamedTuple):
    """A fault of an examination."""

    #: The field that is at fault.
    field: str
    #: The message.
    reason: str
    #: The column whose values the message quotes, if it is one of ``_QUOTED``.
    quoted: str


#: The faults of an examination, by the column that marks them.
_FAULTS = {
    "two subjects": _Fault(
        "study", "the study appears under more than one subject; make its id unique", "subject"
    ),
    "bad date": _Fault("date", DATE_FORMS, "date"),
    "bad time": _Fault("time", TIME_FORMS, "time"),
    "bad order": _Fault("order", "expected a whole number of at most nine digits", "order"),
    "two times": _Fault("time", "the date of a row contains a different time of day", "time"),
    "bad split": _Fault(
        "split", "expected train, val (valid, validate, validation, dev) or test", "split"
    ),
}
_FAULTS |= {
    f"several {name}": _Fault(name, "the rows of the study have different values", name)
    for name in _COMPARED
}


def studies_of(images: Rows, role: str, notes: Notes, folder: Path | None = None) -> Rows:
    """Group image rows to examinations, in the order of the rows; list rows that belong to no
    examination.

    Args:
        images: one row per image as text, with the columns of ``REQUIRED``, one of ``REPORT`` and
            any of ``OPTIONAL``, and its place (``file``, ``row``).
        role: the input under which the notes count.
        folder: folder of the images. The headers of its DICOM files supply views that the rows do
            not state. None: there are none.
    """
    absent = {
        name: pl.lit(None, pl.String)
        for name in (*COLUMNS, UNUSED)
        if name not in images.used.columns
    }
    table = images.used.with_columns(**absent).with_columns(id=pl.col("study").fill_null(""))
    images = images._replace(used=_with_rank(_parsed(table, notes), role, folder, notes))
    is_empty = pl.all_horizontal(pl.col(COLUMNS).is_null())
    images = images.exclude("", is_empty, "an empty row", LEFT_OUT)
    for column in _STUDY:
        images = images.exclude(column, pl.col(column).is_null(), "the id is missing")
    images = read_moments(images, role, notes)
    for view in images.used.filter(pl.col("rank").is_null())["view"]:
        notes.count("unknown_views", role, "(none)" if view is None else quoted(view))
    studies = _with_priors(images._replace(used=_grouped(images.used)), role, notes)
    two_texts = pl.col("two_texts") & ~pl.any_horizontal(f"several {name}" for name in TEXTS)
    notes.count("two_texts", role, "studies", int(studies.used.select(two_texts.sum()).item()))
    for column in _STUDY:
        problem = mapped(column, id_fault)
        studies = studies.exclude(
            column, problem.is_not_null(), problem, BAD, mapped(column, quoted)
        )
    for column, fault in _FAULTS.items():
        values = None
        if fault.quoted in _QUOTED:
            values = mapped(f"given {fault.quoted}", _all_quoted)
        studies = studies.exclude(fault.field, pl.col(column), fault.reason, BAD, values)
    studies = studies.exclude("", pl.col(UNUSED).is_not_null(), pl.col(UNUSED), LEFT_OUT)
    is_prior_only = pl.col("has_report") & ~pl.col("has_image")
    studies = studies.exclude("", is_prior_only, "no image; report kept as a prior only", LEFT_OUT)
    return _with_images(studies, images.used, notes)


def _all_quoted(values: Iterable[str]) -> str | None:
    return " and ".join(map(quoted, values)) or None


def _parsed(images: pl.DataFrame, notes: Notes) -> pl.DataFrame:
    """Set blank texts and words for absent text to null; add ``known_split`` (null if not
    understood), and faults of the rows."""
    for name in (*TEXTS, WHOLE, PREVIOUS):
        escaped = pl.when(pl.col(name).str.contains(ANY_RESIDUE)).then(name).alias(name)
        plain = images.select(escaped).select(mapped(name, without_residue)).to_series()
        notes.count("unescaped", "texts", name, int((plain != images[name]).sum()))
        images = images.with_columns(pl.coalesce(plain, name).alias(name))
        ids = images.filter(pl.col(name).str.contains(PLACEHOLDER))["id"]
        notes.count_first("placeholders", "texts", ((name, id) for id in ids))
        images = images.with_columns(pl.col(name).str.replace_all(PLACEHOLDER, "___"))
        images = notes.null_if_absent(
            images, name, lambda text: is_absent(text) and not re.search(LOST, text)
        )
        images = images.with_columns(
            pl.when(pl.col(name).str.contains(r"\S")).then(name).alias(name)
        )
    if images[WHOLE].null_count() < images.height:
        images = _split_whole_reports(images, notes)
    others = [name for name in COLUMNS if name not in (*TEXTS, WHOLE, PREVIOUS)]
    images = images.with_columns(
        pl.col(others).str.strip_chars().str.replace(EMPTY_CELL, "").replace("", None)
    )
    images = images.with_columns(
        id="study",
        number_of_order=pl.col("order").str.extract(r"^(-?[0-9]{1,9})(?:\.0)?$").cast(pl.Int64),
        known_split=pl.col("split").str.to_lowercase().replace_strict(SPLITS, default=None),
    )
    return images.with_columns(
        (pl.col(name).is_not_null() & pl.col(parsed).is_null()).alias(f"bad {name}")
        for name, parsed in (("order", "number_of_order"), ("split", "known_split"))
    )


def _split_whole_reports(images: pl.DataFrame, notes: Notes) -> pl.DataFrame:
    """Fill sections that have no column, or an empty cell, from the whole reports; count the
    warnings about these."""
    reports = [cut_report(text or "") for text in images[WHOLE]]
    for topic in reports[0][1]:
        warnings = [
            (value, study or "")
            for (_, topics), study in zip(reports, images["study"], strict=True)
            for value in topics[topic]
        ]
        counts = Counter(value for value, _ in warnings)
        rare = _MAX_UNLISTED if topic == "unknown_headings" else 0
        notes.count_first(topic, "rows", (pair for pair in warnings if counts[pair[0]] > rare))
    columns = dict.fromkeys(Sections._fields, pl.String())
    cut = pl.DataFrame([sections for sections, _ in reports], columns, orient="row")
    cut = cut.with_columns(pl.col("indication", "history").str.replace_all(r"\s+", " "))
    return images.with_columns(pl.coalesce(name, cut[name]).alias(name) for name in TEXTS)


def _grouped(images: pl.DataFrame) -> pl.DataFrame:
    """Return a row per examination, in the order of first rows: the first value of each field, the
    date and time of the earliest image, the faults of :data:`_FAULTS`, and the original values
    (``given date``, ...)."""
    images = images.with_columns(instant=pl.col("day").dt.combine(pl.col("clock")))
    instant = pl.col("instant")
    day = pl.col("day")
    # the images of one night can have two dates
    is_long = (instant.is_null() & day.is_not_null()).any() | (
        instant.max() - instant.min() > _STUDY_LASTS
    )
    values = {name: pl.col(compared).drop_nulls() for name, compared in _COMPARED.items()}
    texts = {name: values[name].str.replace_all(_REMOVED, " ") for name in TEXTS}
    distinct = {name: value.n_unique() > 1 for name, value in (values | texts).items()}
    given = {
        name: pl.col(name).drop_nulls().unique(maintain_order=True).head(2) for name in _QUOTED
    }
    studies = images.group_by(_STUDY, maintain_order=True).agg(
        pl.col("file", "row", "id").first(),
        pl.len().alias("rows"),
        pl.col("bad date", "bad time", "bad order", "bad split", "two times").any(),
        pl.col(UNUSED).drop_nulls().first(),
        *(value.first() for name, value in values.items() if name != "date"),
        *(is_distinct.alias(f"several {name}") for name, is_distinct in distinct.items()),
        *(given[name].alias(f"given {name}") for name in _QUOTED if name != "subject"),
        day=pl.coalesce(instant.min().dt.date(), day.drop_nulls().first()),
        clock=pl.coalesce(instant.min().dt.time(), pl.col("clock").min()),
        lasts_too_long=is_long,
        two_texts=pl.any_horizontal(values[name].n_unique() > 1 for name in TEXTS),
        has_image=pl.col("image").is_not_null().any(),
    )
    subjects = studies.group_by("study").agg(given["subject"].alias("given subject"))
    has_splits = images["split"].null_count() < images.height
    has_no_split = pl.col("known_split").is_null() & pl.col(UNUSED).is_null()
    return studies.join(subjects, on="study", how="left", maintain_order="left").with_columns(
        (pl.col("given subject").list.len() > 1).alias("two subjects"),
        pl.col("bad split") | (has_no_split & pl.lit(has_splits)),
        pl.col("several date") & pl.col("lasts_too_long"),
        has_report=pl.any_horizontal(pl.col(REPORT).is_not_null()),
    )


def _with_priors(rows: Rows, role: str, notes: Notes) -> Rows:
    """Add the previous report of each examination, and the details of its choice."""
    studies = rows.used
    bad_id = pl.any_horizontal(mapped(column, id_fault).is_not_null() for column in _STUDY)
    bad_text = pl.col(REPORT).str.contains(rf"{CONTROL}|{LOST}").fill_null(False)
    is_bad = pl.any_horizontal(pl.col(list(_FAULTS)), bad_id, bad_text)
    dated = studies.with_columns(has_report=pl.col("has_report") & ~is_bad)
    # the numbers of the column `order` replace days, but are not dates: the gaps are unknown
    has_order = studies["number_of_order"].count() > 0
    if has_order:
        dated = dated.with_columns(
            day=pl.col("number_of_order").rank("dense").cast(pl.Int32).cast(pl.Date)
        )
    without_own = studies[PREVIOUS].is_null()
    notes.count("priors", role, "undated", dated.filter(without_own)["day"].null_count())
    dated = dated.with_columns(day=pl.when(~is_placeholder_id("subject")).then("day"))
    copies = _copies(dated)
    notes.count_first("copies", role, copies.select(pl.lit("studies"), "id").iter_rows())
    reason = pl.format(
        "same examination as {} (same text within an hour)", mapped("first study", quoted)
    )
    rows = rows.flag(copies, pl.lit("study"), reason, pl.lit(None))
    # give copies the same time, so that none precedes another
    first_times = copies.select(
        *_STUDY, day=pl.col("first begin").dt.date(), clock=pl.col("first begin").dt.time()
    )
    choices = choose_priors(dated.update(first_times, on=_STUDY)).select(*_STUDY, *CHOICE_SCHEMA)
    if has_order:
        choices = choices.with_columns(gap_days=pl.lit(None, pl.Float64))
    choices = choices.with_columns(
        pl.when(without_own).then(name).alias(name) for name in CHOICE_SCHEMA
    )
    reports = studies.select(
        "subject",
        prior_study_id="study",
        prior_findings="findings",
        prior_impression="impression",
    )
    studies = studies.join(choices, on=_STUDY, how="left", maintain_order="left")
    studies = studies.join(
        reports, on=["subject", "prior_study_id"], how="left", maintain_order="left"
    )
    studies = studies.with_columns(prior_findings=pl.coalesce(PREVIOUS, "prior_findings"))
    return rows._replace(used=studies)


def _copies(studies: pl.DataFrame) -> pl.DataFrame:
    """Return the entries that have the text of an earlier entry of the same patient, each within an
    hour of the one before, with ``first begin`` and ``first study`` of the earliest of these."""
    begin = pl.col("day").dt.combine(pl.col("clock"))
    text = pl.concat_str(REPORT, separator=" ", ignore_nulls=True)
    timed = studies.with_columns(begin=begin, words=text).filter(
        begin.is_not_null() & pl.col("has_report")
    )
    timed = timed.sort("begin", maintain_order=True)
    follows = (pl.col("begin").diff() <= _EXAMINATION).fill_null(False)
    # only texts within an hour of another are compared
    timed = timed.filter((follows | follows.shift(-1, fill_value=False)).over("subject"))
    words = (
        pl.col("words").str.replace_all(_REMOVED, " ").str.to_lowercase().str.replace(_BELOW, "")
    )
    words = words.str.extract_all(r"[^\W_]+")
    timed = timed.with_columns(words.list.join(" ")).with_columns(
        run=(~follows).cum_sum().over("subject", "words")
    )
    first = pl.col("begin", "study").first().over("subject", "words", "run").name.prefix("first ")
    return timed.with_columns(first).filter(pl.col("study") != pl.col("first study"))


def _with_images(rows: Rows, image_table: pl.DataFrame, notes: Notes) -> Rows:
    """Keep the examinations with a report and a frontal image, and add the images they use; list
    the other images."""
    studies = rows.used.with_row_index("number")
    image_table = image_table.select(*_STUDY, "file", "row", "image", "view", "rank", "id")
    image_table = image_table.join(
        studies.select("number", "has_report", *_STUDY), on=_STUDY, maintain_order="left"
    )
    images = rows._replace(used=image_table)
    images = images.exclude("image", pl.col("image").is_null(), "the image path is missing")
    given_view = mapped("view", quoted)
    images = images.exclude("", pl.col("rank").is_null(), "unknown view", LEFT_OUT, given_view)
    images = images.with_columns(is_lateral=pl.col("rank") % len(_VIEWS) == _VIEWS.index("lateral"))

    by_study = images.used.group_by("number", maintain_order=True).agg(
        pl.col("file", "row", "id", "has_report").first(), pl.col("is_lateral").all(), rows=pl.len()
    )
    usable = images._replace(used=by_study)
    usable = usable.exclude("", ~pl.col("has_report"), "neither findings nor impression", LEFT_OUT)
    usable = usable.exclude("", pl.col("is_lateral"), "no frontal image", LEFT_OUT)
    of_usable = images.used.join(
        usable.used.select("number"), on="number", how="semi", maintain_order="left"
    )
    images = usable._replace(used=of_usable.sort("number", "rank", maintain_order=True))
    is_further = ~pl.struct("number", "is_lateral").is_first_distinct()
    view = pl.when("is_lateral").then(pl.lit("lateral")).otherwise(pl.lit("frontal"))
    again = pl.when(~pl.struct("number", "image").is_first_distinct()).then(
        pl.format("the same file as in {}", pl.col("row").first().over("number", "image"))
    )
    reason = pl.format("a further {} image of the study", view)
    images = images.exclude("", is_further, reason, LEFT_OUT, again)

    laterals = images.used.filter("is_lateral").select("number", lateral="image")
    frontals = images.used.filter(~pl.col("is_lateral")).select(
        "number", "file", "row", "rank", frontal="image"
    )
    studies = frontals.join(studies.drop("file", "row", "rows"), on="number", maintain_order="left")
    studies = studies.join(laterals, on="number", how="left", maintain_order="left")
    names = dict(enumerate(_VIEWS[:-1]))
    studies = studies.with_columns(
        split="known_split",
        study_id="study",
        subject_id="subject",
        view=(pl.col("rank") % len(_VIEWS)).replace_strict(names, return_dtype=pl.String),
        rows=1 + pl.col("lateral").is_not_null(),
    )
    return images._replace(used=studies)


def _with_rank(images: pl.DataFrame, role: str, folder: Path | None, notes: Notes) -> pl.DataFrame:
    """Add the ``rank`` of each image's view, its index in ``_VIEWS``; null if it is not known. A
    special or processed view has an index beyond the list, so it is used only if there is no usual
    view.

    A DICOM header gives the view that a row lacks, and the direction of one that is only frontal.
    """
    headers = {} if folder is None else header_views(images["image"].drop_nulls().unique(), folder)
    ranks: list[int | None] = []
    contradictions: list[tuple[str, str]] = []
    for view, image, study in images.select("view", "image", "study").iter_rows():
        header, words = headers.get(image, ("", ""))
        parsed = parse_view(view)
        in_header = parse_view(header)
        is_finer = (
            parsed == ("frontal", "other") and in_header is not None and in_header.kind == "frontal"
        )
        if in_header and (view is None or is_finer):
            notes.count("header_views", role, quoted(header))
            parsed = in_header
            view = header
        elif in_header and parsed and in_header != parsed:
            note = (
                f"view {quoted(header)} in the header contradicts {quoted(view)} in the table; the "
                "table is used"
            )
            contradictions.append((note, study or ""))
        if parsed is None:
            ranks.append(None)
            continue
        rank = _VIEWS.index("lateral" if parsed.kind == "lateral" else parsed.view)
        if is_special(f"{view} {image} {words}"):
            rank += len(_VIEWS)
        ranks.append(rank)
    notes.count_first("headers", "views", contradictions)
    return images.with_columns(rank=pl.Series(ranks, dtype=pl.Int64))
