"""Files and objects in Python with reports of any system (docs/evaluation.md lists them), read
strictly.

The caller names the columns, or they are looked up in the lists below. Several possible text
columns are an error. Of the packages of frames and series, pandas, polars, pyarrow and Hugging
Face's, only polars is imported.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pacer.core.errors import DataError
from pacer.core.io import read_json
from pacer.data.hygiene import is_absent, is_empty
from pacer.data.tables import Table, open_table, other_separator
from pacer.data.values import shown
from pacer.metrics.columns import is_index

#: Column names, in any case. The first id column that a file has is used; only one text column is
#: allowed.
ID_COLUMNS = ("probe_id", "record_id", "id", "study_id", "image_id", "ids", "case")
REFERENCE_COLUMNS = (
    "reference",
    "report",
    "ground_truth",
    "findings",
    "text",
    "gt",
    "gts",
    "caption",
)
HYPOTHESIS_COLUMNS = (
    *(
        "hypothesis",
        "report",
        "prediction",
        "generated",
        "text",
        "model_prediction",
        "pred",
        "res",
        "caption",
    ),
)
REPORT_COLUMNS = tuple(dict.fromkeys((*REFERENCE_COLUMNS, *HYPOTHESIS_COLUMNS)))
#: Optional columns of a file of references.
EXTRA_COLUMNS = (
    *("context", "split", "report_raw", "study_id", "subject_id"),
    *("findings_original", "view", "prior_report"),
)
#: Names of columns that say what a row belongs to: where both files have one, it must agree within
#: a pair.
IS_ID = re.compile(
    r"(.*[_ -])?u?id|ids|(study|image|subject|patient|dicom|series|record)(uid|id)?", re.IGNORECASE
)
#: Prefix of further columns among the rows of :class:`Reports`.
ALSO = "also "
#: Column name for a file that holds only texts.
_ALONE = "the only column"
#: Column names that messages may show; anything else could be report text.
_NAME = re.compile(r"(?=.{1,50}\Z)[\w-]+( [\w-]+)?")
#: The last words of messages about a form that is not known.
_FORMS = "docs/evaluation.md lists the accepted formats"
#: References or hypotheses: the path of a file, or one of the forms in Python.
Source = str | Path | Mapping[str, Any] | Sequence[Any] | pl.DataFrame | Any
#: How the row numbers of a frame become ids.
NAME_INDEX = (
    " (pandas: an unnamed index 0, 1, 2, … only numbers the rows; for ids, name it: "
    'frame.index.name = "id")'
)


class Reports(NamedTuple):
    """The rows of a file in file order: ``id`` (the row number from 1 if the file has no ids),
    ``text`` (null: missing) and :data:`EXTRA_COLUMNS` as text (null: empty, or the file has no such
    column); ``also NAME``: all columns of text or numbers but ``id`` and ``text``. ``columns``:
    those used as ``id`` (if the file has ids) and ``text``."""

    path: Path
    rows: pl.DataFrame
    columns: dict[str, str]


def reports_of(
    source: Source,
    text_columns: Sequence[str],
    id_column: str | None = None,
    text_column: str | None = None,
) -> Reports:
    """Read a file of reports, whose suffix determines the format, or reports in memory. Columns are
    found by name: the texts by ``text_columns`` (:data:`REFERENCE_COLUMNS`,
    :data:`HYPOTHESIS_COLUMNS`, or both), unless ``id_column`` and ``text_column`` name them. Raises
    a DataError if the file is missing, damaged or of another kind, a column is missing or
    ambiguous, or a row holds something other than text."""
    side = {REFERENCE_COLUMNS: "reference", REPORT_COLUMNS: "report"}.get(
        tuple(text_columns), "hypothesis"
    )
    if isinstance(source, str) and " " in source and not Path(source).suffix[1:].isalnum():
        raise DataError(
            f"{side}: expected the path of a file, a list of texts or texts by id, got "
            f"{shown(source)}"
        )
    if isinstance(source, str | Path):
        table = _read(Path(source))
    else:
        ids = ID_COLUMNS if id_column is None else (*ID_COLUMNS, id_column.lower())
        table = _table_of(Path("references" if side == "reference" else "hypotheses"), source, ids)
    path = table.path
    if table.kind != "csv":
        table = table._replace(rows=[tuple(map(_plain, row)) for row in table.rows])
    names = [name for name in table.columns if not is_index(name)]
    if len(set(names)) != len(names):
        raise DataError(f"{path} has duplicate column names")
    if not table.rows:
        raise DataError(f"{path} contains no reports")
    candidates = _named(names, text_column, (*text_columns, _ALONE))
    if len(candidates) > 1:
        several = _shown(candidates)
        raise DataError(
            f"{path} has several possible report columns: {several}; choose one with "
            f"{side}_text (--{side}-text)"
        )
    ids = _named(names, id_column, ID_COLUMNS)
    # `pacer label` and `pacer probe score` have options of their own
    id_option = f"{side}_id (--{side}-id)"
    if tuple(text_columns) in (REFERENCE_COLUMNS, HYPOTHESIS_COLUMNS):
        id_option = f"`--id`, in Python {side}_id"
    text_option = f"{side}_text (--{side}-text)"
    absent = [] if candidates else [_absent("reports", text_column, text_columns, text_option)]
    if not ids and (id_column or len(table.columns) > 1):
        absent.append(
            _absent("ids", id_column, ID_COLUMNS, id_option) + NAME_INDEX * (not path.suffix)
        )
    if absent and table.kind == "csv" and len(table.columns) == 1:
        usual = "tab" if ".tsv" in path.name.lower() else "comma"
        other = other_separator(table.columns, usual)
        absent.append(
            f"separate cells with {usual}s, not {other}"
            if other
            else "its first line must be a column name"
        )
    if absent:
        raise DataError(f"{path} has the columns {_shown(table.columns)}: {'; '.join(absent)}")
    columns = {"id": ids[0], "text": candidates[0]} if ids else {"text": candidates[0]}
    return Reports(path, _rows(table, columns, names), columns)


def id_columns(
    references: Path, hypotheses: Path, name: str | None
) -> tuple[str | None, str | None]:
    """Return the column of ids of each file: ``name`` if the file has such a column, else None.
    Raises a DataError if neither file has it."""
    if name is None:
        return None, None
    columns = [_read(path).columns for path in (references, hypotheses)]
    if not any(name in names for names in columns):
        first, second = map(_shown, columns)
        raise DataError(
            f"no column is named {name}: {references} has the columns {first}, and {hypotheses} "
            f"has {second}; choose one of them with `--id`"
        )
    of_references, of_hypotheses = (name if name in names else None for names in columns)
    return of_references, of_hypotheses


def _rows(table: Table, columns: Mapping[str, str], names: Sequence[str]) -> pl.DataFrame:
    """Return the rows of :class:`Reports`; ``names``: the table's columns that are data."""
    text_name, id_name = columns["text"], columns.get("id", "")
    keys = table.values(id_name) if id_name else list(range(1, len(table.rows) + 1))
    for place, text, key in zip(table.places, table.values(text_name), keys, strict=True):
        if text is not None and not isinstance(text, str):
            several = isinstance(text, list) and all(isinstance(part, str) for part in text)
            way = (
                "; if these are texts of one id, score one of them, and the others in separate runs"
                * several
            )
            raise DataError(
                f"{table.path}, {place}, {text_name}: expected text, got {shown(text)}; "
                f"{_FORMS}{way}"
            )
        if isinstance(key, bool) or not isinstance(key, str | int) or not str(key).strip():
            decimal = (
                "; a missing value made the column decimal, so write ids as text"
                * isinstance(key, float)
            )
            raise DataError(
                f"{table.path}, {place}, {id_name}: expected an id (text or a whole number), got "
                f"{shown(key)}{decimal}"
            )
    known = {name.strip().lower(): name for name in names}
    if patient := known.get("patient_id"):
        known.setdefault("subject_id", patient)
    further = {name: known[name] for name in EXTRA_COLUMNS if name in known}
    owners = [further[name] for name in ("study_id", "subject_id") if name in further]
    table.check_ids([id_name, *owners] if id_name else owners)
    others = [name for name in names if name not in columns.values()]
    also = [
        name for name in others if {*map(type, table.values(name))} <= {str, int, float, type(None)}
    ]
    cells = table.frame(list({text_name, *further.values(), *also}))
    text = cells[text_name].fill_null("") if table.kind == "csv" else cells[text_name]
    content = {"id": pl.Series(map(str, keys), dtype=pl.String), "text": text}
    for name in EXTRA_COLUMNS:
        values = cells[further[name]] if name in further else [None] * len(keys)
        written = [None if value is None or is_empty(value) else value for value in values]
        content[name] = pl.Series(written, dtype=pl.String)
    for name in also:
        content[f"{ALSO}{name}"] = (
            cells[name].str.strip_chars().str.replace(r"(\d)\.0+$", "$1").replace("", None)
        )
    return pl.DataFrame(content)


