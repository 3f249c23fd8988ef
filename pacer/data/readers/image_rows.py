"""Conversion of image rows to studies, shared by the readers of tables and of MIMIC-CXR.

A study with two images has two rows, which repeat the study's fields. A field missing from one row
is taken from the other; if the rows differ, the study is a problem. The previous report is found by
date and time (:mod:`pacer.data.priors`).

Problem studies and unused studies still take part in this search. A problem study counts as an
earlier study without a report, and a study with a report but no frontal image can be a prior.
"""

import re
from collections import Counter
from datetime import timedelta
from pathlib import Path

import polars as pl

from pacer.data.account import BAD, LEFT_OUT, Account
from pacer.data.hygiene import (
    ANY_RESIDUE,
    CONTROL,
    EMPTY_CELL,
    LOST,
    PLACEHOLDER,
    id_fault,
    is_absent,
    without_residue,
)
from pacer.data.patients import TABLE, is_nobody
from pacer.data.priors import CHOICE_SCHEMA, choose_priors, read_moments
from pacer.data.readers.views import header_views, is_special, parse_view
from pacer.data.sections import Sections, cut_report
from pacer.data.values import DATE_FORMS, TIME_FORMS, mapped, quoted

#: Required and optional columns of the rows.
REQUIRED = ("subject", "study", "view", "image")
REPORT = (
    "findings",
    "impression",
)  # at least one of them, or a whole report, which is cut into sections
WHOLE = "whole_report"
PREVIOUS = (
    "previous_report"  # of the row's own study; else the report of an earlier study is looked for
)
OPTIONAL = (WHOLE, "date", "time", "order", "indication", "history", "split", PREVIOUS)
COLUMNS = (*REQUIRED, *REPORT, *OPTIONAL)
#: Columns whose text is used unchanged.
TEXTS = (*REPORT, "indication", "history")
#: Names of the previous report's texts in messages.
OF_PREVIOUS = {f"prior_{name}": f"{name} of the previous study" for name in REPORT}
#: Column for the reason why a reader excludes a study; its report, if any, can still be a previous
#: report.
UNUSED = "unused"

#: Words for a split, and our names of the splits.
SPLITS: dict[str, str] = TABLE["splits"]
_STUDY = ["subject", "study"]
#: Views in order of preference.
_VIEWS = ("PA", "AP", "other", "lateral")
#: Fields in which the rows of a study must agree, and the columns that are compared; images have
#: different times.
_COMPARED = {"date": "day", "order": "number_of_order", "split": "known_split"}
_COMPARED |= {name: name for name in (*TEXTS, PREVIOUS)}
#: Longest time between two studies of a patient that have one text and are one examination.
_EXAMINATION = timedelta(hours=1)
#: Fields whose refused values may be quoted.
_QUOTED = ("subject", "date", "time", "order", "split")
#: Number of unknown headings of one name up to which they are not listed.
_MAX_UNLISTED = 5
#: Longest time between the first and the last image of a study, if they are of several days.
_STUDY_LASTS = timedelta(days=1)
#: Dates and de-identified words, in which two texts of a study may differ.
_MONTH = r"(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_REMOVED = (
    rf"[0-9]{{1,4}}[-/.][0-9]{{1,2}}[-/.][0-9]{{1,4}}|\b{_MONTH}\s[0-9]{{1,2}},?\s[0-9]{{4}}|[0-9]{{1,2}}\s{_MONTH}\s[0-9]{{4}}"
    r"|_+|\[[^\[\]]*\]|<[^<>]*>|X{3,}|\s+"
)
#: What differs between two accessions of one report.
_BELOW = r"(?s)\b(?:addendum|accession|signed|dictated)\b.*"
#: Faults of a study (each a column): its field, the message, and the column whose values are
#: quoted.
_FAULTS = {
    "two subjects": (
        "study",
        "the study appears under more than one subject; make its id unique",
        "subject",
    ),
    "bad date": ("date", DATE_FORMS, "date"),
    "bad time": ("time", TIME_FORMS, "time"),
    "bad order": ("order", "expected a whole number of at most nine digits", "order"),
    "two times": ("time", "the date of a row contains a different time of day", "time"),
    "bad split": (
        "split",
        "expected train, val (valid, validate, validation, dev) or test",
        "split",
    ),
    **{
        f"several {name}": (name, "the rows of the study have different values", name)
        for name in _COMPARED
    },
}


