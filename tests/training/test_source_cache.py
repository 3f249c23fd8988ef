"""Compressed sources kept on disk: the same training, fewer bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from pacer.core.errors import DataError, PacerError
from pacer.training import loop, source_cache
from pacer.training.phases import phase_of
from pacer.training.plan import Plan, Visits
from pacer.training.source_cache import open_source_cache
from tests.training.conftest import parameters


def frozen_parent(setting):
    """A model whose parts all differ from their initialisation, in the state that Calibrate begins in."""
    model, examples = setting("calibrate")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and not name.startswith("calibrator."):
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.merge_lora()
    return model.requires_grad_(False), examples


def all_visits(examples) -> Visits:
    return Visits(np.arange(len(examples.table)), np.full(len(examples.table), 3))


def test_what_is_read_is_what_the_parent_compresses(setting, accelerator, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(source_cache, "_BLOCK", 5)
    monkeypatch.setattr(source_cache, "_BATCH", 2)
    model, examples = frozen_parent(setting)
    cache = open_source_cache("on", all_visits(examples), model, examples, accelerator, tmp_path, 0)
    assert cache is not None
    rows = [27, 0, 9, 18, 9, 31]
    batch = examples.batch(rows, [True] * 6, 0.35)
    with torch.no_grad():
        expected = model.compress(batch).tokens
    found = cache.read(rows)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    absent = torch.tensor([[True, *pair] for pair in batch.availability.tolist()]).logical_not()
    assert not found[absent].any() and found[~absent].any(-1).all()
    assert sum(f.stat().st_size for f in tmp_path.glob("*.safetensors")) == pytest.approx(cache.nbytes, rel=0.5)


@pytest.mark.slow
def test_a_run_with_it_is_the_run_without(setting, accelerator, tmp_path: Path) -> None:
    params = parameters(calibrate={"learning_rate": 0.01, "dropout": 0.3})
    phase = phase_of("calibrate", params)

    def run(switch: str) -> tuple[dict, list]:
        model, examples = frozen_parent(setting)
        visits = Plan(phase, examples).visits()
        folder = tmp_path / switch
        examples.compressed = open_source_cache(switch, visits, model, examples, accelerator, folder / "sources", 0)
        assert (examples.compressed is None) is (switch == "off")
        if examples.compressed is not None:
            examples.features = None  # nothing is read from the store any more
        logged: list = []
        weights = loop.train(
            model,
            examples,
            phase,
            accelerator,
            folder,
            lambda v, s: logged.append([v["loss"], v["loss_consistency"], v["loss_drift"]]),
        )
        return weights, logged

    (tmp_path / "off").mkdir()
    plain, curve = run("off")
    cached, cached_curve = run("on")
    np.testing.assert_allclose(cached_curve, curve, rtol=1e-5, atol=1e-8)
    for name, weight in plain.items():
        torch.testing.assert_close(cached[name], weight, rtol=1e-4, atol=1e-5, msg=name)


def test_a_stopped_filling_goes_on_at_the_next_file(setting, accelerator, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(source_cache, "_BLOCK", 4)
    model, examples = frozen_parent(setting)
    open_source_cache("on", all_visits(examples), model, examples, accelerator, tmp_path, 0)
    files = sorted(tmp_path.glob("*.safetensors"))
    whole = {file.name: file.read_bytes() for file in files}
    assert len(files) == 8
    for file in files[3:]:
        file.unlink()
    before = [file.stat().st_mtime_ns for file in files[:3]]
    open_source_cache("on", all_visits(examples), model, examples, accelerator, tmp_path, 0)
    assert {file.name: file.read_bytes() for file in tmp_path.glob("*.safetensors")} == whole
    assert [file.stat().st_mtime_ns for file in files[:3]] == before


@pytest.mark.parametrize(("visits", "used"), [(1, False), (50, True)])
def test_auto_uses_it_where_fewer_bytes_move(
    visits: int, used: bool, setting, accelerator, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    model, examples = frozen_parent(setting)
    rows = np.arange(len(examples.table))
    cache = open_source_cache(
        "auto", Visits(rows, np.full(len(rows), visits)), model, examples, accelerator, tmp_path, 0
    )
    assert (cache is not None) is used
    assert ("not used" in capsys.readouterr().out) is not used
    assert any(tmp_path.glob("*.safetensors")) is used


def test_a_full_disk_turns_auto_off_and_refuses_on(
    setting, accelerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    model, examples = frozen_parent(setting)
    usage = source_cache.shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(source_cache.shutil, "disk_usage", lambda path: usage)
    visits = Visits(np.arange(32), np.full(32, 50))
    assert open_source_cache("auto", visits, model, examples, accelerator, tmp_path / "auto", 0) is None
    assert "no room on the disk" in capsys.readouterr().out
    with pytest.raises(PacerError, match=r"no room for it: free some, or set calibrate\.source_cache: off"):
        open_source_cache("on", visits, model, examples, accelerator, tmp_path / "on", 0)
    monkeypatch.undo()  # a run that goes on after a stop does as it did before
    assert open_source_cache("auto", visits, model, examples, accelerator, tmp_path / "auto", 0) is None


def test_a_damaged_file_is_named(setting, accelerator, tmp_path: Path) -> None:
    model, examples = frozen_parent(setting)
    cache = open_source_cache("on", all_visits(examples), model, examples, accelerator, tmp_path, 0)
    assert cache is not None
    cache.path(0).write_bytes(cache.path(0).read_bytes()[:100])
    with pytest.raises(DataError, match=r"sources-000000.safetensors cannot be read .*; remove .* and start again"):
        cache.read([0])


def test_a_row_that_was_not_planned_is_not_answered_with_another(setting, accelerator, tmp_path: Path) -> None:
    model, examples = frozen_parent(setting)
    visits = Visits(np.array([1, 4, 9]), np.array([9, 9, 9]))
    cache = open_source_cache("on", visits, model, examples, accelerator, tmp_path, 0)
    assert cache is not None
    for row in (0, 3, 30):
        with pytest.raises(KeyError, match=str(row)):
            cache.read([4, row])
