"""From rows of images to studies: what the readers of a table and of MIMIC-CXR share.

A study of two images has two rows, which repeat the study's fields; what one of them leaves out is taken from the
other, and where they differ the study is a problem. The previous report is looked up by date and time
(:mod:`pacer.data.priors`).

A study that is a problem, or that is not used, still stands between its neighbours: a problem counts as an earlier
study without a report, and a study with a report but without a frontal image can be a prior.
"""

from __future__ import annotations

from datetime import time
from functools import lru_cache

import polars as pl

from pacer.config import Corpus
from pacer.core.hygiene import CONTROL, is_absent
from pacer.data.account import Account
from pacer.data.priors import choose_priors
from pacer.data.readers.dates import DATE_FORMS, TIME_FORMS, day_of, time_of, time_within
from pacer.data.readers.views import is_special, parse_view
from pacer.data.splits import seeded_split
from pacer.data.studies import STUDY_SCHEMA, contexts_of, mapped
from pacer.data.values import BAD, LEFT_OUT, quoted, shown_view

#: Columns of the rows: those that there must be, and those that there may be.
REQUIRED = ("subject", "study", "view", "image")
REPORT = ("findings", "impression")  # at least one of them
OPTIONAL = ("date", "time", "indication", "history", "split")
COLUMNS = (*REQUIRED, *REPORT, *OPTIONAL)
#: Columns whose text is taken as it stands.
TEXTS = (*REPORT, "indication", "history")
#: Why a study is not used, where its reader knows; its report, if it has one, can still be a previous one.
UNUSED = "unused"

_IS_EMPTY = pl.all_horizontal(pl.col(COLUMNS).is_null())
_SPLITS = dict.fromkeys(("val", "valid", "validate", "validation", "dev"), "val") | {"train": "train", "test": "test"}
_STUDY = ["subject", "study"]
#: Views in the order in which they are chosen.
_VIEWS = ("PA", "AP", "other", "lateral")
_IS_LATERAL = pl.col("rank") % len(_VIEWS) == _VIEWS.index("lateral")
#: Fields in which the rows of a study must agree, and what is compared.
_COMPARED = {"date": "day", "time": "clock", "split": "known_split"} | {name: name for name in TEXTS}
#: Fields whose values may be quoted.
_QUOTED = ("date", "time", "split")
#: What can be wrong with a study: its field, what is said, and the refused values that may be quoted.
_FAULTS: dict[str, tuple[str, str, str | None]] = {
    "subjects": ("study", "the study is given under more than one subject", "subject"),
    "no day": ("date", DATE_FORMS, "date"),
    "no time": ("time", TIME_FORMS, "time"),
    "two times": ("time", "the date holds another time of day", "time"),
    "unknown split": ("split", "expected train, val (valid, validate, validation, dev) or test", "split"),
    "no split": ("split", "splits are given, but none for this study", None),
    **{f"control {name}": (name, "a control character is in it; give plain text", None) for name in TEXTS},
    **{
        f"differ {name}": (name, "the rows of the study differ in it", None if name in TEXTS else name)
        for name in _COMPARED
    },
}


def studies_of(images: pl.DataFrame, file: str, unit: str, role: str, config: Corpus, account: Account) -> pl.DataFrame:
    """The studies that rows of images are, in the order of the rows; rows that are part of none are listed.

    Args:
        images: a row per image as text, with the columns of ``REQUIRED``, one of ``REPORT`` and any of ``OPTIONAL``,
            and ``line``, the number of the row in the file.
        file, unit, role: where the rows come from and what ``line`` counts, for messages and counts.
        account: gets the topics ``absent_words``, ``unknown_views`` and ``priors``.
    """
    images = images.with_columns(
        *(pl.lit(None, pl.String).alias(name) for name in (*COLUMNS, UNUSED) if name not in images.columns),
        file=pl.lit(file), row=pl.format("{} {}", pl.lit(unit), "line"), rows=pl.lit(1, pl.Int64),
    )  # fmt: skip
    images = _values(images, role, account)
    has_splits = images["split"].is_not_null().any()
    images = account.divert(images, "", _IS_EMPTY, "an empty row", LEFT_OUT)
    for column in _STUDY:
        images = account.divert(images, column, pl.col(column).is_null(), "the id is missing")
    studies = _with_priors(_grouped(images, has_splits), role, account)
    for name, (field, said, value) in _FAULTS.items():
        shown = None if value is None else pl.col(f"given {value}")
        studies = account.divert(studies, field, pl.col(name), said, BAD, shown)
    unused, without_image = pl.col(UNUSED), pl.col("has_report") & ~pl.col("has_image")
    studies = account.divert(studies, "", unused.is_not_null(), unused, LEFT_OUT)
    reason = "no image: its report can only be a previous one"
    studies = account.divert(studies, "", without_image, reason, LEFT_OUT)
    return _with_images(studies, images, config, account)


