"""Doubts about who a patient is: ids that stand for nobody, that differ only in their spelling, or
that have far more studies than others; DICOM headers that name another patient or day."""

from typing import Any

import polars as pl

from pacer.core.io import yaml_beside
from pacer.data.account import Account
from pacer.data.values import quoted

TABLE: dict[str, Any] = yaml_beside(__file__, "patients.yaml")
_WORDS, _BESIDE = ("|".join(TABLE["no patient"][name]) for name in ("words", "beside"))
#: Ids that are only punctuation and zeros, or words for no patient.
_NOBODY = (
    rf"(?i)^(?:[0\W_]*|-1|[\W_]*(?:(?:{_BESIDE})[\W_]+)*(?:{_WORDS})(?:[\W_]+(?:{_BESIDE}"
    rf"|{_WORDS}))*[\W_]*)$"
)
#: At most so many patients have far more studies than others: so many times the next one's, and at
#: least so many.
_FEW, _FAR_MORE, _MANY = 5, 3, 6


def is_nobody(column: str) -> pl.Expr:
    """Whether an id stands for an unknown patient; 0 and 9999 do not where patients are
    numbered."""
    ids = pl.col(column)
    is_numbered = ids.str.contains(r"^(?:0*1|9+8)(?:\.\d+)?$").any()
    is_number = ids.str.contains(r"^(?:0[0.]*|9{4,})$")
    return (ids.str.contains(_NOBODY) | is_number) & ~(is_number & is_numbered)


def spelling(column: str) -> pl.Expr:
    """Return what ids have in common that differ only in case, blanks, leading zeros, a decimal
    ``.0``, HL7's parts behind ``^``, a word such as ``MRN:`` before a number, and marks that are
    not between two digits, but for groups of two to four (``12-34-56``)."""
    ids = pl.col(column).str.normalize("NFKC").str.to_lowercase().str.replace_all(r"\s", "")
    ids = ids.str.replace(r"[.,]0+$|\^.*$", "")
    ids = ids.str.replace(r"^(\d{2,4})[-. ](\d{2,4})(?:[-. ](\d{2,4}))?$", "$1$2$3")
    ids = ids.str.replace(r"^(?:mrn|patient|pat|pid|pt|id)[\W_]*(\d)", "$1").str.replace_all(
        r",(\d{3})\b", "$1"
    )
    ids = ids.str.replace_all(r"([^\W\d_]|^)[\W_]+|[\W_]+([^\W\d_]|$)", "$1$2")
    return ids.str.replace_all(r"(^|\D)0+(\d)", "$1$2")


def note_patients(records: pl.DataFrame, account: Account) -> None:
    """Count the records whose split and previous report depend on a doubtful id, and those whose
    previous report is the target."""
    patients = records.group_by("subject_id", maintain_order=True).agg(
        pl.col("study_id").first(),
        pl.col("study_id").n_unique().alias("studies"),
        pl.len().alias("records"),
    )
    patients = patients.with_columns(
        nobody=is_nobody("subject_id"), spelling=spelling("subject_id")
    )
    studies, patients = (
        pl.col("studies"),
        patients.sort("studies", descending=True, maintain_order=True),
    )
    is_gap = (
        (studies >= _MANY)
        & (studies >= _FAR_MORE * studies.shift(-1))
        & (pl.int_range(pl.len()) < _FEW)
    )
    has_many = is_gap.fill_null(False).cum_sum(reverse=True) > 0
    for topic, where in (
        ("nobody", pl.col("nobody")),
        ("many_studies", has_many & ~pl.col("nobody")),
    ):
        for subject, study, number in (
            patients.filter(where).select("subject_id", "study_id", "records").iter_rows()
        ):
            account.count(topic, "records", f"{quoted(subject)} (first: {quoted(study)})", number)
    alike = patients.filter(~pl.col("nobody"), pl.len().over("spelling") > 1).sort(
        "spelling", maintain_order=True
    )
    if alike.height:
        first = alike.filter(spelling=alike["spelling"][0])["subject_id"].sort()
        value = (
            f"of {alike['spelling'].n_unique()} patients (first: {', '.join(map(quoted, first))})"
        )
        account.count("alike_patients", "records", value, int(alike["records"].sum()))
    prior = pl.col("prior_report").str.replace_all(r"(^|\. )(?:findings|impression) : ", "$1")
    same = records.filter(prior == pl.col("report"))
    account.count_first(
        "same_as_prior", "records", same.select(pl.lit("the same text"), "record_id").iter_rows()
    )


def note_headers(records: pl.DataFrame, headers: pl.DataFrame, account: Account) -> None:
    """Count the records with an image whose DICOM header (of
    :func:`pacer.data.images.inspect_images`) names another patient of the corpus, or another
    day."""
    images = records.unpivot(
        ["frontal", "lateral"], index=["subject_id", "day"], value_name="image_id"
    )
    named = images.join(headers.drop_nulls("patient"), on="image_id", maintain_order="left")
    own, other = spelling("subject_id"), spelling("patient")
    is_other = (
        ~is_nobody("patient")
        & (own != other)
        & other.is_in(records.select(own.unique()).to_series().implode())
    )
    days = pl.col("days").list.set_difference([f"{day:%Y%m%d}" for day in TABLE["no date"]])
    is_day = days.list.contains(pl.col("day").dt.strftime("%Y%m%d")) | (days.list.len() == 0)
    for topic, where in (
        ("other_patients", is_other),
        ("other_days", ~is_day & pl.col("day").is_not_null()),
    ):
        doubtful = named.filter(where).select(pl.lit("images"), "image_id")
        account.count_first(topic, "records", doubtful.iter_rows())