def says_nothing(text: str) -> bool:
    """Return whether a text is blank or a placeholder such as ``nan``."""
    return not text.strip() or is_absent(text)


def _absent(what: str, given: str | None, known: Sequence[str], option: str) -> str:
    """Say that the column ``given`` by ``option``, or any of the ``known`` ones, is not there."""
    if given is not None:
        return f"none is named {given}; choose one of them with {option}"
    names = ", ".join(known)
    return (
        f"no column of {what} found; expected one of {names}; rename yours, or choose it with "
        f"{option}"
    )


def _shown(names: Sequence[str]) -> str:
    return ", ".join(
        name if _NAME.fullmatch(name) else "a text" if name.strip() else "one unnamed"
        for name in names
    )


def _named(names: Sequence[str], given: str | None, known: Sequence[str]) -> list[str]:
    """Return the column with the name ``given``, else all columns with a ``known`` name."""
    if given is not None:
        return [name for name in names if name == given]
    return [name for wanted in known for name in names if name.strip().lower() == wanted]


def _read(path: Path) -> Table:
    if path.is_dir():
        raise DataError(
            f"{path} is a folder; `pacer score-run --predictions` scores a folder of predictions"
        )
    if path.name.lower().endswith((".json", ".json.gz")):
        return _table_of(path, _read_json(path))
    table = open_table(path)
    if (blank := (None,) * len(table.columns)) in table.rows and table.kind == "csv":
        place = table.places[table.rows.index(blank)]
        raise DataError(f'{path}, {place}: blank line; remove it, or write "" for an empty report')
    return table


