"""Weights that would load wrongly are told from their headers; the stand-ins that come with the package are whole."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForCausalLM

from pacer.backbones.chexbert import CheXbert
from pacer.backbones.external import check_model
from pacer.backbones.make_backbones import MODELS, unpack
from pacer.backbones.observations import OBSERVATIONS
from pacer.backbones.pointers import is_standin, load_frozen, provenance
from pacer.backbones.tokenizer import read_tokenizer
from pacer.config import parse_params
from pacer.config.backbones import CARD
from pacer.core.errors import BackboneError, ConfigError
from pacer.core.io import hash_file, read_json, write_json
from tests.support.cases import listed_cases
from tests.support.families import write_language
from tests.support.profiles import profile

WEIGHTS, NORM = "model.safetensors", "model.norm.weight"


def adapter(folder: Path) -> None:
    write_json(folder / "adapter_config.json", {"peft_type": "LORA"})


def quantised(method: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        config = read_json(folder / "config.json") | {"quantization_config": {"quant_method": method}}
        write_json(folder / "config.json", config)

    return change


def pointer(folder: Path) -> None:
    (folder / WEIGHTS).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n")


def truncated(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-10])


def no_weights(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes(b"<html>404</html>")


def wrong_size_of_a_tensor(folder: Path) -> None:
    content = (folder / WEIGHTS).read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header[NORM]["shape"] = [2 * header[NORM]["shape"][0]]
    changed = json.dumps(header).encode()
    (folder / WEIGHTS).write_bytes(len(changed).to_bytes(8, "little") + changed + content[8 + length :])


def twice(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    save_file(tensors, folder / "a.safetensors")
    save_file({NORM: tensors[NORM]}, folder / "b.safetensors")
    shards = dict.fromkeys(tensors, "a.safetensors") | {NORM: "b.safetensors"}
    write_json(folder / f"{WEIGHTS}.index.json", {"weight_map": shards})


def of_another_configuration(folder: Path) -> None:
    config = read_json(folder / "config.json")
    write_json(folder / "config.json", config | {"intermediate_size": config["intermediate_size"] + 8})


def truncated_pickle(folder: Path) -> None:
    torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()
    (folder / "pytorch_model.bin").write_bytes((folder / "pytorch_model.bin").read_bytes()[:-30])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (adapter, r"LoRA adapter beside the weights .*merge it into them first"),
        *((quantised(name), rf"quantised \({name}\), .*use the model") for name in ("bitsandbytes", "gptq", "fp8")),
        (pointer, r"model\.safetensors is a pointer of Git LFS.*git lfs pull"),
        (truncated, r"model\.safetensors has [\d,]+ bytes, but its header states [\d,]+; download it again"),
        (no_weights, r"model\.safetensors is not a file of safetensors, or is damaged"),
        (wrong_size_of_a_tensor, r"model\.safetensors has [\d,]+ bytes, but its header states"),
        (twice, r"b\.safetensors: tensor model\.norm\.weight is in another shard, too"),
        (of_another_configuration, r"tensor model\.layers\.0\.mlp\.\w+\.weight is \[.*\] in the weights, but \["),
        (truncated_pickle, r"pytorch_model\.bin is truncated"),
    ],
)
def test_weights_are_judged_by_their_headers(change: Callable, problem: str, tmp_path: Path) -> None:
    write_language("llama", tmp_path)
    check_model("language", tmp_path)
    change(tmp_path)
    with pytest.raises(BackboneError, match=problem):
        check_model("language", tmp_path)


def test_weights_in_shards_and_files_beside_them_are_right(tmp_path: Path) -> None:
    write_language("llama", tmp_path)
    AutoModelForCausalLM.from_pretrained(tmp_path).save_pretrained(tmp_path, max_shard_size="20KB")
    (tmp_path / WEIGHTS).unlink(missing_ok=True)
    (tmp_path / "consolidated.safetensors").write_bytes(b"of another program")
    check_model("language", tmp_path)


def test_weights_that_are_no_numbers_are_refused_when_they_are_loaded(tmp_path: Path) -> None:
    write_language("llama", tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    tensors[NORM][3] = float("nan")
    save_file(tensors, tmp_path / WEIGHTS, {"format": "pt"})
    with pytest.raises(BackboneError, match=r"tensor model\.norm\.weight has NaN or infinite values"):
        load_frozen(AutoModelForCausalLM, tmp_path)


PHANTOM = profile("phantom").model_dump()


def test_the_card_describes_every_file_and_all_are_small() -> None:
    models = read_json(CARD)["models"]
    assert models.keys() == set(MODELS)
    described = {f"{role}/{name}": digest for role in models for name, digest in models[role]["files"].items()}
    there = {path.relative_to(CARD.parent).as_posix(): path for path in CARD.parent.rglob("*") if path.is_file()}
    assert there.keys() == {*described, CARD.name}
    assert all(hash_file(there[name]) == digest for name, digest in described.items())
    assert sum(path.stat().st_size for path in there.values()) < 8_000_000
    assert models["text"]["training"]["held_out_f1"] >= 0.95
    assert min(models["vision"]["training"]["held_out_place"].values()) >= 0.9
    contradictions = models["language"]["training"]["held_out_contradictions"]
    assert max(contradictions["agreeing"], contradictions["uninformed"]) <= 0.03 and contradictions["contrary"] <= 0.25
    for role in MODELS:
        assert len(models[role]["training"]["first_losses"]) == 10
        weights = load_file(CARD.parent / role / "model.safetensors").values()
        assert {w.dtype for w in weights if w.is_floating_point()} == {torch.float16}


def test_they_load_as_what_they_stand_for(tmp_path: Path) -> None:
    for role in MODELS:
        unpack(role, tmp_path / role)
        assert is_standin(provenance(tmp_path / role))
    for role, family in (("vision", "dinov2"), ("language", "llama"), ("text", "bert")):
        assert AutoModel.from_pretrained(tmp_path / role, dtype=torch.float32).config.model_type == family
    assert len(read_tokenizer(tmp_path / "language")) == PHANTOM["backbones"]["language_standin"]["vocabulary"]
    labels = CheXbert(tmp_path / "chexbert", device="cpu")(["There is a large right pneumothorax."])
    assert labels[0, OBSERVATIONS.index("Pneumothorax")] == 1


@pytest.mark.parametrize(("group", "changes", "message"), listed_cases(__file__, "settings"))
def test_settings_of_another_model_ask_for_one_that_is_trained(group: str | None, changes: dict, message: str) -> None:
    backbones = PHANTOM["backbones"] | (changes if group is None else {group: PHANTOM["backbones"][group] | changes})
    with pytest.raises(ConfigError, match=message):
        parse_params(PHANTOM | {"backbones": backbones})
    trained = {role: {"provider": "standin"} for role in MODELS}
    assert parse_params(PHANTOM | {"backbones": backbones | trained}).backbones.seed == backbones["seed"]
