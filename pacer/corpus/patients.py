"""Doubtful patient ids: ids that differ only in their spelling or have far more examinations than
others, and DICOM headers that name another patient or day."""

import polars as pl

from pacer.corpus.account import Notes
from pacer.corpus.checks import NO_DATES
from pacer.tables.values import quoted

#: Flag at most this many patients for their number of examinations.
_MAX_FLAGGED = 5
#: Flag patients with at least this many times the examinations of the next one.
_FAR_MORE = 3
#: Flag patients with at least this many examinations.
_MANY = 6


def spelling(column: str) -> pl.Expr:
    """Normalise ids: two ids become equal if they differ only in case, blanks, leading zeros, a
    decimal ``.0``, HL7's parts after ``^``, a word such as ``MRN:`` before a number, or
    punctuation. Punctuation between two digits stays, unless the digits are in groups of two to
    four (``12-34-56``)."""
    ids = pl.col(column).str.normalize("NFKC").str.to_lowercase().str.replace_all(r"\s", "")
    ids = ids.str.replace(r"[.,]0+$|\^.*$", "")
    ids = ids.str.replace(r"^(\d{2,4})[-. ](\d{2,4})(?:[-. ](\d{2,4}))?$", "$1$2$3")
    ids = ids.str.replace(r"^(?:mrn|patient|pat|pid|pt|id)[\W_]*(\d)", "$1").str.replace_all(
        r",(\d{3})\b", "$1"
    )
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
    patients = patients.sort("studies", descending=True, maintain_order=True)
    studies = pl.col("studies")
    is_gap = (
        (studies >= _MANY)
        & (studies >= _FAR_MORE * studies.shift(-1))
        & (pl.int_range(pl.len()) < _MAX_FLAGGED)
    )
    has_many = is_gap.fill_null(False).cum_sum(reverse=True) > 0
    flagged = patients.filter(has_many).select("subject_id", "study_id", "records")
    for subject, study, number in flagged.iter_rows():
        value = f"{quoted(subject)} (first: {quoted(study)})"
        notes.count("many_studies", "records", value, number)
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
