"""The baselines: parameter files, and pairs of one examination with the published frequencies and
nested sources."""

from collections import Counter
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pacer.config.baselines import load_baseline_params
from pacer.core.errors import DataError
from pacer.extras.baselines.simmlm import PairTable
from pacer.training.examples import RecordTable
from pacer.training.sampler import Order, micro_batches
from tests.support.training import record_table

ALL = ("sn", "sw", "mn", "mw")
PUBLISHED = {
    ("mw", "mn"): Fraction(1, 7),
    ("mw", "sw"): Fraction(1, 7),
    ("mw", "sn"): Fraction(1, 7),
    ("mn", "sn"): Fraction(2, 7),
    ("sw", "sn"): Fraction(2, 7),
}


@pytest.fixture
def table(records: pl.DataFrame, anchors: pl.DataFrame) -> RecordTable:
    # targets differ from context to context
    return record_table(
        records.with_columns(report=pl.col("report") + " " + pl.col("context")), anchors
    )


def test_one_context_has_no_pair(records: pl.DataFrame, anchors: pl.DataFrame) -> None:
    alone = record_table(
        records.filter(pl.col("context") == "sn"),
        anchors.filter(pl.col("record_id").str.starts_with("sn")),
    )
    with pytest.raises(DataError, match="more sources"):
        PairTable(alone)


def test_micro_batches_keep_the_frequencies(table: RecordTable) -> None:
    pairs = PairTable(table)
    order = Order(pairs.rows("train", ALL), 3, 1, False, 42, "simmlm")
    assert order.micro_batches_per_epoch == 7 * 2

    def zeros(rows: np.ndarray, *_: object) -> np.ndarray:
        return np.zeros(len(rows))

    met: Counter = Counter()
    for batch in islice(micro_batches(order, lengths=zeros), 28):
        for row in batch.rows:
            more, fewer, _ = (pairs.row(int(part)) for part in pairs.parts_of(np.array([row])))
            met[more["context"], fewer["context"]] += 1
    assert {pair: Fraction(count, met.total()) for pair, count in met.items()} == PUBLISHED


def test_parts_have_nested_sources_and_the_ranking_compares_one_target(table: RecordTable) -> None:
    pairs = PairTable(table)
    train = {
        table.row(n)["record_id"]: table.row(n)
        for n in range(len(table))
        if table.row(n)["split"] == "train"
    }
    seen = set()
    trained = set()
    for row in np.concatenate(list(pairs.rows("train", ALL).values())):
        numbers = [int(part) for part in pairs.parts_of(np.array([row]))]
        more, fewer, ranked = (pairs.row(number) for number in numbers)
        rich, poor = (train[name] for name in pairs.record_id(int(row)).split(">"))
        assert len({pairs.record_id(number) for number in numbers}) == 1
        assert more == rich
        assert ranked["report"] == fewer["report"] == poor["report"] != rich["report"]
        assert fewer["frontal"] == rich["frontal"]
        sources = ("context", "frontal", "lateral", "prior_report")
        assert [ranked[name] for name in sources] == [rich[name] for name in sources]
        for source in ("lateral", "prior_report"):
            assert fewer[source] is None or fewer[source] == more[source]
        assert (more["context"], fewer["context"]) == (rich["context"], poor["context"])
        seen.add((more["context"], fewer["context"]))
        trained.add((more["context"], more["report"].split()[-1]))
    assert seen == set(PUBLISHED)
    assert trained == {
        (context, context) for context in ("sw", "mn", "mw")
    }  # no context is without its own reports
    assert len(pairs.pairs) == 7 * 6


def test_validation_meets_the_records_themselves(table: RecordTable) -> None:
    pairs = PairTable(table)
    for context, rows in pairs.rows("val", ALL).items():
        np.testing.assert_array_equal(rows, table.rows("val", ALL)[context])
        assert [pairs.row(int(n)) for n in rows] == [table.row(int(n)) for n in rows]


FOLDER = Path(__file__).parents[4] / "baselines"


def test_the_budget_is_the_published_one() -> None:
    params = load_baseline_params(FOLDER / "mimic_rg4.yaml")
    for settings in (params.simmlm, params.ragpt):
        assert (settings.updates, settings.seed, settings.batch_size * settings.accumulation) == (
            20_000,
            42,
            32,
        )


@pytest.mark.parametrize("name", ["phantom", "micro"])
def test_the_other_files_have_every_key(name: str) -> None:
    load_baseline_params(FOLDER / f"{name}.yaml")
