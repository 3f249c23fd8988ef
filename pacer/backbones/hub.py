"""Where configured weights lie, and whether they are usable; published models become pointers, nothing is copied.

Provider ``hub``: a snapshot in the local Hugging Face cache, by id and revision, never downloaded here.
Provider ``local``: any directory in Hugging Face format.
"""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

from pacer.backbones.pointers import PROVENANCE, provenance, write_pointer
from pacer.backbones.tokenizer import SENTENCEPIECE, read_tokenizer
from pacer.config import Backbone
from pacer.core.errors import BackboneError, DataError
from pacer.core.io import read_json, write_json

_TOKENIZER = ("tokenizer.json", "tokenizer.model", "vocab.txt")

#: What the directory of each role must hold beside its weights: one name of every group.
_REQUIRED: dict[str, tuple[tuple[str, ...], ...]] = {
    "vision": (("config.json",), ("preprocessor_config.json", "processor_config.json")),
    "language": (("config.json",), _TOKENIZER),
    "text": (("config.json",), _TOKENIZER),
    "chexbert": (("config.json",), ("chexbert.pth",), _TOKENIZER),
}


def locate(backbone: Backbone, role: str) -> Path | None:
    """Where the weights of a configured model lie, in full; None for a stand-in, which is bundled or made here.

    Args:
        role: vision, language, text or chexbert: what its directory must hold depends on it.

    Raises:
        BackboneError: the stage `backbones` cannot use the model; the message says how to get it.
    """
    if backbone.provider in ("bundled", "standin"):
        return None
    if backbone.provider == "hub":
        remedy = f"download it with `hf download {backbone.id} --revision {backbone.revision}`"
        target = _snapshot(backbone, remedy)
    else:
        target, remedy = Path(backbone.path or ""), f"add them, or correct backbones.{role}.path"
        if not target.is_dir():
            wanted = "chexbert.pth and its BERT's config and vocabulary" if role == "chexbert" else "a model's files"
            raise BackboneError(f"backbones.{role}.path: {target} is not a folder; set it to one with {wanted}")
        target = target.resolve()
    names = _files(target)
    missing = [" or ".join(group) for group in _REQUIRED[role] if names.isdisjoint(group)]
    if role != "chexbert":
        missing += _missing_weights(target, names)
    if missing:
        raise BackboneError(f"{target} is incomplete: no {', '.join(missing)}; {remedy}")
    if role == "language" and SENTENCEPIECE in names:
        read_tokenizer(target)  # which refuses one that disagrees with its sentencepiece model
    return target


def point_to(target: Path, backbone: Backbone, out: Path) -> None:
    """Write ``out/pointer.json`` and ``out/provenance.json`` for a model that :func:`locate` gave."""
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


def _snapshot(backbone: Backbone, remedy: str) -> Path:
    try:
        return Path(snapshot_download(str(backbone.id), revision=backbone.revision, local_files_only=True))
    except HFValidationError:
        raise BackboneError(f"{backbone.id} is not a Hugging Face id; expected OWNER/NAME") from None
    except LocalEntryNotFoundError:
        raise BackboneError(
            f"{backbone.id} at revision {backbone.revision} is not in the local Hugging Face cache; "
            f"{remedy} on a machine with network access"
        ) from None


def _missing_weights(target: Path, names: set[str]) -> list[str]:
    """What is missing of the weights that transformers would load: it looks for a whole file, then for the index of
    its shards, in safetensors and then as a pickle."""
    for whole in ("model.safetensors", "pytorch_model.bin"):
        if whole in names:
            return []
        index = f"{whole}.index.json"
        if index in names:
            try:
                return sorted(set(read_json(target / index)["weight_map"].values()) - names)
            except (DataError, KeyError, TypeError, AttributeError):
                return [f"a valid {index}"]
    return ["weights (model.safetensors or pytorch_model.bin, whole or in shards)"]
