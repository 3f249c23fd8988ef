"""Cells of the format ``table``: texts, dates and times, and the other fields of a row.

Texts are repaired only where nothing can be guessed wrongly: line ends, blanks, words for absent
texts, and placeholders of removed names. A field that has not its form is a fault of its row.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import time

import polars as pl

from pacer.config import DATE_FORMS
from pacer.corpus.account import Notes, fault_where
from pacer.corpus.checks import IN_POLARS, note_texts, on_one_line
from pacer.corpus.readers.whole_reports import is_chest_radiograph, split_report
from pacer.corpus.studies import TEXTS
from pacer.tables.hygiene import CONTROL, LOST, PLACEHOLDER, fault_of, is_absent
from pacer.tables.values import mapped, quoted

#: A whole report, which is split into its sections.
WHOLE = "whole_report"
#: One line end, however it is written.
_LINE_END = (
    r"(?:_x000[Dd]_|\r)+(?:_x000[Aa]_|\n)|\n\r|_x000[AaDd]_|[\r\x0b\x0c\x{85}\x{2028}\x{2029}]"
)
_NO_BREAK_SPACE = r"[\x{a0}\x{2007}\x{202f}]"
_SENTENCE_END = r"\w{3}[.!?](?:\s|$)"
#: Words for a person who is not known. They are no ids, because they would make one patient of
#: many. A site may stand before them.
_NO_PATIENT = (
    r"(?i)(?:^|/)[\W_]*(?:(?:anon|anonym\w*|n/?a|none|nobody|unk|unknown|unidentified|unnamed|dummy"
    r"|test|testpatient|patient|redacted|removed|deleted|x{2,}|(?:john|jane)\W?doe)[\W_]*)*$"
)
#: Words that were removed from the reports of Open-I.
_CROSSED_OUT = r"\bX{3,}\b"
#: A heading that is not listed is counted only if it occurs more often than this, or than in this
#: share of the reports: many reports have a word such as LUNGS before a colon.
_MAX_UNLISTED = 5
_UNLISTED_SHARE = 0.05
#: Our names of the splits, by the words for them.
SPLITS = {"train": "train", "val": "val", "test": "test"} | dict.fromkeys(
    ("valid", "validate", "validation", "dev"), "val"
)
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?"
#: A date, maybe with a time, and maybe its offset from UTC.
_INSTANT = rf"^(\d{{4}}-\d{{2}}-\d{{2}})(?:[T ]({_TIME})(?: ?(Z|[+-]\d{{2}}:?\d{{2}}))?)?$"

#: Dates and times of other forms, by patterns, and the lines that mend them.
_DATE_LINES = {
    r"^\d{1,2}[ .-]*[A-Za-z]{3}": "dates_with_month_names",
    r"^\d{9,13}(?:\.\d+)?$": "seconds_since_1970",
    r"^\d{5}(?:\.\d+)?$": "spreadsheet_days",
}
_CELLS = (
    "; cells that are dates need no corpus.table.dates: if all are, remove it; if others are "
    "texts, take these lines and remove it"
)
_SWAPPED = (
    "; if all are YYYY-MM-DD, remove corpus.table.dates; if a spreadsheet has exchanged day and "
    "month in some"
)
_TIME_LINES = {r"(?i)\d ?[ap]\.?m": "times_am_pm", r"^\d{3,6}(?:\.\d+)?$": "times_of_dicom"}
_OTHER_DATES = (
    f"; set another form in corpus.table.dates ({', '.join(DATE_FORMS)}); a number of order "
    "belongs in the column order"
)


def with_texts(rows: pl.DataFrame, notes: Notes) -> pl.DataFrame:
    """Return the texts with one character for a line end, without words for an absent text, and
    with ``___`` for removed names; split whole reports. Count what may be wrong in them."""
    written = (*TEXTS, WHOLE)
    plain = pl.col(written).str.replace_all(_LINE_END, "\n").str.replace_all(_NO_BREAK_SPACE, " ")
    rows = rows.with_columns(plain)
    note_texts(rows, [WHOLE], notes)  # the sections are counted with those of other formats
    for name in ("indication", "history"):
        long = rows.filter(pl.col(name).str.count_matches(_SENTENCE_END) > 2)["row"]
        notes.count_first("long_context", "texts", ((name, row) for row in long))
    for name in written:
        removed = rows.filter(pl.col(name).str.contains(_CROSSED_OUT))["row"]
        notes.count_first("crossed_out", "texts", ((name, row) for row in removed))
        rows = rows.with_columns(pl.col(name).str.replace_all(PLACEHOLDER, "___"))
        rows = notes.null_if_absent(rows, name, _is_absent, "row")
    if rows[WHOLE].count():
        rows = _with_sections(rows, notes)
    # an impression that repeats the findings is written once
    is_same = (_one_line("findings") == _one_line("impression")).fill_null(False)
    return rows.with_columns(impression=pl.when(~is_same).then("impression"))


def _is_absent(text: str) -> bool:
    return is_absent(text) and not re.search(LOST, text)


def _one_line(column: str) -> pl.Expr:
    """Remove differences in case, line ends and the last period from the texts of a column."""
    one_line = pl.col(column).str.replace_all("\n", " ", literal=True)
    return one_line.str.to_lowercase().str.strip_chars(" .")


def _with_sections(rows: pl.DataFrame, notes: Notes) -> pl.DataFrame:
    """Fill the sections that have no column, or an empty cell, from the whole reports."""
    reports = [None if text is None else split_report(text) for text in rows[WHOLE]]
    for topic, field in (
        ("whole_reports", "doubts"),
        ("bare_headings", "bare"),
        ("unknown_headings", "unknown"),
        ("unused_sections", "unused"),
    ):
        found = [
            (quoted(value, 80, words=12), row)
            for report, row in zip(reports, rows["row"], strict=True)
            if report is not None
            for value in getattr(report, field)
        ]
        counts = Counter(value for value, _ in found)
        rare = min(_MAX_UNLISTED, _UNLISTED_SHARE * rows.height) if field == "unknown" else 0
        notes.count_first(topic, "rows", (pair for pair in found if counts[pair[0]] > rare))
    columns = dict.fromkeys(("findings", "impression", "indication", "history"), pl.String())
    none = (None,) * len(columns)
    cut = pl.DataFrame(
        [none if report is None else report.sections for report in reports], columns, orient="row"
    )
    return rows.with_columns(pl.coalesce(name, cut[name]).alias(name) for name in columns)


def with_parsed_fields(
    rows: pl.DataFrame, dates: str | None, mend: Callable[..., str]
) -> pl.DataFrame:
    """Add ``day`` and ``clock`` (in the zone of UTC if the table states zones), the number of the
    order, our name of the split, and the fault of each row."""
    form = dates or "YYYY-MM-DD"
    parts = _iso_date(form).str.extract_groups(_INSTANT)
    rows = rows.with_columns(
        written_order="order",
        written_split="split",
        day=parts.struct.field("1").str.to_date("%Y-%m-%d", strict=False),
        at=_clock(parts.struct.field("2")),
        zone=parts.struct.field("3").str.replace("Z", "+00:00", literal=True),
        clock=_clock(pl.col("time")),
        order=pl.col("order").str.extract(r"^(-?\d{1,9})(?:\.0)?$").cast(pl.Int64),
        split=pl.col("split").str.to_lowercase().replace_strict(SPLITS, default=None),
    )
    has_zone = pl.col("zone").is_not_null()
    clock = pl.coalesce("clock", "at")
    instant = pl.format("{} {} {}", "day", clock, "zone")
    instant = instant.str.to_datetime("%Y-%m-%d %H:%M:%S%.f %z")
    is_other_exam = ~mapped("exam", is_chest_radiograph, pl.Boolean)
    return rows.with_columns(
        fault=pl.coalesce(_faults(form, mend)),
        day=pl.when(has_zone).then(instant.dt.date()).otherwise("day"),
        clock=pl.when(has_zone).then(instant.dt.time()).otherwise(clock),
        unused=pl.when(is_other_exam).then(
            pl.lit("the column exam names another examination than a chest radiograph")
        ),
    )


def _faults(form: str, mend: Callable[..., str]) -> list[pl.Expr]:
    """Return the faults that a row can have, the first to be reported first; each null if it has
    not."""
    has_zone = pl.col("zone").is_not_null()
    has_time = pl.col("clock").is_not_null() | pl.col("at").is_not_null()
    is_other_time = (pl.col("clock") != pl.col("at")) & (pl.col("at") != time())
    date_reason = pl.format(
        "expected {}, maybe with a time (T08:30) and its zone (Z, +01:00){}",
        pl.lit(form),
        pl.coalesce(
            _way("date", _DATE_LINES, mend),
            *_ways_of_iso_dates(form, mend),
            pl.lit(_OTHER_DATES),
        ),
    )
    time_reason = pl.format(
        "expected HH:MM or HH:MM:SS{}", _way("time", _TIME_LINES, mend).fill_null("")
    )
    return [
        fault_where(
            pl.col("subject").str.contains(_NO_PATIENT),
            "subject",
            "a word for an unknown patient, not an id; remove these rows, or give each patient an "
            "id",
            pl.col("subject"),
        ),
        fault_where(
            pl.col("site").is_null() & pl.col("site").is_not_null().any(), "site", "is missing"
        ),
        fault_where(_is_refused("date", "day"), "date", date_reason, mapped("date", quoted)),
        fault_where(_is_refused("time", "clock"), "time", time_reason, mapped("time", quoted)),
        fault_where(
            is_other_time,
            "time",
            "the date contains a different time of day; remove one of them",
            mapped("time", quoted),
        ),
        fault_where(
            ~has_zone & has_time & has_zone.any(),
            "date",
            "a time without a zone, although others have one; write all with a zone, or none",
            mapped("date", quoted),
        ),
        fault_where(
            _is_refused("written_order", "order"),
            "order",
            "expected a whole number of at most nine digits",
            mapped("written_order", quoted),
        ),
        fault_where(
            _is_refused("written_split", "split"),
            "split",
            f"expected {', '.join(SPLITS)}",
            mapped("written_split", quoted),
        ),
        *(_text_fault(name) for name in (*TEXTS, WHOLE)),
    ]


def _is_refused(written: str, parsed: str) -> pl.Expr:
    return pl.col(written).is_not_null() & pl.col(parsed).is_null()


def _iso_date(form: str) -> pl.Expr:
    """Return the column ``date`` with the date, which has the given form, as YYYY-MM-DD; other
    cells become null."""
    if form == "YYYY-MM-DD":
        return pl.col("date")
    number = r"\d{2}" if form == "YYYYMMDD" else r"\d{1,2}"
    pattern = re.escape(form).replace("YYYY", r"(?P<year>\d{4})")
    pattern = pattern.replace("MM", f"(?P<month>{number})").replace("DD", f"(?P<day>{number})")
    parts = pl.col("date").str.extract_groups(rf"^{pattern}(?P<rest>.*)$")
    year, month, day, rest = map(parts.struct.field, ("year", "month", "day", "rest"))
    return pl.format("{}-{}-{}{}", year, month.str.zfill(2), day.str.zfill(2), rest)


def _clock(written: pl.Expr) -> pl.Expr:
    """Parse times as H:MM or H:MM:SS[.f]; null for others."""
    with_seconds = written.str.to_time("%H:%M:%S%.f", strict=False)
    return pl.coalesce(with_seconds, written.str.to_time("%H:%M", strict=False))


def _way(column: str, lines: Mapping[str, str], mend: Callable[..., str]) -> pl.Expr:
    """Return the lines of polars for what arrived in a column, if ``lines`` has them; else null."""
    ways = (
        pl.when(pl.col(column).str.contains(pattern)).then(
            pl.lit(f"{IN_POLARS}{on_one_line(mend(name, column=column))}")
        )
        for pattern, name in lines.items()
    )
    return pl.coalesce(*ways)


def _ways_of_iso_dates(form: str, mend: Callable[..., str]) -> list[pl.Expr]:
    """Return what to do with dates as YYYY-MM-DD where another form is expected, and with those of
    a workbook's cells; each null for others."""
    if form == "YYYY-MM-DD":
        return []
    ways = {r"^\d{4}-\d{2}-\d{2} \d{2}:": (_CELLS, mend("dates_of_cells", column="date"))}
    if form.startswith("DD"):
        line = mend("swap_days", column="date", sign=form[2])
        ways[r"^\d{4}-\d{2}-\d{2}$"] = _SWAPPED, line
    return [
        pl.when(pl.col("date").str.contains(pattern)).then(
            pl.lit(f"{advice}{IN_POLARS}{on_one_line(line)}")
        )
        for pattern, (advice, line) in ways.items()
    ]


def _text_fault(name: str) -> pl.Expr:
    """Return the fault of a text that was lost in a spreadsheet, or has a control character."""
    lost = "a spreadsheet error value: the text was lost; export the cells again as text"
    return pl.coalesce(
        fault_where(pl.col(name).str.contains(LOST), name, lost),
        fault_where(pl.col(name).str.contains(CONTROL), name, mapped(name, fault_of)),
    )
