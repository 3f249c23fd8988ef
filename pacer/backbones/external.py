"""External models on this machine. They are found and checked before any other stage runs, and only
a pointer is written; nothing is copied.

Provider ``hub``: a snapshot in the local Hugging Face cache, by id and revision, never downloaded
here. Provider ``local``: any directory in Hugging Face format.
"""

import json
import zipfile
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

from pacer.backbones.families import check_language, check_lora_targets, read_config, vision_config
from pacer.backbones.observations import CHECKPOINT
from pacer.backbones.pointers import PROVENANCE, provenance, write_pointer
from pacer.backbones.tokenizer import (
    CLOSING_TEXT,
    OPENING_TEXT,
    continuation_ids,
    read_tokenizer,
)
from pacer.config import Backbone, Params
from pacer.config.backbones import CARD
from pacer.core.errors import BackboneError, ConfigError
from pacer.core.instruction import BEFORE_IMAGE
from pacer.core.io import read_json, write_json

_TOKENIZER = ("tokenizer.json", "tokenizer.model", "vocab.txt")

#: Required files, besides weights, in the directory of each role: one name of every group.
_REQUIRED: dict[str, tuple[tuple[str, ...], ...]] = {
    "vision": (("config.json",), ("preprocessor_config.json", "processor_config.json")),
    "language": (("config.json",), _TOKENIZER),
    "text": (("config.json",), _TOKENIZER),
    "chexbert": (("config.json",), (CHECKPOINT,), _TOKENIZER),
}
#: Weight files in the order in which transformers looks for them; each may instead be an index of
#: shards.
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def locate(backbone: Backbone, role: str) -> Path | None:
    """Return the full path of a configured model's weights; None for a stand-in, which is bundled
    or made here. Raises a BackboneError if the stage `backbones` cannot use the model; the message
    has the remedy.

    Args:
        role: vision, language, text or chexbert, which determines the required files.
    """
    if backbone.provider in ("bundled", "standin"):
        return None
    if backbone.provider == "hub":
        remedy = f"download it with `hf download {backbone.id} --revision {backbone.revision}`"
        try:
            target = Path(
                snapshot_download(
                    str(backbone.id), revision=backbone.revision, local_files_only=True
                )
            )
        except (HFValidationError, LocalEntryNotFoundError):
            raise BackboneError(
                f"{backbone.id} at revision {backbone.revision} is not in the local Hugging Face "
                f"cache; {remedy} on a machine with network access"
            ) from None
    else:
        remedy = f"add what is missing, or correct backbones.{role}.path"
        target = Path(backbone.path or "").resolve()
        if not target.is_dir():
            raise BackboneError(
                f"backbones.{role}.path: {target} is not a folder; set it to the model's folder"
            )
    missing = _missing(target, role)
    if missing:
        raise BackboneError(f"{target} is incomplete: it lacks {', '.join(missing)}; {remedy}")
    return target


def point_to(target: Path, backbone: Backbone, out: Path) -> None:
    """Write ``out/pointer.json`` and ``out/provenance.json`` for a model that :func:`locate`
    returned."""
    out.mkdir(parents=True, exist_ok=True)
    files = write_pointer(target, sorted(_files(target)), out)
    source: dict[str, object] = {
        "provider": backbone.provider,
        "path": str(target.absolute()),
        "files": files,
    }
    if backbone.provider == "hub":
        source |= {"id": backbone.id, "revision": backbone.revision, "commit": target.name}
    origin = provenance(target)
    if origin:
        source["origin"] = origin
    write_json(out / PROVENANCE, source)


def _files(target: Path) -> set[str]:
    return {
        file.name for file in target.iterdir() if file.is_file() and not file.name.startswith(".")
    }