def _read_json(path: Path) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            repeated = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise DataError(f"{path} contains the id {repeated} more than once")
        return content

    try:
        return read_json(path, object_pairs_hook=once)
    except DataError as error:
        raise DataError(
            f"{error}; name JSON lines .jsonl" if "Extra data" in str(error) else str(error)
        ) from None


def _table_of(path: Path, content: Any, ids: Sequence[str] = ID_COLUMNS) -> Table:
    """Return the table of JSON or a Python object, in a form named above; a list of one element
    stands for it."""
    columns = columns_of(content, str(path), ids)
    if columns is not None:
        rows = list(zip(*columns.values(), strict=True))
        return Table(path, "parquet", list(columns), range(1, len(rows) + 1), rows)
    if isinstance(content, np.ndarray):
        content = content.tolist()
    if isinstance(content, Mapping):
        content = _objects(path, content)
    elif not isinstance(content, Sequence) or isinstance(content, str):
        content = [content]
    elif content and all(isinstance(row, list) and len(row) == len(content[0]) for row in content):
        header = [_ALONE] if len(content[0]) == 1 else list(map(str, content[0]))
        content = [dict(zip(header, row, strict=True)) for row in content[len(header) > 1 :]]
    elif all(isinstance(_plain(text), str | None) for text in content):
        content = [{_ALONE: text} for text in content]
    if odd := [row for row in content if not isinstance(row, Mapping)]:
        raise DataError(
            f"{path} must be an object mapping ids to reports, a list of objects, or lists of "
            f"equal length; got {shown(odd[0])}; {_FORMS}"
        )
    names = list(dict.fromkeys(name for row in content for name in row))
    rows = [tuple(map(row.get, names)) for row in content]
    return Table(path, "json", names, range(1, len(rows) + 1), rows)


