"""The validation loss is one number per context, whatever the batches and processes it is computed in."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from pacer.training.loop import validate
from pacer.training.losses import objective
from pacer.training.phases import phase_of
from tests.support.training import parameters


@pytest.mark.parametrize("name", ["warmup", "parent", "calibrate"])
def test_it_is_the_objective_of_the_whole_context_as_one_batch(name: str, setting, accelerator) -> None:
    model, examples = setting(name)
    for size in (1, 2):
        params = parameters(**{name: {"batch_size": size}})
        phase = phase_of(name, params)
        losses = validate(model, examples, phase, accelerator)
        expected = {}
        with torch.no_grad():
            for context, rows in examples.table.rows("val", phase.contexts).items():
                if len(rows):
                    batch = examples.batch(rows, [name != "warmup"] * len(rows), phase.losses.lambda_q)
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
    assert asked == [int(rows[0]) for rows in examples.table.rows("val", ("sn", "sw", "mn", "mw")).values()]


@pytest.mark.parametrize(("processes", "largest"), [(1, 2), (2, 1)])
def test_a_process_validates_in_batches_of_its_share(processes: int, largest: int, setting, accelerator) -> None:
    model, examples = setting("parent")
    sizes: list[int] = []
    batch = examples.batch
    examples.batch = lambda rows, *others: sizes.append(len(rows)) or batch(rows, *others)
    several = SimpleNamespace(
        process_index=0, num_processes=processes, device=accelerator.device, reduce=accelerator.reduce
    )
    validate(model, examples, phase_of("parent", parameters(parent={"batch_size": 2})), several)
    assert max(sizes) == largest and sum(sizes) == 8 // processes
