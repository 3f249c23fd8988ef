"""Families of encoders and language models: the endpoint, tokens before the patches, and what is refused by name."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
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

from pacer.backbones.check import check_model, check_settings, check_standin
from pacer.backbones.families import (
    TRIED,
    VISION,
    check_language,
    default_targets,
    load_vision,
    prefix_tokens,
    vision_config,
)
from pacer.backbones.tokenizer import read_tokenizer
from pacer.config import Params
from pacer.core.errors import BackboneError, ConfigError
from pacer.core.io import read_json, write_json
from pacer.features.encoder import ImageEncoder, TextEncoder
from pacer.features.prepare import Preparation
from pacer.model.assemble import load_endpoint_norm
from tests.support.cli import REPOSITORY
from tests.support.families import (
    BLOCKS,
    ENCODERS,
    LANGUAGES,
    SHAPE,
    SIZE,
    WIDTH,
    write_encoder,
    write_language,
    write_tokenizer,
)
from tests.support.profiles import profile

PIXELS = torch.randn(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))


def test_every_family_is_tried() -> None:
    assert set(VISION) == set(ENCODERS) and {*TRIED, "smollm"} == set(LANGUAGES)


@pytest.mark.parametrize("family", ENCODERS)
def test_the_endpoint_is_the_encoders_own(family: str, tmp_path: Path) -> None:
    """Bit for bit its ``last_hidden_state`` without class token and registers; earlier depths are of the patches."""
    encoder = ImageEncoder(write_encoder(family, tmp_path), [1, BLOCKS])
    states = encoder.encode(PIXELS)
    outputs = encoder.model(pixel_values=PIXELS, output_hidden_states=True)
    before = {"dinov2": 1, "dinov2_with_registers": 5, "dinov3_vit": 1, "vit": 1, "siglip_vision_model": 0}[family]
    assert encoder.grid == (4, 4) and states.shape == (2, 2, 16, WIDTH)
    assert torch.equal(states[:, 0], outputs.hidden_states[1][:, before:])
    assert torch.equal(load_endpoint_norm(tmp_path)(states[:, -1]), outputs.last_hidden_state[:, before:])


@pytest.mark.parametrize("family", ENCODERS)
def test_a_state_follows_its_patch(family: str, tmp_path: Path) -> None:
    """The embedding's n-th state is that of the n-th patch in row-major order; what stands before is no patch."""
    encoder = ImageEncoder(write_encoder(family, tmp_path), [1, BLOCKS])
    kernel = 14
    for place in (0, 5, 15):
        changed = PIXELS.clone()
        row, column = divmod(place, 4)
        changed[:, :, row * kernel : (row + 1) * kernel, column * kernel : (column + 1) * kernel] += 1
        before, after = (
            encoder.model(pixel_values=pixels, output_hidden_states=True).hidden_states[0]
            for pixels in (PIXELS, changed)
        )
        moved = (before != after).any(-1).any(0).nonzero().squeeze(1) - prefix_tokens(encoder.model.config)
        assert moved.tolist() == [place]


@pytest.mark.parametrize(("family", "registers"), [("dinov2_with_registers", 2), ("dinov3_vit", 4)])
def test_registers_are_counted_by_the_configuration(family: str, registers: int, tmp_path: Path) -> None:
    encoder = ImageEncoder(write_encoder(family, tmp_path, num_register_tokens=registers), [BLOCKS])
    last = encoder.model(pixel_values=PIXELS).last_hidden_state
    assert last.shape[1] == 16 + 1 + registers
    assert torch.equal(load_endpoint_norm(tmp_path)(encoder.encode(PIXELS)[:, -1]), last[:, 1 + registers :])


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


def test_a_family_without_a_row_is_named(tmp_path: Path) -> None:
    CLIPVisionConfig(**SHAPE).save_pretrained(tmp_path)
    with pytest.raises(BackboneError, match=r"of the family clip_vision_model; known are dinov2, .*CONTRIBUTING\.md"):
        check_model("vision", tmp_path)


def test_an_encoder_of_one_size_refuses_another(tmp_path: Path) -> None:
    folder = write_encoder("vit", tmp_path)
    path = folder / "preprocessor_config.json"
    write_json(path, read_json(path) | {"size": {"height": 70, "width": 70}})
    with pytest.raises(BackboneError, match="gives 70 x 70 pixels, and the vit encoder takes 56 x 56 only"):
        ImageEncoder(folder, [BLOCKS])


