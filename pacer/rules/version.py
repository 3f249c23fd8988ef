"""The versions of the rules, and which of them made a table of anchors."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa

from pacer.core.errors import DataError
from pacer.records.schemas import read_about

Version = Literal["paper", "scoped"]
VERSIONS: tuple[Version, ...] = get_args(Version)


def rules_of(path: str | Path) -> Version | None:
    """The version of the rules that made ``anchors.parquet``; None for a table that does not say.

    Raises:
        DataError: the file is missing or unreadable, or names a version that is not known here.
    """
    try:
        name = read_about(path).get("rules")
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{path} is not a table of anchors: {type(error).__name__}; repeat the stage `anchors`"
        ) from None
    version = next((known for known in VERSIONS if known == name), None)
    if name is not None and version is None:
        raise DataError(f"{path}: rules {name!r}, expected {' or '.join(VERSIONS)}; repeat the stage `anchors`")
    return version