def studies_of(
    images: pl.DataFrame, role: str, account: Account, folder: Path | None = None
) -> pl.DataFrame:
    """Group image rows to studies, in the order of the rows; list rows that belong to no study.

    Args:
        images: one row per image as text, with the columns of ``REQUIRED``, one of ``REPORT`` and
            any of ``OPTIONAL``, and its place (``file``, ``row``).
        role: the input under which the account counts.
        folder: of the images; the headers of DICOM files in it tell views that the rows do not.
            None: there are none.
    """
    absent = [
        pl.lit(None, pl.String).alias(name)
        for name in (*COLUMNS, UNUSED)
        if name not in images.columns
    ]
    images = _parsed(
        images.with_columns(*absent).with_columns(id=pl.col("study").fill_null("")), account
    )
    images = _with_rank(images, role, folder, account)
    is_empty = pl.all_horizontal(pl.col(COLUMNS).is_null())
    images = account.divert(images, "", is_empty, "an empty row", LEFT_OUT)
    for column in _STUDY:
        images = account.divert(images, column, pl.col(column).is_null(), "the id is missing")
    images = read_moments(images, role, account)
    for view in images.filter(pl.col("rank").is_null())["view"]:
        account.count("unknown_views", role, "(none)" if view is None else quoted(view))
    studies = _with_priors(_grouped(images), role, account)
    two_texts = pl.col("two_texts") & ~pl.any_horizontal(f"several {name}" for name in TEXTS)
    account.count("two_texts", role, "studies", int(studies.select(two_texts.sum()).item()))
    for column in _STUDY:
        fault = mapped(column, id_fault)
        studies = account.divert(
            studies, column, fault.is_not_null(), fault, BAD, mapped(column, quoted)
        )
    for fault, (field, reason, quotable) in _FAULTS.items():
        values = mapped(
            f"given {quotable}", lambda values: " and ".join(map(quoted, values)) or None
        )
        studies = account.divert(
            studies, field, pl.col(fault), reason, BAD, values if quotable in _QUOTED else None
        )
    studies = account.divert(studies, "", pl.col(UNUSED).is_not_null(), pl.col(UNUSED), LEFT_OUT)
    prior_only = pl.col("has_report") & ~pl.col("has_image")
    studies = account.divert(
        studies, "", prior_only, "no image: its report serves only as a previous one", LEFT_OUT
    )
    return _with_images(studies, images, account)


def _parsed(images: pl.DataFrame, account: Account) -> pl.DataFrame:
    """Set blank texts and words for absent text to null; add ``known_split`` (null if not
    understood), and faults of the rows."""
    for name in (*TEXTS, WHOLE, PREVIOUS):
        escaped = pl.when(pl.col(name).str.contains(ANY_RESIDUE)).then(name).alias(name)
        plain = images.select(escaped).select(mapped(name, without_residue)).to_series()
        account.count("unescaped", "texts", name, int((plain != images[name]).sum()))
        images = images.with_columns(pl.coalesce(plain, name).alias(name))
        ids = images.filter(pl.col(name).str.contains(PLACEHOLDER))["id"]
        account.count_first("placeholders", "texts", ((name, id) for id in ids))
        images = images.with_columns(pl.col(name).str.replace_all(PLACEHOLDER, "___"))
        images = account.without_absent(
            images, name, lambda text: is_absent(text) and not re.search(LOST, text)
        )
        images = images.with_columns(
            pl.when(pl.col(name).str.contains(r"\S")).then(name).alias(name)
        )
    if images[WHOLE].null_count() < images.height:
        images = _split_whole_reports(images, account)
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
        (pl.col(name).is_not_null() & pl.col(read).is_null()).alias(f"bad {name}")
        for name, read in (("order", "number_of_order"), ("split", "known_split"))
    )


def _split_whole_reports(images: pl.DataFrame, account: Account) -> pl.DataFrame:
    """Fill sections that have no column, or an empty cell, from the whole reports; count what is
    odd about these."""
    reports = [cut_report(text or "") for text in images[WHOLE]]
    for topic in reports[0][1]:
        odd = zip((topics[topic] for _, topics in reports), images["study"], strict=True)
        noted = [(value, study or "") for values, study in odd for value in values]
        often = Counter(value for value, _ in noted)
        least = _MAX_UNLISTED if topic == "unknown_headings" else 0
        account.count_first(topic, "rows", (pair for pair in noted if often[pair[0]] > least))
    columns = dict.fromkeys(Sections._fields, pl.String())
    cut = pl.DataFrame([sections for sections, _ in reports], columns, orient="row")
    cut = cut.with_columns(pl.col("indication", "history").str.replace_all(r"\s+", " "))
    return images.with_columns(pl.coalesce(name, cut[name]).alias(name) for name in TEXTS)