def _missing(target: Path, role: str) -> list[str]:
    """Return the files that a model's directory lacks: those of its role, and weights that
    transformers would load."""
    names = _files(target)
    missing = [" or ".join(group) for group in _REQUIRED[role] if names.isdisjoint(group)]
    if role == "chexbert":
        return missing
    weights = _weight_files(target, _WEIGHTS)
    if not weights:
        return [*missing, f"weights ({' or '.join(_WEIGHTS)}, whole or in shards)"]
    return missing + sorted({str(file.relative_to(target)) for file in weights} - names)


def _weight_files(directory: Path, names: Sequence[str]) -> list[Path]:
    """Return the first of these files that exists, or its shards as its index lists them."""
    for name in names:
        if (directory / name).is_file():
            return [directory / name]
        index = directory / f"{name}.index.json"
        if index.is_file():
            return sorted({directory / shard for shard in read_json(index)["weight_map"].values()})
    return []


#: Size of Llama's and Vicuna's tokenizer, whose tokens the released marks of MIMIC-RG4 refer to.
_LLAMA_TOKENS = 32_000
#: Size of the bundled language model's tokenizer, whose tokens the marks of the phantom refer to.
_PHANTOM_TOKENS = 1200
#: A tokenizer may have a few more special tokens than the model embeds: Gemma 3's has one for
#: images.
_BEYOND = 1.01


def check_backbone(params: Params, role: str) -> Path | None:
    """Return the directory of a model of provider ``hub`` or ``local``, after checking that it can
    take its role and that the settings fit it; None for a stand-in. Raises a BackboneError or a
    ConfigError if it cannot be used."""
    directory = locate(getattr(params.backbones, role), role)
    if directory is not None:
        check_model(role, directory)
    check_settings(params, role, directory)
    return directory


def check_model(role: str, directory: Path) -> None:
    """Check that a model can take its role. Of weights, only the headers are read. Raises a
    BackboneError if it cannot; the message names its family and the requirement."""
    shapes: dict[str, tuple[int, ...]] = {}
    if role == "vision":
        vision_config(directory)
    elif role == "language":
        shapes = check_language(directory)
        tokenizer = read_tokenizer(directory)
        size = read_config(directory).vocab_size
        if len(tokenizer) > _BEYOND * size:
            raise BackboneError(
                f"the tokenizer in {directory} has {len(tokenizer)} tokens, but its language model "
                f"embeds {size}; use the tokenizer that was trained with the model"
            )
        try:
            for text in (BEFORE_IMAGE, OPENING_TEXT, CLOSING_TEXT):
                continuation_ids(tokenizer, text)
        except ValueError as error:
            raise BackboneError(f"the tokenizer in {directory} cannot be used: {error}") from None
    check_weights(directory, shapes)


def check_settings(params: Params, role: str, directory: Path | None) -> None:
    """Check that the settings fit a usable model (:func:`check_model`). Raises a ConfigError if
    they do not; the message names the key and a value that fits.

    Args:
        directory: None for a stand-in, which need not exist yet; the bundled one has its sizes.
    """
    standin = directory is None
    directory = directory or CARD.parent / role
    if role == "vision":
        config = vision_config(directory)
        depths = params.features.depths
        heads = params.interface.num_heads
        if depths[-1] != config.num_hidden_layers:
            raise ConfigError(
                f"features.depths = {depths} must end with the encoder's last block, "
                f"{config.num_hidden_layers}"
            )
        if config.hidden_size % heads:
            raise ConfigError(
                f"interface.num_heads ({heads}) must divide the width of the vision encoder "
                f"({config.hidden_size})"
            )
    elif role == "text":
        # as in BertConfig
        limit = read_json(directory / "config.json").get("max_position_embeddings", 512)
        tokens = params.features.prior_tokens
        if tokens > limit:
            raise ConfigError(
                f"features.prior_tokens = {tokens}, but the text encoder has only {limit} positions"
            )
    elif role == "language":
        check_lora_targets(directory, params.lora.targets)
        if standin:
            return
        corpus = params.corpus
        tokens = read_tokenizer(directory).vocab_size
        counted = _PHANTOM_TOKENS if corpus.source == "phantom" else _LLAMA_TOKENS
        # with a tokenizer other than their own, released marks would fall on other words
        if params.emphasis.source == "corpus" and corpus.format == "rg4" and tokens != counted:
            raise ConfigError(
                f"emphasis.source = 'corpus' needs the tokenizer ({counted} tokens) used for the "
                f"corpus's emphasis marks, but the language model's tokenizer has {tokens}; set "
                "emphasis.source: computed"
            )


