"""What an exported model directory consists of (the table in ``docs/serving.md``), and how it is read back."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import Field

from pacer.backbones.hub import locate
from pacer.backbones.pointers import POINTER, Pointer, provenance, read_pointer
from pacer.config import Backbone, Decode, Positive, Strict, read_params
from pacer.config.corpus import Cleaner
from pacer.config.strict import Beams, Tokens, validated
from pacer.core.contexts import Context
from pacer.core.errors import BackboneError, CheckpointError, ConfigError
from pacer.core.io import hash_file, read_json, write_json
from pacer.features import prepare
from pacer.features.store import ROUNDING_VERSION
from pacer.model.assemble import FROZEN
from pacer.serving.layout import BACKBONES, MANIFEST, SETTINGS, check_exported

#: Of this layout. A change that older software cannot read counts up.
VERSION = 1
#: Entry of the manifest: the model was trained on a generated corpus (absent: not known).
GENERATED = "generated_corpus"


class States(Strict):
    """How the states were made that the model was trained on; ``preparation`` and ``rounding`` count the changes of
    the software that make others."""

    depths: Annotated[list[Positive], Field(min_length=1)]
    dtype: Literal["float32", "float16", "bfloat16"]
    precision: Literal["float32", "bfloat16"]
    prior_tokens: Tokens
    preparation: Positive
    rounding: Positive


class Texts(Strict):
    """``cleaner`` of previous reports, and the ``target`` that the model was trained to write."""

    cleaner: Cleaner
    target: Literal["findings_and_impression", "findings"]


class Search(Strict):
    """Those settings of the group ``decode`` that decide about tokens."""

    engine: Literal["beam", "generate"]
    num_beams: Beams
    min_new_tokens: Annotated[int, Field(ge=0)]
    max_new_tokens: Positive
    repetition_penalty: Annotated[float, Field(gt=0.0)]
    length_penalty: float
    batch_size: Positive

    def decode(self, **changes: Any) -> Decode:
        """The group ``decode`` of a pipeline, without a split but for ``changes``.

        Raises:
            ConfigError: it could not have these values.
        """
        whole = {"split": "test", "limit": None, "examples": 0, "controls": []}
        return validated(whole | self.model_dump() | changes, f"{SETTINGS}, search", Decode)


class PackageSettings(Strict):
    """What a report depends on beside weights, tokenizer and frozen models: ``reporter.json``."""

    version: Positive
    contexts: Annotated[list[Context], Field(min_length=1)]
    states: States
    texts: Texts
    search: Search


def read_settings(directory: Path) -> PackageSettings:
    """The settings of an exported model whose files are all what its manifest says.

    Raises:
        CheckpointError: the folder is no exported model, is of another version, or a file is missing or has changed.
        ConfigError: the settings are not what they should be.
    """
    check_exported(directory)
    manifest = read_json(directory / MANIFEST)
    version = manifest.get("version") if isinstance(manifest, dict) else None
    if version != VERSION:
        raise CheckpointError(
            f"{directory} has version {version!r} of the layout, and this software reads version "
            f"{VERSION}; export the model again, or use the software that it was exported with"
        )
    listed = manifest.get("files")
    if not isinstance(listed, dict):
        raise CheckpointError(f"{directory / MANIFEST} does not say which files there are; copy the folder again")
    # what lies behind a link to a folder, or above the directory, is not among them
    there = {str(PurePosixPath(path.relative_to(directory))) for path in directory.rglob("*") if path.is_file()}
    for name, expected in listed.items():
        if name not in there:
            raise CheckpointError(f"{directory} is incomplete: {name:.200} is missing; copy the folder again")
        if hash_file(directory / name) != expected:
            raise CheckpointError(f"{directory / name} has changed since it was exported; copy the folder again")
    settings = read_params(directory / SETTINGS, PackageSettings)
    settings.search.decode()
    states = settings.states
    for what, exported, here in (
        ("prepares images", states.preparation, prepare.VERSION),
        ("rounds states", states.rounding, ROUNDING_VERSION),
    ):
        if exported != here:
            raise CheckpointError(
                f"{directory} belongs to software that {what} in another way (version {exported}, here "
                f"{here}); use the software that it was exported with"
            )
    return settings


def write_manifest(directory: Path, about: dict[str, Any]) -> None:
    """Hashes of all files below an exported model's directory, and what else is known about it."""
    files = {
        str(PurePosixPath(path.relative_to(directory))): hash_file(path)
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
    write_json(directory / MANIFEST, {"version": VERSION, **about, "files": files})


@contextmanager
def frozen_models(directory: Path, given: Path | None) -> Generator[Path]:
    """A folder ``{vision,language,text}`` of the frozen models, for as long as it takes to load them.

    A pointer whose target is gone is followed to the same revision in this machine's hub cache; hashes are compared
    wherever a model lies.

    Args:
        given: a folder with the three, or some of the three, which are used in place of the directory's own.

    Raises:
        ConfigError: ``given`` is no folder. BackboneError: a frozen model is nowhere; the message says how to get it.
    """
    if given is not None and not given.is_dir():
        raise ConfigError(f"backbones {given} is not a folder; name one that holds vision, language and text")
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        for name in FROZEN:
            source = directory / BACKBONES / name
            pointer: Pointer | None = None
            if given is not None and (given / name).is_dir():
                source = given / name
            elif (source / POINTER).is_file():
                pointer = read_pointer(source)
            if pointer is None or os.path.isdir(pointer.path):
                (root / name).symlink_to(source.absolute(), target_is_directory=True)
            else:
                (root / name).mkdir()
                moved = pointer.model_copy(update={"path": str(_cached(source, name, pointer.path))})
                write_json(root / name / POINTER, moved.model_dump())
        yield root


def _cached(source: Path, name: str, path: str) -> Path | None:
    """The same revision of a published model in the hub cache."""
    origin = provenance(source)
    if origin.get("provider") != "hub":
        raise BackboneError(
            f"the frozen {name} model is not at {path}, where it was when {source} was exported; name a "
            "folder that holds it with --backbones, or export with --with-backbones"
        )
    revision = str(origin.get("commit") or origin.get("revision"))
    return locate(Backbone(provider="hub", id=str(origin.get("id")), revision=revision), name)
