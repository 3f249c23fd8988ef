"""Reader of a user's table of studies: CSV, Parquet or JSONL, one row per image.

The rows are converted by :mod:`pacer.data.readers.image_rows`. The columns are checked before any row is converted.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import polars as pl
from ruamel.yaml import YAML

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.data.account import Account
from pacer.data.readers.image_rows import COLUMNS, OF_PREVIOUS, REPORT, REQUIRED, WHOLE, YEAR_FIRST, studies_of
from pacer.data.source import Source, matching_files
from pacer.data.tables import CsvForm, Table, open_table, other_separator, shown_columns
from pacer.data.values import quoted

NAMES = {"frontal": "image", "lateral": "image"} | OF_PREVIOUS
_SCRIPTS: dict[str, str] = YAML(typ="safe").load(Path(__file__).with_name("table.yaml"))
_SPLIT_OF_SHARD = re.compile(r"(train|validation|valid|val|dev|test)[-_.]")


def read(source: Source, config: Corpus, account: Account) -> pl.DataFrame:
    """Return every study of the table, which may be several files with the same columns."""
    files, settings = matching_files(source.files["file"]), config.table
    form = CsvForm(settings.delimiter, settings.encoding, "corpus.table.", settings.quotes)
    parts, have = list[pl.DataFrame](), None
    for path in files:
        table = open_table(path, form)
        if have is not None and set(table.columns) != have:
            differ = shown_columns(sorted(set(table.columns) ^ have))
            raise DataError(
                f"{path} and {files[0]} differ in the columns {differ}; all files of a table must have the same columns"
            )
        have, names = set(table.columns), _columns(path, table.columns, settings.columns)
        if script := _script(table, names, str(source.files["file"]), str(source.images)):
            raise DataError(
                f"{path} contains images or lists; run this script, then use the .files.parquet it writes:{script}"
            )
        account.read["table"] += len(table.rows)
        for column in filter(lambda name: name not in names.values(), table.columns):
            filled = sum(value is not None for value in table.values(column))
            account.count("unknown_fields", "table", quoted(column), filled)
        images = table.frame(list(names.values()), decimals=(settings.columns.get("time", "time"),))
        images.columns = list(names)
        parts.append(images.with_columns(file=pl.lit(str(path)), row=pl.Series(table.places, dtype=pl.String)))
    images = pl.concat(parts)
    # shards are named after their split; where all have one name, it says nothing
    by_name = {str(path): match[1] for path in files if (match := _SPLIT_OF_SHARD.match(path.name))}
    if "split" not in images.columns and len(set(by_name.values())) > 1:
        images = images.with_columns(split=pl.col("file").replace_strict(by_name, default=None))
    if settings.dates is not None and "date" in images.columns:
        images = images.with_columns(_year_first(settings.dates).alias(YEAR_FIRST))
    return studies_of(images, "table", account)


def _script(table: Table, names: Mapping[str, str], files: str, folder: str) -> str | None:
    """Return Python that makes a table of paths, one row per image, of pictures as Hugging Face's Parquet has them
    (``{bytes, path}``, or only the bytes) and of lists; None if the table is one."""
    first = {name: next(filter(None, table.values(names[name])), None) for name in ("image", "view")}
    lists = [repr(names[name]) for name, cell in first.items() if isinstance(cell, list)]
    picture = first["image"][0] if isinstance(first["image"], list) else first["image"]
    kind = "pictures" if isinstance(picture, dict | bytes) else "lists" if lists else "none"
    explode = f".explode({', '.join(lists)})" if lists else ""
    content = 'picture["bytes"] or b""' if isinstance(picture, dict) else "picture"
    return _SCRIPTS[kind].format(files=files, folder=folder, explode=explode, content=content, image=names["image"])


def _year_first(form: str) -> pl.Expr:
    """Convert dates of a ``form`` such as DD.MM.YYYY in the column ``date``, with or without zeros, to YYYY-MM-DD;
    other cells, and any text after a date, are unchanged."""
    mark = re.escape(form[2])
    day, month = (2, 1) if form.startswith("MM") else (1, 2)
    return pl.col("date").str.replace(rf"^\s*(\d{{1,2}}){mark}(\d{{1,2}}){mark}(\d{{4}})", f"$3-${month}-${day}")


def _columns(path: Path, have: list[str], mapping: dict[str, str]) -> dict[str, str]:
    """Map our column names to the table's names, for the columns that the table has.

    A name without a mapping maps to itself, unless the column of that name is mapped to another name.
    """
    # a column named order may hold anything
    names = {name: name for name in COLUMNS if name not in (*mapping.values(), "order")} | mapping
    named = list(names.values())
    problems = [f"unknown key {name} (expected one of {', '.join(COLUMNS)})" for name in names.keys() - COLUMNS]
    for name in dict.fromkeys((*REQUIRED, *mapping)):
        if names.get(name) not in have:
            problems.append(f"no column {names.get(name, name)} for {name}")
    if not any(names.get(name) in have for name in (*REPORT, WHOLE)):
        problems.append("no column for findings, impression or whole_report")
    twice = [
        column for column in dict.fromkeys(named) if column in have and have.count(column) + named.count(column) > 2
    ]
    problems += [f"column {column} appears, or is mapped, more than once" for column in twice]
    if "order" in mapping and names.get("date") in have:
        problems.append(f"order and {names['date']} both order the studies (remove one from the table or the mapping)")
    if (separator := other_separator(have)) is not None:
        raise DataError(
            f"{path}: the name of its only column contains a {separator}; if that character separates the cells, "
            f"set corpus.table.delimiter: {separator}"
        )
    if problems:
        raise DataError(
            f"{path}: {'; '.join(problems)}. Columns of the table: {shown_columns(have)}; "
            "map yours in corpus.table.columns"
        )
    return {name: column for name, column in names.items() if column in have}
