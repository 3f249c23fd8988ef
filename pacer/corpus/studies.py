"""From rows of images to examinations: what the readers of a table and of MIMIC-CXR share.

A study of two images has two rows, which repeat the study's fields; what one of them leaves out is taken from the
other, and where they differ the study is a problem. The previous report is looked up by date and time
(:mod:`pacer.corpus.priors`).

A study that is a problem, or that is not used, still stands between its neighbours: a problem counts as an earlier
study without a report, and a study with a report but without a frontal image can be a prior.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import polars as pl

from pacer.core.contexts import contexts_within
from pacer.core.hygiene import CONTROL, is_absent
from pacer.corpus.dates import DATE_FORMS, TIME_FORMS, as_text, read_days, read_times
from pacer.corpus.priors import DatedStudy, choose_priors
from pacer.corpus.rows import Examination, LeftOut, Notes, Place, Prior, Problem, Row, shown_view
from pacer.corpus.splits import seeded_split
from pacer.corpus.views import is_special, parse_view
from pacer.params import Corpus

#: Columns of the rows: those that there must be, and those that there may be.
REQUIRED = ("subject", "study", "view", "image")
REPORT = ("findings", "impression")  # at least one of them
OPTIONAL = ("date", "time", "indication", "history", "split")
COLUMNS = (*REQUIRED, *REPORT, *OPTIONAL)
#: Columns whose text is taken as it stands.
TEXTS = (*REPORT, "indication", "history")
#: Why a study is not used, where its reader knows; its report, if it has one, can still be a previous one.
UNUSED = "unused"

_SPLITS = dict.fromkeys(("val", "valid", "validate", "validation", "dev"), "val") | {"train": "train", "test": "test"}
_DIFFER = "the rows of the study differ in it"
#: What can be wrong with a study, the first that applies counts; the codes are places in this list.
_FAULTS: tuple[tuple[str, str], ...] = (
    ("study", "the study is given under more than one subject"),
    ("date", DATE_FORMS),
    ("time", TIME_FORMS),
    ("time", "the date holds another time of day"),
    ("split", "expected train, val (valid, validate, validation, dev) or test"),
    ("split", "splits are given, but none for this study"),
    *((name, "a control character is in it; give plain text") for name in TEXTS),
    *((name, _DIFFER) for name in ("date", "time", "split", *TEXTS)),
)
#: Views in the order in which they are chosen.
_VIEWS = ("PA", "AP", "other", "lateral")
_LATERAL = _VIEWS.index("lateral")
#: Studies that are made into Python objects at a time.
_CHUNK = 8192


def examinations(images: pl.DataFrame, file: str, role: str, config: Corpus, notes: Notes) -> Iterator[Row]:
    """Every study, and every row that is part of none.

    Rows that name no study come first, then the studies in the order of the rows.

    Args:
        images: a row per image with the columns of ``REQUIRED``, one of ``REPORT`` and any of ``OPTIONAL``, and their
            line in the file as ``row`` (of Parquet their number).
        file, role: where the rows come from, for messages.
        notes: gets the topics ``absent_words``, ``unknown_views`` and ``priors``.
    """
    has_times = "time" in images.columns
    table = _normal(images, role, notes)
    del images
    yield from _rows_without_study(table, file)
    studies = _studies(table, has_times)
    del table
    priors = _priors(studies, role, notes)
    studies = studies.drop("day", "clock", "has_report")
    for first in range(0, studies.height, _CHUNK):
        chosen = priors.slice(first, _CHUNK)
        chunk = studies.slice(first, _CHUNK)
        earlier = studies.select("study", *REPORT)[chosen["prior"].fill_null(0)]
        for values, reports, (number, *choice) in zip(
            chunk.iter_rows(), earlier.iter_rows(), chosen.iter_rows(), strict=True
        ):
            prior = None
            if number is not None:
                study_id, findings, impression = reports
                prior = Prior(findings, impression, study_id, *choice)
            yield from _rows_of(_Grouped(*values), prior, file, config)


def _normal(table: pl.DataFrame, role: str, notes: Notes) -> pl.DataFrame:
    """The rows with what is blank as null, dates and times read, views ranked and splits under our names."""
    optional = (*COLUMNS, UNUSED)
    table = table.with_columns(pl.lit(None, pl.String).alias(name) for name in optional if name not in table.columns)
    subject, study, image, view, split = (
        _blank_to_null(_text(table[name])) for name in ("subject", "study", "image", "view", "split")
    )
    date, time = (_blank_to_null(v) if v.dtype == pl.String else v for v in (table["date"], table["time"]))
    absent = {name: table[name].is_in([*filter(is_absent, table[name].unique().drop_nulls())]) for name in TEXTS}
    for name, found in absent.items():
        if number := int(found.sum() or 0):
            notes.count("absent_words", "texts", name, number)
    texts = (pl.when(pl.col(name).str.contains(r"\S") & ~absent[name]).then(name).alias(name) for name in TEXTS)
    days, times = read_days(date), read_times(time)
    clock, two_clocks = _clocks(days["clock"], times["clock"])
    normal = pl.DataFrame(
        {
            "row": table["row"],
            "subject": subject,
            "study": study,
            "image": image,
            "day": days["day"],
            "clock": clock,
            "no_day": days["unread"],
            "no_clock": times["unread"],
            "two_clocks": two_clocks,
            "split": split.str.to_lowercase().replace_strict(_SPLITS, default=None),
            UNUSED: table[UNUSED],
            **table.select(texts).to_dict(),
        }
    )
    nothing = normal.select(pl.all_horizontal(pl.col("subject", "study", "image", *TEXTS).is_null())).to_series()
    empty = nothing & view.is_null() & split.is_null() & date.is_null() & time.is_null()
    return normal.with_columns(
        empty.alias("empty"),
        _ranks(view, role, notes, ~empty).alias("rank"),
        (split.is_not_null() & normal["split"].is_null()).alias("no_split"),
    )


def _clocks(of_dates: pl.Series, times: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The time of day of every row, from its time or else its date, and whether the two differ.

    Dates that are all at midnight are days, written as instants; midnight beside another time is no time either.
    """
    midnight = of_dates.cast(pl.Int64) == 0
    if not (~midnight).any():
        return times, pl.Series([False]).new_from_index(0, len(times))
    clock = pl.select(pl.coalesce(pl.lit(times), pl.lit(of_dates))).to_series()
    differ = (of_dates != times) & ~midnight
    return clock, differ.fill_null(False)


