"""Families of encoders and language models: the endpoint, tokens before the patches, and what is
refused by name."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    SiglipImageProcessorPil,
)

from pacer.backbones.external import check_model, check_settings
from pacer.backbones.families import LANGUAGE, VISION, check_language, load_vision, lora_targets
from pacer.backbones.tokenizer import read_tokenizer
from pacer.config import Params
from pacer.core.errors import BackboneError, ConfigError
from pacer.core.io import read_json, write_json
from pacer.features.encoder import ImageEncoder, Preparation
from pacer.model.assemble import load_endpoint_norm
from tests.support.cases import cases, listed_cases
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
)
from tests.support.profiles import profile

PIXELS = torch.randn(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
#: A tiny language model, and a tiny Gemma 3 of images and texts, as MedGemma is one.
(SMALL,), (BOTH,) = (param.values for param in listed_cases(__file__, "configurations"))
BOTH["vision_config"] |= SHAPE


def test_every_family_is_tried() -> None:
    assert set(VISION) == set(ENCODERS) and {*LANGUAGE, "smollm"} == set(LANGUAGES)


@pytest.mark.parametrize(("family", "shape", "before"), listed_cases(__file__, "endpoints"))
def test_the_endpoint_is_the_encoders_own(
    family: str, shape: dict[str, int], before: int, tmp_path: Path
) -> None:
    """Bit for bit its ``last_hidden_state`` without class token and registers; earlier depths are
    of the patches."""
    encoder = ImageEncoder(write_encoder(family, tmp_path, **shape), [1, BLOCKS])
    states = encoder.encode(PIXELS)
    outputs = encoder.model(pixel_values=PIXELS, output_hidden_states=True)
    assert encoder.grid == (4, 4) and states.shape == (2, 2, 16, WIDTH)
    assert torch.equal(states[:, 0], outputs.hidden_states[1][:, before:])
    assert torch.equal(
        load_endpoint_norm(tmp_path)(states[:, -1]), outputs.last_hidden_state[:, before:]
    )


def test_the_vision_tower_of_a_whole_siglip(tmp_path: Path) -> None:
    """Checkpoints such as google/siglip-base-patch16-224 hold both towers."""
    write_encoder("siglip_vision_model", tmp_path)
    torch.manual_seed(0)
    text = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 20}
    config = transformers.SiglipConfig(
        vision_config=SHAPE, text_config=text | {"intermediate_size": 8}
    )
    whole = transformers.SiglipModel(config)
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
    with pytest.raises(
        BackboneError, match="produces 70 x 70 pixels, but the vit encoder takes only 56 x 56"
    ):
        ImageEncoder(folder, [BLOCKS])


@pytest.mark.parametrize("family", LANGUAGES)
def test_language_models_that_work(family: str, tmp_path: Path) -> None:
    check_model("language", write_language(family, tmp_path))


@cases(__file__, "refused")
def test_models_that_cannot_work_are_refused_by_name(
    kind: str, case: dict[str, Any], tmp_path: Path
) -> None:
    """By their configuration: no weights are there."""
    values = {"CLIPVisionConfig": SHAPE, "Gemma3Config": BOTH}.get(case["config"], SMALL)
    getattr(transformers, case["config"])(**values | case.get("values", {})).save_pretrained(
        tmp_path
    )
    with pytest.raises(BackboneError, match=case["reason"]):
        check_model(case["role"], tmp_path)


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(tmp_path: Path) -> None:
    write_language("llama", tmp_path)
    transformers.LlamaConfig(**SMALL | {"vocab_size": 300}).save_pretrained(tmp_path)
    with pytest.raises(BackboneError, match=r"has 600 tokens, but its language model embeds 300"):
        check_model("language", tmp_path)


def test_a_model_of_images_and_texts_is_divided_as_the_page_says(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = AutoModelForImageTextToText.from_config(transformers.Gemma3Config(**BOTH)).eval()
    whole.save_pretrained(tmp_path / "medgemma")
    SiglipImageProcessorPil(size={"height": SIZE, "width": SIZE}).save_pretrained(
        tmp_path / "medgemma"
    )
    write_language("gemma3_text", tmp_path / "medgemma-tokenizer")
    for file in (tmp_path / "medgemma-tokenizer").glob("*token*"):
        shutil.copy(file, tmp_path / "medgemma")
    page = (REPOSITORY / "docs" / "training.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?AutoModelForImageTextToText.*?)```", page, re.DOTALL)
    assert found
    exec(found[1], {})

    check_language(tmp_path / "language")
    language = AutoModelForCausalLM.from_pretrained(tmp_path / "language")
    assert (tmp_path / "language" / "tokenizer_config.json").is_file() and Preparation(
        tmp_path / "vision"
    ).size
    ids, image = torch.arange(1, 12)[None], torch.rand(1, 3, SIZE, SIZE)
    torch.testing.assert_close(language(ids).logits, whole(ids).logits)
    tower = load_vision(tmp_path / "vision")
    torch.testing.assert_close(
        tower(image).last_hidden_state, whole.model.vision_tower(image).last_hidden_state
    )


def test_without_a_bos_token_the_one_that_is_named_is_used_else_eos(tmp_path: Path) -> None:
    write_language("qwen3", tmp_path)
    assert read_tokenizer(tmp_path).bos_token == "<|endoftext|>"
    path = tmp_path / "config.json"
    write_json(
        path, {key: value for key, value in read_json(path).items() if key != "bos_token_id"}
    )
    tokenizer = read_tokenizer(tmp_path)
    assert tokenizer.bos_token_id == tokenizer.eos_token_id == 599


def changed(**groups: dict[str, Any]) -> Params:
    values = profile("micro").model_dump()
    for name, changes in groups.items():
        for key, value in changes.items():
            values[name][key] = values[name][key] | value if isinstance(value, dict) else value
    return Params.model_validate(values)


@pytest.mark.parametrize("standin", [False, True])
@cases(__file__, "settings")
def test_settings_that_do_not_fit_are_refused(
    kind: str, case: dict[str, Any], standin: bool, backbones: Path, tmp_path: Path
) -> None:
    """Before any training: for a model of the user's, and for a stand-in, which need not exist
    yet."""
    role = case["role"]
    folder = backbones / role if role != "language" else write_language("qwen3", tmp_path)
    depths = {"features": {"depths": [1, 12 if standin else BLOCKS]}}
    with pytest.raises(ConfigError, match=case["reason"]) as error:
        check_settings(changed(**depths | case["groups"]), role, None if standin else folder)
    assert "lm_head" not in str(error.value).partition("choose from")[2]


def test_released_marks_need_the_tokenizer_that_they_count_by(tmp_path: Path) -> None:
    expected = (
        r"'corpus' .* \(\d+ tokens\) used for .*, but the language model's tokenizer has "
        r"597; set emphasis"
    )
    with pytest.raises(ConfigError, match=expected):
        check_settings(
            changed(emphasis={"source": "corpus"}), "language", write_language("qwen3", tmp_path)
        )


def test_lora_goes_where_peft_puts_it(tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(write_language("qwen3", tmp_path))
    assert lora_targets(model, None) == ["q_proj", "v_proj"]
    model.config.model_type = "smollm3"
    with pytest.raises(
        ConfigError, match="PEFT's defaults, but PEFT has none for smollm3; list the layers"
    ):
        lora_targets(model, None)
