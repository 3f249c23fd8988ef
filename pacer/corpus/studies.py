"""Conversion of image rows to examinations, shared by the readers of tables and of MIMIC-CXR.

An examination with two images has two rows, which repeat the examination's fields. A field missing
from one row is taken from the other; if the rows contradict each other, the examination is bad. Its
date and time are those of its earliest image.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta

import polars as pl

from pacer.corpus.account import BAD, FAULT, LEFT_OUT, PRIOR_ONLY, Notes, Rows
from pacer.corpus.checks import IN_POLARS, on_one_line
from pacer.images.views import is_special, parse_view
from pacer.tables.hygiene import id_fault
from pacer.tables.values import mapped, quoted

#: The sections of a report.
REPORT = ("findings", "impression")
#: The previous report of the row's own examination; without it, the report of an earlier
#: examination is used.
PREVIOUS = "previous_report"
#: The texts of an examination.
TEXTS = (*REPORT, "indication", "history", PREVIOUS)
#: Names of the previous report's texts in messages.
OF_PREVIOUS = {f"prior_{name}": f"{name} of the previous study" for name in REPORT}

#: The columns of image rows; those that a reader lacks are null.
SCHEMA: dict[str, pl.DataType] = {
    "file": pl.String(),
    "row": pl.String(),
    "subject": pl.String(),
    "study": pl.String(),
    "image": pl.String(),
    "view": pl.String(),
    "rank": pl.Int64(),  # of :func:`view_rank`
    "whole_report": pl.String(),  # from which sections were cut
    **dict.fromkeys(TEXTS, pl.String()),
    "day": pl.Date(),
    "clock": pl.Time(),
    "order": pl.Int64(),
    "split": pl.String(),
    "fault": FAULT,  # why the row, and so its examination, is bad
    "unused": pl.String(),  # why the examination is left out
}

_STUDY = ["subject", "study"]
#: Views in order of preference.
_VIEWS = ("PA", "AP", "other", "lateral")
#: Texts in which the rows of an examination must agree. Whole reports come first: sections of
#: different ones, such as a preliminary and a final report, would be joined.
_COMPARED_TEXTS = ("whole_report", *TEXTS)
#: Fields in which they must agree, and the columns that are compared; images have different times.
_COMPARED = {"date": "day", "order": "order", "split": "split"}
_COMPARED |= {name: name for name in _COMPARED_TEXTS}
#: An examination with images of two days is accepted if they were taken within this time.
_STUDY_LASTS = timedelta(days=1)


def view_rank(view: str | None, words: str = "") -> int | None:
    """Return the place of a view in the order of preference; None if it is not understood. A
    special or processed view has a place beyond the usual ones, so it is used only if there is no
    usual view.

    Args:
        words: further words on how the image was made, from its DICOM header.
    """
    parsed = parse_view(view)
    if parsed is None:
        return None
    rank = _VIEWS.index("lateral" if parsed.kind == "lateral" else parsed.view)
    return rank + len(_VIEWS) if is_special(f"{view} {words}") else rank


def group_images(images: Rows, mend: Callable[..., str] | None = None) -> tuple[Rows, pl.DataFrame]:
    """Group image rows, which have the columns of :data:`SCHEMA`, to examinations in the order of
    their first rows; list the rows without ids, and the examinations with a fault. Return the
    examinations, and the image rows that have ids.

    Args:
        mend: for a user's own table, the polars lines by name
            (:func:`pacer.corpus.checks.mender`).
    """

    def with_line(reason: str, name: str, **columns: str) -> str:
        return f"{reason}{IN_POLARS}{on_one_line(mend(name, **columns))}" if mend else reason

    absent = [
        pl.lit(None, kind).alias(name)
        for name, kind in SCHEMA.items()
        if name not in images.used.columns
    ]
    images = images.with_columns(*absent, id=pl.col("study").fill_null(""))
    for column in _STUDY:
        images = images.exclude(column, pl.col(column).is_null(), "the id is missing")
    studies = images._replace(used=_grouped(images.used))
    for column in _STUDY:
        problem = mapped(column, id_fault)
        studies = studies.exclude(
            column, problem.is_not_null(), problem, BAD, mapped(column, quoted)
        )
    subjects = mapped("given subject", _all_quoted)
    zeros = pl.col("given subject").list.eval(pl.element().str.strip_chars_start("0"))
    are_zeros = pl.col("two subjects") & (zeros.list.n_unique() == 1)
    reason = (
        "the study appears under ids of its subject that differ in zeros; write each in one way"
    )
    reason = with_line(reason, "ids_of_one_length", column="subject")
    studies = studies.exclude("subject", are_zeros, reason, BAD, subjects)
    reason = "the study appears under more than one subject; make its id unique"
    reason = with_line(reason, "prefix_study", subject="subject", study="study")
    studies = studies.exclude("study", pl.col("two subjects"), reason, BAD, subjects)
    is_bad = pl.col("fault").is_not_null()
    bad = studies.used.filter(is_bad).unnest("fault")
    studies = studies.with_lines(bad)._replace(used=studies.used.filter(~is_bad))
    for name in _COMPARED:
        reason = "the rows of the study have different values"
        if name in _COMPARED_TEXTS:
            reason += "; the lines keep the last (in place of last(), first() keeps the first)"
            reason = with_line(reason, "last_text", column=name, study="study")
        studies = studies.exclude(name, pl.col(f"several {name}"), reason)
    reason = "the split is missing, although other rows have one"
    studies = studies.exclude("split", pl.col("lacks split"), reason)
    return studies, images.used


def _all_quoted(values: Iterable[str]) -> str | None:
    return " and ".join(map(quoted, values)) or None


def _grouped(images: pl.DataFrame) -> pl.DataFrame:
    """Return a row per examination: the first value of each field, the date and time of the
    earliest image, and the faults."""
    images = images.with_columns(instant=pl.col("day").dt.combine(pl.col("clock")))
    instant = pl.col("instant")
    day = pl.col("day")
    # the images of one night can have two dates
    is_long = (instant.is_null() & day.is_not_null()).any() | (
        instant.max() - instant.min() > _STUDY_LASTS
    )
    values = {name: pl.col(column).drop_nulls() for name, column in _COMPARED.items()}
    compared = values | {name: values[name].str.strip_chars() for name in _COMPARED_TEXTS}
    studies = images.group_by(_STUDY, maintain_order=True).agg(
        pl.col("file", "row", "id").first(),
        pl.len().alias("rows"),
        pl.col("fault", "unused").drop_nulls().first(),
        *(value.first() for name, value in values.items() if name != "date"),
        *((value.n_unique() > 1).alias(f"several {name}") for name, value in compared.items()),
        day=pl.coalesce(instant.min().dt.date(), day.drop_nulls().first()),
        clock=pl.coalesce(instant.min().dt.time(), pl.col("clock").min()),
        lasts_too_long=is_long,
        has_image=pl.col("image").is_not_null().any(),
    )
    given = pl.col("subject").unique(maintain_order=True).head(2).alias("given subject")
    subjects = images.group_by("study").agg(given)
    has_splits = images["split"].null_count() < images.height
    lacks_split = pl.col("split").is_null() & pl.col("unused").is_null() & pl.lit(has_splits)
    return studies.join(subjects, on="study", how="left", maintain_order="left").with_columns(
        (pl.col("given subject").list.len() > 1).alias("two subjects"),
        lacks_split.alias("lacks split"),
        pl.col("several date") & pl.col("lasts_too_long"),
        has_report=pl.any_horizontal(pl.col(REPORT).is_not_null()),
    )


def choose_images(
    studies: Rows, image_rows: pl.DataFrame, role: str, notes: Notes
) -> tuple[Rows, list[str]]:
    """Keep the examinations with a report and a frontal image, and add the images they use; list
    the other examinations and images.

    Args:
        image_rows: the rows of :func:`group_images`.
        role: the input under which unknown views are counted.

    Returns:
        The examinations, and the ids of those that are only a source of previous reports.
    """
    studies = studies.exclude("", pl.col("unused").is_not_null(), pl.col("unused"), LEFT_OUT)
    is_prior_only = pl.col("has_report") & ~pl.col("has_image")
    prior_only = studies.used.filter(is_prior_only)["study"].to_list()
    studies = studies.exclude("", is_prior_only, "no image", PRIOR_ONLY)
    unknown = image_rows.filter(pl.col("rank").is_null(), pl.col("image").is_not_null())
    for view in unknown["view"]:
        notes.count("unknown_views", role, "(none)" if view is None else quoted(view))
    numbered = studies.used.with_row_index("number")
    image_table = image_rows.select(*_STUDY, "file", "row", "image", "view", "rank", "id")
    image_table = image_table.join(
        numbered.select("number", "has_report", *_STUDY), on=_STUDY, maintain_order="left"
    )
    images = studies._replace(used=image_table)
    images = images.exclude("image", pl.col("image").is_null(), "the image path is missing")
    given_view = mapped("view", quoted)
    if role == "table":
        no_view = "no view; the column view needs PA, AP, FRONTAL or LATERAL"
        images = images.exclude(
            "", pl.col("rank").is_null() & pl.col("view").is_null(), no_view, LEFT_OUT
        )
    images = images.exclude("", pl.col("rank").is_null(), "unknown view", LEFT_OUT, given_view)
    images = images.with_columns(is_lateral=pl.col("rank") % len(_VIEWS) == _VIEWS.index("lateral"))

    is_lateral_only = pl.col("is_lateral").all().over("number")
    images = images.exclude("", ~pl.col("has_report"), "neither findings nor impression", LEFT_OUT)
    prior_only += images.used.filter(is_lateral_only)["study"].to_list()
    images = images.exclude("", is_lateral_only, "no frontal image", PRIOR_ONLY)
    images = images._replace(used=images.used.sort("number", "rank", maintain_order=True))
    is_further = ~pl.struct("number", "is_lateral").is_first_distinct()
    view = pl.when("is_lateral").then(pl.lit("lateral")).otherwise(pl.lit("frontal"))
    reason = pl.format("a further {} image of the study", view)
    images = images.exclude("", is_further, reason, LEFT_OUT)

    laterals = images.used.filter("is_lateral").select("number", lateral="image")
    frontals = images.used.filter(~pl.col("is_lateral")).select(
        "number", "file", "row", "rank", frontal="image"
    )
    used = frontals.join(numbered.drop("file", "row", "rows"), on="number", maintain_order="left")
    used = used.join(laterals, on="number", how="left", maintain_order="left")
    names = dict(enumerate(_VIEWS[:-1]))
    chosen = images._replace(used=used).with_columns(
        study_id="study",
        subject_id="subject",
        view=(pl.col("rank") % len(_VIEWS)).replace_strict(names, return_dtype=pl.String),
        rows=1 + pl.col("lateral").is_not_null(),
    )
    return chosen, prior_only
