"""What a phase will do is known beforehand, and is what it then does."""

from itertools import islice

import numpy as np
import pytest

from pacer.training.phases import phase_of
from pacer.training.sampler import Sampler
from tests.support.training import parameters


@pytest.mark.parametrize("name", ["warmup", "parent", "calibrate"])
def test_measured_lengths_are_those_of_the_batches(name: str, setting) -> None:
    _, examples = setting(name)
    sampler = Sampler(phase_of(name, parameters(batches={"window": 3}, parent={"rho_start": 0.5})), examples)
    routes = set()
    for micro, rho in islice(sampler.from_update(0), 12):
        commits = examples.routes(micro.rows, micro.visits, rho, sampler.route_seed)
        batch = examples.drawn(micro, rho, sampler.route_seed, 0.35)
        asked = examples.lengths(micro.rows)
        assert batch.length.tolist() == asked[np.arange(len(asked)), np.array(commits, dtype=int)].tolist()
        routes |= set(commits)
    assert routes == ({False} if name == "warmup" else {False, True})


def test_a_record_is_measured_once_and_only_if_its_window_is_needed(setting) -> None:
    _, examples = setting("parent")
    measured: list[tuple[str, bool]] = []
    build = examples._sequence
    examples._sequence = lambda record, commit: measured.append((record["record_id"], commit)) or build(record, commit)
    sampler = Sampler(phase_of("parent", parameters(batches={"window": 2})), examples)
    late = next(sampler.from_update(5))[0]  # the last window of its epoch
    assert len(measured) < 2 * 24
    whole = [micro for micro, _ in islice(sampler.from_update(0), 2 * sampler.order.micro_batches_per_epoch)]
    assert whole[5 * sampler.phase.schedule.accumulation].rows.tolist() == late.rows.tolist()
    assert len(measured) == len(set(measured)) == 2 * 24


def test_windows_are_sorted_by_the_lengths_that_the_batches_then_have(setting) -> None:
    """With the visits' own routes, and the rho of the window's middle, which is that of all its batches here."""
    _, examples = setting("parent")
    route = {"rho_start": 0.3, "rho_end": 0.3}
    sampler = Sampler(phase_of("parent", parameters(batches={"window": 50}, parent=route)), examples)
    epoch = islice(sampler.from_update(0), sampler.order.micro_batches_per_epoch)
    drawn = [examples.drawn(micro, rho, sampler.route_seed, 0.35).length.tolist() for micro, rho in epoch]
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
