"""Seals: what one step hands to another says itself whether it is as it was written.

A sealed JSON file holds the hash of its own content, and may name files beside it with theirs. A file without a seal,
of somebody else or of an older version, is taken as it is: a bit that turns in the seal's own key does no harm.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pacer.core.errors import DataError
from pacer.core.io import hash_file, hash_json, read_json, write_json

SEAL, FILES = "sha256", "files"
#: Name of the sealed file beside the tables of a stage.
AUDIT = "audit.json"
_REMEDY = "`dvc checkout` brings back what DVC keeps; else repeat what made it"


def write_sealed(path: str | Path, content: dict[str, Any], files: Iterable[str] = ()) -> None:
    """Write JSON with a seal.

    Args:
        files: names, relative to its folder, of files whose hashes it is to hold.
    """
    path = Path(path)
    if hashes := {name: hash_file(path.parent / name) for name in sorted(files)}:
        content = content | {FILES: hashes}
    write_json(path, content | {SEAL: hash_json(json.loads(json.dumps(content)))})


def read_sealed(path: str | Path) -> dict[str, Any]:
    """The content of a sealed file without its seal; the files that it names are looked at where they are there.

    Raises:
        DataError: it is missing, is no object, or it or a file that it names has changed.
    """
    path = Path(path)
    content, files = _opened(path)
    for name, expected in files.items():
        _check(path.parent / name, expected)
    return content


def check_sealed(path: str | Path) -> None:
    """Compare a file with what the ``audit.json`` beside it says of it, where there is one that names it.

    Raises:
        DataError: it has changed, or the audit has.
    """
    path = Path(path)
    audit = path.with_name(AUDIT)
    if audit.is_file():
        _check(path, _opened(audit)[1].get(path.name))


def _opened(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The content of a sealed file, and the hashes of the files that it names."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise DataError(f"{path} must hold an object; {_REMEDY}")
    if SEAL in content and content.pop(SEAL) != hash_json(content):
        raise DataError(f"{path} is not as it was written; {_REMEDY}")
    files = content.pop(FILES, {})
    return content, files if isinstance(files, dict) else {}


def _check(path: Path, expected: str | None) -> None:
    if expected is not None and path.is_file() and hash_file(path) != expected:
        raise DataError(f"{path} is not as it was written; {_REMEDY}")
