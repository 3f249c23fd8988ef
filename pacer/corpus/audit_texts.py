"""The lines of a corpus's audit that depend on the rules' reading of its texts."""

import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from pacer.core.schemas import read_about, read_records
from pacer.corpus.account import Notes
from pacer.corpus.audit import note
from pacer.display.numbers import Check, counted
from pacer.tables.mending import mending_line
from pacer.tables.values import mapped
from pacer.text.cleaning.cleaners import CLEANERS, MARKS
from pacer.text.rules import extract_anchor

#: A target that states no finding is reported if more than this share of the examinations have it:
#: it may not be a report.
_SHARED = 0.02


def audit_texts(path: Path) -> list[Check]:
    """Return the lines for ``records.parquet``. All lines but the first are left out if their
    number is zero."""
    studies = read_records(
        path, ["study_id", "subject_id", "report", "report_raw", "prior_report"]
    ).unique(["study_id", "report"], maintain_order=True)
    notes = Notes()
    about = read_about(path)
    changed = _changed(studies, about["cleaner"])
    notes.count_first("changed_findings", "targets", changed)
    notes.count_first("stated_nothing", "studies", _stating_nothing(studies))
    mend = mending_line if about.get("format") == "table" else None
    return [
        _shared_texts(studies),
        *(note(topic, counts, mend) for topic, counts in notes.topics.items()),
    ]


def _shared_texts(studies: pl.DataFrame) -> Check:
    """Count the texts of over 20 words that affirm a finding and are identical for two or more
    patients."""
    counts = {}
    for name, column in (("targets", "report"), ("previous reports", "prior_report")):
        texts = studies.drop_nulls(column).group_by(column)
        shared = texts.agg(pl.col("subject_id").n_unique()).filter(pl.col("subject_id") > 1)[column]
        counts[name] = sum(
            len(text.replace(" .", "").split()) > 20 and bool(extract_anchor(text).positive)
            for text in shared
        )
    detail = counted(counts)
    return Check("Texts of over 20 words shared by several patients", detail or "none", not detail)


def _changed(studies: pl.DataFrame, cleaner: str) -> Iterator[tuple[str, str]]:
    """Yield a kind of change that the cleaner makes to the findings of a target, and the study id.
    Whole targets are read only if one of their sentences differs; so common sentences are read
    once."""
    sentence = (
        pl.col("report_raw")
        .str.replace_all(r"\d", "0")
        .str.replace_all(r"\.\s+", ".\0")
        .str.split("\0")
    )
    sentences = studies.select("study_id", "report", "report_raw", sentence=sentence).explode(
        "sentence"
    )
    marked = sentences.filter(pl.col("sentence").str.contains(r"[^A-Za-z0-9 .-]|\.[^\d\s]|\s-"))
    clean = CLEANERS[cleaner]
    differs = mapped(
        "sentence", lambda text: extract_anchor(text) != extract_anchor(clean(text)), pl.Boolean
    )
    differing = marked.join(marked.unique("sentence").filter(differs), on="sentence", how="semi")
    for study, report, raw, _ in differing.unique("study_id", maintain_order=True).iter_rows():
        anchor = extract_anchor(raw)
        if anchor != extract_anchor(report):
            without = (
                (kind, re.sub(mark, gap, raw)) for kind, mark in MARKS.items() for gap in ("", " ")
            )
            yield (
                next(
                    (kind for kind, text in without if extract_anchor(text) != anchor),
                    "other marks",
                ),
                study,
            )


def _stating_nothing(studies: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield the number of examinations that share a target without an affirmed or denied finding,
    and the study id of each."""
    shared = studies.group_by("report", maintain_order=True).agg("study_id")
    for report, having in shared.filter(
        pl.col("study_id").list.len() > max(1, _SHARED * studies.height)
    ).iter_rows():
        if not any(extract_anchor(report).as_dict()[field] for field in ("positive", "negative")):
            yield from ((f"of {len(having)} studies with one target", study) for study in having)
