"""Files of several formats: annotation files ``{"train": [record, ...], "val": [...], "test":
[...]}`` of MIMIC-RG4 and R2Gen, and folders or archives of reports of MIMIC-CXR and Open-I."""

import json
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from pydantic import AfterValidator, BaseModel, BeforeValidator, ValidationError

from pacer.core.errors import DataError
from pacer.core.io import files_below, opened
from pacer.core.progress import Ticker
from pacer.core.schemas import SPLITS
from pacer.core.validation import reason_of
from pacer.corpus.account import Notes, Rows
from pacer.tables.values import quoted, shown

#: Types of the fields that are not text.
_KINDS: dict[str, pl.DataType] = {
    "new_scores": pl.List(pl.Float32()),
    "image_path": pl.List(pl.String()),
}


def _text(text: str) -> str:
    text.encode()  # raises a ValueError for a lone surrogate, which JSON can contain
    return text


Text = Annotated[str, AfterValidator(_text)]
#: An id: text or a whole number, without white space around it.
Identifier = Annotated[
    Text,
    BeforeValidator(lambda value: str(value) if type(value) is int else value),
    AfterValidator(str.strip),
]
#: A known field that is not read.
Unread = Annotated[None, BeforeValidator(lambda value: None)]


def read_annotations(path: Path) -> dict[str, list[Any]]:
    """Read the records of each split, in the order of a file in UTF-8, with or without a byte order
    mark, maybe compressed by gzip. Raises a DataError if it cannot be read as JSON, or is not an
    object of splits with lists."""
    try:
        with opened(path) as file:
            splits = json.load(file)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise DataError(
            f"{path} cannot be read as JSON: {getattr(error, 'strerror', None) or error}"
        ) from None
    is_valid = (
        isinstance(splits, dict)
        and all(isinstance(records, list) for records in splits.values())
        and splits
        and splits.keys() <= set(SPLITS)
    )
    if not is_valid:
        raise DataError(
            f"{path} must be a JSON object that maps splits ({', '.join(SPLITS)}) to lists of "
            "records"
        )
    return splits


def read_rows(path: Path, source: str, model: type[BaseModel], notes: Notes) -> Rows:
    """Return a row per valid record: the fields of ``model``, and ``file``, ``row``, ``split``;
    list the other records. Rows, and fields that the model lacks, are counted under the input
    ``source``."""
    columns = ("file", "row", "split", *model.model_fields)
    valid: list[tuple[Any, ...]] = []
    problems: list[dict[str, Any]] = []
    for split, records in read_annotations(path).items():
        notes.read[source] += len(records)
        names = Counter(chain.from_iterable(raw for raw in records if isinstance(raw, dict)))
        for name in sorted(names.keys() - {*model.model_fields, "split"}):
            notes.count("unknown_fields", source, quoted(name), names[name])
        for index, raw in enumerate(records):
            row = f"{split}[{index}]"
            try:
                fields = model.model_validate(raw).__dict__
            except ValidationError as error:
                problems.append({"file": str(path), "row": row} | _problem(raw, error))
            else:
                valid.append((str(path), row, split, *fields.values()))
    schema = {name: _KINDS.get(name, pl.String()) for name in columns}
    listed = ("file", "row", "id", "field", "reason", "value")
    return Rows(pl.DataFrame(valid, schema, orient="row")).with_lines(
        pl.DataFrame(problems, dict.fromkeys(listed, pl.String()))
    )


def _problem(raw: Any, error: ValidationError) -> dict[str, str | None]:
    """Return a record's id, and field, reason and value of its first problem; pydantic's reasons
    quote no value."""
    first = error.errors(include_url=False)[0]
    id = raw.get("id") if isinstance(raw, dict) else None
    shown_id = None
    if isinstance(id, str | int):
        shown_id = str(id).encode("utf-8", "backslashreplace").decode()
    return {
        "id": shown_id,
        "field": str(first["loc"][0]) if first["loc"] else "-",
        "reason": reason_of(first) if isinstance(raw, dict) else "expected an object of fields",
        "value": None if first["type"] == "missing" else shown(first["input"]),
    }


def read_files(path: Path, ending: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file with an ending in a folder (sorted by name) or a zip or
    tar archive of it (in stored order), without hidden files. Raises a DataError if the path cannot
    be read, or has no such file."""
    number = 0
    with Ticker("reports", None) as ticker:
        try:
            for name, content in _contents(path):
                if name.lower().endswith(ending) and not Path(name).name.startswith("."):
                    number += 1
                    yield name, content()
                    ticker.advance()
        except (
            tarfile.TarError,
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            OSError,
            RuntimeError,
        ) as error:
            reason = str(getattr(error, "strerror", None) or error).partition("\n")[0]
            raise DataError(
                f"{path} cannot be read as a folder, a zip or a tar archive: {reason}"
            ) from None
    if not number:
        raise DataError(f"{path} contains no {ending} files")


def _contents(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    if path.is_dir():
        for file in sorted(files_below(path)):
            yield file.relative_to(path).as_posix(), file.read_bytes
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as packed:
            for name in packed.namelist():
                yield name, partial(packed.read, name)
    else:
        with tarfile.open(path) as packed:
            for member in packed:
                if member.isfile() and (file := packed.extractfile(member)):
                    yield member.name, file.read
