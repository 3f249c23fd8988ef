"""What a phase will do is known beforehand, and is what it then does."""

from __future__ import annotations

from itertools import islice

import numpy as np
import polars as pl
import pytest

from pacer.training.phases import phase_of
from pacer.training.sampler import Sampler
from tests.support.training import parameters, record_table


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("name", ["warmup", "parent", "calibrate"])
def test_measured_lengths_are_those_of_the_batches(name: str, window: int, setting) -> None:
    params = parameters(batches={"window": window}, parent={"rho_start": 0.5})
    _, examples = setting(name)
    sampler = Sampler(phase_of(name, params), examples)
    routes = set()
    for micro, rho in islice(sampler.from_update(0), 12):
        commits = examples.routes(micro.rows, micro.visits, rho, sampler.route_seed)
        batch = examples.drawn(micro, rho, sampler.route_seed, 0.35)
        assert batch.length.tolist() == examples.lengths[micro.rows, np.array(commits, dtype=int)].tolist()
        routes |= set(commits)
    assert routes == ({False} if name == "warmup" else {False, True})


def test_long_reports_and_histories_are_measured_as_they_are_cut(setting, records, anchors) -> None:
    _, examples = setting("parent")
    long = records.with_columns(report=pl.lit("no edema . " * 60), history=pl.lit("fever " * 90))
    examples.table = record_table(long, anchors)
    for commit in (False, True):
        batch = examples.batch([0, 9, 18], [commit] * 3, 0.35)
        assert batch.length.tolist() == examples.lengths[[0, 9, 18], int(commit)].tolist()


def test_the_survey_tokenises_texts_in_batches_and_each_once(setting) -> None:
    _, examples = setting("parent")
    asked: list[list[str]] = []
    real = examples.tokenizer.tokenizer

    def counting(texts, **named):
        asked.append([texts] if isinstance(texts, str) else list(texts))
        return real(texts, **named)

    examples.tokenizer.tokenizer = counting
    counts, lengths = examples.statistics()
    examples.tokenizer.tokenizer = real
    assert len(asked) == 1 and len(set(asked[0])) == len(asked[0])
    rows = np.arange(len(examples.table))
    for commit in (False, True):
        batch = examples.batch(rows, [commit] * len(rows), 0.35)
        assert batch.length.tolist() == lengths[:, int(commit)].tolist()
    assert counts["targets/reports"] == 24


def test_the_shares_of_real_tokens_are_those_of_an_epoch(setting) -> None:
    params = parameters(batches={"window": 6})
    _, examples = setting("parent")
    sampler = Sampler(phase_of("parent", params), examples)
    real = padded = 0
    for micro, rho in islice(sampler.from_update(0), sampler.order.micro_batches_per_epoch):
        batch = examples.drawn(micro, rho, sampler.route_seed, 0.35)
        real, padded = real + int(batch.length.sum()), padded + batch.ids.numel()
    shares = sampler.padding_efficiency()
    assert shares["batches/real_share"] == pytest.approx(real / padded)
    assert shares["batches/published_real_share"] < shares["batches/real_share"] < 1


@pytest.mark.parametrize("name", ["warmup", "parent", "calibrate"])
def test_records_with_a_positive_finding_are_drawn_more_often(name: str, setting) -> None:
    _, examples = setting(name)
    sampler = Sampler(phase_of(name, parameters(batches={"positive_repeats": 4})), examples)
    for context, rows in examples.table.rows("train", sampler.phase.contexts).items():
        times = dict(zip(*np.unique(sampler.order.rows[context], return_counts=True), strict=True))
        affirms = {int(row): bool(examples.table.row(int(row)).get("positive")) for row in rows}
        assert any(affirms.values()) == (name != "warmup")  # the warm-up reads no commitments
        assert times == {row: 4 if positive else 1 for row, positive in affirms.items()}
