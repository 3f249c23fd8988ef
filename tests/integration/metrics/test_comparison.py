from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import polars as pl
import pytest

from pacer.core.errors import ConfigError, DataError
from pacer.metrics.clinical import clinical_efficacy
from pacer.metrics.commitments import polarity_agreement, states
from pacer.metrics.nlg import language_scores
from pacer.metrics.statistics.comparison import compare, compare_repeats
from pacer.reporting.score_tables import comparison_notes, comparison_table, group_comparison_table
from tests.support.metrics import made_cases


def run(folder, seed: int, quality: float, labeller: str = "a" * 64):
    """A scored run of made cases."""
    cases = made_cases(seed, quality)
    (folder / "metrics").mkdir(parents=True)
    cases.sample(fraction=1.0, shuffle=True, seed=seed).write_parquet(folder / "metrics/cases.parquet")
    (folder / "metrics/signature.json").write_text(
        json.dumps({"clinical": {"labeller": {"files": {"chexbert.pth": labeller}}}})
    )
    return folder


@pytest.fixture
def runs(tmp_path, quick_meteor):
    return run(tmp_path / "a", 1, 0.5), run(tmp_path / "b", 2, 0.9)


def test_scores_are_those_of_the_runs_and_a_difference_is_found(runs):
    found = compare(*runs, resamples=400)
    assert list(found.scores) == ["sn", "mw", "mean"]
    assert (found.unit, found.units, found.records) == ("subject", 12, 48)
    for side, folder in (("first", runs[0]), ("second", runs[1] / "metrics")):
        cases = pl.read_parquet((folder if side == "second" else folder / "metrics") / "cases.parquet")
        means = []
        for context in ("sn", "mw"):
            own = cases.filter(context=context)
            language = language_scores(own)
            expected = {name: language[name] for name in ("bleu4", "rougeL", "meteor")}
            labels = [own[f"{which}_labels"].to_list() for which in ("reference", "hypothesis")]
            expected["f1"] = clinical_efficacy(*labels)["f1"]
            agreed = polarity_agreement(states(own, "reference"), states(own, "report"))
            expected |= {f"report_{name}": agreed[name] for name in ("positive_f1", "negative_f1")}
            told = {name: getattr(value, side) for name, value in found.scores[context].items()}
            assert told == pytest.approx(expected)
            means.append(expected["f1"])
        assert getattr(found.scores["mean"]["f1"], side) == pytest.approx(sum(means) / 2)
    for score in found.scores["mean"].values():
        assert score.p < 0.01 and score.low > 0
    assert not found.left_out and not found.partial
    table = comparison_table(found)
    assert len(table.rows) == 18 and table.columns[-2:] == ("95 % interval", "p")
    assert "12" in comparison_notes(found)[0]
    groups = group_comparison_table(found)
    assert len(groups.rows) == len(found.groups) and groups.rows[0][:2] == ("Previous report", "with")
    json.dumps(asdict(found), allow_nan=False)


def edit(folder, **changes):
    """Change parts of a signature."""
    path = folder / "metrics/signature.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_runs_of_other_labellers_are_refused(tmp_path, runs):
    """Asked before the labels of the references, which differ where another labeller made them."""
    other = run(tmp_path / "c", 2, 0.9, labeller="b" * 64)
    path = other / "metrics/cases.parquet"
    pl.read_parquet(path).with_columns(reference_labels=pl.lit([0] * 14, dtype=pl.List(pl.Int64))).write_parquet(path)
    with pytest.raises(DataError, match="have different or unrecorded labellers or arithmetic"):
        compare(runs[0], other)
    for folder, arithmetic in zip(runs, ("float32", "bfloat16"), strict=True):
        edit(folder, clinical={"labeller": {"files": {"chexbert.pth": "a"}, "arithmetic": arithmetic}})
    with pytest.raises(DataError, match="have different or unrecorded labellers or arithmetic"):
        compare(*runs)


def add(folder, numbers: dict | None = None, groups: dict | None = None):
    """Give a run columns of ``score.columns``, by record id."""
    path = folder / "metrics/cases.parquet"
    cases = pl.read_parquet(path)
    given = {"scores": numbers or {}, "groups": groups or {}}
    for name, of_record in (value for kind in given.values() for value in kind.items()):
        cases = cases.with_columns(pl.Series(name, list(map(of_record, cases["record_id"]))))
    cases.write_parquet(path)
    edit(folder, columns={kind: [*names] for kind, names in given.items()})


def test_columns_are_compared_over_the_records_that_both_have(runs):
    add(runs[0], {"mine": lambda key: None if key == "sn-1" else 1.0, "alone": lambda _: 1.0})
    add(runs[1], {"mine": lambda key: 100.0 if key == "sn-1" else 3.0})
    found = compare(*runs, resamples=20)
    assert found.scores["sn"]["mine"].difference == found.scores["mean"]["mine"].difference == 2.0
    assert found.left_out == ["alone"] and found.partial == {"mine": 47}
    notes = comparison_notes(found)
    assert "alone is left out: only one run has this column" in notes
    assert "mine: over the 47 records with a number in both runs" in notes


