"""Frozen models that stay where they are: ``pointer.json`` names a directory and the hashes of its
files.

``pointer.json`` is ``{"path": absolute directory, "files": {name: SHA-256}}``.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from pacer.core.errors import BackboneError
from pacer.core.io import hash_file, hash_json, read_json, write_json
from pacer.core.validation import explain

POINTER = "pointer.json"
PROVENANCE = "provenance.json"
#: Names of tokens that mark parts of a text; other added tokens, such as runs of spaces, are text.
_MARKER = re.compile(r"<[^\s<>]+>|\[[A-Z_]+\]")


class Pointer(BaseModel):
    """The content of ``pointer.json``; the files are at the top of the directory."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    path: str
    files: dict[Annotated[str, StringConstraints(pattern=r"^[^./\\][^/\\]*$")], str]


def resolve(directory: str | Path) -> Path:
    """Return the directory with the model's files: ``directory`` itself, or the one that its
    ``pointer.json`` names.

    The files in a pointer are checked against their hashes, once per process while unchanged.
    Otherwise another model could replace the one that features and checkpoints were made with.
    Raises a BackboneError if the directory or a listed file is missing, or a listed file has
    changed.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise BackboneError(f"{directory} is not a folder; run the `backbones` stage to create it")
    if not (directory / POINTER).is_file():
        return directory
    pointer = read_pointer(directory)
    listed_in = directory / POINTER
    target = Path(pointer.path)
    for name, expected in pointer.files.items():
        if not (target / name).is_file() or file_hash(target / name) != expected:
            raise BackboneError(
                f"{target / name} is missing, or does not match {listed_in}; restore it, or rerun "
                "the `backbones` stage to accept the new file"
            )
    return target


def fingerprint(directory: str | Path) -> str:
    """Return one hash for the content of a frozen model: all files at the top of its directory, or
    in its pointer.

    ``provenance.json`` does not count, because it describes how the model was made, not the model.
    Raises a BackboneError as :func:`resolve` does.
    """
    return hash_json(hashes_of(directory))


def hashes_of(directory: str | Path) -> dict[str, str]:
    """Return ``{name: SHA-256}`` of a frozen model's files, as :func:`fingerprint` counts them."""
    target = resolve(directory)
    if (Path(directory) / POINTER).is_file():
        return read_pointer(directory).files
    files = [
        file for file in sorted(target.iterdir()) if file.is_file() and file.name != PROVENANCE
    ]
    return {file.name: file_hash(file) for file in files}


def provenance(directory: str | Path) -> dict[str, Any]:
    """Read the ``provenance.json`` of a frozen model: its source, or how it was made; empty if
    there is none."""
    path = Path(directory) / PROVENANCE
    return read_json(path) if path.is_file() else {}


def is_standin(provenance: dict[str, Any]) -> bool:
    """Whether the model is a stand-in, trained here or bundled, or a copy of one (its
    ``origin``)."""
    made_here = provenance.get("provider") in ("bundled", "standin")
    return made_here or ("origin" in provenance and is_standin(provenance["origin"]))


def from_files(kind: Any, directory: str | Path, **options: Any) -> Any:
    """Call ``kind.from_pretrained(directory, **options)`` of a transformers class, without running
    code from the directory or downloading anything. Raises a BackboneError if files are missing,
    damaged or not in the format of this class."""
    try:
        return kind.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False, **options
        )
    # a bad file can raise any error, and transformers' message may advise trusting remote code
    except Exception as error:
        raise BackboneError(
            f"the files in {directory} cannot be read as {kind.__name__} ({type(error).__name__}); "
            "download them again"
        ) from None


def read_pieces(kind: Any, directory: str | Path) -> Any:
    """Load a tokenizer of a transformers class with :func:`from_files`. It tokenizes the names of
    special tokens in a text, such as ``</s>`` or ``[SEP]`` in an indication, as ordinary text: only
    the software itself adds special tokens. The same holds for names such as ``<tool_call>``, which
    a model's vocabulary does not mark as special. Raises a BackboneError as :func:`from_files`
    does."""
    tokenizer = from_files(kind, directory, split_special_tokens=True)
    added = [
        token.content for token in tokenizer.added_tokens_decoder.values() if not token.special
    ]
    markers = [name for name in added if _MARKER.fullmatch(name)]
    if markers and tokenizer.is_fast:
        # split_special_tokens splits only special tokens
        tokenizer.backend_tokenizer.add_special_tokens(markers)
    return tokenizer


def load_frozen(
    kind: Any, directory: str | Path, unused: tuple[str, ...] = (), **options: Any
) -> Any:
    """Load a model with :func:`from_files`, without transformers' progress bar and list of weights.
    Raises a BackboneError as :func:`from_files` does, or if a weight is missing: transformers would
    initialise it randomly.

    Args:
        unused: name prefixes of weights that may be missing, because they are not used.
    """
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    verbosity = logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        model, info = from_files(kind, directory, output_loading_info=True, **options)
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()
    if missing := sorted(name for name in info["missing_keys"] if not name.startswith(unused)):
        raise BackboneError(
            f"{directory} lacks weights that {type(model).__name__} needs ({len(missing)} missing, "
            f"first: {missing[0]}); download its files again"
        )
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            raise BackboneError(
                f"{directory}: tensor {name} has NaN or infinite values; download its files again"
            )
    return model


def read_pointer(directory: str | Path) -> Pointer:
    """Read the ``pointer.json`` of a directory. Raises a BackboneError if it is malformed."""
    path = Path(directory) / POINTER
    try:
        return Pointer.model_validate(read_json(path))
    except ValidationError as error:
        raise BackboneError(
            f"{path}: {explain(error, 'the file')}; rerun the `backbones` stage, or copy the "
            "exported model again"
        ) from None


def write_pointer(target: str | Path, names: list[str], out: str | Path) -> dict[str, str]:
    """Write ``out/pointer.json`` for the files ``names`` of ``target``; return their hashes
    ``{name: SHA-256}``."""
    target = Path(target).absolute()
    files = {name: hash_file(target / name) for name in sorted(names)}
    write_json(Path(out) / POINTER, {"path": str(target), "files": files})
    return files


def file_hash(file: Path) -> str:
    """Return the SHA-256 of a file's content; computed again only if its size, time or inode
    changes."""
    state = file.stat()
    return _hash(file, state.st_size, state.st_mtime_ns, state.st_ino)


@lru_cache(maxsize=1024)
def _hash(file: Path, size: int, modified: int, inode: int) -> str:
    return hash_file(file)
