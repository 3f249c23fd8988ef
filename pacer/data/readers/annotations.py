"""Annotation files ``{"train": [record, ...], "val": [...], "test": [...]}``, of MIMIC-RG4 and of R2Gen."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from pacer.core.errors import DataError
from pacer.core.io import opened
from pacer.data.account import Account
from pacer.data.schemas import SPLITS
from pacer.data.studies import Study
from pacer.data.values import BAD, Unusable, quoted

_EXPECTED = f"must hold the splits {', '.join(SPLITS)}"


def read_annotations(path: str | Path) -> dict[str, list[Any]]:
    """The records of each split, in the file's order.

    The file is in UTF-8, with or without a byte order mark, and compressed where its name ends in ``.gz``.

    Raises:
        DataError: the file is missing, is not JSON, or is not an object of splits with lists.
    """
    try:
        with opened(path) as file:
            splits = json.loads(file.read().decode("utf-8-sig"), object_pairs_hook=_distinct)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not valid UTF-8: {error.reason} at byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not valid JSON: {error}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not isinstance(splits, dict) or not splits:
        raise DataError(f"{path} {_EXPECTED}; it holds {'none' if splits == {} else f'a {type(splits).__name__}'}")
    for split, records in splits.items():
        if split not in SPLITS:
            raise DataError(f"{path} {_EXPECTED}; it holds {ascii(quoted(split))[1:-1]}")
        if not isinstance(records, list):
            raise DataError(f"{path}: {split} must be a list of records; it is a {type(records).__name__}")
    return splits


def read_studies(
    splits: dict[str, list[Any]],
    path: Path,
    source: str,
    known: Collection[str],
    make: Callable[[dict[str, Any], str, str], Study],
    account: Account,
) -> Iterator[Study]:
    """What ``make(record, split, row)`` gives for each record of :func:`read_annotations`; what it refuses is listed.

    Args:
        source: the input that rows are counted under, as are fields that are not ``known``.
    """
    for split, records in splits.items():
        account.read[source] += len(records)
        for index, raw in enumerate(records):
            row, study, kind = f"{split}[{index}]", None, ""
            try:
                if not isinstance(raw, dict):
                    raise Unusable("-", f"a record must be an object; this is a {type(raw).__name__}")
                study = make(raw, split, row)
            except Unusable as problem:
                id = raw.get("id") if isinstance(raw, dict) else None
                shown = (
                    quoted(str(id)).encode("utf-8", "backslashreplace").decode() if isinstance(id, str | int) else None
                )
                account.add(problem.kind, str(path), row, shown, problem.field, problem.reason)
                kind = problem.kind
            if kind != BAD:
                for name in raw.keys() - known:
                    account.count("unknown_fields", source, name)
            if study is not None:
                yield study


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; a split that stands in it twice would hide the first one."""
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next((split for split in SPLITS if names.count(split) > 1), None)
        if twice:
            raise ValueError(f"the split {twice} is there twice")
    return content