def test_groups_of_a_column_are_those_of_either_run(runs):
    add(runs[1], groups={"sex": lambda key: None if key == "sn-0" else ("F" if int(key[3:]) % 2 else "M")})
    found = {(one.column, one.value): one for one in compare(*runs, resamples=20).groups}
    women = found["sex", "F"]
    assert (women.n, found["sex", "M"].n) == (24, 23)
    cases = [pl.read_parquet(folder / "metrics/cases.parquet") for folder in runs]
    ids = cases[1].filter(sex="F")["record_id"].to_list()
    for side, table in zip(("first", "second"), cases, strict=True):
        own = table.filter(pl.col("record_id").is_in(ids))
        labels = [own[f"{which}_labels"].to_list() for which in ("reference", "hypothesis")]
        assert getattr(women.f1, side) == pytest.approx(clinical_efficacy(*labels)["f1"])
    assert women.f1.low <= women.f1.difference <= women.f1.high and women.f1.p is None
    add(runs[0], groups={"sex": lambda _: "F"})
    with pytest.raises(DataError, match="differ in the sex of"):
        compare(*runs)


@pytest.mark.parametrize("column", ["subject_id", "study_id"])
def test_blank_ids_are_no_patient(runs, column):
    """One patient of all records would leave nothing to resample."""
    path = runs[0] / "metrics/cases.parquet"
    pl.read_parquet(path).with_columns(pl.lit("").alias(column)).write_parquet(path)
    found = compare(*runs, resamples=20, convention="nicolson")
    assert found.unit == {"subject_id": "study", "study_id": "subject"}[column] and found.units > 1


@pytest.mark.parametrize(
    "change, problem",
    [
        (lambda cases: cases[1:], "missing in"),
        (lambda cases: pl.concat([cases, cases[:1]]), "more than once in"),
        (lambda cases: cases.with_columns(reference=pl.lit("x")), r"differ in the reference of 48 records, such as"),
        (lambda cases: cases.with_columns(context=pl.lit("sn")), "differ in the context of"),
        (
            lambda cases: cases.with_columns(reference_labels=pl.lit([0] * 14, dtype=pl.List(pl.Int64))),
            "differ in the reference_labels of",
        ),
        (lambda cases: cases.drop("meteor_statistics"), "lacks meteor_statistics; score the run again"),
    ],
)
def test_runs_of_other_records_are_refused(runs, change, problem):
    path = runs[1] / "metrics/cases.parquet"
    change(pl.read_parquet(path)).write_parquet(path)
    with pytest.raises(DataError, match=problem):
        compare(*runs, resamples=10)


def test_wrong_arguments_are_refused(runs, tmp_path):
    for wrong in ({"convention": "x"}, {"resamples": 0}):
        with pytest.raises(ConfigError):
            compare(*runs, **wrong)
    with pytest.raises(DataError, match=r"has no cases\.parquet; name a folder that `pacer score`"):
        compare(tmp_path / "nowhere", runs[0])
    path = runs[1] / "metrics/cases.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"cases\.parquet is damaged .*score the run again"):
        compare(*runs)


# -- several trainings of either system ------------------------------------------------------------------------------


def test_repeats_are_averaged_and_are_no_further_patients(tmp_path, runs):
    others = run(tmp_path / "c", 3, 0.5), run(tmp_path / "d", 4, 0.8)
    single = [compare(*pair, resamples=300).scores["mean"] for pair in (runs, others)]
    assert compare_repeats([runs], resamples=300) == single[0]
    both = compare_repeats([runs, others], resamples=300)
    for name, found in both.items():
        assert found.difference == pytest.approx(np.mean([scores[name].difference for scores in single]))
    for name, found in compare_repeats([runs, runs, runs], resamples=300).items():
        once = single[0][name]
        assert (found.low, found.high, found.p) == pytest.approx((once.low, once.high, once.p))
    for folder in others:
        path = folder / "metrics/cases.parquet"
        pl.read_parquet(path).filter(pl.col("subject_id") != "3").write_parquet(path)
    with pytest.raises(DataError, match="repeats need the same records"):
        compare_repeats([runs, others], resamples=50)


def test_repeats_have_the_convention_that_they_were_scored_with(tmp_path, runs):
    for folder in runs:
        edit(folder, clinical={"labeller": {"files": {"chexbert.pth": "a"}}, "convention": "top5"})
    expected = compare(*runs, convention="top5", resamples=50).scores["mean"]["f1"]
    assert compare_repeats([runs], resamples=50)["f1"] == expected
    assert compare(*runs, resamples=50).scores["mean"]["f1"] != expected
