"""The table of systems, and all pairs of systems."""

from pathlib import Path

import polars as pl
import pytest

import pacer
from pacer.metrics.scores import scores_at
from pacer.reporting.systems import (
    compare_pairs,
    pair_rows,
    pair_table,
    read_system,
    system_rows,
    system_table,
    write_table,
)
from pacer.statistics.halves import Interval, Intervals, holm

TEXTS = ["effusion .", "no edema .", "left effusion , no edema .", "heart is normal ."] * 6
NAMES = ("good", "fair", "poor")


def systems(**values: dict[str, dict[str, Interval]]) -> dict[str, Intervals]:
    return {name: Intervals(scores, "subject", 30, 100) for name, scores in values.items()}


def test_a_system_is_a_row_with_its_intervals_below() -> None:
    two = systems(
        a={"all": {"bleu4": Interval(0.5, 0.4512, 0.5488), "cider": Interval(1.25, None, None)}},
        b={"all": {"bleu4": Interval(0.25, 0.2, 0.3), "repetition": Interval(0.1, 0.0, 0.2)}},
    )
    table = system_table(two)
    assert table.columns == ("System", "BLEU-4", "CIDEr")
    assert table.rows == (
        ("a", "0.500", "1.250"),
        ("95% interval", "0.45–0.55", ""),
        ("b", "0.250", "–"),
        ("95% interval", "0.20–0.30", ""),
    )
    assert table.bold == {(0, 1)}
    rows = system_rows(two)
    assert rows.columns[:4] == ["system", "bleu4", "bleu4_low", "bleu4_high"]
    assert rows["cider"].to_list() == [1.25, None] and rows["bleu4_high"][1] == 0.3


def test_the_table_has_means_and_its_rows_every_context() -> None:
    scores = {name: {"rougeL": Interval(value, None, None)} for name, value in MEANS.items()}
    two = systems(a=scores, b=scores)
    table, rows = system_table(two), system_rows(two)
    assert [row[1] for row in table.rows[::2]] == ["0.300"] * 2 and not table.bold
    assert "Means over the contexts SN, MW" in table.notes[1]
    assert rows.select("context", "system", "rougeL").rows() == [
        (context, system, value) for context, value in MEANS.items() for system in "ab"
    ]


MEANS = {"sn": 0.2, "mw": 0.4, "mean": 0.3}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three systems: a copy, one that misses findings, and one that has no words in common."""
    folder = tmp_path_factory.mktemp("scored")
    reports = (TEXTS, [text.replace("left", "right") for text in TEXTS], ["edema"] * len(TEXTS))
    for name, texts in zip(NAMES, reports, strict=True):
        pacer.score(TEXTS, texts, without=["meteor"], out=folder / name)
    return {name: folder / name for name in NAMES}


def test_scores_of_a_folder_have_its_values(places: dict[str, Path]) -> None:
    scored = pacer.Scores.read(places["fair"])
    found = read_system(places["fair"], None).scores["all"]
    assert {key: one.value for key, one in found.items()} == pytest.approx(
        {key: scored.scores["all"][key] for key in found}
    )
    main = [score.key for score in scores_at("scores") if score.key in scored.scores["all"]]
    assert [key for key in found if key in main] == [key for key in main if key != "n"]


def test_all_pairs_are_compared(places: dict[str, Path], tmp_path: Path) -> None:
    pairs = compare_pairs(places, None)
    assert list(pairs) == [("good", "fair"), ("good", "poor"), ("fair", "poor")]
    rows = pair_rows(pairs)
    assert "context" not in rows.columns and rows["p_holm"].to_list() == holm(rows["p"].to_list())
    [one] = rows.filter(score="report_positive_f1", first="fair", second="poor").to_dicts()
    alone = pacer.compare(places["fair"], places["poor"]).scores["all"]["report_positive_f1"]
    assert (one["difference"], one["low"], one["p"]) == (alone.difference, alone.low, alone.p)
    table = pair_table(pairs, "24 records")
    assert len(table.rows) == len(rows)
    assert [row[1] for row in table.rows[:3]] == ["fair − good", "poor − good", "poor − fair"]
    write_table(tmp_path / "v1.0", table, rows)
    assert pl.read_csv(tmp_path / "v1.0.csv").height == len(rows)
    assert {path.name for path in tmp_path.iterdir()} == {f"v1.0.{s}" for s in ("md", "tex", "csv")}