_POINTER_OF_LFS = b"version https://git-lfs"
#: Bytes of a number of each type in safetensors; types of quantised weights are left out.
_BYTES = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
}
#: A longer header is not a valid header.
_LARGEST_HEADER = 100_000_000


def check_weights(directory: Path, expected: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse weights that would load incorrectly, or fail only after hours of work. Raises a
    BackboneError for an adapter beside the weights, quantised weights, Git LFS pointers in place of
    files, damaged files, a tensor in two shards, or wrong shapes; the message has the remedy.

    Args:
        expected: the shapes that the model's configuration asks for; tensors of other names are not
            compared.
    """
    if (directory / "adapter_config.json").is_file():
        raise BackboneError(
            f"{directory} has a LoRA adapter beside the weights (adapter_config.json); merge it "
            "into them first (PEFT's `merge_and_unload`), and save the model in a folder of its "
            "own"
        )
    config = read_json(directory / "config.json")
    quantised = config.get("quantization_config") or config.get("compression_config")
    if quantised:
        method = quantised
        if isinstance(quantised, dict):
            method = quantised.get("quant_method", "of an unknown kind")
        raise BackboneError(
            f"the weights in {directory} are quantised ({method}), which training and decoding do "
            "not support; use the original model, in bfloat16, float16 or float32"
        )
    found: dict[str, tuple[int, ...]] = {}
    for file in _weight_files(directory, (*_WEIGHTS, CHECKPOINT)):
        with open(file, "rb") as opened:
            start = opened.read(len(_POINTER_OF_LFS))
            if start == _POINTER_OF_LFS:
                raise BackboneError(
                    f"{file} is a Git LFS pointer, not the file; run `git lfs pull` in its folder"
                )
        if file.suffix == ".safetensors":
            for name, tensor in _header(file).items():
                if name in found:
                    raise BackboneError(
                        f"{file}: tensor {name} is also in another shard; download the model again"
                    )
                found[name] = tuple(tensor["shape"])
        elif start.startswith(b"PK") and not zipfile.is_zipfile(file):
            raise BackboneError(f"{file} is truncated; download it again")
    for name, shape in expected.items():
        if name in found and found[name] != shape:
            raise BackboneError(
                f"{directory}: tensor {name} has shape {list(found[name])} in the weights, but "
                f"{list(shape)} in config.json; use the config.json that belongs to the weights"
            )


def _header(file: Path) -> dict[str, Any]:
    """Return the header of a file of safetensors, by tensor. Raises a BackboneError if it is not
    such a file, or not of the length that its header states."""
    size = file.stat().st_size
    with open(file, "rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        try:
            if length > min(size, _LARGEST_HEADER):
                raise ValueError("no header")
            header = json.loads(opened.read(length))
            header.pop("__metadata__", None)
            bounds = [tensor["data_offsets"] for tensor in header.values()]
            whole = all(
                end - start == _BYTES[tensor["dtype"]] * prod(tensor["shape"])
                for (start, end), tensor in zip(bounds, header.values())
                if tensor["dtype"] in _BYTES
            )
            stated = 8 + length + max((end for _, end in bounds), default=0)
        except (ValueError, LookupError, TypeError, AttributeError):
            raise BackboneError(
                f"{file} is not a safetensors file, or is damaged; download it again"
            ) from None
    if size != stated or not whole:
        raise BackboneError(
            f"{file} has {size:,} bytes, but its header states {stated:,}; download it again"
        )
    return header