@pytest.mark.parametrize("family", LANGUAGES)
def test_language_models_that_work(family: str, tmp_path: Path) -> None:
    facts = check_model("language", write_language(family, tmp_path))
    if family == "qwen3":
        assert facts == {"bos": {"token": "<|endoftext|>", "from": "bos_token_id of config.json"}}
    else:
        assert facts == {}


SMALL: dict[str, Any] = {
    "vocab_size": 600,
    "hidden_size": 24,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "pad_token_id": None,
}


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (
            lambda: MixtralConfig(**SMALL, num_local_experts=2),
            r"\(mixtral\) cannot be used: it is a mixture of experts",
        ),
        (lambda: Gemma2Config(**SMALL, head_dim=8), r"\(gemma2\) .*it changes its logits \(final_logit_softcapping\)"),
        (lambda: CohereConfig(**SMALL), r"it changes its logits \(logit_scale\)"),
        (lambda: GPT2Config(n_embd=24, n_layer=1, n_head=2), r"blocks of attention and MLP in `model\.layers`"),
        (lambda: T5Config(d_model=24, num_layers=1), r"is a t5 model, and transformers has no causal"),
    ],
)
def test_language_models_that_cannot_work_are_refused_by_name(
    config: Callable[[], Any], reason: str, tmp_path: Path
) -> None:
    """By their configuration: no weights are there."""
    config().save_pretrained(tmp_path)
    with pytest.raises(BackboneError, match=reason):
        check_language(tmp_path)


def gemma(folder: Path) -> Any:
    """A tiny random Gemma 3 of images and texts, as MedGemma is one, saved with its image processor."""
    vision = SHAPE | {"model_type": "siglip_vision_model"}
    text = SMALL | {"head_dim": 8, "vocab_size": 300, "sliding_window": 8}
    config = Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4, image_token_index=299)
    model = AutoModelForImageTextToText.from_config(config)
    model.save_pretrained(folder)
    SiglipImageProcessorPil(size={"height": SIZE, "width": SIZE}).save_pretrained(folder)
    return model


def test_a_model_of_images_and_texts_is_refused(tmp_path: Path) -> None:
    gemma(tmp_path)
    with pytest.raises(BackboneError, match=r"\(gemma3\) cannot be used: .*; docs/training.md divides it"):
        check_language(tmp_path)
    with pytest.raises(BackboneError, match=r"is a gemma3 model, .*; docs/training.md divides it"):
        vision_config(tmp_path)


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


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    write_language("llama", tmp_path)
    LlamaConfig(**SMALL | {"vocab_size": 300}).save_pretrained(tmp_path)
    with pytest.raises(BackboneError, match=r"has 600 tokens, and its language model embeds 300"):
        check_model("language", tmp_path)


def test_eos_stands_for_bos_where_nothing_is_named(tmp_path: Path) -> None:
    write_language("qwen3", tmp_path)
    path = tmp_path / "config.json"
    write_json(path, {key: value for key, value in read_json(path).items() if key != "bos_token_id"})
    assert check_model("language", tmp_path) == {"bos": {"token": "<|im_end|>", "from": "EOS"}}
    tokenizer = read_tokenizer(tmp_path)
    assert tokenizer.bos_token_id == tokenizer.eos_token_id == 599


@given(text=st.text(max_size=30))
def test_a_borrowed_bos_changes_no_ids(qwen: Path, text: str) -> None:
    from transformers import AutoTokenizer

    plain = AutoTokenizer.from_pretrained(qwen)
    assert read_tokenizer(qwen)(text)["input_ids"] == plain(text)["input_ids"]


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer("bytes", tmp_path_factory.mktemp("qwen"))


