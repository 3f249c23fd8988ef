"""Where configured weights lie, and whether they are usable; published models become pointers, nothing is copied.

Provider ``hub``: a snapshot in the local Hugging Face cache, by id and revision, never downloaded here.
Provider ``local``: any directory in Hugging Face format.
"""

from __future__ import annotations

import json
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

from pacer.backbones.pointers import PROVENANCE, provenance, write_pointer
from pacer.backbones.tokenizer import SENTENCEPIECE, read_tokenizer
from pacer.config import Backbone
from pacer.core.errors import BackboneError
from pacer.core.io import write_json

_TOKENIZER = ("tokenizer.json", "tokenizer.model", "vocab.txt")

#: What the directory of each role must hold: one name of every group.
_REQUIRED: dict[str, tuple[tuple[str, ...], ...]] = {
    "vision": (("config.json",), ("preprocessor_config.json", "processor_config.json")),
    "language": (("config.json",), _TOKENIZER),
    "text": (("config.json",), _TOKENIZER),
    "chexbert": (("config.json",), ("chexbert.pth",), _TOKENIZER),
}

_WEIGHTS = (".safetensors", ".bin", ".pth")


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
        target, remedy = _snapshot(backbone)
    else:
        target, remedy = Path(backbone.path or ""), f"add them, or correct backbones.{role}.path"
        if not target.is_dir():
            wanted = "chexbert.pth and its BERT's config and vocabulary" if role == "chexbert" else "a model's files"
            raise BackboneError(f"backbones.{role}.path: {target} is not a folder; set it to one with {wanted}")
        target = target.resolve()
    _check_whole(target, _files(target), role, remedy)
    if role == "language" and (target / SENTENCEPIECE).is_file():
        read_tokenizer(target)  # which refuses one that disagrees with its sentencepiece model
    return target


def point_to(backbone: Backbone, role: str, out: str | Path) -> Path:
    """Write ``out/pointer.json`` and ``out/provenance.json`` for a model of provider ``hub`` or ``local``.

    Returns:
        The directory pointed to.

    Raises:
        BackboneError: as :func:`locate`.
    """
    target = locate(backbone, role)
    if target is None:
        raise BackboneError(f"provider {backbone.provider} does not point to a model")
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    files = write_pointer(target, _files(target), out)
    source: dict = {"provider": backbone.provider, "path": str(target.absolute()), "files": files}
    if backbone.provider == "hub":
        source |= {"id": backbone.id, "revision": backbone.revision, "commit": target.name}
    origin = provenance(target)
    if origin:
        source["origin"] = origin
    write_json(out / PROVENANCE, source)
    return target


def _files(target: Path) -> list[str]:
    return [file.name for file in target.iterdir() if file.is_file() and not file.name.startswith(".")]


def _snapshot(backbone: Backbone) -> tuple[Path, str]:
    """The cached snapshot and the command that fetches it."""
    remedy = f"download it with `hf download {backbone.id} --revision {backbone.revision}`"
    try:
        folder = snapshot_download(str(backbone.id), revision=backbone.revision, local_files_only=True)
    except HFValidationError:
        raise BackboneError(f"{backbone.id} is not a Hugging Face id; expected OWNER/NAME") from None
    except LocalEntryNotFoundError:
        raise BackboneError(
            f"{backbone.id} at revision {backbone.revision} is not in the local Hugging Face cache; "
            f"{remedy} on a machine with network access"
        ) from None
    return Path(folder), remedy


def _check_whole(target: Path, names: list[str], role: str, remedy: str) -> None:
    missing = [" or ".join(group) for group in _REQUIRED[role] if not any(name in names for name in group)]
    if not any(name.endswith(_WEIGHTS) for name in names):
        missing.append("weights (.safetensors, .bin or .pth)")
    for index in (name for name in names if name.endswith((".safetensors.index.json", ".bin.index.json"))):
        try:
            shards = set(json.loads((target / index).read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, AttributeError):
            raise BackboneError(f"{target / index} is not a valid index of weights; {remedy}") from None
        missing += _absent_shards(index, shards, names)
    if missing:
        raise BackboneError(f"{target} is incomplete: no {', '.join(missing)}; {remedy}")


def _absent_shards(index: str, shards: set[str], names: list[str]) -> list[str]:
    """Shards that an index names and the directory lacks; none matter when the other format is there in full."""
    kind = ".bin" if index.endswith(".bin.index.json") else ".safetensors"
    other = [name for name in names if name.endswith(_WEIGHTS) and not name.endswith(kind)]
    absent = sorted(shards - set(names))
    return [] if absent and len(absent) == len(shards) and other else absent
