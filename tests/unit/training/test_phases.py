"""What each phase trains, name by name, and what is known of it beforehand: its records, its plan,
its losses."""

import math
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from pacer.core.anchor import POLARITIES
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.schemas import EMPHASIS_SCHEMA, RECORD_SCHEMA
from pacer.model.batch import TrainingBatch
from pacer.training import losses
from pacer.training.examples import Examples, MicroBatch, RecordTable, TokenSequence
from pacer.training.loop import validate
from pacer.training.losses import objective
from pacer.training.phases import phase_of
from pacer.training.sampler import Sampler
from tests.support.cases import cases
from tests.support.models import moved
from tests.support.training import parameters

PHASES = ("warmup", "parent", "calibrate")


def both(*names: str) -> set[str]:
    return {f"{name}.{part}" for name in names for part in ("weight", "bias")}


def compressor(source: str, own_width: bool) -> set[str]:
    """Parameters of one source's compressor; ``own_width``: its states are not as wide as the
    image's."""
    attention = ["in_proj_bias", "bias_k", "bias_v", "out_proj.weight", "out_proj.bias"]
    attention += (
        ["q_proj_weight", "k_proj_weight", "v_proj_weight"] if own_width else ["in_proj_weight"]
    )
    layers = both("attention_norm", "mix", "mix_norm", "up", "project", "project_norm")
    return {
        f"interface.{source}.{name}"
        for name in {*layers, *(f"attention.{name}" for name in attention)}
    }


