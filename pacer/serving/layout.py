"""File names of an exported model, finding it, and checking that a folder is one. This module does
not import torch."""

import re
from os import PathLike
from pathlib import Path

from pacer.core.errors import CheckpointError

#: The folder of the output of the stage of this name.
READING = "findings"
SETTINGS = "reporter.json"
MANIFEST = "manifest.json"
CARD = "README.md"
BACKBONES = "backbones"

#: An exported model on the hub: a revision is a tag, a branch or a commit.
_ON_HUB = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)@(?P<revision>[\w./-]+)")


def located(model: str | PathLike) -> Path:
    """Return the folder of a model, which is a path or ``org/name@revision`` of the hub. A model of
    the hub is downloaded to its cache. Raises a CheckpointError if it is not in the cache and
    cannot be downloaded."""
    match = _ON_HUB.fullmatch(str(model))
    if match is None or Path(model).exists():
        return Path(model)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        return Path(snapshot_download(match["repo"], revision=match["revision"]))
    except (OSError, HFValidationError) as error:
        raise CheckpointError(
            f"{model} is not in the Hugging Face cache and cannot be downloaded "
            f"({type(error).__name__}); check the name, the revision and the network; for a "
            "private model, run `hf auth login`"
        ) from None


def check_exported(directory: Path) -> None:
    """Refuse a folder that ``pacer export`` did not write, before anything is loaded. Raises a
    CheckpointError if the folder does not exist, or lacks the manifest or the settings."""
    if not directory.exists():
        raise CheckpointError(
            f"{directory} does not exist; create it with `pacer export {directory}`"
        )
    if not (directory / MANIFEST).is_file() or not (directory / SETTINGS).is_file():
        raise CheckpointError(
            f"{directory} is not an exported model (no {MANIFEST} or {SETTINGS}); create one with "
            "`pacer export DIR`"
        )
