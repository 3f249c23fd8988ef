"""What each phase trains, name by name, and that the parent which Calibrate starts from is also its teacher."""

import math
from typing import Any

import pytest
import torch

from pacer.training import losses
from pacer.training.examples import Examples
from tests.support.cases import cases
from tests.support.models import moved

PHASES = ("warmup", "parent", "calibrate")


def both(*names: str) -> set[str]:
    return {f"{name}.{part}" for name in names for part in ("weight", "bias")}


def compressor(source: str, own_width: bool) -> set[str]:
    """Parameters of one source's compressor; ``own_width``: its states are not as wide as the image's."""
    attention = ["in_proj_bias", "bias_k", "bias_v", "out_proj.weight", "out_proj.bias"]
    attention += ["q_proj_weight", "k_proj_weight", "v_proj_weight"] if own_width else ["in_proj_weight"]
    layers = both("attention_norm", "mix", "mix_norm", "up", "project", "project_norm")
    return {f"interface.{source}.{name}" for name in {*layers, *(f"attention.{name}" for name in attention)}}


ROUTER = {
    *(f"router.{name}" for name in ("route_vector", "depth_bias", "eta")),
    *both("router.mix_norm", "router.out", *(f"router.{part}.{k}" for part in ("norms", "align") for k in range(3))),
}
FRONTAL = {"interface.queries", *compressor("frontal", False)}
LORA = {
    f"language.model.layers.{layer}.self_attn.{target}.lora_{matrix}.default.weight"
    for layer in range(2)
    for target in ("q_proj", "v_proj")
    for matrix in "AB"
}
TRAINED = {
    "warmup": ROUTER | FRONTAL,
    "parent": ROUTER
    | FRONTAL
    | LORA
    | compressor("lateral", False)
    | compressor("prior", True)
    | both("interface.fusion", "interface.fusion_norm"),
    "calibrate": both("calibrator.gate_in", "calibrator.gate_out", "calibrator.norm")
    | {f"calibrator.{name}.weight" for name in ("availability", "down", "up")},
}


@cases(__file__, "rows")
def test_a_phase_trains_what_the_paper_does_and_leaves_the_rest_bit_for_bit(
    kind: str, case: dict[str, Any], setting, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buffers and the weights below LoRA too: a checkpoint holds none of these and must find them again. Without weight
    decay only a gradient moves a weight."""
    groups, untrained = case["groups"], tuple(case.get("untrained", ()))
    drawn, draw = set[bool](), Examples.routes
    monkeypatch.setattr(Examples, "routes", lambda *given: drawn.update(own := draw(*given)) or own)
    for name in PHASES[: 2 if groups.get("calibrate") == {"gate_inputs": "none"} else 3]:
        model, examples = setting(name, **groups)
        if name == "calibrate":
            model.merge_lora()
        moved(model)
        tensors = model.state_dict() | dict(model.named_buffers())
        before = {n: t.clone() for n, t in tensors.items()}
        drawn.clear()
        settings = groups | {name: {"warmup_updates": 0} | groups.get(name, {})}
        _, logged = run(name, (model, examples), folder=name, train={"weight_decay": 0.0}, **settings)
        after = model.state_dict() | dict(model.named_buffers())
        expected = {n for n in TRAINED[name] if not n.startswith(untrained)}
        assert {n for n in before if not torch.equal(before[n], after[n])} == expected, name
        assert set(after) == set(before) and drawn == ({False} if name == "warmup" else {*case["routes"]})
        if not untrained:
            assert {n for n, p in model.named_parameters() if p.requires_grad} == TRAINED[name]
        losses = [v for _, point in logged for key, v in point.items() if key.startswith(("loss", "validation"))]
        assert losses and all(map(math.isfinite, losses))


# -------------------------------------------------------------------------------------------------- the frozen parent


@pytest.mark.parametrize("merged", [True, False])
def test_the_first_update_of_calibrate_meets_its_teacher(merged: bool, setting, run) -> None:
    """With half of what LoRA sees dropped, teacher and student would differ at once where LoRA is not merged."""
    model, examples = setting("calibrate", dropout=0.5)
    for part in (model.router, model.interface, model.language):  # of the parent
        moved(part)
    if merged:
        model.merge_lora()
    own = {"warmup_updates": 0, "learning_rate": 0.01}  # or the first update has rate 0
    first, *others = [values for _, values in run("calibrate", (model, examples), calibrate=own)[1]]
    assert first["loss_consistency"] == 0.0 and first["loss_drift"] == 0.0
    assert all(point["loss_consistency"] > 0 and point["loss_drift"] > 0 for point in others)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("warmup", {"router", "interface"}),
        ("parent", {"router", "interface", "language"}),
        ("calibrate", {"calibrator"}),
    ],
)
def test_dropout_is_on_where_a_phase_trains_and_nowhere_else(name: str, parts: set[str], setting, run) -> None:
    model, examples = setting(name)
    modes: dict[str, set[bool]] = {}
    for module, own in model.named_modules():
        own.register_forward_pre_hook(
            lambda m, inputs, module=module: modes.setdefault(module, set()).add(m.training and torch.is_grad_enabled())
        )
    run(name, (model, examples))
    on = {module for module, own in modes.items() if True in own}
    assert {module.split(".")[0] for module in on} == parts
    dropouts = {module for module in on if module.endswith("dropout") or "lora_dropout" in module}
    assert bool(dropouts) is (name != "warmup")  # the interface's is inside its attention
    assert name == "calibrate" or "interface.frontal.attention" in on


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_dropout_is_as_large_as_its_settings_say(share: float, setting) -> None:
    model, _ = setting("calibrate", dropout=share)
    for source in (model.interface.frontal, model.interface.lateral, model.interface.prior):
        assert source.attention.dropout == share
    assert model.calibrator is not None and model.calibrator.dropout.p == share
    lora = [module for name, module in model.language.named_modules() if "lora_dropout" in name]
    assert {module.p for module in lora if isinstance(module, torch.nn.Dropout)} == ({share} if share else set())


def test_the_teacher_gets_no_gradient(setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though its weights are the student's: everything but the calibrator could be trained here."""
    model, examples = setting("calibrate")
    given: list[tuple] = []
    terms = losses.token_terms
    monkeypatch.setattr(losses, "token_terms", lambda *operands: given.append(operands) or terms(*operands))
    batch = examples.batch([0, 9, 18, 27], [True, False, False, True], 0.35)
    losses.objective(moved(model), batch, losses.LossWeights(lambda_q=0.35, lambda_tlw=0.0, lambda_cons=1.0))
    [(states, _, _, teacher, *_)] = given
    assert states.requires_grad and not teacher.requires_grad
