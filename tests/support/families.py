"""Tiny random models of the families that the pipeline takes, and tokenizers of the kinds that they
come with."""

from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    BitImageProcessorPil,
    PreTrainedTokenizerFast,
    SiglipImageProcessorPil,
    ViTImageProcessorPil,
)

from pacer.core.io import read_json, write_json, yaml_beside
from pacer.phantom.language import sample_texts
from pacer.phantom.tokenizer import phantom_tokenizer

WIDTH, BLOCKS, SIZE, PATCH = 16, 3, 56, 14
SHAPE: dict[str, Any] = {
    "hidden_size": WIDTH,
    "num_hidden_layers": BLOCKS,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "image_size": SIZE,
    "patch_size": PATCH,
}
ENCODERS = ("dinov2", "dinov2_with_registers", "dinov3_vit", "vit", "siglip_vision_model")
LANGUAGES: dict[str, dict[str, Any]] = yaml_beside(__file__, "languages.yaml")
#: What splits a text before byte pairs are merged, of Qwen's tokenizers and Llama 3's.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def write_encoder(family: str, folder: Path, size: int = SIZE, **shape: Any) -> Path:
    """An encoder of 3 blocks with 4 x 4 patches, all of its weights random, and its image
    processor."""
    torch.manual_seed(1)
    model = AutoModel.from_config(
        AutoConfig.for_model(family, **SHAPE | {"image_size": size} | shape)
    )
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    edges = {"height": size, "width": size}
    if family.startswith("dinov2"):
        BitImageProcessorPil(size={"shortest_edge": size}, crop_size=edges).save_pretrained(folder)
    elif family == "siglip_vision_model":
        SiglipImageProcessorPil(size=edges).save_pretrained(folder)
    else:
        ViTImageProcessorPil(size=edges).save_pretrained(folder)
    if family == "dinov3_vit":
        path = folder / "preprocessor_config.json"
        write_json(path, read_json(path) | {"image_processor_type": "DINOv3ViTImageProcessorFast"})
    return folder


@cache
def _texts() -> list[str]:
    frame = (
        "<ANCHOR> positive: edema; negative: none; uncertain: none "
        "</ANCHOR>\n<REPORT>\n\n</REPORT> <Img></Img>"
    )
    return [report.text for report in sample_texts(3, 300)] + [
        frame,
        "no edema.\nno effusion.\n",
    ] * 200


@cache
def byte_level(vocabulary: int = 600) -> Tokenizer:
    """As Qwen's and Llama 3's: bytes, merged within what one regular expression splits; no BOS is
    ever added."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - 3,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(_texts(), trainer)
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True)
            for token in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
        ]
    )
    return tokenizer


@cache
def gemma_like(vocabulary: int = 600) -> Tokenizer:
    """As Gemma's: blanks written as "▁", no dummy blank before the first word, no splitting, BOS
    put first."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{value:02X}>" for value in range(256))]
    learner = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    learner.normalizer = normalizers.Replace(" ", "▁")
    learner.pre_tokenizer = pre_tokenizers.Split(Regex("▁?[^▁]+"), behavior="isolated")
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, show_progress=False, special_tokens=special, limit_alphabet=100
    )
    learner.train_from_iterator(_texts(), trainer)
    tokenizer = Tokenizer(learner.model)
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token in special[:4]]
    )
    tokenizer.normalizer = learner.normalizer
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", 2)]
    )
    return tokenizer


def write_tokenizer(kind: str, folder: Path) -> Path:
    """``sentencepiece`` as Llama's, ``bytes`` as Qwen's (no BOS), ``bytes with BOS`` as Llama 3's,
    ``gemma``."""
    if kind == "sentencepiece":
        tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
        made = PreTrainedTokenizerFast(tokenizer_object=phantom_tokenizer(600), **tokens)
    elif kind == "gemma":
        tokens = {
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "unk_token": "<unk>",
            "pad_token": "<pad>",
        }
        made = PreTrainedTokenizerFast(tokenizer_object=gemma_like(), **tokens)
    else:
        tokens = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
        if kind == "bytes with BOS":
            tokens["bos_token"] = "<|im_start|>"
        made = PreTrainedTokenizerFast(tokenizer_object=byte_level(), **tokens)
    made.save_pretrained(folder)
    return folder


def write_language(family: str, folder: Path, window: int | None = None) -> Path:
    """A language model of 2 blocks with its kind of tokenizer of 600 tokens. ``window``: replaces
    its sliding window, if it has one."""
    torch.manual_seed(2)
    made = LANGUAGES[family]
    values = dict(made["values"])
    if window is not None and "sliding_window" in values:
        values["sliding_window"] = window
    config = AutoConfig.for_model(made["model_type"], **values)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return write_tokenizer(made["tokenizer"], folder)
