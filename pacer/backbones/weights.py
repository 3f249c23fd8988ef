"""A look at the weight files of an external model, before anything is computed: their headers, not their contents."""

import json
import zipfile
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from pacer.core.errors import BackboneError
from pacer.core.io import read_json

_POINTER_OF_LFS = b"version https://git-lfs"
#: Bytes of a number of each type in safetensors; types of quantised weights are left out.
_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
#: A header beyond this is no header.
_LARGEST_HEADER = 100_000_000

#: Shape of each tensor, by name.
Shapes = dict[str, tuple[int, ...]]


def check_weights(directory: Path, expected: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse weights that would load wrongly, or only after long work.

    Args:
        expected: the shapes that the model's configuration asks for; tensors of other names are not compared.

    Raises:
        BackboneError: an adapter beside the weights, quantised weights, pointers in place of files, damaged files, a
            tensor in two shards, or shapes that do not fit; the message says what to do.
    """
    if (directory / "adapter_config.json").is_file():
        raise BackboneError(
            f"{directory} has a LoRA adapter beside the weights (adapter_config.json); merge it into them first "
            "(PEFT's `merge_and_unload`), and save the model in a folder of its own"
        )
    config = read_json(directory / "config.json")
    if quantised := config.get("quantization_config") or config.get("compression_config"):
        method = quantised.get("quant_method", "of an unknown kind") if isinstance(quantised, dict) else quantised
        raise BackboneError(
            f"the weights in {directory} are quantised ({method}), which training and decoding do not read; use the "
            "model that they were made from, in bfloat16, float16 or float32"
        )
    found: Shapes = {}
    for file in _loaded(directory):
        with open(file, "rb") as opened:
            start = opened.read(len(_POINTER_OF_LFS))
            if start == _POINTER_OF_LFS:
                raise BackboneError(f"{file} is a pointer of Git LFS, not the file; run `git lfs pull` in its folder")
        if file.suffix == ".safetensors":
            _collect(file, found)
        elif start.startswith(b"PK") and not zipfile.is_zipfile(file):
            raise BackboneError(f"{file} is truncated; download it again")
    for name, shape in expected.items():
        if name in found and found[name] != shape:
            raise BackboneError(
                f"{directory}: tensor {name} is {list(found[name])} in the weights, but {list(shape)} by config.json; "
                "use the config.json that belongs to the weights"
            )


def _loaded(directory: Path) -> list[Path]:
    """Return the files that transformers loads, or CheXbert's."""
    for name in ("model.safetensors", "pytorch_model.bin", "chexbert.pth"):
        if (directory / name).is_file():
            return [directory / name]
        if (index := directory / f"{name}.index.json").is_file():
            return sorted({directory / shard for shard in read_json(index)["weight_map"].values()})
    return []


def _collect(file: Path, found: Shapes) -> None:
    """Add the tensors of a file of safetensors to those of other shards."""
    for name, tensor in _header(file).items():
        if name == "__metadata__":
            continue
        if name in found:
            raise BackboneError(f"{file}: tensor {name} is in another shard, too; download the model again")
        found[name] = tuple(tensor["shape"])


def _header(file: Path) -> dict[str, Any]:
    """Return the header of a file of safetensors, whose length it also states.

    Raises:
        BackboneError: it is not such a file, or of another length.
    """
    size = file.stat().st_size
    with open(file, "rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        try:
            if length > min(size, _LARGEST_HEADER):
                raise ValueError("no header")
            header = json.loads(opened.read(length))
            tensors = [tensor for name, tensor in header.items() if name != "__metadata__"]
            ends = [tensor["data_offsets"][1] for tensor in tensors]
            whole = all(
                tensor["data_offsets"][1] - tensor["data_offsets"][0] == _BYTES[tensor["dtype"]] * prod(tensor["shape"])
                for tensor in tensors
                if tensor["dtype"] in _BYTES
            )
        except (ValueError, LookupError, TypeError, AttributeError):
            raise BackboneError(f"{file} is not a file of safetensors, or is damaged; download it again") from None
    stated = 8 + length + max(ends, default=0)
    if size != stated or not whole:
        raise BackboneError(f"{file} has {size:,} bytes, but its header states {stated:,}; download it again")
    return header
