"""Reader of the format ``table``, which docs/data.md writes down: a table of examinations in CSV,
Excel, Parquet or JSONL, with a row per image or a row per examination.

What is not in the format is refused: a file by an error, a row by a line of ``problems.csv``. Texts
are repaired only where nothing can be guessed wrongly (line ends, blanks, words for absent texts,
placeholders of removed names). :mod:`pacer.corpus.checks` counts what may be wrong and can be seen.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import time
from pathlib import Path
from typing import Any

import polars as pl

from pacer.config import DATE_FORMS, Corpus
from pacer.core.errors import DataError
from pacer.corpus.account import LEFT_OUT, Notes, Rows
from pacer.corpus.checks import IN_POLARS, mender, note_rows, note_texts, on_one_line
from pacer.corpus.images import images_of, inspect_images
from pacer.corpus.previous import with_previous
from pacer.corpus.readers.views import header_views, may_be_dicom
from pacer.corpus.readers.whole_reports import is_chest_radiograph, split_report
from pacer.corpus.source import Source, matching_files
from pacer.corpus.studies import (
    OF_PREVIOUS,
    PREVIOUS,
    REPORT,
    TEXTS,
    choose_images,
    fault_where,
    group_images,
    view_rank,
)
from pacer.images.views import parse_view
from pacer.tables.delimited import CsvForm
from pacer.tables.files import open_table
from pacer.tables.hygiene import CONTROL, EMPTY_CELL, LOST, PLACEHOLDER, fault_of, is_absent
from pacer.tables.table import SourceTable, shown_columns
from pacer.tables.values import mapped, quoted

#: A whole report, which is split into its sections.
WHOLE = "whole_report"
_IDS = ("site", "subject", "study")
#: Columns for the paths of an examination's images, in a table with one row per examination.
_IMAGES = ("frontal", "lateral")
_OTHERS = ("exam", "view", "date", "time", "order", "split")
#: The columns of the format.
COLUMNS = (*_IDS, "image", *_IMAGES, *_OTHERS, *TEXTS, WHOLE)
NAMES = {"frontal": "image", "lateral": "image"} | OF_PREVIOUS | {"prior_findings": PREVIOUS}

#: One line end, however it is written.
_LINE_END = r"(?:_x000[Dd]_|\r)+(?:_x000[Aa]_|\n)?|_x000[Aa]_|\n\r|[\x0b\x0c\x{85}\x{2028}\x{2029}]"
_NO_BREAK_SPACE = r"[\x{a0}\x{2007}\x{202f}]"
_SENTENCE_END = r"\w{3}[.!?](?:\s|$)"
#: A path that is a list of paths written as text.
_LIST_AS_TEXT = r"^\s*\[.*\]\s*$|\.\w{2,4}['\"]?\s*[;,|]\s*['\"]?\S+\.\w{2,4}\s*$"
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


def read(source: Source, config: Corpus, notes: Notes) -> Rows:
    """Return every examination of the table, which may be several files with the same columns."""
    settings = config.table
    form = CsvForm(settings.delimiter, settings.encoding, "corpus.table.")
    files = matching_files(source.files["file"])
    tables = [_open(path, form, settings.sheet, notes) for path in files]
    for table in tables:
        if set(table.columns) != set(tables[0].columns):
            differ = shown_columns(sorted({*table.columns} ^ {*tables[0].columns}))
            raise DataError(
                f"{table.path} and {files[0]} differ in the columns {differ}; all files of a table "
                "must have the same columns"
            )
    names = _columns(tables[0], settings.columns)
    mend = mender(config)
    for table in tables:
        _refuse_lists(table, names, source.images, mend, len(tables) > 1)
    rows = pl.concat(_rows_of(table, names, notes) for table in tables)
    rows = _with_texts(_with_sites(rows), notes)
    if "frontal" in names:
        rows = _image_rows(rows, notes)
    notes.read["table"] = rows.height
    rows = _with_parsed_fields(rows, settings.dates, mend).with_columns(
        id=pl.col("study").fill_null("")
    )
    note_rows(rows, notes)
    images = Rows(_with_ranks(rows, source.images, notes))
    is_empty = pl.all_horizontal(pl.col(COLUMNS).is_null())
    images = images.exclude("", is_empty, "an empty row", LEFT_OUT)
    studies, image_rows = group_images(images, mend)
    candidates = studies.used
    studies, prior_only = choose_images(studies, image_rows, "table", notes)
    headers = inspect_images(images_of(studies.used), source.images)
    unusable = headers.drop_nulls("problem")["image_id"]
    # the report of another examination, or of an image that is none, is nobody's previous report
    used = studies.used.filter(~pl.col("frontal").is_in(unusable.implode()))["study"]
    may_precede = pl.col("study").is_in([*used, *prior_only])
    sources = candidates.with_columns(may_precede=may_precede)
    studies = with_previous(studies, sources, "table", notes)
    return studies._replace(headers=headers)


def _open(path: Path, form: CsvForm, sheet: str | None, notes: Notes) -> SourceTable:
    """Open a file; blanks around the names of its columns are removed."""
    table = open_table(path, form, sheet)
    for name, num_rows in (table.unread or {}).items():
        notes.count("unknown_fields", "table", f"sheet {quoted(name)}", num_rows)
    return table._replace(columns=[name.strip() for name in table.columns])


def _columns(table: SourceTable, mapping: Mapping[str, str]) -> dict[str, str]:
    """Map the columns of the format to the table's, for those that the table has.

    A name without a mapping maps to itself, unless the column of that name is mapped to another
    name. One column may be mapped to several of the ids and the image. The view may be missing if
    the images are DICOM files, whose headers contain it.
    """
    have = table.columns
    # a column named order may hold anything
    names = {name: name for name in COLUMNS if name not in (*mapping.values(), "order")}
    names |= mapping
    problems = [
        f"unknown key {name} (expected one of {', '.join(COLUMNS)})"
        for name in mapping.keys() - set(COLUMNS)
    ]
    is_by_study = names.get("frontal") in have and names.get("image") not in have
    for name in ("image",) if is_by_study else _IMAGES:
        names.pop(name, None)
    needed = ["subject", "study", "frontal" if is_by_study else "image"]
    if not is_by_study and not _may_be_dicom(table, names.get("image", "")):
        needed.append("view")
    for name in dict.fromkeys((*needed, *(name for name in mapping if name in names))):
        if names.get(name) not in have:
            problems.append(f"no column {names.get(name, name)} for {name}")
    if not any(names.get(name) in have for name in (*REPORT, WHOLE)):
        problems.append("no column for findings, impression or whole_report (all in one text)")
    named = [name for name in names.values() if name in have]
    shared = [names.get(name) for name in (*_IDS, "image")]
    twice = [
        column
        for column in dict.fromkeys(named)
        if have.count(column) > 1 or named.count(column) > max(1, shared.count(column))
    ]
    problems += [f"column {column} appears, or is mapped, more than once" for column in twice]
    if "order" in mapping and names.get("date") in have:
        problems.append(
            f"order and {names['date']} both give the order of studies; remove one from table or "
            "mapping"
        )
    if problems:
        raise DataError(
            f"{table.path}: {'; '.join(problems)}. Columns of the table: {shown_columns(have)}. "
            "Name your columns in corpus.table.columns, for example {subject: patient_id, "
            "study: exam_id, image: file}"
        )
    return {name: column for name, column in names.items() if column in have}


def _may_be_dicom(table: SourceTable, image: str) -> bool:
    paths = table.values(image) if image in table.columns else []
    return any(isinstance(path, str) and may_be_dicom(path) for path in paths)


def _rows_of(table: SourceTable, names: Mapping[str, str], notes: Notes) -> pl.DataFrame:
    """Return the columns of the format as text, with the place of each row; blanks and words for
    empty cells are removed, except in texts. Count the cells of other columns."""
    for column in table.columns:
        if column not in names.values():
            filled = sum(value is not None for value in table.values(column))
            notes.count("unknown_fields", "table", quoted(column), filled)
    ids = {name: table.ids(names[name]) for name in _IDS if name in names}
    others = {name: column for name, column in names.items() if name not in _IDS}
    frame = table.frame(list(dict.fromkeys(others.values())))
    rows = frame.select(
        pl.col(others[name]).alias(name) if name in others else pl.lit(None, pl.String).alias(name)
        for name in COLUMNS
        if name not in _IDS
    )
    rows = rows.with_columns(
        pl.lit(None, pl.String).alias(name) if name not in ids else ids[name].alias(name)
        for name in _IDS
    )
    cells = [*_IDS, "image", *_IMAGES, *_OTHERS]
    return rows.with_columns(
        pl.col(cells).str.strip_chars().str.replace(EMPTY_CELL, "").replace("", None),
        file=pl.lit(str(table.path)),
        row=pl.Series(table.places, dtype=pl.String),
    )


def _refuse_lists(
    table: SourceTable,
    names: Mapping[str, str],
    folder: Path,
    mend: Callable[..., str],
    is_part: bool,
) -> None:
    """Raise a DataError with the polars lines that mend a table, maybe one of several files, whose
    cells hold lists or pictures instead of a path."""
    column = names.get("image") or names["frontal"]
    cells = {name: _first_cell(table, name) for name in (column, names.get("view", "")) if name}
    lists = [name for name, cell in cells.items() if isinstance(cell, list)]
    texts = [name for name, cell in cells.items() if isinstance(cell, str)]
    if column in lists:
        what, lines = "a list", mend("explode_lists", columns=lists)
    elif column in texts:
        what, lines = "a list written as text", mend("lists_as_text", columns=texts)
    elif isinstance(cells[column], dict | bytes):
        what = "a picture"
        lines = mend(
            "write_pictures", column=column, folder=str(folder), stem=table.path.name.split(".")[0]
        )
    else:
        return
    ways = "run these lines, then set corpus.table.file to the file that they write"
    if is_part:
        ways += (
            ", which holds the rows of all files; if the files are splits, take the lines of "
            "docs/data.md (Hugging Face's Parquet) instead, which add the column split"
        )
    raise DataError(
        f"{table.path}, column {column}: {what}, but the format has the path of one image in a "
        f"cell; {ways}:\n{lines}"
    )


def _first_cell(table: SourceTable, column: str) -> Any:
    """Return the first cell that does not hold a path, if there is one."""
    cells = [cell for cell in table.values(column) if cell]
    return next((cell for cell in cells if not _is_path(cell)), None)


def _is_path(cell: Any) -> bool:
    return isinstance(cell, str) and not re.search(_LIST_AS_TEXT, cell)


def _with_sites(rows: pl.DataFrame) -> pl.DataFrame:
    """Make ids of the column ``site`` and the ids within it (``north/17``)."""
    if rows["site"].null_count() == rows.height:
        return rows
    return rows.with_columns(
        pl.format("{}/{}", pl.col("site").fill_null(""), name).alias(name)
        for name in ("subject", "study")
    )


def _with_texts(rows: pl.DataFrame, notes: Notes) -> pl.DataFrame:
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
        for topic, pattern in (("placeholders", PLACEHOLDER), ("crossed_out", _CROSSED_OUT)):
            removed = rows.filter(pl.col(name).str.contains(pattern))["row"]
            notes.count_first(topic, "texts", ((name, row) for row in removed))
        rows = rows.with_columns(pl.col(name).str.replace_all(PLACEHOLDER, "___"))
        rows = notes.null_if_absent(rows, name, _is_absent, "row")
    if rows[WHOLE].count():
        rows = _with_sections(rows, notes)
    # an impression that repeats the findings is written once
    is_same = (_one_line("findings") == _one_line("impression")).fill_null(False)
    same = rows.filter(is_same)["row"]
    notes.count_first("same_text", "texts", (("impression", row) for row in same))
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


def _image_rows(studies: pl.DataFrame, notes: Notes) -> pl.DataFrame:
    """Turn a row per examination, whose columns ``frontal`` and ``lateral`` name its images, into a
    row per image; an examination without images keeps a row. ``view`` is that of the frontal
    image."""
    is_other = mapped("view", _is_not_frontal, pl.Boolean)
    for view in studies.filter(is_other)["view"]:
        notes.count("unknown_views", "table", f"{quoted(view)} of a frontal image")
    studies = studies.with_columns(
        view=pl.when(~is_other).then("view").otherwise(pl.lit("FRONTAL"))
    )
    has_none = pl.all_horizontal(pl.col(_IMAGES).is_null())
    frontals = studies.filter(pl.col("frontal").is_not_null() | has_none).with_columns(
        image="frontal"
    )
    laterals = studies.drop_nulls("lateral").with_columns(image="lateral", view=pl.lit("LATERAL"))
    return pl.concat([frontals, laterals])


def _is_not_frontal(view: str) -> bool:
    parsed = parse_view(view)
    return parsed is None or parsed.kind != "frontal"


def _with_parsed_fields(
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
    has_time = pl.col("clock").is_not_null() | pl.col("at").is_not_null()
    is_other_time = (pl.col("clock") != pl.col("at")) & (pl.col("at") != time())
    faults = [
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
        fault_where(
            _is_refused("date", "day"), "date", _date_reason(form, mend), mapped("date", quoted)
        ),
        fault_where(
            _is_refused("time", "clock"), "time", _time_reason(mend), mapped("time", quoted)
        ),
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
    clock = pl.coalesce("clock", "at")
    offset = pl.col("zone").str.extract_groups(r"^([+-])(\d{2}):?(\d{2})$")
    minutes = offset.struct.field("2").cast(pl.Int64) * 60 + offset.struct.field("3").cast(pl.Int64)
    minutes = minutes * pl.when(offset.struct.field("1") == "-").then(-1).otherwise(1)
    instant = pl.col("day").dt.combine(clock) - pl.duration(minutes=minutes)
    is_other_exam = ~mapped("exam", is_chest_radiograph, pl.Boolean)
    return rows.with_columns(
        fault=pl.coalesce(faults),
        day=pl.when(has_zone).then(instant.dt.date()).otherwise("day"),
        clock=pl.when(has_zone).then(instant.dt.time()).otherwise(clock),
        unused=pl.when(is_other_exam).then(
            pl.lit("the column exam names another examination than a chest radiograph")
        ),
    )


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


def _date_reason(form: str, mend: Callable[..., str]) -> pl.Expr:
    """Return the message for a date that has not the form, with the lines for what arrived."""

    def line(name: str) -> pl.Expr:
        return pl.lit(on_one_line(mend(name, column="date")))

    written = pl.col("date")
    others = f"; set another form in corpus.table.dates ({', '.join(DATE_FORMS)})"
    way = (
        pl.when(written.str.contains(r"^\d{1,2}[ .-]*[A-Za-z]{3}"))
        .then(line("dates_with_month_names"))
        .when(written.str.contains(r"^\d{9,13}(?:\.\d+)?$"))
        .then(line("seconds_since_1970"))
        .when(written.str.contains(r"^\d{5}(?:\.\d+)?$"))
        .then(line("spreadsheet_days"))
    )
    if form != "YYYY-MM-DD":
        is_iso = written.str.contains(r"^\d{4}-\d{2}-\d{2}$")
        way = way.when(is_iso).then(line("swap_days"))
    is_number = written.str.contains(r"^-?\d{1,3}$")
    number = pl.when(is_number).then(pl.lit("; a number of order belongs in the column order"))
    return pl.format(
        "expected {}, maybe with a time (T08:30) and its zone (Z, +01:00){}",
        pl.lit(form),
        pl.coalesce(IN_POLARS + way, number, pl.lit(others)),
    )


def _time_reason(mend: Callable[..., str]) -> pl.Expr:
    lines = {r"(?i)\d ?[ap]\.?m": "times_am_pm", r"^\d{3,6}(?:\.\d+)?$": "times_of_dicom"}
    ways = (
        pl.when(pl.col("time").str.contains(pattern)).then(
            pl.lit(f"{IN_POLARS}{on_one_line(mend(name, column='time'))}")
        )
        for pattern, name in lines.items()
    )
    return pl.format("expected HH:MM or HH:MM:SS{}", pl.coalesce(*ways, pl.lit("")))


def _text_fault(name: str) -> pl.Expr:
    """Return the fault of a text that was lost in a spreadsheet, or has a control character."""
    lost = "a spreadsheet error value: the text was lost; export the cells again as text"
    return pl.coalesce(
        fault_where(pl.col(name).str.contains(LOST), name, lost),
        fault_where(pl.col(name).str.contains(CONTROL), name, mapped(name, fault_of)),
    )


def _with_ranks(images: pl.DataFrame, folder: Path, notes: Notes) -> pl.DataFrame:
    """Add the ``rank`` of each image's view (:func:`view_rank`). A DICOM header gives the view that
    a row lacks, and the direction of one that is only frontal."""
    headers = header_views(images["image"].drop_nulls().unique(), folder)
    ranks: list[int | None] = []
    contradictions: list[tuple[str, str]] = []
    for view, image, row in images.select("view", "image", "row").iter_rows():
        header, words = headers.get(image, ("", ""))
        parsed = parse_view(view)
        in_header = parse_view(header)
        is_finer = (
            parsed == ("frontal", "other") and in_header is not None and in_header.kind == "frontal"
        )
        if in_header and (view is None or is_finer):
            notes.count("header_views", "table", quoted(header))
            view = header
        elif in_header and parsed and in_header != parsed:
            note = (
                f"view {quoted(header)} in the header contradicts {quoted(view)} in the table; the "
                "table is used"
            )
            contradictions.append((note, row))
        ranks.append(view_rank(view, words))
    notes.count_first("headers", "views", contradictions)
    return images.with_columns(rank=pl.Series(ranks, dtype=pl.Int64))
