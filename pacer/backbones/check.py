"""Checks, before any other stage runs, that external models can be used, and with the given settings."""

from pathlib import Path

from pacer.backbones.families import check_language, check_lora_targets, read_config, vision_config
from pacer.backbones.tokenizer import read_tokenizer
from pacer.backbones.weights import check_weights
from pacer.config import Params
from pacer.config.backbones import CARD
from pacer.core.errors import BackboneError, ConfigError
from pacer.core.io import read_json
from pacer.data.prompt import BEFORE_END, continuation_ids

#: Size of Llama's and Vicuna's tokenizer, whose tokens the released marks of MIMIC-RG4 refer to.
_LLAMA_TOKENS = 32_000
#: A tokenizer may have a few more special tokens than the model embeds: Gemma 3's has one for images.
_BEYOND = 1.01


def check_model(role: str, directory: Path) -> None:
    """Refuse a model that cannot take its role, without reading weights but for their headers.

    Raises:
        BackboneError: it cannot take the role; the message names its family and the requirement.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    if role == "vision":
        vision_config(directory)
    elif role == "language":
        shapes = check_language(directory)
        tokenizer = read_tokenizer(directory)
        size = read_config(directory).vocab_size
        if len(tokenizer) > _BEYOND * size:
            raise BackboneError(
                f"the tokenizer in {directory} has {len(tokenizer)} tokens, but its language model embeds {size}; use "
                "the tokenizer that was trained with the model"
            )
        try:
            for text in (BEFORE_END, "\n<REPORT>\n", "\n</REPORT>"):
                continuation_ids(tokenizer, text)
        except ValueError as error:
            raise BackboneError(f"the tokenizer in {directory} cannot be used: {error}") from None
    check_weights(directory, shapes)


def check_settings(params: Params, role: str, directory: Path | None) -> None:
    """Refuse settings that do not fit a usable model (:func:`check_model`).

    Args:
        directory: None for a stand-in, which need not exist yet; it is like the bundled one, but for its sizes.

    Raises:
        ConfigError: they do not fit; the message names the key and what would fit.
    """
    standin = directory is None
    directory = directory or CARD.parent / role
    if role == "vision":
        config = vision_config(directory)
        depths, heads = params.features.depths, params.interface.num_heads
        if depths[-1] != config.num_hidden_layers:
            raise ConfigError(
                f"features.depths = {depths} must end with the encoder's last block, {config.num_hidden_layers}"
            )
        width = params.backbones.vision_standin.width if standin else config.hidden_size
        if width % heads:
            raise ConfigError(f"interface.num_heads ({heads}) must divide the width of the vision encoder ({width})")
    elif role == "text":
        limit = read_json(directory / "config.json").get("max_position_embeddings", 512)  # as in BertConfig
        tokens = params.features.prior_tokens
        if tokens > limit:
            raise ConfigError(f"features.prior_tokens = {tokens}, but the text encoder has only {limit} positions")
    elif role == "language":
        check_lora_targets(directory, params.lora.targets)
        if not standin:
            _check_marks(params, read_tokenizer(directory).vocab_size)


def _check_marks(params: Params, tokens: int) -> None:
    """Refuse released marks with another tokenizer than theirs: they would fall on other words."""
    corpus = params.corpus
    counted = corpus.phantom.vocabulary if corpus.source == "phantom" else _LLAMA_TOKENS
    if params.emphasis.source == "corpus" and corpus.format == "rg4" and tokens != counted:
        raise ConfigError(
            f"emphasis.source = 'corpus' needs the tokenizer ({counted} tokens) used for the corpus's emphasis "
            f"marks, but the language model's tokenizer has {tokens}; set emphasis.source: computed"
        )
