"""The stand-ins that come with the package: small, whole, described, and what their settings say."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

from pacer.backbones.make_backbones import MODELS, unpack
from pacer.backbones.tokenizer import read_tokenizer
from pacer.config import parse_params
from pacer.config.backbones import CARD
from pacer.core.errors import ConfigError
from pacer.core.io import hash_file, read_json
from pacer.core.pointers import is_standin, provenance
from pacer.metrics.chexbert.labeller import CheXbert
from pacer.metrics.chexbert.observations import OBSERVATIONS
from tests.support.cases import listed_cases
from tests.support.profiles import profile

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
