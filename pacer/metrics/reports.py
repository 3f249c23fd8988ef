"""Reading reports of other systems, paired by id or by position.

========================  ==================================================================================
CSV, TSV                  a header with an id and a text column; or one column of texts without a header, like
                          R2Gen's ``res.csv`` and ``gts.csv``: paired by position
JSON                      ``{id: text}`` or ``{id: [text]}``, like LLM-RG4's and R2GenGPT's ``test_result.json`` and
                          ``test_refs.json``
JSONL                     one object per line, like PACER's own predictions (name their column `report` explicitly)
Parquet                   an id and a text column, like PACER's ``records.parquet``
========================  ==================================================================================

The caller names the columns, or they are looked up in the lists below. Several possible text columns are an error.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from pacer.config import Strict
from pacer.config.corpus import Cleaner
from pacer.core.contexts import Context
from pacer.core.errors import DataError
from pacer.core.io import opened
from pacer.data.tables import Table, open_table
from pacer.data.values import shown

#: Column names, in any case. The first id column that a file has is used; only one text column is allowed.
ID_COLUMNS = ("probe_id", "record_id", "id", "study_id", "image_id", "case")
REFERENCE_COLUMNS = ("reference", "report", "ground_truth", "findings", "text")
HYPOTHESIS_COLUMNS = ("hypothesis", "report", "prediction", "generated", "text")
#: Optional columns of a file of references.
EXTRA_COLUMNS = (
    *("context", "split", "report_raw", "study_id", "subject_id", "findings_original", "view", "sections"),
)
#: Column name for a file that holds only texts.
_ALONE = "the only column"
#: Column names that messages may show; anything else could be report text.
_NAME = re.compile(r"(?=.{1,50}\Z)[\w-]+( [\w-]+)?")
#: Separators that suggest that a file is not separated as its name implies.
_OTHER_SEPARATOR = re.compile(r"[;\t|]")
#: Most words of a first row that may be the column's name, if it contains no punctuation.
_NAME_WORDS = 3


class Protocol(Strict):
    """How reports are read, paired and changed before scoring; all of it is recorded in the signature.

    ``missing``: a reference without a report is an error, or is scored with an ``empty`` one. ``extract``: ``boxed``
    takes the last ``\\boxed{}``. ``deduplicate``: drop repeated sentences. ``clean_references``, ``clean_hypotheses``:
    the report cleaner to apply. ``split``: the split to score; ``None``: test, if the references have splits.
    ``context``: the context to score; ``None``: all.
    """

    missing: Literal["error", "empty"] = "error"
    extract: Literal["none", "boxed"] = "none"
    deduplicate: bool = False
    clean_references: Literal["none", Cleaner] = "none"
    clean_hypotheses: Literal["none", Cleaner] = "none"
    split: str | None = None
    context: Context | None = None
    reference_id: str | None = None
    reference_text: str | None = None
    hypothesis_id: str | None = None
    hypothesis_text: str | None = None


class Reports(NamedTuple):
    """The rows of a file in file order: ``id`` (the row number from 1 if the file has no ids), ``text`` (null: missing)
    and :data:`EXTRA_COLUMNS` as text (null: blank, or the file has no such column). ``columns``: the file's columns
    that were used; it lacks ``id`` if the file has no ids."""

    path: Path
    rows: pl.DataFrame
    columns: dict[str, str]


def reports_of(
    path: str | Path, text_columns: Sequence[str], id_column: str | None = None, text_column: str | None = None
) -> Reports:
    """Read a file of reports; its suffix determines the format.

    Args:
        text_columns: names to look for, :data:`REFERENCE_COLUMNS` or :data:`HYPOTHESIS_COLUMNS`.
        id_column, text_column: the columns to use instead.

    Raises:
        DataError: the file is missing, damaged or of another kind, a column is missing or ambiguous, or a row holds
            something other than text.
    """
    path = Path(path)
    side = "reference" if tuple(text_columns) == REFERENCE_COLUMNS else "hypothesis"
    table = _read(path, {*text_columns, text_column, id_column}, f"--{side}-text")
    names = table.columns
    candidates = _named(names, text_column, (*text_columns, _ALONE))
    if len(candidates) > 1:
        raise DataError(
            f"{path} has several columns that may hold the reports: {_shown(candidates)}; choose one with --{side}-text"
        )
    ids = _named(names, id_column, ID_COLUMNS)
    absent = [] if candidates else [_absent("reports", text_column, text_columns, f"--{side}-text")]
    if not ids and (id_column or len(names) > 1):
        absent.append(_absent("ids", id_column, ID_COLUMNS, f"--{side}-id"))
    if absent:
        raise DataError(f"{path} has the columns {_shown(names)}: {'; '.join(absent)}")
    (text_name,) = candidates
    columns = {"id": ids[0], "text": text_name} if ids else {"text": text_name}
    keys = table.values(ids[0]) if ids else range(1, len(table.rows) + 1)
    for place, text, key in zip(table.places, table.values(text_name), keys, strict=True):
        if text is not None and not isinstance(text, str):
            raise DataError(f"{path}, {place}, {text_name}: expected text, got {shown(text)}")
        if isinstance(key, bool) or not isinstance(key, str | int) or not str(key).strip():
            raise DataError(f"{path}, {place}, {ids[0]}: expected an id, text or a whole number, got {shown(key)}")
    known = {name.strip().lower(): name for name in names}
    further = {name: known[name] for name in EXTRA_COLUMNS if name in known}
    table.check_ids([*ids[:1], *(further[name] for name in ("study_id", "subject_id") if name in further)])
    cells = table.frame(list({*columns.values(), *further.values()}))
    text = cells[text_name].fill_null("") if table.kind == "csv" else cells[text_name]
    rows = pl.DataFrame({"id": [str(key) for key in keys], "text": text}).with_columns(
        pl.Series(name, cells[further[name]] if name in further else [None] * len(keys), pl.String)
        for name in EXTRA_COLUMNS
    )
    blank = pl.col(EXTRA_COLUMNS).str.strip_chars() == ""
    return Reports(path, rows.with_columns(pl.when(~blank).then(pl.col(EXTRA_COLUMNS))), columns)


def _absent(what: str, given: str | None, known: Sequence[str], option: str) -> str:
    """Return the message for a file that lacks the column ``given`` by ``option``, or any of the ``known`` columns."""
    if given is not None:
        return f"none is {given}; {option} must name one of them"
    return f"none is known as that of {what}; expected one of {', '.join(known)}, or name another with {option}"


def _shown(names: Sequence[str]) -> str:
    return ", ".join(name if _NAME.fullmatch(name) else "a text" for name in names)


def _named(names: Sequence[str], given: str | None, known: Sequence[str]) -> list[str]:
    """Return the column with the name ``given``, else all columns with a ``known`` name."""
    if given is not None:
        return [name for name in names if name == given]
    return [name for wanted in known for name in names if name.strip().lower() == wanted]


def _read(path: Path, headings: Collection[str | None], option: str) -> Table:
    """Read a file. A single-column CSV has a header only if its first row is one of ``headings``; ``option`` lets the
    user add one."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; a folder of predictions is scored with --records and --predictions")
    table = _read_json(path) if path.suffix.lower() == ".json" else open_table(path)
    if len(set(table.columns)) != len(table.columns):
        raise DataError(f"{path} has a column name more than once")
    if table.kind == "csv" and len(table.columns) == 1:
        (first,) = table.columns
        if first not in headings and first.strip().lower() not in headings:
            words = len(first.split())
            if words == 1 or (1 < words <= _NAME_WORDS and not set(first) & set(".,;:!?")):
                raise DataError(
                    f"{path}: its only column begins with what could be its name, which would be scored as a report; "
                    f"name the column with {option}, and separate its cells by commas (.csv) or tabs (.tsv)"
                )
            with opened(path) as file:  # which a table passes over, and here all pairs would move up
                if not file.readline().removeprefix(b"\xef\xbb\xbf").strip():
                    raise DataError(f'{path}, line 1: a blank line; write "" for an empty report')
            table = table._replace(columns=[_ALONE], numbers=[1, *table.numbers], rows=[(first,), *table.rows])
            if all(text and _OTHER_SEPARATOR.search(text) for (text,) in table.rows):
                raise DataError(
                    f"{path}: every line holds a semicolon, tab or bar, and no comma; if these stand between cells, "
                    "separate them by commas (.csv) or tabs (.tsv)"
                )
        if empty := [place for place, row in zip(table.places, table.rows, strict=True) if row == (None,)]:
            raise DataError(f'{path}, {empty[0]}: a blank line; write "" for an empty report')
    if not table.rows:
        raise DataError(f"{path} holds no reports")
    return table


def _read_json(path: Path) -> Table:
    """Read ``{id: text}``, where a text may be wrapped in a list of one element."""
    try:
        content = json.loads(path.read_bytes().decode("utf-8-sig"), object_pairs_hook=_once)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except _Repeated as error:
        raise DataError(f"{path} holds the id {error} more than once") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as JSON in UTF-8 ({type(error).__name__}); save it again") from None
    if not isinstance(content, dict):
        raise DataError(f"{path} must be an object of ids and texts, got {shown(content)}")
    rows = [(id, text[0] if isinstance(text, list) and len(text) == 1 else text) for id, text in content.items()]
    return Table(path, "json", ["id", "text"], range(1, len(rows) + 1), rows)


class _Repeated(Exception):
    """A JSON object has a key more than once."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise _Repeated(Counter(name for name, _ in pairs).most_common(1)[0][0])
    return content