def _grouped(images: pl.DataFrame) -> pl.DataFrame:
    """Return a row per study, in the order of first rows: the first value of each field, the date
    and time of the earliest image, the faults of :data:`_FAULTS`, and the original values (``given
    date``, ...)."""
    images = images.with_columns(instant=pl.col("day").dt.combine(pl.col("clock")))
    instant, day, clock = pl.col("instant"), pl.col("day"), pl.col("clock")
    # rows of one night may be of two days
    is_long = (instant.is_null() & day.is_not_null()).any() | (
        instant.max() - instant.min() > _STUDY_LASTS
    )
    values = {name: pl.col(compared).drop_nulls() for name, compared in _COMPARED.items()}
    given = {
        name: pl.col(name).drop_nulls().unique(maintain_order=True).head(2) for name in _QUOTED
    }
    studies = images.group_by(_STUDY, maintain_order=True).agg(
        pl.col("file", "row", "id").first(),
        pl.len().alias("rows"),
        pl.col("bad date", "bad time", "bad order", "bad split", "two times").any(),
        pl.col(UNUSED).drop_nulls().first(),
        *(value.first() for name, value in values.items() if name != "date"),
        *(
            (
                (value.str.replace_all(_REMOVED, " ") if name in TEXTS else value).n_unique() > 1
            ).alias(f"several {name}")
            for name, value in values.items()
        ),
        *(given[name].alias(f"given {name}") for name in _QUOTED[1:]),
        day=pl.coalesce(instant.min().dt.date(), day.drop_nulls().first()),
        clock=pl.coalesce(instant.min().dt.time(), clock.min()),
        lasts_too_long=is_long,
        two_texts=pl.any_horizontal(values[name].n_unique() > 1 for name in TEXTS),
        has_image=pl.col("image").is_not_null().any(),
    )
    subjects = studies.group_by("study").agg(given["subject"].alias("given subject"))
    has_splits = images["split"].null_count() < images.height
    no_split = pl.col("known_split").is_null() & pl.col(UNUSED).is_null()
    return studies.join(subjects, on="study", how="left", maintain_order="left").with_columns(
        (pl.col("given subject").list.len() > 1).alias("two subjects"),
        pl.col("bad split") | (no_split & pl.lit(has_splits)),
        pl.col("several date") & pl.col("lasts_too_long"),
        has_report=pl.any_horizontal(pl.col(REPORT).is_not_null()),
    )


def _with_priors(studies: pl.DataFrame, role: str, account: Account) -> pl.DataFrame:
    """Add the previous report of each study, and the details of its choice."""
    bad_id = pl.any_horizontal(mapped(column, id_fault).is_not_null() for column in _STUDY)
    bad_text = pl.col(REPORT).str.contains(rf"{CONTROL}|{LOST}").fill_null(False)
    is_bad = pl.any_horizontal(pl.col(list(_FAULTS)), bad_id, bad_text)
    dated = studies.with_columns(has_report=pl.col("has_report") & ~is_bad)
    # numbers of order stand for days, which are no dates: the gaps between them are unknown
    has_order = studies["number_of_order"].count() > 0
    if has_order:
        dated = dated.with_columns(
            day=pl.col("number_of_order").rank("dense").cast(pl.Int32).cast(pl.Date)
        )
    without_own = studies[PREVIOUS].is_null()
    account.count("priors", role, "undated", dated.filter(without_own)["day"].null_count())
    dated = dated.with_columns(day=pl.when(~is_nobody("subject")).then("day"))
    choices = choose_priors(_with_time_of_first_copy(dated, role, account)).select(
        *_STUDY, *CHOICE_SCHEMA
    )
    if has_order:
        choices = choices.with_columns(gap_days=pl.lit(None, pl.Float64))
    choices = choices.with_columns(
        pl.when(without_own).then(name).alias(name) for name in CHOICE_SCHEMA
    )
    priors = {
        "prior_study_id": "study",
        "prior_findings": "findings",
        "prior_impression": "impression",
    }
    reports = studies.select("subject", **priors)
    studies = studies.join(choices, on=_STUDY, how="left", maintain_order="left")
    studies = studies.join(
        reports, on=["subject", "prior_study_id"], how="left", maintain_order="left"
    )
    return studies.with_columns(prior_findings=pl.coalesce(PREVIOUS, "prior_findings"))


def _with_time_of_first_copy(studies: pl.DataFrame, role: str, account: Account) -> pl.DataFrame:
    """Give a patient's studies with one text, each within an hour of the last, the time of the
    first of them, so that none precedes another; list the others."""
    begin, text = (
        pl.col("day").dt.combine(pl.col("clock")),
        pl.concat_str(REPORT, separator=" ", ignore_nulls=True),
    )
    timed = studies.with_columns(begin=begin, words=text).filter(
        begin.is_not_null() & pl.col("has_report")
    )
    timed = timed.sort("begin", maintain_order=True)
    follows = (pl.col("begin").diff() <= _EXAMINATION).fill_null(False)
    timed = timed.filter(
        (follows | follows.shift(-1, fill_value=False)).over("subject")
    )  # few texts are compared
    words = (
        pl.col("words").str.replace_all(_REMOVED, " ").str.to_lowercase().str.replace(_BELOW, "")
    )
    words = words.str.extract_all(r"[^\W_]+")
    timed = timed.with_columns(words.list.join(" ")).with_columns(
        run=(~follows).cum_sum().over("subject", "words")
    )
    first = pl.col("begin", "study").first().over("subject", "words", "run").name.prefix("first ")
    copies = timed.with_columns(first).filter(pl.col("study") != pl.col("first study"))
    account.count_first("copies", role, copies.select(pl.lit("studies"), "id").iter_rows())
    reason = pl.format(
        "same examination as {} (same text within an hour)", mapped("first study", quoted)
    )
    account.flag(copies, pl.lit("study"), reason, pl.lit(None))
    moved = copies.select(
        *_STUDY, day=pl.col("first begin").dt.date(), clock=pl.col("first begin").dt.time()
    )
    return studies.update(moved, on=_STUDY)


