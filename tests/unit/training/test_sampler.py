"""The order of records and the learning rate; and batches made ahead, which are the same
batches."""

import threading
from collections import Counter
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import get_cosine_schedule_with_warmup

from pacer.core.errors import DataError
from pacer.core.processes import prefetch
from pacer.model.batch import TrainingBatch
from pacer.training.loop import _Run
from pacer.training.phases import DirectProbability, phase_of
from pacer.training.sampler import Lengths, Order, Sampler, Visits, micro_batches
from tests.support.profiles import profile
from tests.support.training import parameters

SIZES = {"sn": 50, "sw": 20, "mn": 7, "mw": 0}


def rows(sizes: dict[str, int]) -> dict[str, np.ndarray]:
    starts = np.cumsum([0, *sizes.values()])
    return {c: np.arange(starts[i], starts[i + 1]) for i, c in enumerate(sizes)}


def by_table(lengths: np.ndarray):
    """Lengths that depend on the record alone."""
    return lambda rows, visits, number: lengths[rows]


def order(sizes: dict[str, int], window: int = 1, mix: bool = False, batch_size: int = 8) -> Order:
    return Order(rows(sizes), batch_size, window, mix, seed=1, phase="parent")


def sampled(order: Order, lengths: Lengths, count: int, start: int = 0) -> list[Visits]:
    return list(islice(micro_batches(order, lengths, start=start), count))


def epoch(
    sizes: dict[str, int], window: int = 1, mix: bool = False, batch_size: int = 8, number: int = 0
) -> list[Visits]:
    lengths = np.random.default_rng(0).integers(10, 100, sum(sizes.values()))
    own = order(sizes, window, mix, batch_size)
    start = number * own.micro_batches_per_epoch
    return sampled(own, by_table(lengths), own.micro_batches_per_epoch, start)


PAPER = {"sn": 172_608, "sw": 112_776, "mn": 91_341, "mw": 47_686}


@pytest.mark.parametrize(
    ("phase", "updates", "contexts", "epochs"),
    [
        ("warmup", 14_384, ["sn"], 4),
        ("parent", 43_152, list(PAPER), 2),
        ("calibrate", 21_576, list(PAPER), 1),
    ],
)
def test_the_papers_updates_are_whole_epochs(
    phase: str, updates: int, contexts: list[str], epochs: int
) -> None:
    own = getattr(profile("mimic_rg4"), phase)
    per_epoch = order(
        {c: PAPER[c] for c in contexts}, batch_size=own.batch_size
    ).micro_batches_per_epoch
    assert own.updates == updates and updates * own.accumulation == epochs * per_epoch
    assert own.warmup_updates == per_epoch // own.accumulation // 10  # a tenth of one epoch


def test_rounds_in_the_published_order_with_small_contexts_recycled() -> None:
    batches, own = [batch.rows for batch in epoch(SIZES)], rows(SIZES)
    assert len(batches) == 7 * 3
    for i, batch in enumerate(batches):
        assert set(batch) <= set(own[("sn", "sw", "mn")[i % 3]])
    seen = Counter(np.concatenate(batches).tolist())
    assert all(seen[r] >= 1 for context in ("sn", "sw", "mn") for r in own[context])
    assert max(seen[r] for r in own["mn"]) - min(seen[r] for r in own["mn"]) <= 1


def test_another_seed_or_phase_is_another_order() -> None:
    def drawn(**changes: object) -> list[int]:
        own = replace(order(SIZES), **changes)
        lengths = by_table(np.ones(sum(SIZES.values())))
        batches = sampled(own, lengths, own.micro_batches_per_epoch)
        return [int(row) for batch in batches for row in batch.rows]

    assert drawn() == drawn()
    assert drawn() != drawn(seed=2) and drawn() != drawn(phase="calibrate")


def visit_counts(batches: list[Visits]) -> Counter:
    return Counter(
        (int(row), int(visit)) for b in batches for row, visit in zip(b.rows, b.visits, strict=True)
    )


@given(window=st.integers(1, 9), mix=st.booleans(), number=st.integers(0, 3))
def test_windows_and_mixing_keep_the_records_and_their_visits(
    window: int, mix: bool, number: int
) -> None:
    assert visit_counts(epoch(SIZES, window, mix, number=number)) == visit_counts(
        epoch(SIZES, number=number)
    )


