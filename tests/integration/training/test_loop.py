"""The loop: what is trained, exact resume, and the errors of a run that goes wrong."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import torch

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import CheckpointError, ConfigError, DataError, PacerError
from pacer.training import loop
from pacer.training.losses import Objective, objective
from pacer.training.phases import phase_of
from tests.support.cases import listed_cases
from tests.support.training import parameters, stepped


def test_a_logged_point_is_the_mean_over_the_updates_since_the_one_before(run) -> None:
    """A micro-batch has one context: a point of one update would show the same contexts again and
    again."""

    def curve(interval: int) -> dict[int, dict]:
        own = {"train": {"log_interval": interval, "validation_interval": 100}}
        return dict(
            run(
                "calibrate",
                folder=str(interval),
                calibrate={"updates": 9, "accumulation": 1},
                **own,
            )[1]
        )

    each, points = curve(1), curve(4)
    assert list(points) == [1, 4, 8, 9]
    for first, last in ((1, 1), (2, 4), (5, 8), (9, 9)):
        updates = [each[update] for update in range(first, last + 1)]
        for name in (
            "loss",
            "loss_drift",
            "gradient_norm",
            *(f"gate/{context}" for context in CONTEXTS),
        ):
            logged = [values[name] for values in updates if name in values]
            assert points[last].get(name) == (
                pytest.approx(sum(logged) / len(logged)) if logged else None
            ), name
        for name in ("learning_rate", "rho"):
            assert points[last][name] == updates[-1][name]
    assert {f"gate/{context}" for context in CONTEXTS} <= points[8].keys()


class SecondProcess:
    """An accelerator that says it is the second process; all else is the given one's."""

    process_index = 1

    def __init__(self, accelerator):
        self.accelerator = accelerator

    def __getattr__(self, name: str):
        return getattr(self.accelerator, name)


def test_every_seed_process_and_update_draws_another_dropout(
    setting, accelerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    for number, (seed, process) in enumerate(
        [(1, accelerator), (2, accelerator), (1, SecondProcess(accelerator))]
    ):
        model, examples = setting("parent")
        (tmp_path / str(number)).mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(torch, "manual_seed", drawn.append)
            phase = phase_of("parent", parameters(train={"seed": seed}))
            loop.train(model, examples, phase, process, tmp_path / str(number), lambda *_: None)
    assert len(drawn) == len(set(drawn)) == 3 * 6


def test_the_optimiser_is_adamw_with_its_usual_betas(setting, accelerator) -> None:
    """Loshchilov and Hutter 2019, as PyTorch and upstream have it; the paper gives the learning
    rates alone."""
    optimizer = loop._Run(
        *setting("parent"), phase_of("parent", parameters()), accelerator
    ).optimizer.adamw
    assert type(optimizer) is torch.optim.AdamW
    for group in optimizer.param_groups:
        assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.9, 0.999), 1e-8, 0.01)
        assert not group["amsgrad"] and not group["maximize"]