def _with_images(studies: pl.DataFrame, images: pl.DataFrame, account: Account) -> pl.DataFrame:
    """Return the studies with a report and a frontal image, and the images they use; list the other
    images."""
    studies = studies.with_row_index("number")
    images = images.select(*_STUDY, "file", "row", "image", "view", "rank", "id")
    images = images.join(
        studies.select("number", "has_report", *_STUDY), on=_STUDY, maintain_order="left"
    )
    images = account.divert(images, "image", pl.col("image").is_null(), "the image path is missing")
    given_view = mapped("view", quoted)
    images = account.divert(
        images, "", pl.col("rank").is_null(), "unknown view", LEFT_OUT, given_view
    )
    images = images.with_columns(is_lateral=pl.col("rank") % len(_VIEWS) == _VIEWS.index("lateral"))

    usable = images.group_by("number", maintain_order=True).agg(
        pl.col("file", "row", "id", "has_report").first(), pl.col("is_lateral").all(), rows=pl.len()
    )
    usable = account.divert(
        usable, "", ~pl.col("has_report"), "neither findings nor impression", LEFT_OUT
    )
    usable = account.divert(usable, "", pl.col("is_lateral"), "no frontal image", LEFT_OUT)
    images = images.join(usable.select("number"), on="number", how="semi", maintain_order="left")
    images = images.sort("number", "rank", maintain_order=True)
    is_further = ~pl.struct("number", "is_lateral").is_first_distinct()
    kind = pl.when("is_lateral").then(pl.lit("lateral")).otherwise(pl.lit("frontal"))
    again = pl.when(~pl.struct("number", "image").is_first_distinct()).then(
        pl.format("the same file as in {}", pl.col("row").first().over("number", "image"))
    )
    reason = pl.format("a further {} image of the study", kind)
    images = account.divert(images, "", is_further, reason, LEFT_OUT, again)

    laterals = images.filter("is_lateral").select("number", lateral="image")
    frontals = images.filter(~pl.col("is_lateral")).select(
        "number", "file", "row", "rank", frontal="image"
    )
    studies = frontals.join(studies.drop("file", "row", "rows"), on="number", maintain_order="left")
    studies = studies.join(laterals, on="number", how="left", maintain_order="left")
    names = dict(enumerate(_VIEWS[:-1]))
    return studies.with_columns(
        split="known_split",
        study_id="study",
        subject_id="subject",
        view=(pl.col("rank") % len(_VIEWS)).replace_strict(names, return_dtype=pl.String),
        rows=1 + pl.col("lateral").is_not_null(),
    )


def _with_rank(
    images: pl.DataFrame, role: str, folder: Path | None, account: Account
) -> pl.DataFrame:
    """Add the ``rank`` of each image's view, its index in ``_VIEWS``; null if it is not known. A
    special or processed view has an index beyond the list, so it is used only if there is no usual
    view.

    A DICOM header gives the view that a row lacks, and the direction of one that is only frontal.
    """
    headers = {} if folder is None else header_views(images["image"].drop_nulls().unique(), folder)
    ranks, contradictions = list[int | None](), list[tuple[str, str]]()
    for view, image, study in images.select("view", "image", "study").iter_rows():
        header, made = headers.get(image, ("", ""))
        parsed, seen = parse_view(view), parse_view(header)
        if seen and (view is None or (parsed == ("frontal", "other") and seen.kind == "frontal")):
            account.count("header_views", role, quoted(header))
            parsed, view = seen, header
        elif seen and parsed and seen != parsed:
            note = (
                f"view {quoted(header)} in the header contradicts {quoted(view)} in the table; the "
                "table is used"
            )
            contradictions.append((note, study or ""))
        kind = parsed and ("lateral" if parsed.kind == "lateral" else parsed.view)
        ranks.append(
            kind and _VIEWS.index(kind) + len(_VIEWS) * is_special(f"{view} {image} {made}")
        )
    account.count_first("headers", "views", contradictions)
    return images.with_columns(rank=pl.Series(ranks, dtype=pl.Int64))