ROUTER = {
    *(f"router.{name}" for name in ("route_vector", "depth_bias", "eta")),
    *both(
        "router.mix_norm",
        "router.out",
        *(f"router.{part}.{k}" for part in ("norms", "align") for k in range(3)),
    ),
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
    """Buffers and the weights below LoRA too: a checkpoint holds none of these and must find them
    again. Without weight decay only a gradient moves a weight."""
    groups, untrained = case["groups"], tuple(case.get("untrained", ()))
    drawn, build = set[bool](), Examples.training_batch

    def noting(examples: Examples, micro: MicroBatch, lambda_q: float) -> TrainingBatch:
        drawn.update(micro.commits.tolist())
        return build(examples, micro, lambda_q)

    monkeypatch.setattr(Examples, "training_batch", noting)
    for name in PHASES[: 2 if groups.get("calibrate") == {"gate_inputs": "none"} else 3]:
        model, examples = setting(name, **groups)
        if name == "calibrate":
            model.merge_lora()
        moved(model)
        tensors = model.state_dict() | dict(model.named_buffers())
        before = {n: t.clone() for n, t in tensors.items()}
        drawn.clear()
        settings = groups | {name: {"warmup_updates": 0} | groups.get(name, {})}
        _, logged = run(
            name, (model, examples), folder=name, train={"weight_decay": 0.0}, **settings
        )
        after = model.state_dict() | dict(model.named_buffers())
        expected = {n for n in TRAINED[name] if not n.startswith(untrained)}
        assert {n for n in before if not torch.equal(before[n], after[n])} == expected, name
        assert set(after) == set(before) and drawn == (
            {False} if name == "warmup" else {*case["routes"]}
        )
        if not untrained:
            assert {n for n, p in model.named_parameters() if p.requires_grad} == TRAINED[name]
        losses = [
            v
            for _, point in logged
            for key, v in point.items()
            if key.startswith(("loss", "validation"))
        ]
        assert losses and all(map(math.isfinite, losses))


# --------------------------------------------------------------------------------------------------
# the frozen parent


@pytest.mark.parametrize("merged", [True, False])
def test_the_first_update_of_calibrate_meets_its_teacher(merged: bool, setting, run) -> None:
    """With half of what LoRA sees dropped, teacher and student would differ at once where LoRA is
    not merged."""
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
def test_dropout_is_on_where_a_phase_trains_and_nowhere_else(
    name: str, parts: set[str], setting, run
) -> None:
    model, examples = setting(name)
    modes: dict[str, set[bool]] = {}
    for module, own in model.named_modules():
        own.register_forward_pre_hook(
            lambda m, inputs, module=module: modes.setdefault(module, set()).add(
                m.training and torch.is_grad_enabled()
            )
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
    assert {module.p for module in lora if isinstance(module, torch.nn.Dropout)} == (
        {share} if share else set()
    )


def test_the_teacher_gets_no_gradient(setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though its weights are the student's: everything but the calibrator could be trained here."""
    model, examples = setting("calibrate")
    given: list[tuple] = []
    terms = losses.token_terms
    monkeypatch.setattr(
        losses, "token_terms", lambda *operands: given.append(operands) or terms(*operands)
    )
    batch = examples.batch([0, 9, 18, 27], [True, False, False, True], 0.35)
    losses.objective(
        moved(model), batch, losses.LossWeights(lambda_q=0.35, lambda_tlw=0.0, lambda_cons=1.0)
    )
    [(states, _, _, teacher, *_)] = given
    assert states.requires_grad and not teacher.requires_grad


@pytest.mark.parametrize("name", ["warmup", "parent", "calibrate"])
def test_measured_lengths_are_those_of_the_batches(name: str, setting) -> None:
    _, examples = setting(name)
    sampler = Sampler(
        phase_of(name, parameters(batches={"window": 3}, parent={"rho_start": 0.5})), examples
    )
    routes = set()
    for micro in islice(sampler.from_update(0), 12):
        batch = examples.training_batch(micro, 0.35)
        assert batch.length.tolist() == examples.lengths(*micro).tolist()
        routes |= set(micro.commits.tolist())
    assert routes == ({False} if name == "warmup" else {False, True})


def test_a_sequence_is_built_once_and_only_if_its_window_is_needed(
    setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[tuple[int, bool]] = []
    build = Examples._build

    def noting(examples: Examples, row: int, commit: bool) -> TokenSequence:
        built.append((row, commit))
        return build(examples, row, commit)

    monkeypatch.setattr(Examples, "_build", noting)
    _, examples = setting("parent")
    sampler = Sampler(phase_of("parent", parameters(batches={"window": 2})), examples)
    late = next(sampler.from_update(5))  # the last window of its epoch
    assert len({row for row, _ in built}) < 24
    whole = list(islice(sampler.from_update(0), 2 * sampler.order.micro_batches_per_epoch))
    assert whole[5 * sampler.phase.schedule.accumulation].rows.tolist() == late.rows.tolist()
    assert Sampler(phase_of("parent", parameters(train={"seed": 2})), examples).order.seed == 2
    for micro in whole:
        examples.training_batch(micro, 0.35)
    assert len({row for row, _ in built}) == 24 and len(built) == len(set(built))


def test_windows_are_sorted_by_the_lengths_that_the_batches_then_have(setting) -> None:
    """With the visits' own routes, and the rho of the window's middle, which is that of all its
    batches here."""
    _, examples = setting("parent")
    route = {"rho_start": 0.3, "rho_end": 0.3}
    sampler = Sampler(
        phase_of("parent", parameters(batches={"window": 50}, parent=route)), examples
    )
    epoch = islice(sampler.from_update(0), sampler.order.micro_batches_per_epoch)
    drawn = [examples.training_batch(micro, 0.35).length.tolist() for micro in epoch]
    for context in range(4):
        batches = sorted(drawn[context::4])
        assert len(batches) > 1 and (np.diff(np.concatenate(batches)) >= 0).all()


@pytest.mark.parametrize("name", ["warmup", "parent", "calibrate"])
def test_records_with_a_positive_finding_are_drawn_more_often(name: str, setting) -> None:
    _, examples = setting(name)
    sampler = Sampler(phase_of(name, parameters(batches={"positive_repeats": 4})), examples)
    for context, rows in examples.table.rows("train", sampler.phase.contexts).items():
        times = dict(zip(*np.unique(sampler.order.rows[context], return_counts=True), strict=True))
        affirms = {int(row): bool(examples.table.row(int(row)).get("positive")) for row in rows}
        assert any(affirms.values()) == (name != "warmup")  # the warm-up reads no commitments
        assert times == {row: 4 if positive else 1 for row, positive in affirms.items()}


@pytest.mark.parametrize("name", ["warmup", "parent", "calibrate"])
def test_it_is_the_objective_of_the_whole_context_as_one_batch(
    name: str, setting, accelerator
) -> None:
    model, examples = setting(name)
    for size in (1, 2):
        params = parameters(**{name: {"batch_size": size}})
        phase = phase_of(name, params)
        losses = validate(model, examples, phase, accelerator)
        expected = {}
        with torch.no_grad():
            for context, rows in examples.table.rows("val", phase.contexts).items():
                if len(rows):
                    batch = examples.batch(
                        rows, [name != "warmup"] * len(rows), phase.losses.lambda_q
                    )
                    losses_alone = replace(phase.losses, lambda_cons=None, lambda_drift=None)
                    found = objective(model, batch, losses_alone, frontal_only=phase.frontal_only)
                    expected[f"validation/{context}"] = found.total.item()
        mean = sum(expected.values()) / len(expected)
        assert losses == pytest.approx(expected | {"validation/mean": mean}, rel=1e-5)
    assert len(expected) == (1 if name == "warmup" else 4)


def test_validation_records_bounds_each_context(setting, accelerator) -> None:
    model, examples = setting("parent")
    asked: list[int] = []
    batch = examples.batch

    def noting(rows, commits, lambda_q):
        asked.extend(int(row) for row in rows)
        return batch(rows, commits, lambda_q)

    examples.batch = noting
    params = parameters(train={"validation_records": 1})
    validate(model, examples, phase_of("parent", params), accelerator)
    assert asked == [
        int(rows[0]) for rows in examples.table.rows("val", ("sn", "sw", "mn", "mw")).values()
    ]


@pytest.mark.parametrize(("processes", "largest"), [(1, 2), (2, 1)])
def test_a_process_validates_in_batches_of_its_share(
    processes: int, largest: int, setting, accelerator
) -> None:
    model, examples = setting("parent")
    sizes: list[int] = []
    batch = examples.batch
    examples.batch = lambda rows, *others: sizes.append(len(rows)) or batch(rows, *others)
    several = SimpleNamespace(
        process_index=0,
        num_processes=processes,
        device=accelerator.device,
        reduce=accelerator.reduce,
    )
    validate(model, examples, phase_of("parent", parameters(parent={"batch_size": 2})), several)
    assert max(sizes) == largest and sum(sizes) == 8 // processes


@pytest.fixture
def files(records: pl.DataFrame, anchors: pl.DataFrame, tmp_path):
    """Paths of records, emphasis and commitments as the stages write them."""
    complete = pl.DataFrame(records.to_dicts(), schema=RECORD_SCHEMA)
    paths = [tmp_path / f"{name}.parquet" for name in ("records", "emphasis", "anchors")]
    complete.with_columns(emphasis=pl.lit(None)).cast(pl.Schema(RECORD_SCHEMA)).write_parquet(
        paths[0]
    )
    complete.select(list(EMPHASIS_SCHEMA)).write_parquet(paths[1])
    anchors.write_parquet(paths[2])
    return paths


def test_rows_are_those_of_the_tables(files, records, anchors) -> None:
    contexts = ("sn", "mw")
    table = RecordTable.read(*files, contexts)
    columns = ["record_id", "context", "split", "report", "prior_report", "emphasis", *POLARITIES]
    expected = (
        records.join(anchors, on="record_id")
        .filter(pl.col("context").is_in(contexts))
        .select(columns)
        .to_dicts()
    )
    assert len(table) == len(expected) == 16 and table.labelled
    rows = [table.row(number) for number in range(len(table))]
    assert [{name: row[name] for name in columns} for row in rows] == expected
    assert "report_raw" not in rows[0]  # the text of every target once
    assert [table.record_id(number) for number in range(len(table))] == [
        row["record_id"] for row in expected
    ]
    numbers = table.rows("val", ("mw", "sn"))
    assert list(numbers) == ["mw", "sn"]
    assert [table.row(int(number))["record_id"] for number in numbers["mw"]] == ["mw-6", "mw-7"]
    assert not RecordTable.read(*files[:2], None, contexts).labelled


@pytest.mark.parametrize(("stage", "place"), [("emphasis", 1), ("anchors", 2)])
def test_rows_of_other_records_are_refused(files, stage: str, place: int) -> None:
    made = pl.read_parquet(files[place])
    for other in (made.reverse(), made.head(20), pl.concat([made, made.tail(1)])):
        other.write_parquet(files[place])
        with pytest.raises(
            DataError, match=f"the output of the `{stage}` stage does not match the corpus"
        ):
            RecordTable.read(*files, CONTEXTS)
