"""A checkpoint is the trained weights and fits the models it was trained on; LLM-RG4's weights as
one."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertModel

from pacer.config import Params, validated
from pacer.core.errors import CheckpointError
from pacer.extras.llm_rg4.weights import adopt_llm_rg4, interface_names
from pacer.model.assemble import build_model, load_model
from pacer.model.checkpoint import load_strictly, load_weights, read_record, specification_of
from pacer.model.pacer import Pacer
from pacer.training.run import _start_from
from tests.support import drive
from tests.support.cases import listed_cases
from tests.support.models import MODEL, WIDTH, moved_model, save_model, specification

#: Widths at which names and shapes weigh little against numbers.
WIDE = {
    "refine": {"d_routing": 256},
    "interface": {"d_hidden": 768},
    "lora": {"rank": 128},
    "calibrate": {"d_gate": 512, "d_availability": 256},
}


PARENT, CALIBRATE = specification("parent", **WIDE), specification(**WIDE)


@pytest.fixture(scope="module")
def written(backbones: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Pacer, Path]:
    """A parent's checkpoint and, beside it, that of Calibrate on it."""
    model, folder = moved_model(backbones, CALIBRATE), tmp_path_factory.mktemp("checkpoints")
    save_model(folder / "parent", model, backbones, PARENT)
    save_model(folder / "calibrate", model, backbones, CALIBRATE, folder / "parent")
    return model, folder


@pytest.fixture
def saved(written: tuple[Pacer, Path], tmp_path: Path) -> tuple[Pacer, Path]:
    """A copy of both, for a test that changes them, in another place: the path to the parent is
    relative."""
    model, folder = written
    shutil.copytree(folder, tmp_path / "saved")
    return model, tmp_path / "saved"


@pytest.mark.parametrize("name", ["parent", "calibrate"])
def test_a_checkpoint_is_what_was_trained(name: str, written: tuple[Pacer, Path]) -> None:
    model, folder = written
    parts = {
        n: p
        for n, p in model.named_parameters()
        if n.startswith("calibrator.") == (name == "calibrate")
    }
    trained = {n: p for n, p in parts.items() if p.requires_grad}
    assert sorted(file.name for file in (folder / name).iterdir()) == [
        "config.json",
        "model.safetensors",
    ]
    assert load_file(folder / name / "model.safetensors").keys() == trained.keys()
    size = sum(parameter.numel() * parameter.element_size() for parameter in trained.values())
    assert size < (folder / name / "model.safetensors").stat().st_size <= 1.05 * size


def test_calibrate_comes_back_with_its_parent(saved, backbones: Path) -> None:
    model, directory = saved
    record, weights = load_weights(directory / "calibrate")
    assert record.parent is not None and record.parent.path == "../parent"
    own = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert set(weights) == set(own)
    assert all(torch.equal(weights[name], own[name]) for name in own)
    loaded, _ = load_model(directory / "calibrate", backbones)
    assert (
        not any(parameter.requires_grad for parameter in loaded.parameters())
        and not loaded.training
    )
    for name, value in loaded.named_parameters():
        if name in own:
            assert torch.equal(value, own[name]), name


def test_another_parent_in_the_parents_place_is_refused(saved, backbones: Path) -> None:
    _, directory = saved
    shutil.rmtree(directory / "parent")
    for _ in range(2):  # none, then another
        with pytest.raises(
            CheckpointError, match=r"parent is not the model that .*calibrate started from"
        ):
            load_model(directory / "calibrate", backbones)
        save_model(directory / "parent", moved_model(backbones, PARENT, seed=4), backbones, PARENT)


@pytest.mark.parametrize("name", ["vision", "language", "text"])
def test_another_frozen_model_is_named(name: str, saved, other_backbones: Path) -> None:
    """One number of its weights is enough to be another model."""
    _, directory = saved
    file = other_backbones / name / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    for checkpoint in ("parent", "calibrate"):
        with pytest.raises(
            CheckpointError, match=f"{checkpoint} was trained with a different {name} backbone"
        ):
            load_model(directory / checkpoint, other_backbones)


@pytest.mark.parametrize(
    "group", [{"calibrate": {"rank": 5}}, {"features": {"depths": [2, 3]}}], ids=str
)
def test_weights_of_another_model_are_refused_with_their_names(
    group: dict, saved, backbones: Path
) -> None:
    _, directory = saved
    _, weights = load_weights(directory / "calibrate")
    other = build_model(
        backbones, specification(**{n: WIDE.get(n, {}) | group.get(n, {}) for n in {*WIDE, *group}})
    )
    before = {name: parameter.clone() for name, parameter in other.named_parameters()}
    with pytest.raises(
        CheckpointError, match=r"does not match this model: (different shapes|unknown weights): \w"
    ):
        load_strictly(other, weights, directory / "calibrate")
    assert all(
        torch.equal(value, before[name]) for name, value in other.named_parameters()
    )  # nothing half-loaded