def _values(images: pl.DataFrame, role: str, account: Account) -> pl.DataFrame:
    """The rows with their values read: null for what is blank or a word for no text, ``day``, ``clock``,
    ``known_split``, ``rank`` of the view, and the faults of each row."""
    for name in TEXTS:
        absent = images.select(mapped(name, is_absent, pl.Boolean).sum()).item()
        account.count("absent_words", "texts", name, absent)
        images = images.with_columns(mapped(name, lambda text: text if text.strip() and not is_absent(text) else None))
    names = [name for name in COLUMNS if name not in TEXTS]
    images = images.with_columns(mapped(name, lambda value: value.strip() or None) for name in names)
    images = images.with_columns(
        *(mapped(name, quoted).alias(f"given {name}") for name in _QUOTED),
        id="study",
        day=mapped("date", day_of, pl.Date),
        clock_of_day=mapped("date", time_within, pl.Time),
        clock=mapped("time", time_of, pl.Time),
        known_split=mapped("split", lambda split: _SPLITS.get(split.lower())),
        rank=mapped("view", _rank_of, pl.Int64),
    )
    unknown = images.filter(pl.col("rank").is_null() & ~_IS_EMPTY)
    for view in unknown["view"]:
        account.count("unknown_views", role, "(none)" if view is None else shown_view(view))
    # dates that are all at midnight are days, written as instants; midnight beside another time is no time either
    timed = pl.col("clock_of_day").is_not_null() & (pl.col("clock_of_day") != pl.lit(time()))
    images = images.with_columns(
        pl.Series("no day", images["date"].is_not_null() & images["day"].is_null()),
        pl.Series("no time", images["time"].is_not_null() & images["clock"].is_null()),
        pl.Series("unknown split", images["split"].is_not_null() & images["known_split"].is_null()),
        (timed & (pl.col("clock") != pl.col("clock_of_day")).fill_null(False)).alias("two times"),
        *(pl.col(name).str.contains(CONTROL).fill_null(False).alias(f"control {name}") for name in TEXTS),
    )
    if images.select(timed.any()).item():
        images = images.with_columns(pl.coalesce("clock", "clock_of_day").alias("clock"))
    return images


def _grouped(images: pl.DataFrame, has_splits: bool) -> pl.DataFrame:
    """A row per study, in the order of their first rows: of each field the first value, the faults of :data:`_FAULTS`,
    and the values that may be quoted (``given date``, ...)."""
    row_faults = ["no day", "no time", "unknown split", "two times", *(f"control {name}" for name in TEXTS)]
    studies = images.group_by(_STUDY, maintain_order=True).agg(
        pl.col("file", "row", "line").first(),
        pl.col("rows").sum(),
        pl.col(row_faults).any(),
        pl.col(UNUSED, *_COMPARED.values()).drop_nulls().first(),
        *((pl.col(own).drop_nulls().n_unique() > 1).alias(f"differ {name}") for name, own in _COMPARED.items()),
        *(pl.col(f"given {name}").drop_nulls().unique(maintain_order=True) for name in _QUOTED),
        has_image=pl.col("image").is_not_null().any(),
    )
    owners = studies.with_columns(mapped("subject", quoted).alias("given subject")).group_by("study")
    owners = owners.agg("given subject")
    studies = studies.join(owners, on="study", how="left", maintain_order="left")
    lacks_split = pl.col("known_split").is_null() & pl.col(UNUSED).is_null()
    # where there are no times they are those of the dates
    of_dates = pl.lit(not images["time"].is_not_null().any()) & pl.col("differ time")
    return studies.with_columns(
        pl.col("differ date") | of_dates,
        (pl.col("given subject").list.len() > 1).alias("subjects"),
        (lacks_split & pl.lit(has_splits)).alias("no split"),
        *(pl.col(f"given {name}").list.head(2).list.join(" and ") for name in ("subject", *_QUOTED)),
        has_report=pl.col("findings").is_not_null() | pl.col("impression").is_not_null(),
        id="study",
    )