def _objects(path: Path, content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of an object: of objects by id, of columns, or of texts by id."""
    if any(hasattr(value, "with_format") for value in content.values()):
        raise DataError(
            f"{path} has several splits; pass one of them, such as {_shown([*content])}"
        )
    values: list[Any] = [
        list(value) if hasattr(value, "to_list") else value for value in content.values()
    ]
    content = dict(zip(content, values, strict=True))
    names = {str(key).lower() for key in content}
    if isinstance(content.get("annotations"), list) and all(
        isinstance(row, Mapping) for row in content["annotations"]
    ):
        # of COCO, whose "id" is the caption's
        return [
            {key: row[key] for key in ("image_id", "caption") if key in row}
            for row in content["annotations"]
        ]
    if values and all(isinstance(value, Mapping) for value in values):
        inner = [*values[0]]
        if names & {*REPORT_COLUMNS} and all([*value] == inner for value in values):
            lists = {name: list(column.values()) for name, column in content.items()}
            columns = with_index(lists, inner, [None], str(path), ID_COLUMNS)
            return [
                dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
            ]
        key = "key" if any("id" in value for value in values) else "id"
        return [{key: id, **value} for id, value in content.items()]
    if all(isinstance(value, list) for value in values) and names & {*REPORT_COLUMNS, *ID_COLUMNS}:
        if len(set(map(len, values))) > 1:
            raise DataError(f"{path}: its lists are read as columns, and must have the same length")
        return [dict(zip(content, row, strict=True)) for row in zip(*values, strict=True)]
    return [{"id": id, "text": text} for id, text in content.items()]


def _plain(value: Any) -> Any:
    """Return a value without a type of numpy or pandas, the element of a list of one; None for a
    missing value."""
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    value = value.to_list() if isinstance(value, pl.Series) else value
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    is_nan = isinstance(value, float) and value != value
    return None if is_nan or type(value).__name__ in ("NAType", "NaTType") else value


def columns_of(content: Any, name: str, ids: Collection[str]) -> Mapping[str, Sequence[Any]] | None:
    """Return the columns of a frame, with its index where that holds ids; None if it is no frame.
    ``name``: of the frame, for messages; ``ids``: names of columns of ids, in small letters. Raises
    a DataError, which has the call, if the frame has to be changed before it can be read."""
    if isinstance(content, pl.LazyFrame):
        content = content.collect()
    # a data set of Hugging Face, not several by split; as arrow, which does not decode its images
    if hasattr(content, "with_format") and not isinstance(content, Mapping):
        if not hasattr(content, "__len__"):
            raise DataError(
                f"{name}: a streaming dataset has no length and cannot be indexed; pass "
                "list(dataset)"
            )
        content = content.with_format("arrow")[:]
    if hasattr(content, "column_names") and hasattr(content, "to_pydict"):  # a table of pyarrow
        content = pl.DataFrame(pl.from_arrow(content))
    if hasattr(content, "to_frame") and not hasattr(content, "columns"):  # a series
        content = content.to_frame("text")
    if not hasattr(content, "columns"):
        return None
    if len(set(map(str, content.columns))) < len(content.columns):
        raise DataError(f"{name} has duplicate column names")
    columns = {str(column): list(content[column]) for column in content.columns}
    index = getattr(content, "index", None)
    if index is None:
        return columns
    return with_index(columns, list(index), [*getattr(index, "names", [None])], name, ids)


def with_index(
    columns: Mapping[str, Sequence[Any]],
    index: list[Any],
    names: list[Any],
    name: str,
    ids: Collection[str],
) -> Mapping[str, Sequence[Any]]:
    """Return columns with the levels of an index that have ``names``. A single level of any other
    name than ``ids``, or of none, becomes the column ``id`` if no column has ids; without a name,
    not if it just numbers the rows."""
    if len(names) > 1 and None in names:
        raise DataError(
            f"{name}: some index levels have no names; name them: frame.index.names = "
            f'["study_id", "view"], or drop '
            "the index: frame.reset_index(drop=True)"
        )
    known = any(column.strip().lower() in ids for column in columns)
    is_numbering = names == [None] and [str(key) for key in index] == [
        str(row) for row in range(len(index))
    ]
    if (
        len(names) == 1
        and not known
        and not is_numbering
        and str(names[0]).strip().lower() not in ids
    ):
        return {"id": index, **columns}
    if names == [None]:
        return dict(columns)
    if len(names) == 1 and index == columns.get(str(names[0])):
        return columns  # set_index(..., drop=False)
    if taken := [level for level in map(str, names) if level in columns]:
        raise DataError(
            f"{name}: {taken[0]} is both a column and an index level; drop the index: "
            "frame.reset_index(drop=True)"
        )
    levels = zip(*index, strict=True) if len(names) > 1 else [index]
    return {str(level): list(values) for level, values in zip(names, levels, strict=True)} | dict(
        columns
    )