TEXTS = ["no edema .", "", "small left effusion . " * 9]
TEXT: dict[str, Any] = {"vocab_size": 64, "pad_token_id": 0}
ROBERTA: dict[str, Any] = {"num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 1, "hidden_size": 20}


@pytest.mark.parametrize(
    "config",
    [
        lambda: RobertaConfig(**ROBERTA, **TEXT, max_position_embeddings=40),
        lambda: DistilBertConfig(dim=20, n_layers=1, n_heads=2, hidden_dim=32, **TEXT),
        lambda: ModernBertConfig(**ROBERTA, **TEXT, cls_token_id=2, sep_token_id=3, bos_token_id=2, eos_token_id=3),
    ],
)
def test_text_encoders_of_the_form_of_bert(config: Callable[[], Any], backbones: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = AutoModel.from_config(config()).eval()
    model.save_pretrained(tmp_path)
    tokenizer = BertTokenizerFast(vocab=str(backbones / "text" / "vocab.txt"))
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    tokenizer.save_pretrained(tmp_path)
    assert check_model("text", tmp_path) == {}
    states, mask = TextEncoder(tmp_path, 12).encode(TEXTS)
    inputs = tokenizer(TEXTS, padding="max_length", truncation=True, max_length=12, return_tensors="pt")
    assert torch.equal(states, model(**inputs).last_hidden_state) and states.shape == (3, 12, 20)
    assert torch.equal(mask, inputs["attention_mask"].bool())


def test_a_decoder_is_no_text_encoder(tmp_path: Path) -> None:
    write_language("llama", tmp_path)
    with pytest.raises(BackboneError, match="is a llama model; previous reports need an encoder that reads both ways"):
        check_model("text", tmp_path)


def changed(**groups: dict[str, Any]) -> Params:
    values = profile("micro").model_dump()
    for name, changes in groups.items():
        values[name] |= changes
    return Params.model_validate(values)


@pytest.mark.parametrize(
    ("role", "groups", "reason"),
    [
        ("vision", {"features": {"depths": [1, 4]}}, r"features\.depths = \[1, 4\] must end with .* last block, 3"),
        (
            "vision",
            {"features": {"depths": [1, 3]}, "interface": {"num_heads": 3}},
            r"interface\.num_heads \(3\) must divide the width of the vision encoder \(16\)",
        ),
        (
            "text",
            {"features": {"prior_tokens": 600}},
            r"prior_tokens = 600, but the text encoder has only 512 positions",
        ),
        (
            "language",
            {"emphasis": {"source": "corpus"}},
            r"emphasis\.source: corpus .* of a tokenizer of \d+ tokens, but the language model's has 597; set emphasis",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    role: str, groups: dict[str, Any], reason: str, backbones: Path, tmp_path: Path
) -> None:
    folder = backbones / role if role != "language" else write_language("qwen3", tmp_path)
    params = changed(**groups)
    for name in ("vision", "text", "language"):
        values = params.backbones.model_dump() | {name: {"provider": "local", "path": "elsewhere"}}
        params = params.model_copy(update={"backbones": type(params.backbones).model_validate(values)})
    with pytest.raises(ConfigError, match=reason):
        check_settings(params, role, folder)


@pytest.mark.parametrize(
    ("targets", "reason"),
    [
        (
            ["q_proj", "value_proj"],
            "value_proj: LoRA finds no such layer; the layers of the model's blocks are down_proj",
        ),
        (["q_proj", "lm_head"], "lm_head: LoRA would stay zero there"),
        (["embed_tokens"], "embed_tokens: LoRA finds no such layer"),
    ],
)
def test_lora_targets_are_checked_before_any_training(targets: list[str], reason: str, tmp_path: Path) -> None:
    """For a model of the user's, and for a stand-in, which need not exist yet."""
    params = changed(lora={"targets": targets})
    with pytest.raises(ConfigError, match=f"lora.targets: {reason}") as error:
        check_standin(params, "language")
    assert "lm_head" not in str(error.value).partition("blocks are")[2]
    with pytest.raises(ConfigError, match=f"lora.targets: {reason}"):
        check_settings(params, "language", write_language("qwen3", tmp_path))
    check_standin(params, "vision")


def test_lora_goes_where_peft_puts_it(tmp_path: Path) -> None:
    assert default_targets("qwen3") == default_targets("gemma3_text") == ["q_proj", "v_proj"]
    with pytest.raises(ConfigError, match=re.escape("PEFT's defaults, and it has none for smollm3; name the layers")):
        default_targets("smollm3")


@pytest.mark.parametrize("family", LANGUAGES)
def test_a_saved_language_model_is_the_one_that_is_loaded(family: str, tmp_path: Path) -> None:
    write_language(family, tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    tied = model.get_input_embeddings().weight is model.lm_head.weight
    assert tied == (family in ("qwen3", "gemma3_text", "smollm"))
