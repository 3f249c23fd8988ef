"""Locating and checking configured weights; published models become pointers, nothing is copied.

Provider ``hub``: a snapshot in the local Hugging Face cache, by id and revision, never downloaded here.
Provider ``local``: any directory in Hugging Face format.
"""

from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

from pacer.config import Backbone
from pacer.core.errors import BackboneError
from pacer.core.io import read_json, write_json
from pacer.core.pointers import PROVENANCE, provenance, write_pointer

_TOKENIZER = ("tokenizer.json", "tokenizer.model", "vocab.txt")

#: Required files, besides weights, in the directory of each role: one name of every group.
_REQUIRED: dict[str, tuple[tuple[str, ...], ...]] = {
    "vision": (("config.json",), ("preprocessor_config.json", "processor_config.json")),
    "language": (("config.json",), _TOKENIZER),
    "text": (("config.json",), _TOKENIZER),
    "chexbert": (("config.json",), ("chexbert.pth",), _TOKENIZER),
}
#: Weight files in the order in which transformers looks for them; each may instead be an index of shards.
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def locate(backbone: Backbone, role: str) -> Path | None:
    """Return the full path of a configured model's weights; None for a stand-in, which is bundled or made here.

    Args:
        role: vision, language, text or chexbert, which determines the required files.

    Raises:
        BackboneError: the stage `backbones` cannot use the model; the message says how to get it.
    """
    if backbone.provider in ("bundled", "standin"):
        return None
    if backbone.provider == "hub":
        remedy = f"download it with `hf download {backbone.id} --revision {backbone.revision}`"
        try:
            target = Path(snapshot_download(str(backbone.id), revision=backbone.revision, local_files_only=True))
        except (HFValidationError, LocalEntryNotFoundError):
            raise BackboneError(
                f"{backbone.id} at revision {backbone.revision} is not in the local Hugging Face cache; {remedy} on a "
                "machine with network access"
            ) from None
    else:
        remedy = f"add what is missing, or correct backbones.{role}.path"
        target = Path(backbone.path or "").resolve()
        if not target.is_dir():
            raise BackboneError(f"backbones.{role}.path: {target} is not a folder; set it to the model's folder")
    missing = _missing(target, role)
    if missing:
        raise BackboneError(f"{target} is incomplete: it lacks {', '.join(missing)}; {remedy}")
    return target


def point_to(target: Path, backbone: Backbone, out: Path) -> None:
    """Write ``out/pointer.json`` and ``out/provenance.json`` for a model that :func:`locate` returned."""
    out.mkdir(parents=True, exist_ok=True)
    files = write_pointer(target, sorted(_files(target)), out)
    source: dict[str, object] = {"provider": backbone.provider, "path": str(target.absolute()), "files": files}
    if backbone.provider == "hub":
        source |= {"id": backbone.id, "revision": backbone.revision, "commit": target.name}
    if origin := provenance(target):
        source["origin"] = origin
    write_json(out / PROVENANCE, source)


def _files(target: Path) -> set[str]:
    return {file.name for file in target.iterdir() if file.is_file() and not file.name.startswith(".")}


def _missing(target: Path, role: str) -> list[str]:
    """Return the files that a model's directory lacks: those of its role, and weights that transformers would load."""
    names = _files(target)
    missing = [" or ".join(group) for group in _REQUIRED[role] if names.isdisjoint(group)]
    if role == "chexbert":
        return missing
    for file in _WEIGHTS:
        if file in names:
            return missing
        if (index := f"{file}.index.json") in names:
            return missing + sorted(set(read_json(target / index)["weight_map"].values()) - names)
    return [*missing, f"weights ({' or '.join(_WEIGHTS)}, whole or in shards)"]
