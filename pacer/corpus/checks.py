"""Traces of other formats and of lost content in a table, which the audit counts.

A check is a row: the audit's topic, and one expression that finds the trace in a text, or in the
fields of a row. ``topics.yaml`` has the title of each topic, the patterns of texts, and the polars
lines that remove the trace. Nothing is changed here: a program cannot know which trace is meant.
"""

from collections.abc import Callable, Sequence
from datetime import date, time
from pathlib import Path
from typing import Any

import polars as pl

from pacer.config import Corpus
from pacer.core.io import yaml_beside
from pacer.corpus.account import Notes
from pacer.corpus.readers.mimic_sections import Sections
from pacer.corpus.readers.whole_reports import (
    HEADINGS_IN_SECTION,
    SIGNATURES,
    names_other_examination,
)
from pacer.tables.delimited import SEPARATORS
from pacer.tables.hygiene import RESIDUE
from pacer.tables.mending import mending_line, reading

#: What stands before the polars lines in the detail of a check, and in the reason of a bad row.
IN_POLARS = "; in polars: "
#: The values of a line that are columns of the table.
_COLUMN_KEYS = ("column", "study", "subject")
#: Number of rows that a line names.
_NAMED = 3
_TEXT = pl.col("text")
_LENGTH = _TEXT.str.len_chars()
#: Texts that do not end with a sentence, a closing mark or a placeholder.
_IS_OPEN = ~_TEXT.str.contains(r"[.!?:;)\]\"'_*]\s*$")
#: Texts of one length are cut off there if no text is longer, they have this length at least and
#: end within a sentence, and they are this share of all different texts, and this number, at least.
_LONG = 40
_CUT_SHARE = 0.02
_CUT = 5
_IS_LONGEST = _IS_OPEN & _LENGTH.eq(_LENGTH.max()) & _LENGTH.ge(_LONG)
_NUM_LONGEST = _TEXT.filter(_IS_LONGEST).n_unique()
#: Days that databases, spreadsheets and file systems write for an unknown day.
NO_DATES = [date(1, 1, 1), date(1601, 1, 1), date(1753, 1, 1), date(1900, 1, 1), date(1970, 1, 1)]
#: Dates this number of days from the middle half of all dates are outside the corpus.
_FAR = 20 * 365
#: Days of which none proves the order of day and month are doubted from this number on.
_MANY_DATES = 10

#: Kinds of residue with a topic of their own, because a line of polars removes them.
_REMOVABLE = ("entities", "tags")
#: The topics of the audit.
TOPICS: dict[str, Any] = yaml_beside(__file__, "topics.yaml")
#: The checks of a text, by topic: the kinds of a trace, and the texts that have it.
TEXT_CHECKS: dict[str, dict[str, pl.Expr]] = {
    topic: {kind: _TEXT.str.contains(pattern) for kind, pattern in about["patterns"].items()}
    for topic, about in TOPICS.items()
    if "patterns" in about
}
TEXT_CHECKS |= {kind: {kind: _TEXT.str.contains(RESIDUE[kind])} for kind in _REMOVABLE}
TEXT_CHECKS["residue"] = {
    kind: _TEXT.str.contains(pattern) for kind, pattern in RESIDUE.items() if kind not in _REMOVABLE
}
TEXT_CHECKS["cut_texts"]["texts that end at one length"] = _IS_LONGEST & _NUM_LONGEST.ge(
    pl.max_horizontal(_CUT, _CUT_SHARE * _TEXT.n_unique())
)
TEXT_CHECKS["headings"] = {"headings of sections": _TEXT.str.contains(HEADINGS_IN_SECTION)}
TEXT_CHECKS["signatures"] = {
    "a signature, stamp, phone number or name": _TEXT.str.contains(SIGNATURES)
}
TEXT_CHECKS["other_examinations"] = {
    # a column exam says what the report is about
    "a title of another examination": names_other_examination(_TEXT) & pl.col("exam").is_null()
}

_DAY = pl.col("day")
_NUMBER = _DAY.to_physical()  # of days; polars panics at the quantile of a column without a date
_CLOCK = pl.col("clock")
_MIDNIGHT = time()
_IS_MIDNIGHT = (_CLOCK == _MIDNIGHT) & (_CLOCK != _MIDNIGHT).any()
_IS_DOUBTFUL = (_DAY.dt.day() <= 12) & (_DAY.dt.day() != _DAY.dt.month())