def test_mixed_batches_hold_several_contexts() -> None:
    own = rows(SIZES)
    held = [
        sum(bool(set(batch.rows) & set(own[c])) for c in own) for batch in epoch(SIZES, mix=True)
    ]
    assert np.mean(held) > 2


def test_a_window_asks_for_lengths_with_the_visits_of_its_records() -> None:
    asked: Counter = Counter()

    def lengths(rows: np.ndarray, visits: np.ndarray, number: int) -> np.ndarray:
        asked.update(visit_counts([Visits(rows, visits)]))
        return rows

    own = order(SIZES, window=2)
    assert visit_counts(sampled(own, lengths, own.micro_batches_per_epoch)) == asked


@pytest.mark.parametrize("start", [0, 1, 20, 21, 25, 45])
@pytest.mark.parametrize("mix", [False, True])
def test_a_later_start_continues_the_same_stream(start: int, mix: bool) -> None:
    own, lengths = order(SIZES, 2, mix), by_table(np.arange(77))
    whole, late = sampled(own, lengths, 60), sampled(own, lengths, 60 - start, start)
    for a, b in zip(whole[start:], late, strict=True):
        assert a.rows.tolist() == b.rows.tolist() and a.visits.tolist() == b.visits.tolist()


def test_visits_count_how_often_a_record_was_met() -> None:
    known: Counter = Counter()
    for batch in sampled(order(SIZES), by_table(np.arange(77)), 60):
        for row, visit in zip(batch.rows.tolist(), batch.visits.tolist(), strict=True):
            assert visit == known[row]
            known[row] += 1


@pytest.mark.parametrize("rise", [0, 1, 10, 100, 150])
def test_the_learning_rate_is_that_of_transformers(rise: int) -> None:
    rate = phase_of(
        "parent", parameters(parent={"learning_rate": 2.0, "updates": 100, "warmup_updates": rise})
    ).learning_rate
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    schedule = get_cosine_schedule_with_warmup(optimizer, rise, 100)
    for update in range(100):
        assert rate(update) == pytest.approx(
            optimizer.param_groups[0]["lr"], rel=1e-12, abs=1e-15
        ), update
        optimizer.step()
        schedule.step()


def test_the_share_of_direct_reports_rises() -> None:
    rho = DirectProbability(0.1, 0.5, rise=100)
    assert [rho(u) for u in (0, 50, 100, 999)] == pytest.approx([0.1, 0.3, 0.5, 0.5])


def tensors(batch: TrainingBatch) -> dict[str, torch.Tensor]:
    """All that the batch holds, by name."""
    return {name: value for name, value in vars(batch).items() if isinstance(value, torch.Tensor)}


def test_for_a_gpu_batches_wait_in_page_locked_memory(
    setting, device_accelerator, device: torch.device
) -> None:
    model, examples = setting("parent")
    phase = phase_of("parent", parameters(train={"workers": 2}))
    run = _Run(model, examples, phase, device_accelerator())
    sampler = Sampler(phase, examples)
    for (_, batch), micro in islice(zip(run.stream(0), sampler.from_update(0)), 8):
        moved = batch.to(device)
        expected = examples.training_batch(micro, phase.losses.lambda_q)
        for name, own in tensors(expected).items():
            waiting, arrived = tensors(batch)[name], tensors(moved)[name]
            assert (
                waiting.is_pinned() is (device.type == "cuda")
                and arrived.device.type == device.type
            ), name
            assert torch.equal(arrived.cpu(), own), name


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_an_error_arrives_in_its_place(workers: int) -> None:
    def make(item: int) -> int:
        if item == 3:
            raise DataError("image 3 is not in the store")
        return item

    stream = prefetch(make, range(6), workers)
    assert [next(stream) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(DataError, match="image 3 is not in the store"):
        next(stream)


def test_only_a_few_are_made_ahead_and_none_after_the_end() -> None:
    asked: list[int] = []

    def items():
        for number in range(1000):
            asked.append(number)
            yield number

    before = threading.active_count()
    stream = prefetch(lambda item: item, items(), 2)
    assert [next(stream) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert len(asked) == 8  # five taken, one being made by each of two threads, and one beyond
    stream.close()
    assert threading.active_count() == before
