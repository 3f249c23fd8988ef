"""File names of an exported model, and a check that a folder is one; importable without torch."""

from __future__ import annotations

from pathlib import Path

from pacer.core.errors import CheckpointError

FINDINGS = "findings"  # the folder of the stage of this name
SETTINGS, MANIFEST, CARD, BACKBONES = "reporter.json", "manifest.json", "README.md", "backbones"


def check_exported(directory: Path) -> None:
    """Refuse a folder that ``pacer export`` did not write, before anything is loaded.

    Raises:
        CheckpointError: the folder does not exist, or lacks the manifest or the settings.
    """
    if not directory.exists():
        raise CheckpointError(f"{directory} does not exist; create it with `pacer export {directory}`")
    if not (directory / MANIFEST).is_file() or not (directory / SETTINGS).is_file():
        raise CheckpointError(
            f"{directory} is not an exported model (no {MANIFEST} or {SETTINGS}); create one with `pacer export DIR`"
        )
