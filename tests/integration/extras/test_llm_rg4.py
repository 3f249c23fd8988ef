"""LLM-RG4's released weights: read strictly, computing what upstream's own layers compute, strange
files named."""

import argparse
import pickle
import sys
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pacer.core.errors import CheckpointError
from pacer.extras.llm_rg4.weights import FROZEN, import_llm_rg4, interface_names
from pacer.model.batch import RefinedSources
from pacer.model.interface import SourceInterface
from tests.support.cases import listed_cases


class Upstream(nn.Module):
    """The trainable part of LLM-RG4's second stage under its own names, written from the
    description of its layers."""

    def __init__(self, width: int, heads: int, hidden: int, model: int, queries: int):
        super().__init__()
        self.model_width = model
        self.APPA_visual_query_tokens = nn.Parameter(torch.randn(1, queries, width) * 0.02)
        for source in ("APPA", "lateral", "text"):
            attention = nn.MultiheadAttention(
                width, heads, dropout=0.1, add_bias_kv=True, add_zero_attn=True
            )
            self.add_module(f"{source}_crossattention_block", attention)
            self.add_module(f"{source}_layernorm_768_1", nn.LayerNorm(width))
            self.add_module(f"{source}_llama_proj_1", nn.Linear(width, width))
            self.add_module(f"{source}_layernorm_768_2", nn.LayerNorm(width))
            self.add_module(f"{source}_llama_proj_2", nn.Linear(width, hidden))
            self.add_module(f"{source}_llama_proj_3", nn.Linear(hidden, model))
            self.add_module(f"{source}_layernorm_4096_1", nn.LayerNorm(model))
        self.iit_proj = nn.Linear(3 * model, model)
        self.iit_layernorm = nn.LayerNorm(model)
        for (
            parameter
        ) in self.parameters():  # nothing stays at a value that would hide a swapped name
            parameter.data += 0.05 * torch.randn_like(parameter)

    def branch(self, source: str, queries: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        part = {
            name.removeprefix(f"{source}_"): module
            for name, module in self.named_children()
            if name.startswith(source)
        }
        sequence_first = [tensor.transpose(0, 1) for tensor in (queries, states, states)]
        attended = part["layernorm_768_1"](
            part["crossattention_block"](*sequence_first)[0].transpose(0, 1)
        )
        compressed = part["layernorm_768_2"](part["llama_proj_1"](attended)) + attended
        projected = part["llama_proj_3"](F.gelu(part["llama_proj_2"](compressed)))
        return part["layernorm_4096_1"](projected), compressed

    def forward(self, context: str, frontal: Tensor, lateral: Tensor, prior: Tensor) -> Tensor:
        queries = self.APPA_visual_query_tokens.expand(len(frontal), -1, -1)
        first, compressed = self.branch("APPA", queries, frontal)
        slots = [first, torch.zeros_like(first), torch.zeros_like(first)]
        if context[0] == "m":
            slots[1] = self.branch("lateral", compressed, lateral)[0]
        if context[1] == "w":
            slots[2] = self.branch("text", compressed, prior)[0]
        return self.iit_layernorm(self.iit_proj(torch.cat(slots, dim=2)))


def small() -> Upstream:
    torch.manual_seed(5)
    return Upstream(16, 2, 24, 32, 3)


def lora(
    layers: int = 2, rank: int = 4, model: int = 32, default: str = ".default"
) -> dict[str, Tensor]:
    attention = "llama_model.base_model.model.model.layers.{}.self_attn.{}_proj.lora_{}{}.weight"
    shapes = {"A": (rank, model), "B": (model, rank)}
    return {
        attention.format(layer, name, matrix, default): torch.randn(shapes[matrix])
        for layer in range(layers)
        for name in ("q", "v")
        for matrix in ("A", "B")
    }


@pytest.fixture(scope="module")
def state() -> dict[str, Tensor]:
    return {name: tensor.detach() for name, tensor in small().state_dict().items()} | lora()


def test_published_widths_compute_what_upstream_computes() -> None:
    torch.manual_seed(7)
    reference = Upstream(768, 12, 2048, 4096, 128).eval()
    interface = SourceInterface(768, 768, 4096).eval()
    interface.load_state_dict(import_llm_rg4(reference.state_dict()).interface, strict=True)
    frontal, lateral, prior = (
        torch.randn(2, 60, 768),
        torch.randn(2, 60, 768),
        torch.randn(2, 100, 768),
    )
    for context in ("sn", "sw", "mn", "mw"):
        available = torch.tensor([[context[0] == "m", context[1] == "w"]]).expand(2, 2)
        with torch.no_grad():
            rows = torch.arange(2)
            sources = RefinedSources(
                availability=available,
                frontal=frontal,
                lateral=lateral if context[0] == "m" else None,
                lateral_rows=rows if context[0] == "m" else None,
                prior=prior if context[1] == "w" else None,
                prior_rows=rows if context[1] == "w" else None,
            )
            ours = interface(sources).fused
            theirs = reference(context, frontal, lateral, prior)
        assert (ours - theirs).abs().max() < 2e-4, context
        assert ours.std() > 0.5, context  # and not because everything is zero


@pytest.mark.parametrize("default", ["", ".default"])
def test_every_name_has_its_place(state, default: str) -> None:
    weights = import_llm_rg4(
        {n: t for n, t in state.items() if "lora" not in n} | lora(default=default)
    )
    assert len(weights.lora) == 8
    assert "model.layers.1.self_attn.v_proj.lora_B.default.weight" in weights.lora
    own = SourceInterface(16, 16, 32, num_queries=3, num_heads=2, d_hidden=24).state_dict()
    assert set(weights.interface) == set(own) == set(interface_names())
    assert {n: t.shape for n, t in weights.interface.items()} == {
        n: t.shape for n, t in own.items()
    }
    assert weights.unused == ()


def test_released_files(state, tmp_path: Path) -> None:
    frozen = {
        "visual_encoder.embeddings.cls_token": torch.zeros(1),
        "text_encoder.bert.x": torch.zeros(1),
        "llama_model.base_model.model.lm_head.weight": torch.zeros(2),
    }
    config = argparse.Namespace(llm_alpha=64, llm_r=32)
    torch.save(
        {"model": state, "config": config, "epoch": 1, "step": 43152}, tmp_path / "delta.pth"
    )
    torch.save(
        {
            "state_dict": state | frozen | {"odd": torch.zeros(1)},
            "hyper_parameters": {"llm_alpha": 64},
            "global_step": 7,
            "pytorch-lightning_version": "2.0",
        },
        tmp_path / "whole.ckpt",
    )
    delta, whole = (
        import_llm_rg4(tmp_path / "delta.pth"),
        import_llm_rg4(str(tmp_path / "whole.ckpt")),
    )
    assert ((delta.alpha, delta.step), (whole.alpha, whole.step)) == ((64, 43152), (64, 7))
    assert delta.unused == ()
    assert whole.unused == ("odd",)
    for name, tensor in delta.interface.items():
        assert torch.equal(tensor, whole.interface[name])
    assert all(name.startswith(FROZEN) for name in frozen)


@pytest.mark.parametrize("module", listed_cases(__file__, "settings_in_lightnings_own_dictionary"))
def test_settings_in_lightnings_own_dictionary(
    state, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upstream saves ``self.hparams``: a dictionary of a class that is not installed here and is
    never imported."""
    kind = type("AttributeDict", (dict,), {"__module__": module, "__getattr__": dict.__getitem__})
    with monkeypatch.context() as lightning:
        for end in accumulate(module.split("."), "{}.{}".format):
            lightning.setitem(sys.modules, end, ModuleType(end))
        sys.modules[module].AttributeDict = kind
        torch.save(
            {"model": state, "config": kind(llm_alpha=64, llm_r=32), "epoch": 1, "step": 5},
            tmp_path / "d.pth",
        )
    assert import_llm_rg4(tmp_path / "d.pth").alpha == 64


def test_other_weights_and_incomplete_ones_are_refused_with_what_they_hold_or_lack(state) -> None:
    with pytest.raises(
        CheckpointError, match=r"not an LLM-RG4 checkpoint; it contains bert\.embeddings"
    ):
        import_llm_rg4({"bert.embeddings.weight": torch.zeros(1)})
    gone = ["iit_proj.weight", "text_llama_proj_3.bias"]
    with pytest.raises(
        CheckpointError, match=f"incomplete LLM-RG4 checkpoint. Missing: {gone[0]}, {gone[1]}$"
    ):
        import_llm_rg4({name: tensor for name, tensor in state.items() if name not in gone})


class Trap:
    """Pickled code that must never run."""

    def __reduce__(self):
        return (Path.touch, (Path("trapped"),))


def test_strange_files(tmp_path: Path, state, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"model": state}, "whole.pth")
    for content, sentence in (
        (None, "does not exist; download"),
        (
            b"<!DOCTYPE html><html>quota exceeded</html>",
            r"file\.pth is not a complete PyTorch file",
        ),
        (Path("whole.pth").read_bytes()[:5000], r"file\.pth is not a complete PyTorch file"),
        ({"model": state, "config": Trap()}, "or contains more than weights and settings"),
        (pickle.dumps(Trap(), protocol=2), "or contains more than weights and settings"),
        ([1, 2], "contains list; expected named tensors"),
        (
            {"model_state_dict": {"module.bert": torch.zeros(1)}},
            "besides tensors, it contains model_state_dict",
        ),
    ):
        if isinstance(content, bytes):
            Path("file.pth").write_bytes(content)
        elif content is not None:
            torch.save(content, "file.pth")
        with pytest.raises(CheckpointError, match=sentence):
            import_llm_rg4(Path("file.pth"))
    assert not Path("trapped").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"config": [1]}, "its settings are of type list, not a mapping"),
        ({"config": "a text"}, "its settings are of type str, not a mapping"),
        ({"config": {"llm_alpha": "64"}}, "its llm_alpha is not a whole number"),
        ({"step": None}, "its step is not a whole number"),
        ({"step": -1}, "its step is not a whole number"),
        ({1: torch.zeros(1)}, "not all names are text"),
    ],
)
def test_damaged_settings_are_refused(state, content: dict, sentence: str) -> None:
    damaged = {"model": state} | content if 1 not in content else state | content
    with pytest.raises(CheckpointError, match=sentence):
        import_llm_rg4(damaged)


@pytest.mark.parametrize(
    "damaged",
    [
        lambda weights: torch.full_like(weights, torch.nan),
        lambda weights: weights.to(torch.int32),
        lambda weights: weights.to(torch.complex64),
        lambda weights: weights.to("meta"),
        lambda weights: weights.to_sparse(),
    ],
)
def test_damaged_weights_are_refused(state, damaged: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(
        CheckpointError, match=r"is damaged: iit_proj\.weight must be finite floating-point"
    ):
        import_llm_rg4(state | {"iit_proj.weight": damaged(state["iit_proj.weight"])})
