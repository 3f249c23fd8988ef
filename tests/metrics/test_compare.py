from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import polars as pl
import pytest

from pacer.comparison.compare import compare_repeats, compare_runs
from pacer.core.errors import ConfigError, DataError
from pacer.metrics.clinical import clinical_efficacy
from pacer.metrics.nlg import language_scores
from pacer.reporting.score_tables import comparison_notes, comparison_table

pytestmark = pytest.mark.slow

WORDS = ["the", "heart", "is", "clear", "no", "effusion", "small", "left", "."]


def run(folder, meteor, seed: int, quality: float, drop: tuple[str, ...] = (), labeller: str = "a" * 64):
    """A scored run of 24 examinations of 12 patients in two contexts; ``quality``: share of words and labels right."""
    fixed, draw = np.random.default_rng(0), np.random.default_rng(seed)
    rows = []
    for number in range(48):
        words, labels = fixed.choice(WORDS, 12), fixed.integers(0, 2, 14)
        rows.append(
            {
                "record_id": f"{('sn', 'mw')[number % 2]}-{number // 2}",
                "context": ("sn", "mw")[number % 2],
                "study_id": str(number // 2),
                "subject_id": str(number // 4),
                "reference": " ".join(words),
                "hypothesis": " ".join(np.where(draw.random(12) < quality, words, draw.choice(WORDS, 12))),
                "reference_labels": labels.tolist(),
                "hypothesis_labels": np.where(draw.random(14) < quality, labels, 1 - labels).tolist(),
            }
        )
    cases = pl.DataFrame(rows)
    scored = language_scores(cases["reference"].to_list(), cases["hypothesis"].to_list(), meteor)
    cases = cases.with_columns(rougeL=pl.Series(scored.rouge), meteor_statistics=pl.Series(scored.meteor_statistics))
    (folder / "metrics").mkdir(parents=True)
    cases.sample(fraction=1.0, shuffle=True, seed=seed).drop(drop).write_parquet(folder / "metrics/cases.parquet")
    (folder / "metrics/signature.json").write_text(
        json.dumps(
            {
                "clinical": {"labeller": {"files": {"chexbert.pth": labeller}}},
                "versions": {"numpy": str(seed)},
                "counts": {"n": seed},
                "data": {"predictions/sn": str(seed)},
            }
        )
    )
    return folder


@pytest.fixture
def runs(tmp_path, meteor):
    return run(tmp_path / "a", meteor, 1, 0.5), run(tmp_path / "b", meteor, 2, 0.9)


def test_scores_are_those_of_the_runs_and_a_difference_is_found(runs, meteor):
    found = compare_runs(*runs, resamples=400)
    assert list(found.scores) == ["sn", "mw", "mean"]
    assert (found.unit, found.units, found.records) == ("subject", 12, 48)
    for side, folder in (("first", runs[0]), ("second", runs[1] / "metrics")):
        cases = pl.read_parquet((folder if side == "second" else folder / "metrics") / "cases.parquet")
        means = []
        for context in ("sn", "mw"):
            own = cases.filter(context=context)
            language = language_scores(own["reference"].to_list(), own["hypothesis"].to_list(), meteor).scores
            expected = {name: language[name] for name in ("bleu4", "rougeL", "meteor")}
            labels = [own[f"{which}_labels"].to_list() for which in ("reference", "hypothesis")]
            expected["f1"] = clinical_efficacy(*labels)["f1"]
            told = {name: getattr(value, side) for name, value in found.scores[context].items()}
            assert told == pytest.approx(expected)
            means.append(expected["f1"])
        assert getattr(found.scores["mean"]["f1"], side) == pytest.approx(sum(means) / 2)
    for score in found.scores["mean"].values():
        assert score.p < 0.01 and score.low > 0
    assert found.differing == ["versions.numpy"] and not found.left_out


def test_a_run_does_not_differ_from_itself(runs):
    for convention in ("llm-rg4", "weighted", "nicolson"):
        found = compare_runs(runs[0], runs[0], resamples=100, convention=convention)
        for scores in found.scores.values():
            for score in scores.values():
                assert (score.difference, score.p) == (0.0, 1.0) and score.low <= 0 <= score.high
    assert found.differing == []


def test_conventions_and_units(runs):
    weighted = compare_runs(*runs, convention="weighted", resamples=10, unit="study")
    assert weighted.units == 24
    cases = pl.read_parquet(runs[1] / "metrics/cases.parquet").filter(context="sn")
    labels = [cases[f"{side}_labels"].to_list() for side in ("reference", "hypothesis")]
    assert weighted.scores["sn"]["f1"].second == pytest.approx(clinical_efficacy(*labels, "weighted")["f1"])
    assert compare_runs(*runs, unit="record", resamples=10).units == 48


def test_the_table_shows_every_row(runs):
    found = compare_runs(*runs, resamples=50)
    table = comparison_table(found)
    assert len(table.rows) == 12 and table.columns[-2:] == ("95 % interval", "p")
    assert "12" in comparison_notes(found)[0] and "versions.numpy" in comparison_notes(found)[-1]
    json.dumps(asdict(found), allow_nan=False)


def test_what_cannot_be_compared_is_left_out_with_the_reason(tmp_path, meteor):
    one = run(tmp_path / "a", meteor, 1, 0.5, drop=("meteor_statistics", "subject_id"))
    two = run(tmp_path / "b", meteor, 2, 0.9, labeller="b" * 64)
    found = compare_runs(one, two, resamples=20)
    assert set(found.left_out) == {"f1", "meteor"} and found.unit == "study"
    assert set(found.scores["sn"]) == {"bleu4", "rougeL"}
    assert any("METEOR is left out" in line for line in comparison_notes(found))


def test_whether_the_labeller_is_the_same_is_asked_first(tmp_path, meteor):
    """Labels of the references differ, as they must where another labeller made them: the rest can be compared."""
    one, two = run(tmp_path / "a", meteor, 1, 0.5), run(tmp_path / "b", meteor, 2, 0.9, labeller="b" * 64)
    path = two / "metrics/cases.parquet"
    pl.read_parquet(path).with_columns(reference_labels=pl.lit([0] * 14, dtype=pl.List(pl.Int64))).write_parquet(path)
    found = compare_runs(one, two, resamples=20)
    assert set(found.left_out) == {"f1"} and set(found.scores["sn"]) == {"bleu4", "rougeL", "meteor"}


def edit(folder, **changes):
    """Change parts of a signature."""
    path = folder / "metrics/signature.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_labels_in_another_arithmetic_are_those_of_another_labeller(runs):
    for folder, arithmetic in zip(runs, ("float32", "bfloat16"), strict=True):
        edit(folder, clinical={"labeller": {"files": {"chexbert.pth": "a"}, "arithmetic": arithmetic}})
    found = compare_runs(*runs, resamples=20)
    assert set(found.left_out) == {"f1"} and "clinical.labeller.arithmetic" in found.differing


def test_what_was_done_to_the_reports_is_named_and_which_reports_they_are_is_not(runs):
    protocol = {
        "references": {"file": "r.csv", "id": "id", "text": "report"},
        "missing": "error",
        "split": None,
        "hypotheses": {"file": "h.csv", "id": "id", "text": "report"},
        "duplicates": "error",
        "extract": "none",
        "deduplicate": False,
        "clean_hypotheses": "none",
        "clean_references": "none",
        "context": None,
        "reference_id": None,
        "hypothesis_text": None,
        "missing_hypotheses": 0,
        "duplicate_hypotheses": 0,
        "texts_with_line_breaks": {"references": 0, "hypotheses": 0},
        "pairing": "x",
    }
    other = {
        "references": {"file": "s.csv", "id": "key", "text": "text"},
        "hypotheses": {"file": "i.csv"},
        "reference_id": "key",
        "hypothesis_text": "out",
        "missing_hypotheses": 3,
        "duplicate_hypotheses": 2,
        "texts_with_line_breaks": {"references": 1, "hypotheses": 2},
        "boxes": {"closed": 4},
        "pairing": "y",
        "duplicate_references": 1,
        "reports_with_repeats": 2,
    }
    edit(runs[0], protocol=protocol, versions={}, data={"hypotheses": "a"})
    edit(runs[1], protocol=protocol | other, versions={}, data={"hypotheses": "b"})
    assert compare_runs(*runs, resamples=2).differing == []
    edit(runs[1], protocol=None)  # a run of the pipeline, where nothing of the kind is done
    assert compare_runs(*runs, resamples=2).differing == []
    for changes in (
        {"deduplicate": True},
        {"missing": "empty"},
        {"duplicates": "all"},
        {"extract": "boxed"},
        {"clean_hypotheses": "iu_xray"},
        {"clean_references": "upstream"},
        {"split": "val"},
    ):
        edit(runs[0], protocol=protocol | changes)
        for side in (None, protocol):
            edit(runs[1], protocol=side)
            assert compare_runs(*runs, resamples=2).differing == [f"protocol.{name}" for name in changes]


@pytest.mark.parametrize("column", ["subject_id", "study_id"])
def test_blank_ids_are_no_patient(runs, column):
    """One patient of all records would leave nothing to resample."""
    path = runs[0] / "metrics/cases.parquet"
    pl.read_parquet(path).with_columns(pl.lit("").alias(column)).write_parquet(path)
    found = compare_runs(*runs, resamples=20, convention="nicolson")
    assert found.unit == {"subject_id": "study", "study_id": "subject"}[column] and found.units > 1
    with pytest.raises(DataError, match=f"do not say the {column.removesuffix('_id')} of every record"):
        compare_runs(*runs, unit=column.removesuffix("_id"))


@pytest.mark.parametrize(
    "change, problem",
    [
        (lambda cases: cases[1:], "missing in"),
        (lambda cases: pl.concat([cases, cases[:1]]), "more than once in"),
        (lambda cases: cases.with_columns(reference=pl.lit("x")), r"has another reference in .*\(48 records differ\)"),
        (lambda cases: cases.with_columns(context=pl.lit("sn")), "has another context"),
        (
            lambda cases: cases.with_columns(reference_labels=pl.lit([0] * 14, dtype=pl.List(pl.Int64))),
            "has another reference_labels",
        ),
        (lambda cases: cases.drop("rougeL"), "lacks rougeL"),
    ],
)
def test_runs_of_other_records_are_refused(runs, change, problem):
    path = runs[1] / "metrics/cases.parquet"
    change(pl.read_parquet(path)).write_parquet(path)
    with pytest.raises(DataError, match=problem):
        compare_runs(*runs, resamples=10)


def test_wrong_arguments_are_refused(runs, tmp_path):
    for wrong in ({"convention": "x"}, {"unit": "patient"}, {"resamples": 0}, {"level": 1.0}):
        with pytest.raises(ConfigError):
            compare_runs(*runs, **wrong)
    with pytest.raises(DataError, match="holds no scored cases"):
        compare_runs(tmp_path / "nowhere", runs[0])
    path = runs[1] / "metrics/cases.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"cases\.parquet is damaged .*score the run again"):
        compare_runs(*runs)


# -- several trainings of either system ------------------------------------------------------------------------------


def test_one_repeat_is_the_comparison_of_two_runs(runs):
    assert compare_repeats([runs], resamples=300) == compare_runs(*runs, resamples=300).scores["mean"]


def test_repeats_are_averaged_and_are_no_further_patients(tmp_path, meteor, runs):
    others = run(tmp_path / "c", meteor, 3, 0.5), run(tmp_path / "d", meteor, 4, 0.8)
    single = [compare_runs(*pair, resamples=300).scores["mean"] for pair in (runs, others)]
    both = compare_repeats([runs, others], resamples=300)
    for name, found in both.items():
        assert found.difference == pytest.approx(np.mean([scores[name].difference for scores in single]))
    for name, found in compare_repeats([runs, runs, runs], resamples=300).items():
        once = single[0][name]
        assert (found.low, found.high, found.p) == pytest.approx((once.low, once.high, once.p))


def test_repeats_have_the_convention_that_they_were_scored_with(tmp_path, meteor, runs):
    for folder in runs:
        path = folder / "metrics/signature.json"
        signature = json.loads(path.read_text())
        signature["clinical"]["convention"] = "top5"
        path.write_text(json.dumps(signature))
    expected = compare_runs(*runs, convention="top5", resamples=50).scores["mean"]["f1"]
    assert compare_repeats([runs], resamples=50)["f1"] == expected
    assert compare_runs(*runs, resamples=50).scores["mean"]["f1"] != expected


def test_repeats_of_other_records_and_other_labellers(tmp_path, meteor, runs):
    fewer = run(tmp_path / "c", meteor, 3, 0.5), run(tmp_path / "d", meteor, 4, 0.8)
    for folder in fewer:
        path = folder / "metrics/cases.parquet"
        pl.read_parquet(path).filter(pl.col("subject_id") != "3").write_parquet(path)
    with pytest.raises(DataError, match="repeats need the same records"):
        compare_repeats([runs, fewer], resamples=50)
    other = runs[0], run(tmp_path / "e", meteor, 4, 0.8, labeller="b" * 64)
    assert "f1" in compare_repeats([runs], resamples=50) and "f1" not in compare_repeats([runs, other], resamples=50)
