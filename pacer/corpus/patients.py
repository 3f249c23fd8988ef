"""Doubtful patient ids: ids that differ only in their spelling or have far more examinations than
others, and DICOM headers that name another patient or day."""

import polars as pl

from pacer.corpus.account import Notes
from pacer.corpus.checks import NO_DATES
from pacer.tables.values import quoted

#: Flag the patient with the most examinations if they are at least this many, and this many times
#: those of the next patient.
_MANY = 6
_FAR_MORE = 3


def spelling(column: str) -> pl.Expr:
    """Normalise ids: two ids become equal if they differ only in case, blanks, leading zeros, or
    marks that are not between two digits (``1-11`` and ``11-1`` are two ids)."""
    ids = pl.col(column).str.to_lowercase().str.replace_all(r"\s", "")
    ids = ids.str.replace_all(r"([^\W\d_]|^)[\W_]+|[\W_]+([^\W\d_]|$)", "$1$2")
    return ids.str.replace_all(r"(^|\D)0+(\d)", "$1$2")


def note_patients(records: pl.DataFrame, notes: Notes) -> None:
    """Count the records whose split and previous report depend on a doubtful id, and those whose
    previous report is the target."""
    patients = records.group_by("subject_id", maintain_order=True).agg(
        pl.col("study_id").first(),
        pl.col("study_id").n_unique().alias("studies"),
        pl.len().alias("records"),
    )
    patients = patients.with_columns(spelling=spelling("subject_id"))
    most, *others = patients.sort("studies", descending=True, maintain_order=True).to_dicts()
    if others and most["studies"] >= max(_MANY, _FAR_MORE * others[0]["studies"]):
        value = f"{quoted(most['subject_id'])} (first: {quoted(most['study_id'])})"
        notes.count("many_studies", "records", value, most["records"])
    alike = patients.filter(pl.len().over("spelling") > 1)
    alike = alike.sort("spelling", maintain_order=True)
    if alike.height:
        first = alike.filter(spelling=alike["spelling"][0])["subject_id"].sort()
        ids = ", ".join(map(quoted, first))
        value = f"of {alike['spelling'].n_unique()} patients (first: {ids})"
        notes.count("alike_patients", "records", value, int(alike["records"].sum()))
    prior = pl.col("prior_report").str.replace_all(r"(^|\. )(?:findings|impression) : ", "$1")
    same = records.filter(prior == pl.col("report"))
    notes.count_first(
        "same_as_prior", "records", same.select(pl.lit("the same text"), "record_id").iter_rows()
    )


def note_headers(records: pl.DataFrame, headers: pl.DataFrame, notes: Notes) -> None:
    """Count the records with an image whose DICOM header (of
    :func:`pacer.corpus.images.inspect_images`) names another patient of the corpus, or another
    day."""
    images = records.unpivot(
        ["frontal", "lateral"], index=["subject_id", "day"], value_name="image_id"
    )
    named = images.join(headers.drop_nulls("patient"), on="image_id", maintain_order="left")
    own = spelling("subject_id")
    other = spelling("patient")
    known = records.select(own.unique()).to_series()
    is_other = (own != other) & other.is_in(known.implode())
    days = pl.col("days").list.set_difference([f"{day:%Y%m%d}" for day in NO_DATES])
    is_day = days.list.contains(pl.col("day").dt.strftime("%Y%m%d")) | (days.list.len() == 0)
    for topic, where in (
        ("other_patients", is_other),
        ("other_days", ~is_day & pl.col("day").is_not_null()),
    ):
        doubtful = named.filter(where).select(pl.lit("images"), "image_id")
        notes.count_first(topic, "records", doubtful.iter_rows())
