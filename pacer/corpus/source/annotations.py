"""Records of an annotation file: ``{"train": [record, ...], "val": [...], "test": [...]}``."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pacer.core.errors import DataError
from pacer.core.io import distinct_keys, opened
from pacer.records.schemas import SPLITS

_EXPECTED = f"an object with the splits {', '.join(SPLITS)}"


def read_annotations(path: str | Path) -> Iterator[tuple[str, int, Any]]:
    """Yield ``(split, index, record)`` in the file's order; ``index`` counts from 0 in each split.

    The file is in UTF-8, with or without a byte order mark, and compressed where its name ends in ``.gz``.

    Raises:
        DataError: the file is missing, is not JSON, or is not an object of splits with lists.
    """
    try:
        with opened(path) as file:
            content = json.loads(file.read().decode("utf-8-sig"), object_pairs_hook=distinct_keys)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not valid UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise DataError(f"{path} is not valid JSON: values are nested too deep") from None
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(content, dict) or not content:
        raise DataError(f"{path} must hold {_EXPECTED}")
    for split, records in content.items():
        if split not in SPLITS:
            raise DataError(f"{path} must hold {_EXPECTED}; it holds {ascii(split)[1:41]}")
        if not isinstance(records, list):
            raise DataError(f"{path}: {split} must be a list of records; it is a {type(records).__name__}")
    for split, records in content.items():
        for index, record in enumerate(records):
            yield split, index, record