def _names_a_split(path: str) -> pl.Expr:
    """Whether a path has the word of a split, and others have that of another, in a table without
    splits."""
    word = (
        pl.col(path)
        .str.to_lowercase()
        .str.extract(r"^(?:.*[/\\_.-])?(train|val|test)[a-z]*[/\\_.-]")
    )
    return word.is_not_null() & (word.drop_nulls().n_unique() > 1) & pl.col("split").is_null().all()


#: The checks of a row's fields, by topic and column: the kinds, and the rows that have them.
ROW_CHECKS: dict[str, dict[str, dict[str, pl.Expr]]] = {
    "far_dates": {
        "date": {
            "20 years from the middle half of all dates": _NUMBER.lt(_NUMBER.quantile(0.25) - _FAR)
            | _NUMBER.gt(_NUMBER.quantile(0.75) + _FAR),
            "written for an unknown day, such as 1900-01-01": _DAY.is_in(NO_DATES),
        }
    },
    "midnight": {
        "time": {"00:00": _IS_MIDNIGHT & pl.col("time").is_not_null()},
        "date": {"00:00": _IS_MIDNIGHT & pl.col("time").is_null()},
    },
    "swapped_days": {
        "date": {
            "day and month exchangeable, as in all dates": _IS_DOUBTFUL
            & ~(_DAY.dt.day() > 12).any()
            & (_DAY.n_unique() >= _MANY_DATES)
        }
    },
    "placeholder_ids": {
        "subject": {
            "only zeros or nines": pl.col("subject").str.contains(r"(?:^|/)(?:0{2,}|9{3,})$")
            | ((pl.col("subject") == "0") & ~(pl.col("subject") == "1").any())
        }
    },
    "shared_patients": {
        "subject": {
            "patients in several files": (pl.col("file").n_unique().over("subject") > 1)
            & pl.col("subject").is_first_distinct()
        }
    },
    "rounded_ids": {
        name: {"zeros at the end": pl.col(name).str.contains(r"(?:^|/)\d{6,}0{5,}$")}
        for name in ("subject", "study")
    },
    "files_of_splits": {"file": {"names of splits": _names_a_split("file")}},
    "folders_of_splits": {
        name: {"names of splits": _names_a_split(name)} for name in ("frontal", "image")
    },
    "other_views": {
        "image": {
            "lateral in its name, frontal in the column view": pl.col("image").str.contains(
                r"(?i)(?:^|[\W_])lat(?:eral)?(?:[\W_]|$)"
            )
            & pl.col("view").str.contains(r"(?i)^(?:pa|ap|frontal)$")
        }
    },
}


def mender(config: Corpus) -> Callable[..., str]:
    """Return a function from the name of polars lines, and what these need, to the lines for the
    user's table. Columns are given by the format's names; that of a section of a whole report is
    the whole report's."""
    settings = config.table
    path = Path(str(config.root), str(settings.file))
    separator = SEPARATORS.get(settings.delimiter or "", "")
    read = reading(path, separator, settings.encoding, settings.sheet)

    columns = settings.columns
    if "whole_report" in columns:
        columns = dict.fromkeys(Sections._fields, columns["whole_report"]) | columns

    def mend(name: str, **values: Any) -> str:
        given = {
            key: columns.get(value, value) if key in _COLUMN_KEYS else value
            for key, value in values.items()
        }
        return mending_line(name, path=path, read=read, **given)

    return mend


def on_one_line(lines: str) -> str:
    """Join simple statements for a message about a row."""
    return lines.replace("\n", "; ")


def note_texts(rows: pl.DataFrame, columns: Sequence[str], notes: Notes) -> None:
    """Count the traces of :data:`TEXT_CHECKS` in the columns, and name the first rows of each."""
    for column in columns:
        exam = "exam" if "exam" in rows.columns else None
        texts = rows.select("row", text=column, exam=exam).drop_nulls("text")
        for topic, kinds in TEXT_CHECKS.items():
            if (topic, column) != ("headings", "whole_report"):
                _note(texts, topic, column, kinds, notes)


def note_rows(rows: pl.DataFrame, notes: Notes) -> None:
    """Count the traces of :data:`ROW_CHECKS`, and name the first rows of each."""
    for topic, columns in ROW_CHECKS.items():
        for column, kinds in columns.items():
            _note(rows, topic, column, kinds, notes)


def _note(
    rows: pl.DataFrame, topic: str, source: str, kinds: dict[str, pl.Expr], notes: Notes
) -> None:
    found = rows.select("row", *(where.alias(kind) for kind, where in kinds.items()))
    for kind in kinds:
        pairs = ((kind, row) for row in found.filter(pl.col(kind).fill_null(False))["row"])
        notes.count_first(topic, source, pairs, _NAMED)
