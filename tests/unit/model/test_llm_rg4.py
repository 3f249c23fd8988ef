"""LLM-RG4's weights as a checkpoint: it decodes, it can be started from, and it must fit the parameters."""

import shutil
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel

from pacer.config import Params, parse_params
from pacer.core.errors import CheckpointError
from pacer.model.assemble import build_model, load_model
from pacer.model.checkpoint import read_record, specification_of
from pacer.model.llm_rg4 import adopt_llm_rg4, interface_names
from tests.support import drive
from tests.support.cases import listed_cases
from tests.support.models import MODEL, WIDTH

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def alike(backbones: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny models with image and text states of one width, as RAD-DINO and CXR-BERT have them."""
    copy = tmp_path_factory.mktemp("alike") / "backbones"
    shutil.copytree(backbones, copy)
    config = BertConfig.from_pretrained(copy / "text", hidden_size=WIDTH)
    BertModel(config).save_pretrained(copy / "text")
    return copy


@pytest.fixture(scope="module")
def params() -> Params:
    return drive.parameters(MODEL)


@pytest.fixture(scope="module")
def released(params: Params, alike: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second-stage file with the shapes of the tiny model."""
    torch.manual_seed(2)
    model = build_model(alike, specification_of("parent", params))
    own = {name: torch.randn_like(tensor) for name, tensor in model.interface.state_dict().items()}
    state = {theirs: own[ours][None] if ours == "queries" else own[ours] for ours, theirs in interface_names().items()}
    for name, tensor in model.language.named_parameters():
        if "lora_" in name:
            state[f"llama_model.base_model.model.{name}"] = torch.randn_like(tensor)
    file = tmp_path_factory.mktemp("llm_rg4") / "released.pth"
    torch.save({"model": state, "config": {"llm_alpha": params.lora.alpha}, "step": 9}, file)
    return file


def test_the_checkpoint_holds_upstreams_weights_and_decodes_directly(params, released, alike, tmp_path) -> None:
    weights = adopt_llm_rg4(released, params, alike, tmp_path / "llm_rg4")
    model, record = load_model(tmp_path / "llm_rg4", alike)
    assert (record.phase, record.step) == ("parent", 9)
    assert record.model.refine.variant == "endpoint"
    assert record.model.commit.route == "direct"
    assert record.model.prompt == params.prompt.model_copy(update={"truncation": "upstream"})
    for name, tensor in weights.interface.items():
        assert torch.equal(model.interface.state_dict()[name], tensor)
    merged = dict(model.language.named_parameters())
    assert len(weights.lora) == 2 * len([name for name in merged if name.endswith("lora_A.default.weight")]) > 0
    assert not list(model.router.parameters())


def test_the_parent_phase_can_start_from_it(params, released, alike, tmp_path) -> None:
    from pacer.training.run import _start_from

    weights = adopt_llm_rg4(released, params, alike, tmp_path / "llm_rg4")
    model = build_model(alike, specification_of("parent", params))
    before = {name: tensor.clone() for name, tensor in model.router.state_dict().items()}
    _start_from(model, tmp_path / "llm_rg4", read_record(tmp_path / "llm_rg4"))
    for name, tensor in weights.lora.items():
        assert torch.equal(dict(model.language.named_parameters())[name], tensor)
    for name, tensor in weights.interface.items():
        assert torch.equal(model.interface.state_dict()[name], tensor)
    assert before and all(torch.equal(model.router.state_dict()[name], tensor) for name, tensor in before.items())


@pytest.mark.parametrize(("group", "change", "message"), listed_cases(__file__, "others"))
def test_parameters_that_do_not_describe_the_file(params, released, alike, tmp_path, group, change, message) -> None:
    values = params.model_dump()
    values[group] |= change
    with pytest.raises(CheckpointError, match=message):
        adopt_llm_rg4(released, parse_params(values), alike, tmp_path / "llm_rg4")
    assert not (tmp_path / "llm_rg4").exists()
