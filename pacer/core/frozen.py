"""Identity and origin of a frozen model's directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pacer.core.io import hash_directory, hash_json, read_json
from pacer.core.pointers import POINTER, resolve

PROVENANCE = "provenance.json"


def fingerprint(directory: str | Path) -> str:
    """Hash of all files of the model (not of its provenance, which holds times); pointers are checked and followed.

    Raises:
        BackboneError: the model is missing or has changed.
    """
    directory = Path(directory)
    resolve(directory)
    if (directory / POINTER).exists():
        return hash_json(read_json(directory / POINTER)["files"])
    files = hash_directory(directory)
    files.pop(PROVENANCE, None)
    return hash_json(files)


def provenance(directory: str | Path) -> dict[str, Any]:
    """How the model was made or where it came from."""
    return read_json(Path(directory) / PROVENANCE)