def _text(column: pl.Series) -> pl.Series:
    """As text; 7.0 is 7, because an id does not change its name when its column has gaps."""
    if column.dtype.is_float():
        whole = column.cast(pl.Int64, strict=False)
        return pl.select(
            pl.when(pl.lit(column) == pl.lit(whole)).then(pl.lit(whole.cast(pl.String))).otherwise(as_text(column))
        ).to_series()
    return as_text(column)


def _blank_to_null(column: pl.Series) -> pl.Series:
    """Text without white space around it, null where nothing is left."""
    bare = column.str.strip_chars()
    return bare.set((bare == "").fill_null(False), None)


def _ranks(view: pl.Series, role: str, notes: Notes, counted: pl.Series) -> pl.Series:
    """The rank of every row's view, null for an unknown one."""
    ranks = {text: rank for text in view.unique().drop_nulls() if (rank := rank_of(text)) is not None}
    rank = view.replace_strict(
        list(ranks), pl.Series(list(ranks.values()), dtype=pl.Int8), default=None, return_dtype=pl.Int8
    )
    for text, number in view.filter(rank.is_null() & counted).value_counts().iter_rows():
        notes.count("unknown_views", role, "(none)" if text is None else shown_view(text), number)
    return rank


def rank_of(view: str) -> int | None:
    """The place of a view in ``_VIEWS``, None for an unknown one. That of a special view is beyond the list: it is
    taken where there is no usual one."""
    found = parse_view(view)
    if found is None:
        return None
    usual = _LATERAL if found.kind == "lateral" else _VIEWS.index(found.view)
    return usual + len(_VIEWS) * is_special(view)


def by_view(images: Iterable[RankedImage]) -> tuple[list[RankedImage], list[RankedImage]]:
    """Frontal and lateral images, each in the order in which they are chosen."""
    ranked = sorted(images, key=lambda image: image[:2])
    frontals, laterals = ([image for image in ranked if image.is_lateral == side] for side in (False, True))
    return frontals, laterals


def _rows_without_study(table: pl.DataFrame, file: str) -> Iterator[Row]:
    lost = table.filter(pl.col("subject").is_null() | pl.col("study").is_null())
    for row, empty, subject in lost.select("row", "empty", "subject").iter_rows():
        if empty:
            yield LeftOut(Place(file, "", row), "an empty row")
        else:
            yield Problem(Place(file, "", row), "study" if subject else "subject", "there is no id")


class RankedImage(NamedTuple):
    """An image and :func:`rank_of` its view; ``row``: its line in the file."""

    rank: int
    row: int
    path: str

    @property
    def is_lateral(self) -> bool:
        return self.rank % len(_VIEWS) == _LATERAL

    @property
    def view(self) -> str:
        """Of a frontal image: ``PA``, ``AP`` or ``other``."""
        return _VIEWS[self.rank % len(_VIEWS)]


class _Grouped(NamedTuple):
    """One study; the lists have an entry per row, in the order of the table."""

    subject: str
    study: str
    row: list[int]
    rank: list[int | None]
    image: list[str | None]
    split: str | None
    findings: str | None
    impression: str | None
    indication: str | None
    history: str | None
    unused: str | None
    fault: int | None


