"""What a reader gives for the rows of its input, a named tuple each: an examination, a problem, or a row left out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import polars as pl

from pacer.config import Corpus
from pacer.data.account import BAD, Account
from pacer.data.source import Source
from pacer.data.studies import study_frame


class Place(NamedTuple):
    file: str
    split: str
    index: int


class Problem(NamedTuple):
    place: Place
    field: str
    reason: str
    rows: int = 1
    value: str | None = None


class LeftOut(NamedTuple):
    place: Place
    reason: str
    rows: int = 1


class Prior(NamedTuple):
    findings: str | None
    impression: str | None
    study_id: str | None = None
    gap_days: float | None = None
    rule: str | None = None
    tied: bool = False
    passed_over: int = 0


class Examination(NamedTuple):
    place: Place
    id: str
    contexts: tuple[str, ...]
    split: str
    study_id: str
    subject_id: str
    view: str
    frontal: str
    lateral: str | None = None
    findings: str | None = None
    impression: str | None = None
    prior: Prior | None = None
    indication: str | None = None
    history: str | None = None
    emphasis: list[float] | None = None
    rows: int = 1


Row = Examination | Problem | LeftOut


def read_rows(
    read: Callable[[Source, Corpus, Account], pl.DataFrame], source: Source, config: Corpus
) -> tuple[list[Row], Account]:
    """The studies of a reader, then what it does not use; its account."""
    account, rows = Account(), list[Row]()
    for study in study_frame(read(source, config, account), config).to_dicts():
        place = _place(study.pop("file"), study.pop("row"))
        prior = Prior(**{name: study.pop(f"prior_{name}") for name in ("findings", "impression", "study_id")},
                      **{name: study.pop(name) for name in ("gap_days", "rule", "tied", "passed_over")})  # fmt: skip
        del study["prior_image"]  # only checked against other files
        study["contexts"] = tuple(study["contexts"])
        rows.append(Examination(place=place, prior=None if prior.study_id is None else prior, **study))
    for line in account.problems.to_dicts():
        place = _place(line["file"], line["row"])
        if line["kind"] == BAD:
            rows.append(Problem(place, line["field"], line["reason"], line["rows"], line["value"]))
        else:
            rows.append(LeftOut(place, line["reason"], line["rows"]))
    return rows, account


def _place(file: str, row: str) -> Place:
    found = re.fullmatch(r"(?:(\w+)\[(\d+)\])?(?:(?:line|row) (\d+))?", row)
    assert found is not None
    return Place(file, found[1] or "", int(found[2] or found[3] or 0))