def test_frozen_weights_need_not_be_in_a_checkpoint_and_trained_ones_must(
    saved, backbones: Path
) -> None:
    model, directory = saved
    _, weights = load_weights(directory / "calibrate")
    assert not any(
        name.startswith(("endpoint_norm.", "language.lm_head", "language.model.embed"))
        for name in weights
    )
    assert all("lora_" in name for name in weights if name.startswith("language."))
    for gone in (
        "calibrator.up.weight",
        "interface.queries",
        next(n for n in weights if "lora_B" in n),
    ):
        with pytest.raises(CheckpointError, match=f"missing weights: {gone}"):
            load_strictly(model, {n: t for n, t in weights.items() if n != gone}, "x")


@pytest.mark.parametrize(("change", "message"), listed_cases(__file__, "records"))
def test_the_key_that_a_record_has_too_many_or_too_few_is_named(
    saved, change: dict, message: str
) -> None:
    _, directory = saved
    file = directory / "parent" / "config.json"
    content = json.loads(file.read_text())
    assert "calibrate" not in content["model"]  # a group that the model does not have
    refine = content["model"]["refine"] | change
    content["model"]["refine"] = {key: value for key, value in refine.items() if value is not None}
    file.write_text(json.dumps(content))
    with pytest.raises(
        CheckpointError, match=rf"parent/config\.json .*{message}.* or train the model again"
    ):
        read_record(directory / "parent")
    with pytest.raises(CheckpointError, match="is not a PACER checkpoint"):
        read_record(directory)


def test_a_model_of_version_0_4_whose_lists_have_a_severity_is_not_loaded(saved) -> None:
    _, directory = saved
    file = directory / "parent" / "config.json"
    content = json.loads(file.read_text())
    content["model"]["commit"]["attributes"] = ["side", "severity"]
    file.write_text(json.dumps(content))
    message = r"model.commit.attributes = \['side', 'severity'\]: must be \[\] or \[side\]"
    with pytest.raises(CheckpointError, match=f"{message}.* or train the model again"):
        read_record(directory / "parent")


ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def alike(backbones: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny models with image and text states of one width, as RAD-DINO and CXR-BERT have
    them."""
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
    state = {
        theirs: own[ours][None] if ours == "queries" else own[ours]
        for ours, theirs in interface_names().items()
    }
    for name, tensor in model.language.named_parameters():
        if "lora_" in name:
            state[f"llama_model.base_model.model.{name}"] = torch.randn_like(tensor)
    file = tmp_path_factory.mktemp("llm_rg4") / "released.pth"
    torch.save({"model": state, "config": {"llm_alpha": params.lora.alpha}, "step": 9}, file)
    return file


def test_the_checkpoint_holds_upstreams_weights_and_decodes_directly(
    params, released, alike, tmp_path
) -> None:
    weights = adopt_llm_rg4(released, params, alike, tmp_path / "llm_rg4")
    model, record = load_model(tmp_path / "llm_rg4", alike)
    assert (record.phase, record.step) == ("parent", 9)
    assert record.model.refine.variant == "endpoint"
    assert record.model.commit.route == "direct"
    assert record.model.prompt == params.prompt.model_copy(update={"truncation": "upstream"})
    for name, tensor in weights.interface.items():
        assert torch.equal(model.interface.state_dict()[name], tensor)
    merged = dict(model.language.named_parameters())
    assert (
        len(weights.lora)
        == 2 * len([name for name in merged if name.endswith("lora_A.default.weight")])
        > 0
    )
    assert not list(model.router.parameters())


def test_the_parent_phase_can_start_from_it(params, released, alike, tmp_path) -> None:
    weights = adopt_llm_rg4(released, params, alike, tmp_path / "llm_rg4")
    model = build_model(alike, specification_of("parent", params))
    before = {name: tensor.clone() for name, tensor in model.router.state_dict().items()}
    _start_from(model, tmp_path / "llm_rg4", read_record(tmp_path / "llm_rg4"))
    for name, tensor in weights.lora.items():
        assert torch.equal(dict(model.language.named_parameters())[name], tensor)
    for name, tensor in weights.interface.items():
        assert torch.equal(model.interface.state_dict()[name], tensor)
    assert before and all(
        torch.equal(model.router.state_dict()[name], tensor) for name, tensor in before.items()
    )


@pytest.mark.parametrize(("group", "change", "message"), listed_cases(__file__, "others"))
def test_parameters_that_do_not_describe_the_file(
    params, released, alike, tmp_path, group, change, message
) -> None:
    values = params.model_dump()
    values[group] |= change
    with pytest.raises(CheckpointError, match=message):
        adopt_llm_rg4(released, validated(values, "params", Params), alike, tmp_path / "llm_rg4")
    assert not (tmp_path / "llm_rg4").exists()