def _studies(table: pl.DataFrame, has_times: bool) -> pl.DataFrame:
    """One row per study, with the fields of :class:`_Grouped`, ``day``, ``clock`` and ``has_report``.

    ``has_times``: the table has a column for times; else they come from its dates.
    """
    compared = {"date": "day", "time": "clock"} | {name: name for name in ("split", *TEXTS)}
    has_splits = table["split"].is_not_null().any() or table["no_split"].any()
    studies = (
        table.lazy()
        .filter(pl.col("subject").is_not_null() & pl.col("study").is_not_null())
        .group_by("subject", "study", maintain_order=True)
        .agg(
            pl.col("row", "rank", "image"),
            pl.col("no_day", "no_clock", "two_clocks", "no_split").any(),
            pl.col(*compared.values(), UNUSED).drop_nulls().first(),
            *(pl.col(name).str.contains(CONTROL).any().alias(f"control_{name}") for name in TEXTS),
            *((pl.col(column).drop_nulls().n_unique() > 1).alias(f"differ_{n}") for n, column in compared.items()),
        )
        .collect()
    )
    if not has_times:
        studies = studies.with_columns(differ_date=pl.any_horizontal("differ_date", "differ_time"))
    faults = [
        pl.col("study").is_duplicated(),
        pl.col("no_day"),
        pl.col("no_clock"),
        pl.col("two_clocks"),
        pl.col("no_split"),
        pl.col("split").is_null() & has_splits & pl.col(UNUSED).is_null(),
        *(pl.col(f"control_{name}") for name in TEXTS),
        *(pl.col(f"differ_{name}") for name in compared),
    ]
    fault = pl.coalesce(pl.when(wrong).then(pl.lit(code, pl.Int8)) for code, wrong in enumerate(faults))
    has_report = pl.any_horizontal(pl.col(name).is_not_null() for name in REPORT)
    usable = has_report & pl.col("fault").is_null()
    return studies.with_columns(fault.alias("fault")).select(
        *_Grouped._fields, "day", "clock", usable.alias("has_report")
    )


def _priors(studies: pl.DataFrame, role: str, notes: Notes) -> pl.DataFrame:
    """The row number of every study's prior, null without one, and what is known about the choice."""
    chosen: list[tuple] = [(None, None, None, False, 0)] * studies.height
    subjects = (
        studies.lazy()
        .with_row_index("number")
        .group_by("subject", maintain_order=True)
        .agg("number", "study", "day", "clock", "has_report")
        .collect()
    )
    for _, numbers, *columns in subjects.iter_rows():
        of = dict(zip(columns[0], numbers, strict=True))
        for number, day, choice in zip(numbers, columns[1], choose_priors([*map(DatedStudy, *columns)]), strict=True):
            if day is None:
                notes.count("priors", role, "undated")
            if choice.unordered:
                notes.count("priors", role, "same day, order unknown")
            if choice.study_id is None:
                if choice.passed_over:
                    notes.count("priors", role, "earlier studies, none with a report")
                continue
            chosen[number] = of[choice.study_id], choice.gap_days, choice.rule, choice.tied, choice.passed_over
    schema = {"prior": pl.Int64, "gap_days": pl.Float64, "rule": pl.String, "tied": pl.Boolean, "passed_over": pl.Int32}
    return pl.DataFrame(chosen, schema, orient="row")


def _rows_of(study: _Grouped, prior: Prior | None, file: str, config: Corpus) -> Iterator[Row]:
    """What becomes of the rows of a study."""
    if study.fault is not None:
        yield Problem(Place(file, "", study.row[0]), *_FAULTS[study.fault], len(study.row))
        return
    if study.unused is not None:
        yield LeftOut(Place(file, "", study.row[0]), study.unused, len(study.row))
        return
    if not any(study.image) and (study.findings is not None or study.impression is not None):
        reason = "no image: its report can only be a previous one"
        yield LeftOut(Place(file, "", study.row[0]), reason, len(study.row))
        return
    usable: list[RankedImage] = []
    for row, rank, image in zip(study.row, study.rank, study.image, strict=True):
        if image is None:
            yield Problem(Place(file, "", row), "image", "there is no path of an image")
        elif rank is None:
            yield LeftOut(Place(file, "", row), "unknown view")
        else:
            usable.append(RankedImage(rank, row, image))
    if not usable:
        return
    first = Place(file, "", min(image.row for image in usable))
    if study.findings is None and study.impression is None:
        yield LeftOut(first, "neither findings nor impression", len(usable))
        return
    frontals, laterals = by_view(usable)
    if not frontals:
        yield LeftOut(first, "no frontal image", len(usable))
        return
    for image in frontals[1:]:
        yield LeftOut(Place(file, "", image.row), "a further frontal image of the study")
    for image in laterals[1:]:
        yield LeftOut(Place(file, "", image.row), "a further lateral image of the study")
    lateral = laterals[0].path if laterals else None
    frontal = frontals[0]
    yield Examination(
        place=Place(file, "", frontal.row),
        id=study.study,
        study_id=study.study,
        subject_id=study.subject,
        contexts=contexts_within(lateral is not None, prior is not None),
        split=study.split or seeded_split(study.subject, config.seed, config.split.val, config.split.test),
        view=frontal.view,
        frontal=frontal.path,
        lateral=lateral,
        findings=study.findings,
        impression=study.impression,
        prior=prior,
        indication=study.indication,
        history=study.history,
        rows=1 + (lateral is not None),
    )
