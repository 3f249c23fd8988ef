from __future__ import annotations

from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacer.training.batches import epoch_micro_batches, micro_batches
from pacer.training.schedule import direct_probability, learning_rate_factor

SIZES = {"sn": 50, "sw": 20, "mn": 7, "mw": 0}


def rows(sizes: dict[str, int]) -> dict[str, np.ndarray]:
    starts = np.cumsum([0, *sizes.values()])
    return {c: np.arange(starts[i], starts[i + 1]) for i, c in enumerate(sizes)}


def epoch(sizes: dict[str, int], window: int = 1, mix: bool = False, batch_size: int = 8, number: int = 0) -> list:
    lengths = np.random.default_rng(0).integers(10, 100, sum(sizes.values()))
    return epoch_micro_batches(rows(sizes), lengths, batch_size=batch_size, window=window, mix=mix, seed=1,
                               phase="parent", epoch=number)


def test_the_papers_epoch_has_43152_micro_batches() -> None:
    paper = {"sn": 172_608, "sw": 112_776, "mn": 91_341, "mw": 47_686}
    batches = epoch(paper, batch_size=16)
    assert len(batches) == 43_152  # two such epochs at accumulation 2 are the parent's 43,152 updates
    assert {len(batch) for batch in batches} == {16}


def test_rounds_in_the_published_order_with_small_contexts_recycled() -> None:
    batches, own = epoch(SIZES), rows(SIZES)
    assert len(batches) == 7 * 3
    for i, batch in enumerate(batches):
        assert set(batch) <= set(own[("sn", "sw", "mn")[i % 3]])
    seen = Counter(np.concatenate(batches).tolist())
    assert all(seen[r] >= 1 for context in ("sn", "sw", "mn") for r in own[context])
    assert max(seen[r] for r in own["mn"]) - min(seen[r] for r in own["mn"]) <= 1


@settings(max_examples=30)
@given(window=st.integers(1, 9), mix=st.booleans(), number=st.integers(0, 3))
def test_windows_and_mixing_keep_the_records(window: int, mix: bool, number: int) -> None:
    plain = Counter(np.concatenate(epoch(SIZES, number=number)).tolist())
    assert Counter(np.concatenate(epoch(SIZES, window, mix, number=number)).tolist()) == plain


def test_windows_bring_similar_lengths_together() -> None:
    lengths = np.random.default_rng(0).integers(10, 100, 400)

    def padding(window: int) -> float:
        batches = epoch_micro_batches({"sn": np.arange(400)}, lengths, batch_size=8, window=window, mix=False, seed=1,
                                      phase="p", epoch=0)
        return sum(lengths[b].sum() for b in batches) / sum(lengths[b].max() * len(b) for b in batches)

    assert padding(8) > 0.9 > padding(1)


def test_a_later_start_continues_the_same_stream() -> None:
    lengths = np.arange(77)
    settings_ = {"batch_size": 8, "window": 2, "mix": False, "seed": 1, "phase": "parent"}
    whole = list(islice(micro_batches(rows(SIZES), lengths, **settings_), 60))
    late = list(islice(micro_batches(rows(SIZES), lengths, **settings_, start=25), 35))
    for a, b in zip(whole[25:], late, strict=True):
        assert a.rows.tolist() == b.rows.tolist() and a.visits.tolist() == b.visits.tolist()


def test_visits_count_how_often_a_record_was_met() -> None:
    met: Counter = Counter()
    stream = micro_batches(rows(SIZES), np.arange(77), batch_size=8, window=1, mix=False, seed=1, phase="parent")
    for batch in islice(stream, 60):
        for row, visit in zip(batch.rows.tolist(), batch.visits.tolist(), strict=True):
            assert visit == met[row]
            met[row] += 1


def test_no_records_at_all_is_an_error() -> None:
    with pytest.raises(ValueError, match="no context"):
        epoch({"sn": 0})


def test_schedules() -> None:
    assert [learning_rate_factor(u, 100, 10) for u in (0, 4, 9)] == pytest.approx([0.1, 0.5, 1.0])
    assert learning_rate_factor(10, 100, 10) == 1.0 and learning_rate_factor(99, 100, 10) < 0.01
    assert learning_rate_factor(55, 100, 10) == pytest.approx(0.5)
    assert [direct_probability(u, 0.1, 0.5, 100) for u in (0, 50, 100, 999)] == pytest.approx([0.1, 0.3, 0.5, 0.5])
