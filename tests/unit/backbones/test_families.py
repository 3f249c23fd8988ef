"""Families of encoders and language models: the endpoint, tokens before the patches, and what is refused by name."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    BertTokenizerFast,
    CLIPVisionConfig,
    CohereConfig,
    DistilBertConfig,
    Gemma2Config,
    Gemma3Config,
    GPT2Config,
    LlamaConfig,
    MixtralConfig,
    ModernBertConfig,
    RobertaConfig,
    SiglipConfig,
    SiglipImageProcessorPil,
    SiglipModel,
    T5Config,
)

from pacer.backbones.check import check_model, check_settings
from pacer.backbones.families import TRIED, VISION, check_language, load_vision, lora_targets, text_limit
from pacer.backbones.tokenizer import read_tokenizer
from pacer.config import Params
from pacer.core.errors import BackboneError, ConfigError
from pacer.core.io import read_json, write_json
from pacer.features.encoder import ImageEncoder, TextEncoder
from pacer.features.prepare import Preparation
from pacer.model.assemble import load_endpoint_norm
from tests.support.cli import REPOSITORY
from tests.support.families import BLOCKS, ENCODERS, LANGUAGES, SHAPE, SIZE, WIDTH, write_encoder, write_language
from tests.support.profiles import profile

PIXELS = torch.randn(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))


def test_every_family_is_tried() -> None:
    assert set(VISION) == set(ENCODERS) and {*TRIED, "smollm"} == set(LANGUAGES)


@pytest.mark.parametrize(
    ("family", "shape", "before"),
    [
        ("dinov2", {}, 1),
        ("dinov2_with_registers", {}, 5),
        ("dinov2_with_registers", {"num_register_tokens": 2}, 3),
        ("dinov3_vit", {}, 1),
        ("dinov3_vit", {"num_register_tokens": 4}, 5),
        ("vit", {}, 1),
        ("siglip_vision_model", {}, 0),
    ],
)
def test_the_endpoint_is_the_encoders_own(family: str, shape: dict[str, int], before: int, tmp_path: Path) -> None:
    """Bit for bit its ``last_hidden_state`` without class token and registers; earlier depths are of the patches."""
    encoder = ImageEncoder(write_encoder(family, tmp_path, **shape), [1, BLOCKS])
    states = encoder.encode(PIXELS)
    outputs = encoder.model(pixel_values=PIXELS, output_hidden_states=True)
    assert encoder.grid == (4, 4) and states.shape == (2, 2, 16, WIDTH)
    assert torch.equal(states[:, 0], outputs.hidden_states[1][:, before:])
    assert torch.equal(load_endpoint_norm(tmp_path)(states[:, -1]), outputs.last_hidden_state[:, before:])


def test_the_vision_tower_of_a_whole_siglip(tmp_path: Path) -> None:
    """Checkpoints such as google/siglip-base-patch16-224 hold both towers."""
    write_encoder("siglip_vision_model", tmp_path)
    torch.manual_seed(0)
    text = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 20}
    whole = SiglipModel(SiglipConfig(vision_config=SHAPE, text_config=text | {"intermediate_size": 8}))
    nn.init.normal_(whole.vision_model.post_layernorm.weight)
    whole.save_pretrained(tmp_path)
    encoder = ImageEncoder(tmp_path, [1, BLOCKS])
    expected = whole.eval().vision_model(pixel_values=PIXELS).last_hidden_state
    assert torch.equal(load_endpoint_norm(tmp_path)(encoder.encode(PIXELS)[:, -1]), expected)


def test_the_norm_of_weights_in_shards(tmp_path: Path) -> None:
    folder = write_encoder("dinov3_vit", tmp_path)
    expected = load_endpoint_norm(folder).weight
    AutoModel.from_pretrained(folder).save_pretrained(folder, max_shard_size="20KB")
    (folder / "model.safetensors").unlink(missing_ok=True)
    assert torch.equal(load_endpoint_norm(folder).weight, expected)


def test_an_encoder_of_one_size_refuses_another(tmp_path: Path) -> None:
    folder = write_encoder("vit", tmp_path)
    path = folder / "preprocessor_config.json"
    write_json(path, read_json(path) | {"size": {"height": 70, "width": 70}})
    with pytest.raises(BackboneError, match="gives 70 x 70 pixels, and the vit encoder takes 56 x 56 only"):
        ImageEncoder(folder, [BLOCKS])


@pytest.mark.parametrize("family", LANGUAGES)
def test_language_models_that_work(family: str, tmp_path: Path) -> None:
    check_model("language", write_language(family, tmp_path))


SMALL: dict[str, Any] = {
    "vocab_size": 600,
    "hidden_size": 24,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "pad_token_id": None,
}


def gemma(folder: Path) -> Any:
    """A tiny random Gemma 3 of images and texts, as MedGemma is one, saved with its image processor."""
    vision = SHAPE | {"model_type": "siglip_vision_model"}
    text = SMALL | {"head_dim": 8, "vocab_size": 300, "sliding_window": 8}
    config = Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4, image_token_index=299)
    model = AutoModelForImageTextToText.from_config(config)
    model.save_pretrained(folder)
    SiglipImageProcessorPil(size={"height": SIZE, "width": SIZE}).save_pretrained(folder)
    return model


def other_tokenizer(folder: Path) -> None:
    write_language("llama", folder)
    LlamaConfig(**SMALL | {"vocab_size": 300}).save_pretrained(folder)


def written(config: Any) -> Callable[[Path], Any]:
    """Writes a configuration; no weights are there."""
    return config.save_pretrained


#: Models that cannot take a role: what writes them, and the reason.
REFUSED = [
    (
        "vision",
        written(CLIPVisionConfig(**SHAPE)),
        r"of the family clip_vision_model; known are dinov2, .*CONTRIBUTING",
    ),
    ("vision", gemma, r"is a gemma3 model, .*; docs/training.md divides it"),
    ("language", gemma, r"\(gemma3\) cannot be used: .*; docs/training.md divides it"),
    (
        "language",
        written(MixtralConfig(**SMALL, num_local_experts=2)),
        r"\(mixtral\) .*used: it is a mixture of experts",
    ),
    ("language", written(Gemma2Config(**SMALL, head_dim=8)), r"\(gemma2\) .*changes its logits \(final_logit_softcap"),
    ("language", written(CohereConfig(**SMALL)), r"it changes its logits \(logit_scale\)"),
    (
        "language",
        written(GPT2Config(n_embd=24, n_layer=1, n_head=2)),
        r"blocks of attention and MLP in `model\.layers`",
    ),
    ("language", written(T5Config(d_model=24, num_layers=1)), r"is a t5 model, and transformers has no causal"),
    ("language", other_tokenizer, r"has 600 tokens, and its language model embeds 300"),
    ("text", lambda folder: write_language("llama", folder), "is a llama model; previous reports need an encoder that"),
]


@pytest.mark.parametrize(("role", "write", "reason"), REFUSED)
def test_models_that_cannot_work_are_refused_by_name(
    role: str, write: Callable[[Path], Any], reason: str, tmp_path: Path
) -> None:
    write(tmp_path)
    with pytest.raises(BackboneError, match=reason):
        check_model(role, tmp_path)


def test_a_model_of_images_and_texts_is_divided_as_the_page_says(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    whole = gemma(tmp_path / "medgemma").eval()
    write_language("gemma3_text", tmp_path / "medgemma-tokenizer")
    for file in (tmp_path / "medgemma-tokenizer").glob("*token*"):
        shutil.copy(file, tmp_path / "medgemma")
    page = (REPOSITORY / "docs" / "training.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?AutoModelForImageTextToText.*?)```", page, re.DOTALL)
    assert found
    exec(found[1], {})

    check_language(tmp_path / "language")
    language = AutoModelForCausalLM.from_pretrained(tmp_path / "language")
    assert (tmp_path / "language" / "tokenizer_config.json").is_file() and Preparation(tmp_path / "vision").size
    ids, image = torch.arange(1, 12)[None], torch.rand(1, 3, SIZE, SIZE)
    torch.testing.assert_close(language(ids).logits, whole(ids).logits)
    tower = load_vision(tmp_path / "vision")
    torch.testing.assert_close(tower(image).last_hidden_state, whole.model.vision_tower(image).last_hidden_state)


def test_without_a_bos_token_the_one_that_is_named_stands_for_it_else_eos(tmp_path: Path) -> None:
    write_language("qwen3", tmp_path)
    assert read_tokenizer(tmp_path).bos_token == "<|endoftext|>"
    path = tmp_path / "config.json"
    write_json(path, {key: value for key, value in read_json(path).items() if key != "bos_token_id"})
    tokenizer = read_tokenizer(tmp_path)
    assert tokenizer.bos_token_id == tokenizer.eos_token_id == 599


TEXTS = ["no edema .", "", "small left effusion . " * 9]
TEXT: dict[str, Any] = {"vocab_size": 64, "pad_token_id": 0}
ROBERTA: dict[str, Any] = {"num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 1, "hidden_size": 20}


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        (lambda: RobertaConfig(**ROBERTA, **TEXT, max_position_embeddings=40), 39),
        (lambda: DistilBertConfig(dim=20, n_layers=1, n_heads=2, hidden_dim=32, **TEXT), 512),
        (
            lambda: ModernBertConfig(**ROBERTA, **TEXT, cls_token_id=2, sep_token_id=3, bos_token_id=2, eos_token_id=3),
            8192,
        ),
    ],
)
def test_text_encoders_of_the_form_of_bert(
    config: Callable[[], Any], limit: int, backbones: Path, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = AutoModel.from_config(config()).eval()
    model.save_pretrained(tmp_path)
    tokenizer = BertTokenizerFast(vocab=str(backbones / "text" / "vocab.txt"))
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    tokenizer.save_pretrained(tmp_path)
    check_model("text", tmp_path)
    assert text_limit(tmp_path) == limit
    states, mask = TextEncoder(tmp_path, 12).encode(TEXTS)
    inputs = tokenizer(TEXTS, padding="max_length", truncation=True, max_length=12, return_tensors="pt")
    assert torch.equal(states, model(**inputs).last_hidden_state) and states.shape == (3, 12, 20)
    assert torch.equal(mask, inputs["attention_mask"].bool())


def changed(**groups: dict[str, Any]) -> Params:
    values = profile("micro").model_dump()
    for name, changes in groups.items():
        for key, value in changes.items():
            values[name][key] = values[name][key] | value if isinstance(value, dict) else value
    return Params.model_validate(values)


TRAINED: dict[str, Any] = {"vision": {"provider": "standin"}, "vision_standin": {"width": 64}}


@pytest.mark.parametrize("standin", [False, True])
@pytest.mark.parametrize(
    ("role", "groups", "reason"),
    [
        (
            "vision",
            {"features": {"depths": [1, 4]}},
            r"features\.depths = \[1, 4\] must end with the encoder's last block, (3|12)",
        ),
        (
            "vision",
            {"interface": {"num_heads": 5}, "backbones": TRAINED},
            r"num_heads \(5\) must divide the width of .* encoder \((16|64)\)",
        ),
        ("text", {"features": {"prior_tokens": 600}}, r"prior_tokens = 600, but the text encoder has only 512"),
        ("language", {"lora": {"targets": ["q_proj", "value_proj"]}}, "lora.targets: value_proj: LoRA finds no such"),
        ("language", {"lora": {"targets": ["q_proj", "lm_head"]}}, "lora.targets: lm_head: LoRA would stay zero there"),
        ("language", {"lora": {"targets": ["embed_tokens"]}}, "lora.targets: embed_tokens: LoRA finds no such layer"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    role: str, groups: dict[str, Any], reason: str, standin: bool, backbones: Path, tmp_path: Path
) -> None:
    """Before any training: for a model of the user's, and for a stand-in, which need not exist yet."""
    folder = backbones / role if role != "language" else write_language("qwen3", tmp_path)
    depths = {"features": {"depths": [1, 12 if standin else BLOCKS]}}
    with pytest.raises(ConfigError, match=reason) as error:
        check_settings(changed(**depths | groups), role, None if standin else folder)
    assert "lm_head" not in str(error.value).partition("blocks are")[2]


def test_released_marks_need_the_tokenizer_that_they_count_by(tmp_path: Path) -> None:
    expected = r"source: corpus .* of a tokenizer of \d+ tokens, but the language model's has 597; set emphasis"
    with pytest.raises(ConfigError, match=expected):
        check_settings(changed(emphasis={"source": "corpus"}), "language", write_language("qwen3", tmp_path))


def test_lora_goes_where_peft_puts_it(tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(write_language("qwen3", tmp_path))
    assert lora_targets(model, None) == ["q_proj", "v_proj"]
    model.config.model_type = "smollm3"
    with pytest.raises(ConfigError, match="PEFT's defaults, and it has none for smollm3; name the layers"):
        lora_targets(model, None)
