"""A phase as the stage runs it, interrupted at any time and started again: the same checkpoint, or
a refusal."""

import json
import math
import signal
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import torch
from accelerate.state import AcceleratorState
from safetensors.torch import load_file

from pacer.config import Params, validated
from pacer.core.errors import CheckpointError, ConfigError, DataError
from pacer.core.schemas import RECORD_SCHEMA, write_table
from pacer.model.assemble import load_model
from pacer.model.checkpoint import read_record
from pacer.training import run
from pacer.training.examples import Examples
from tests.support import drive, killed
from tests.support.cases import listed_cases
from tests.support.models import MODEL

pytestmark = pytest.mark.usefixtures("messages")

setting = killed.setting
#: The phases, and what each starts from.
ALL = (("warmup", None), ("parent", "warmup"), ("calibrate", "parent"))


def parameters(**calibrate: object) -> Params:
    """Two updates a phase."""
    short = {"updates": 2, "batch_size": 4, "warmup_updates": 1}
    return drive.parameters(MODEL, warmup=short, parent=short, calibrate=short | calibrate)


def changed(params: Params, group: str, **values: object) -> Params:
    return params.model_copy(update={group: getattr(params, group).model_copy(update=values)})


@pytest.fixture
def phase(inputs: dict[str, Path], log, tmp_path: Path) -> Callable[..., list]:
    def train(name: str, params: Params, start: str | None) -> list:
        logged: list = []
        paths = inputs | {"start": start and tmp_path / start}
        if name == "warmup":
            paths["anchors"] = None
        run.run_phase(name, params, run.Inputs(**paths), tmp_path / name, log(logged))
        return logged

    return train


def test_without_calibrate_the_checkpoint_is_its_parent(
    phase, backbones: Path, tmp_path: Path
) -> None:
    params = parameters(gate_inputs="none")
    for name, start in (("warmup", None), ("parent", "warmup")):
        phase(name, params, start)
    assert phase("calibrate", params, "parent") == []
    assert not (tmp_path / "calibrate" / "model.safetensors").exists()
    model, _ = load_model(tmp_path / "calibrate", backbones)
    parent, _ = load_model(tmp_path / "parent", backbones)
    assert model.calibrator is None
    for (name, value), other in zip(model.named_parameters(), parent.parameters(), strict=True):
        assert torch.equal(value, other), name


@pytest.mark.parametrize(
    ("trains", "parts"), listed_cases(__file__, "a_part_of_the_parent_is_trained_on_instead")
)
def test_a_part_of_the_parent_is_trained_on_instead(
    trains, parts, phase, backbones: Path, tmp_path: Path
) -> None:
    """The checkpoint has that part alone; the rest of the model is the parent's."""
    params = parameters(trains=trains, learning_rate=0.1)
    for name, start in ALL:
        logged = phase(name, params, start)
    assert all(
        math.isfinite(values["loss/total"]) for _, values in logged if "loss/total" in values
    )
    own = load_file(tmp_path / "calibrate" / "model.safetensors")
    parent = load_file(tmp_path / "parent" / "model.safetensors")
    assert own and all(name.startswith(tuple(parts)) for name in own)
    if trains != "calibrator":
        assert own.keys() == {name for name in parent if name.startswith(tuple(parts))}
        assert any(not torch.equal(own[name], parent[name]) for name in own)
    model, _ = load_model(tmp_path / "calibrate", backbones)
    assert (model.calibrator is not None) == (trains == "calibrator")
    weights = dict(model.named_parameters())
    for name, value in (parent | own).items():
        if "lora_" not in name:  # merged
            assert torch.equal(weights[name], value), name