def _with_priors(studies: pl.DataFrame, role: str, account: Account) -> pl.DataFrame:
    """The studies with the report of the previous one of each, and what is known of it."""
    faultless = ~pl.any_horizontal(pl.col(list(_FAULTS)))
    dated = studies.select(*_STUDY, "day", "clock", has_report=pl.col("has_report") & faultless)
    choices = choose_priors(dated)
    none_with_report = choices["prior_study_id"].is_null() & (choices["passed_over"] > 0)
    account.count("priors", role, "undated", choices["day"].null_count())
    account.count("priors", role, "same day, order unknown", int(choices["unordered"].sum()))
    account.count("priors", role, "earlier studies, none with a report", int(none_with_report.sum()))
    reports = studies.select(
        "subject", prior_study_id="study", prior_findings="findings", prior_impression="impression"
    )
    choices = choices.drop("day", "clock", "has_report", "unordered")
    known = pl.col("prior_study_id").is_not_null()
    choices = choices.with_columns(pl.when(known).then(name).alias(name) for name in ("tied", "passed_over"))
    studies = studies.join(choices, on=_STUDY, how="left", maintain_order="left")
    return studies.join(reports, on=["subject", "prior_study_id"], how="left", maintain_order="left")


def _with_images(studies: pl.DataFrame, images: pl.DataFrame, config: Corpus, account: Account) -> pl.DataFrame:
    """The studies that have a report and a frontal image, with the images that are used; other images are listed."""
    studies = studies.with_row_index("number")
    images = images.select(*_STUDY, "file", "row", "rows", "line", "image", "view", "rank", "id")
    images = images.join(studies.select("number", "has_report", *_STUDY), on=_STUDY, maintain_order="left")
    images = account.divert(images, "image", pl.col("image").is_null(), "the image path is missing")
    unknown = pl.col("rank").is_null()
    images = account.divert(images, "", unknown, "unknown view", LEFT_OUT, mapped("view", quoted))
    images = images.with_columns(is_lateral=_IS_LATERAL)

    usable = images.group_by("number", maintain_order=True).agg(
        pl.col("file", "row", "id", "has_report").first(), pl.col("rows").sum(), only_lateral=pl.col("is_lateral").all()
    )
    usable = account.divert(usable, "", ~pl.col("has_report"), "neither findings nor impression", LEFT_OUT)
    usable = account.divert(usable, "", pl.col("only_lateral"), "no frontal image", LEFT_OUT)
    images = images.join(usable.select("number"), on="number", how="semi", maintain_order="left")
    images = images.sort("number", "rank", "line")
    view = pl.when("is_lateral").then(pl.lit("lateral")).otherwise(pl.lit("frontal"))
    further = ~pl.struct("number", "is_lateral").is_first_distinct()
    reason = pl.format("a further {} image of the study", view)
    again = pl.when(~pl.struct("number", "image").is_first_distinct())
    again = again.then(pl.format("the same file as in {}", pl.col("row").first().over("number", "image")))
    images = account.divert(images, "", further, reason, LEFT_OUT, again)

    laterals = images.filter("is_lateral").select("number", lateral="image")
    frontals = images.filter(~pl.col("is_lateral")).select("number", "file", "row", "rank", frontal="image")
    studies = studies.drop("file", "row", "rows", "split", strict=False)
    studies = frontals.join(studies, on="number", maintain_order="left")
    studies = studies.join(laterals, on="number", how="left", maintain_order="left")
    shares = config.split
    seeded = mapped("subject", lambda subject: seeded_split(subject, config.seed, shares.val, shares.test))
    names = dict(enumerate(_VIEWS[:-1]))
    return studies.with_columns(
        contexts=contexts_of(pl.col("lateral").is_not_null(), pl.col("prior_study_id").is_not_null()),
        split=pl.coalesce("known_split", seeded),
        study_id="study",
        subject_id="subject",
        view=(pl.col("rank") % len(_VIEWS)).replace_strict(names, return_dtype=pl.String),
        emphasis=pl.lit(None, STUDY_SCHEMA["emphasis"]),
        rows=1 + pl.col("lateral").is_not_null().cast(pl.Int64),
    ).select(pl.col(name).cast(kind) for name, kind in STUDY_SCHEMA.items())


@lru_cache(maxsize=256)
def _rank_of(view: str) -> int | None:
    """The place of a view in ``_VIEWS``, None for an unknown one. That of a special view is beyond the list: it is
    taken where there is no usual one."""
    parsed = parse_view(view)
    if parsed is None:
        return None
    usual = _VIEWS.index("lateral" if parsed.kind == "lateral" else parsed.view)
    return usual + len(_VIEWS) * is_special(view)