@pytest.mark.parametrize("name", ["parent", "calibrate"])
def test_no_weight_moves_for_a_source_that_no_row_has(
    name: str, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither momentum nor weight decay moves it, its moments stay, and the optimiser counts no
    step for it."""
    blocks = [
        (parameter, tuple(slice(*part) for part in places), {*contexts})
        for parameter, places, contexts in (case.values for case in listed_cases(__file__, name))
    ]
    steps = stepped(monkeypatch, blocks)
    schedule = {"updates": 12, "accumulation": 1, "warmup_updates": 0}
    run(name, **{name: schedule}, train={"validation_interval": 100})
    for (parameter, _, contexts), taken in zip(blocks, steps, strict=True):
        assert taken and all(moved == bool(present & contexts) for present, moved in taken), (
            parameter,
            taken,
        )
        assert contexts == {*CONTEXTS} or {moved for _, moved in taken} == {False, True}


def test_no_gradient_is_held_while_the_next_is_made(setting, accelerator) -> None:
    """Its memory would come on top of the peak, which is in the backward pass."""
    held: list[int] = []

    def checked(*arguments, **named) -> Objective:
        blocks = (block for own in run.optimizer.blocks.values() for block, _ in own)
        held.append(sum(value.grad is not None for value in (*run.parameters.values(), *blocks)))
        return objective(*arguments, **named)

    schedule = {"accumulation": 1, "batch_size": 4}
    phase = replace(phase_of("parent", parameters(parent=schedule)), objective=checked)
    run = loop._Run(*setting("parent"), phase, accelerator)
    stream = run.stream(0)
    for _ in range(3):
        run.update(stream)
    assert held == [0, 0, 0] and any(
        parameter.grad is not None for parameter in run.parameters.values()
    )


@pytest.mark.parametrize("first", [3.0, float("nan")])
def test_best_keeps_the_weights_of_the_lowest_validation_loss(
    first: float, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([first, 1.0, 2.0])
    seen: list[dict] = []

    def validate(model, *arguments) -> dict:
        seen.append({n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad})
        return {"validation/mean": next(losses)}

    monkeypatch.setattr(loop, "validate", validate)
    best, _ = run("parent", train={"checkpoint": "best", "validation_interval": 2})
    assert all(torch.equal(best[n], seen[1][n]) for n in best)


def test_best_without_validation_records_is_refused(setting, run) -> None:
    model, examples = setting("parent")
    examples.table.frame = examples.table.frame.with_columns(split=pl.lit("train"))
    with pytest.raises(DataError, match="no val records for"):
        run("parent", (model, examples), train={"checkpoint": "best"})


@pytest.mark.parametrize(("log_interval", "state_interval"), [(1, 2), (5, 2), (2, 5), (6, 6)])
@pytest.mark.parametrize("spoilt", ["the loss", "the gradient norm"])
def test_what_is_not_finite_names_its_records_and_is_in_no_state(
    spoilt: str, log_interval: int, state_interval: int, setting, accelerator, tmp_path: Path
) -> None:
    """However late it is noticed: at the next logged point, validation or state."""
    model, examples = setting("parent")
    params = parameters(
        train={
            "log_interval": log_interval,
            "state_interval": state_interval,
            "validation_interval": 9,
        }
    )
    run = loop._Run(model, examples, phase_of("parent", params), accelerator)
    parameter, seen = model.interface.fusion.bias, [0]

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        seen[0] += 1
        return gradient * (
            float("inf") if spoilt != "the loss" and seen[0] == 3 * accumulation + 1 else 1.0
        )

    accumulation = params.parent.accumulation
    parameter.register_hook(spoil)
    update = loop._Run.update

    def updated(self, stream) -> None:
        if spoilt == "the loss" and self.done == 3:
            with torch.no_grad():
                parameter.fill_(float("nan"))
        update(self, stream)

    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(
            PacerError, match=rf"{spoilt} at update 4 is (nan|inf) on records \w\w-\d"
        ) as told,
    ):
        patch.setattr(loop._Run, "update", updated)
        loop.train(model, examples, run.phase, accelerator, tmp_path, lambda values, step: None)
    rows = [
        run.examples.table.record_id(int(row))
        for own, _ in list(run.stream(3))[:accumulation]
        for row in own
    ]
    assert str(told.value).split("records ")[1].split(";")[0] == ", ".join(rows)
    states = [torch.load(path, weights_only=True) for path in tmp_path.glob(loop.STATE)]
    assert [state["update"] for state in states] == [
        update for update in (2,) if state_interval == 2
    ]
    assert all(weight.isfinite().all() for state in states for weight in state["weights"].values())


def test_a_state_of_a_different_version_is_refused(run, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    torch.save({"weights": {}, "update": 3}, tmp_path / "run" / loop.STATE)
    message = r"state\.pt is damaged or was saved by a different version of PACER; delete it, and"
    with pytest.raises(CheckpointError, match=message):
        run("parent")


@pytest.mark.parametrize("limit", [None, 0.01])
def test_the_gradient_is_clipped_to_its_limit(
    limit: float | None, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    norms: list[float] = []
    step = torch.optim.AdamW.step

    def noting(self, *arguments):
        grads = [
            p.grad for group in self.param_groups for p in group["params"] if p.grad is not None
        ]
        norms.append(torch.nn.utils.get_total_norm(grads).item())
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.AdamW, "step", noting)
    logged = [
        values["gradient_norm"] for _, values in run("parent", train={"max_grad_norm": limit})[1]
    ]
    assert min(logged) > 0.02
    assert norms == pytest.approx(logged if limit is None else [limit] * 6, rel=1e-5)


def test_more_processes_than_records_are_refused(
    run, accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(accelerator), "num_processes", 5)
    with pytest.raises(
        ConfigError, match=r"parent.batch_size \(4 across .* at least the number of processes \(5\)"
    ):
        run("parent")


def test_everything_worth_watching_is_logged(run) -> None:
    logged = [
        values
        for _, values in run("calibrate", batches={"mix": True}, calibrate={"batch_size": 16})[1]
    ]
    (names,) = listed_cases(__file__, "logged")
    by_context = {f"{what}/{context}" for what in ("gate", "validation") for context in CONTEXTS}
    by_depth = {f"depth_{what}/{k}" for what in ("weight", "favourite") for k in range(3)}
    assert set(logged[-1]) == {*names.values[0].split()} | by_context | by_depth
    for values in logged:
        parts = (
            values["loss_trajectory"]
            + 0.75 * values["loss_emphasis"]
            + 0.05 * values["loss_consistency"]
        )
        assert values["loss"] == pytest.approx(parts + 0.01 * values["loss_drift"], rel=1e-5)
        for what in ("weight", "favourite"):
            assert sum(values[f"depth_{what}/{k}"] for k in range(3)) == pytest.approx(1, abs=1e-5)
        assert (
            0 < values["gate/sn"] < 1
            and values["memory_gb"] > 0.01
            and 0 <= values["loader_wait"] < 1
        )


@pytest.mark.parametrize(
    ("place", "parent"),
    [("language.lm_head.lora_beside", {}), ("router.lateral", {"contexts": ["sn"]})],
)
def test_a_parameter_that_the_loss_never_reaches_is_refused(
    place: str, parent: dict, setting, run
) -> None:
    """The loss reads the head's weight and never calls the module, so LoRA beside it would stay
    zero; and a source in its name is no excuse."""
    model, examples = setting("parent")
    model.set_submodule(place, torch.nn.Linear(2, 2))
    message = rf"parent: 2 of \d+ trainable tensors got no gradient, e.g. {place}.bias"
    with pytest.raises(PacerError, match=message):
        run("parent", (model, examples), parent=parent)