def test_a_parent_sees_the_contexts_that_it_is_given(
    phase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = changed(parameters(gate_inputs="none"), "parent", contexts=["mw"])
    phase("warmup", params, None)
    seen = set()
    batches = Examples.batch

    def noting(self: Examples, rows, *arguments, **more):
        seen.update(self.table.row(int(row))["context"] for row in rows)
        return batches(self, rows, *arguments, **more)

    monkeypatch.setattr(Examples, "batch", noting)
    logged = phase("parent", params, "warmup")
    assert seen == {"mw"}
    scores = {key for _, values in logged for key in values if key.startswith("validation/")}
    assert scores == {"validation/mw", "validation/mean"}
    with pytest.raises(ConfigError, match=r"parent.contexts has mn, but corpus.contexts does not"):
        values = params.model_dump()
        values["corpus"]["contexts"] = ["sn", "mw"]
        validated(
            values | {"parent": values["parent"] | {"contexts": ["sn", "mn"]}}, "params", Params
        )


@pytest.mark.parametrize(("group", "key", "value", "words"), listed_cases(__file__, "other starts"))
def test_a_start_that_does_not_fit_is_refused(
    phase, tmp_path: Path, group, key, value, words: str
) -> None:
    phase("warmup", parameters(), None)
    phase("parent", parameters(), "warmup")
    record = json.loads((tmp_path / "parent/config.json").read_text())
    record[group][key] = record[group][key] | value if isinstance(value, dict) else value
    (tmp_path / "parent/config.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match=words):
        phase("parent", changed(parameters(), "train", seed=1), "parent")


def test_a_parent_goes_on_from_a_finished_model(
    phase, inputs: dict[str, Path], tmp_path: Path
) -> None:
    params = parameters()
    for name, start in ALL:
        phase(name, params, start)
    record = read_record(tmp_path / "parent")
    begun, finished = (
        run.starting_model(
            record, params, run.Inputs(**inputs, start=tmp_path / start), torch.float32
        ).state_dict()
        for start in ("calibrate", "parent")
    )
    assert begun.keys() == finished.keys() and all(
        torch.equal(begun[name], finished[name]) for name in begun
    )
    seeds = (changed(params, "train", seed=seed) for seed in (1, 2))
    fresh = (
        run.starting_model(record, other, run.Inputs(**inputs), torch.float32) for other in seeds
    )
    assert not torch.equal(*(next(model.interface.parameters()) for model in fresh))


def test_half_precision_runs_through_all_phases(
    phase, backbones: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    params = changed(parameters(), "train", precision="bfloat16")
    AcceleratorState._reset_state()
    try:
        curves = [phase(name, params, start) for name, start in ALL]
        assert "was trained in" not in capsys.readouterr().out
        AcceleratorState._reset_state()
        phase("calibrate", changed(params, "train", precision="float32"), "parent")
        told = (
            f"calibrate: precision is float32, but {tmp_path / 'parent'} was trained in "
            "bfloat16 (train.precision)"
        )
        assert capsys.readouterr().out.count(told) == 1
        AcceleratorState._reset_state()
        phase("calibrate", params, "parent")
    finally:
        AcceleratorState._reset_state()
    assert [[step for step, _ in curve] for curve in curves] == [[1, 2]] * 3
    assert all(0 < values["loss"] < 20 for curve in curves for _, values in curve)
    assert not list(tmp_path.glob("*.scratch"))
    assert {
        read_record(tmp_path / name).precision for name in ("warmup", "parent", "calibrate")
    } == {"bfloat16"}
    model, record = load_model(tmp_path / "calibrate", backbones)
    assert record.parent is not None and record.parent.path == "../parent" and record.step == 2
    assert {
        p.dtype
        for n, p in model.named_parameters()
        if n.startswith(("router.", "interface.", "calibrator."))
    } == {torch.float32}
    assert {p.dtype for n, p in model.language.named_parameters() if "lora_" not in n} == {
        torch.bfloat16
    }


@pytest.mark.parametrize(("available", "supported"), [(True, True), (True, False), (False, True)])
def test_auto_is_bfloat16_on_a_gpu_that_has_it(
    available: bool, supported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: supported)
    assert run.mixed_precision("auto") == ("bf16" if available and supported else "no")
    assert run.mixed_precision("float32") == "no"
    assert run.mixed_precision("bfloat16") == "bf16"


def test_a_phase_without_training_records_is_refused(
    phase, records: pl.DataFrame, tmp_path: Path
) -> None:
    only = records.with_columns(split=pl.lit("val"))
    write_table(tmp_path / "corpus" / "records.parquet", only, RECORD_SCHEMA)
    with pytest.raises(
        DataError, match="warmup needs training records in contexts sn, but the corpus has none"
    ):
        phase("warmup", parameters(), None)


def test_what_does_not_matter_does_not_start_anew(
    phase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings that change no weight, and those of other stages, keep the state of a stopped
    run."""

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "train", interrupted)

    def folders(params: Params) -> set[str]:
        with pytest.raises(KeyboardInterrupt):
            phase("parent", params, None)
        return {path.name for path in (tmp_path / "parent.scratch").iterdir() if path.is_dir()}

    params = parameters()
    first = folders(params)
    other = changed(
        params, "train", workers=3, state_interval=7, log_interval=9, checkpointing="on"
    )
    assert folders(changed(other, "features", workers=5, batch_size=3)) == first and len(first) == 1
    less = folders(changed(params, "train", lambda_tlw=0.1))
    assert less != first and len(less) == 1


@pytest.mark.parametrize("phase", killed.PHASES)
def test_killed_in_an_update_and_in_the_write_of_a_state(
    phase: str, setting: killed.Setting
) -> None:
    task = setting.task(f"{phase}-killed", phase)
    killed.put_older(task)
    setting.kill((task, killed.STEP, 3))  # the third update's state is there
    setting.kill((task, killed.HALF_STATE, 0))
    setting.server.finish(task)
    assert killed.steps(task) == killed.UPDATES - 3
    killed.assert_like(task, setting.reference(phase))


def test_a_damaged_state_is_named(setting: killed.Setting) -> None:
    task = setting.task("parent-damaged", "parent")
    setting.kill((task, killed.STEP, 4))
    [path] = killed.scratch(task).rglob("state.pt")
    whole = path.read_bytes()
    for content in (b"", b"not a state", whole[: len(whole) // 2]):
        path.write_bytes(content)
        ((code, output),) = setting.server.run(task)
        assert code == 1 and f"error: {path} is damaged or was saved by a different" in output
        assert path.read_bytes() == content
    path.unlink()
    setting.server.finish(task)
    killed.assert_like(task, setting.reference("parent"))


def test_other_parameters_start_anew(setting: killed.Setting) -> None:
    params = drive.parameters(MODEL, train={"lambda_tlw": 0.5})
    fresh, task = (
        setting.task("parent-fresh", "parent", params),
        setting.task("parent-changed", "parent", params),
    )
    setting.kill((setting.task("parent-changed", "parent"), killed.STEP, 4))
    setting.server.finish(task, fresh)
    assert killed.steps(task) == killed.UPDATES and drive.weights(task) == drive.weights(fresh)
    assert drive.weights(fresh) != setting.reference("parent").weights


#: A point at which the signal arrives, for which time it is met, and the updates that are left. The
#: loop asks for it between an update and the write of its state.
MOMENTS = [
    (killed.STEP, 0, killed.UPDATES - 1),
    (killed.STEP, 2, killed.UPDATES - 3),  # the third update ends, and its validation waits
    ("validate", 0, killed.UPDATES - 4),  # the validation ends, and one more update
    (killed.HALF_STATE, 0, killed.UPDATES - 3),
    (killed.STEP, killed.UPDATES - 1, 0),
    ("validate", 1, 0),
]


@pytest.mark.parametrize(("phase", "sent"), [("parent", signal.SIGTERM)])
def test_a_stop_loses_no_update_and_changes_no_byte(
    phase: str, sent: signal.Signals, setting: killed.Setting
) -> None:
    for place, (point, number, left) in enumerate(MOMENTS):
        task = setting.task(f"{phase}-{sent.name}-{place}", phase)
        ((code, output),) = setting.server.run(
            killed.stopped(task, point, number, signal=sent.name)
        )
        assert code == 128 + sent and (killed.scratch(task) / "lock").exists(), output
        setting.server.finish(task)
        assert killed.steps(task) == left, (point, number)
        killed.assert_like(task, setting.reference(phase))
