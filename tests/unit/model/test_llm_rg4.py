"""LLM-RG4's weights as a checkpoint: it decodes, it can be started from, and it must fit the parameters."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel

from pacer.cli.decoding import import_llm_rg4
from pacer.config import Params, parse_params
from pacer.core.errors import CheckpointError
from pacer.decoding.run import trained_generator
from pacer.model.assemble import build_model, load_model
from pacer.model.checkpoint import read_record, specification_of
from pacer.model.llm_rg4 import adopt_llm_rg4, interface_names
from pacer.training.run import Inputs, starting_model
from tests.support.models import MODEL, WIDTH
from tests.support.profiles import profile

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
    values = profile("micro").model_dump()
    for group in ("refine", "interface", "lora"):
        values[group] = MODEL[group]
    values["features"]["depths"] = MODEL["features"]["depths"]
    return parse_params(values)


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


@pytest.fixture(scope="module")
def first_stage(released: Path) -> Path:
    """What upstream's first stage saves of the same model, the file of its ``visual_delta_file``."""
    content = torch.load(released, weights_only=True)
    content["model"] = {name: tensor for name, tensor in content["model"].items() if name.startswith("APPA")}
    torch.save(content, released.with_name("first.pth"))
    return released.with_name("first.pth")


@pytest.mark.parametrize("lateral_start", ["frontal", "random"])
def test_the_first_stage_is_a_warm_up(params, first_stage, alike, tmp_path, lateral_start: str) -> None:
    weights = adopt_llm_rg4(first_stage, params, alike, tmp_path / "warmup")
    record = read_record(tmp_path / "warmup")
    assert (record.phase, record.step, record.model.refine.variant) == ("warmup", 9, "endpoint")
    assert record.model.lora is None and record.model.commit is None
    groups = params.model_dump()
    groups["parent"] |= {"lateral_start": lateral_start, "prior_start": "random", "start": str(tmp_path / "warmup")}
    inputs = Inputs(tmp_path, alike, tmp_path, tmp_path, start=tmp_path / "warmup")
    given = parse_params(groups)
    new = record.model_copy(update={"phase": "parent", "model": specification_of("parent", given)})
    model = starting_model(new, given, inputs, torch.float32)
    state = model.interface.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in weights.interface.items())
    same = [
        torch.equal(model.interface.lateral.state_dict()[n], t) for n, t in model.interface.frontal.state_dict().items()
    ]
    assert all(same) is (lateral_start == "frontal")


@pytest.mark.parametrize(
    ("stage", "use"),
    [("first", "a warm-up; to train on from it, set parent.start"), ("second", "`pacer decode --model")],
)
def test_the_command_says_what_either_stage_is_for(
    params, released, first_stage, alike, tmp_path, monkeypatch, capsys, stage: str, use: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text(json.dumps(params.model_dump()))
    Path("models").mkdir()
    Path("models/backbones").symlink_to(alike)
    import_llm_rg4(first_stage if stage == "first" else released, Path("out"))
    assert use in " ".join(capsys.readouterr().out.split())


def test_the_first_stage_writes_no_reports(params, first_stage, alike, tmp_path) -> None:
    adopt_llm_rg4(first_stage, params, alike, tmp_path / "warmup")
    with pytest.raises(CheckpointError, match="is of the warm-up, which writes no reports"):
        trained_generator(tmp_path / "warmup", alike, tmp_path, params.decode, torch.device("cpu"))


def test_the_first_stage_is_no_row_of_the_baselines(first_stage, tmp_path, monkeypatch) -> None:
    (tmp_path / "baselines").mkdir()
    settings = (ROOT / "baselines" / "micro.yaml").read_text().replace("weights: null", f"weights: {first_stage}", 1)
    (tmp_path / "baselines" / "params.yaml").write_text(settings)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="is of LLM-RG4's first stage, which writes no reports"):
        runpy.run_path(str(ROOT / "stages" / "llm_rg4.py"))["main"]()


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


def test_it_was_trained_without_quantization_whatever_the_settings_say(params, released, alike, tmp_path) -> None:
    values = params.model_dump()
    values["train"]["quantization"] = "nf4"
    adopt_llm_rg4(released, parse_params(values), alike, tmp_path / "llm_rg4")
    assert read_record(tmp_path / "llm_rg4").model.quantization is None


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


@pytest.mark.parametrize(
    ("group", "change", "message"),
    [
        ("interface", {"num_queries": 5}, "interface.num_queries is 5, the file has 3"),
        ("interface", {"d_hidden": 7}, "interface.d_hidden is 7, the file has 24"),
        ("lora", {"rank": 3}, "lora.rank is 3"),
        ("lora", {"alpha": 99}, "lora.alpha is 99"),
    ],
)
def test_parameters_that_do_not_describe_the_file(
    params, released, alike, tmp_path, group: str, change: dict, message: str
) -> None:
    values = params.model_dump()
    values[group] |= change
    with pytest.raises(CheckpointError, match=message):
        adopt_llm_rg4(released, parse_params(values), alike, tmp_path / "llm_rg4")
    assert not (tmp_path / "llm_rg4").exists()


def test_surplus_and_frozen_names_are_told(params, released, alike, tmp_path) -> None:
    content = torch.load(released, weights_only=True)
    content["model"] |= {"surplus": torch.zeros(1), "visual_encoder.x": torch.zeros(1)}
    torch.save(content, tmp_path / "released.pth")
    weights = adopt_llm_rg4(tmp_path / "released.pth", params, alike, tmp_path / "llm_rg4")
    assert weights.surplus == ("surplus",)
    assert weights.unused == ("surplus", "visual_encoder.x")
