"""Intervals of a run's scores, and differences between runs."""

import json
from dataclasses import asdict, replace

import numpy as np
import polars as pl
import pytest
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.rouge.rouge import Rouge
from sklearn.metrics import f1_score, precision_score, recall_score

from pacer.backbones.observations import OBSERVATIONS
from pacer.core.anchor import FINDINGS, POLARITIES
from pacer.core.errors import ConfigError, DataError
from pacer.metrics.language import meteor, meteor_statistics
from pacer.metrics.scores import SCORES
from pacer.reporting.breakdowns import label_intervals
from pacer.statistics.comparison import (
    Compared,
    Comparison,
    SystemDifference,
    compare,
    compare_repeats,
)
from pacer.statistics.halves import Difference, holm, score_intervals, units_of
from tests.support.cases import listed_cases
from tests.support.metrics import TALK, with_meteor, with_rouge
from tests.support.rooms import ROOT


def made_cases(seed: int, quality: float) -> pl.DataFrame:
    """Cases of 24 examinations of 12 patients in two contexts; ``quality``: share of words, labels
    and states right."""
    fixed, draw = np.random.default_rng(0), np.random.default_rng(seed)
    rows = []
    for number in range(48):
        words, labels, states = (
            fixed.choice(TALK, 12),
            fixed.integers(0, [4] * 13 + [2]),
            fixed.integers(0, 4, 13),
        )
        found = np.where(draw.random(14) < quality, labels, draw.integers(0, [4] * 13 + [2]))
        context, study = ("sn", "mw")[number % 2], number // 2
        rows.append(
            {"record_id": f"{context}-{study}", "context": context, "study_id": str(study)}
            | {
                "subject_id": str(study // 2),
                "reference": " ".join(words),
                "reference_labels": labels.tolist(),
            }
            | {
                "hypothesis": " ".join(
                    np.where(draw.random(12) < quality, words, draw.choice(TALK, 12))
                )
            }
            | {"hypothesis_labels": found.tolist()}
            | _stated("reference", states)
            | _stated(
                "report", np.where(draw.random(13) < quality, states, draw.integers(0, 4, 13))
            )
        )
    lists = {
        f"{side}_{polarity}": pl.List(pl.String)
        for side in ("reference", "report")
        for polarity in POLARITIES
    }
    cases = with_rouge(pl.DataFrame(rows, schema_overrides=lists))
    return with_meteor(cases)


def _stated(side: str, states: np.ndarray) -> dict[str, list[str]]:
    """Findings by polarity; 3: not mentioned."""
    return {
        f"{side}_{polarity}": [FINDINGS[place] for place in np.flatnonzero(states == number)]
        for number, polarity in enumerate(POLARITIES)
    }


def run(folder, seed: int, quality: float, labeller: str = "a" * 64):
    """A scored run of made cases."""
    cases = made_cases(seed, quality)
    (folder / "metrics").mkdir(parents=True)
    cases.sample(fraction=1.0, shuffle=True, seed=seed).write_parquet(
        folder / "metrics/cases.parquet"
    )
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
    for side, folder in (("first", runs[0]), ("second", runs[1])):
        estimates = score_intervals(
            pl.read_parquet(folder / "metrics" / "cases.parquet"), "llm-rg4", 20
        ).scores
        for context, scores in found.scores.items():
            told = {name: getattr(value, side) for name, value in scores.items()}
            assert told == pytest.approx({name: estimates[context][name].value for name in told})
    assert {*scores} == {
        "bleu4",
        "rougeL",
        "meteor",
        "f1",
        "report_positive_f1",
        "report_negative_f1",
    }
    for score in found.scores["mean"].values():
        assert score.p < 0.01 and score.low > 0
    table = found.table()
    assert len(table.rows) == 18 and table.columns[-2:] == ("95% interval", "p")
    assert "12" in table.notes[0] and len(table.notes) == 1
    json.dumps(asdict(found), allow_nan=False)


def test_several_systems_are_compared_with_the_first(tmp_path, runs):
    """Holm's correction covers all systems and scores; a loss is shown where the whole interval is
    beyond it."""
    base, better = runs
    worse = run(tmp_path / "c", 3, 0.3)
    for folder, value in ((base, 0.1), (better, 0.9), (worse, 0.0)):
        add(folder, mine=lambda _, value=value: value)
    found = compare({"base": base, "better": better, "worse": worse}, resamples=400)
    alone = {
        name: compare(base, folder, resamples=400)
        for name, folder in (("better", better), ("worse", worse))
    }
    assert found.others == {name: one.others["B"] for name, one in alone.items()}
    tested = {(row.score, row.system): row for row in found.tested}
    assert set(tested) == {(key, name) for key in alone["worse"].scores["mean"] for name in alone}
    assert [row.p_holm for row in found.tested] == holm([row.difference.p for row in found.tested])
    for (key, name), row in tested.items():
        assert row.difference == alone[name].scores["mean"][key]
    low = -tested["bleu4", "worse"].difference.high
    assert low > 0 and found.losses({"bleu4": low + 1e-6, "mine": 0.2}) == []
    assert [line.split(" in ")[0] for line in found.losses({"bleu4": low - 1e-6, "mine": 0.0})] == [
        f"worse loses more than {low - 1e-6:g}",
        "worse loses more than 0",
    ]
    table = found.table()
    assert (
        len(table.rows) == len(found.tested)
        and "all 14 differences from base (Holm)" in table.notes[0]
    )
    assert repr(found).endswith(table.notes[-1])
    same = compare({"A": base, "B": worse}, resamples=400)
    assert alone["worse"] == same and same.losses({"mine": 0.0}) != []
    for certain in (True, False):
        all_losses = found.losses({"bleu4": low, "mine": 0.0}, certain=certain)
        assert any("which may be chance" in line for line in all_losses) is not certain
    with pytest.raises(
        ConfigError,
        match=r"^max_loss of f1 \(--max-loss\): it has no test in all systems; choose from "
        "report_positive_f1, ",
    ):
        replace(found, tested=found.tested[1:]).losses({"f1": 0.1})  # one system lacks it


@pytest.mark.parametrize("key", [score.key for score in SCORES if score.tested])
def test_a_loss_in_every_tested_score_is_shown(tmp_path, quick_meteor, key) -> None:
    """One run is right about everything, the other about little."""
    for name, seed, quality in (("right", 1, 1.0), ("wrong", 2, 0.1)):
        path = run(tmp_path / name, seed, quality) / "metrics" / "cases.parquet"
        cases = pl.read_parquet(path)
        right = np.random.default_rng(seed).random((len(cases), 5)) < quality
        both = pl.col("report_positive").list.set_intersection("reference_positive")
        described = pl.when(pl.Series(right[:, 0])).then(both).otherwise([])
        agreed = [[*map(int, row[1:4]), 1, 1, 1] for row in right]
        opposite = [[] if row[4] else ["edema"] for row in right]
        cases.with_columns(
            exact_positive=described,
            attributes=pl.Series(agreed),
            contradictions=pl.Series(opposite, dtype=pl.List(pl.String)),
        ).write_parquet(path)
    compared = compare(tmp_path / "right", tmp_path / "wrong", resamples=100)
    [loss] = compared.losses({key: 0.0})
    assert loss.startswith(f"B loses more than 0 in {key} against A: ")
    assert compared.losses({key: 1.0}) == []
    back = compare(tmp_path / "wrong", tmp_path / "right", resamples=100)
    assert back.losses({key: 0.0}) == []


@pytest.mark.parametrize(("key", "ends", "most", "expected"), listed_cases(__file__, "losses"))
def test_a_loss_is_shown_or_not(key, ends, most, expected):
    low, high = (None if end == "none" else end for end in ends)
    row = SystemDifference(key, "one", Difference(0.5, 0.5, 0.0, low, high, 0.5, 4), 1.0)
    compared = Comparison(
        "base", "llm-rg4", "record", 12, 12, 100, {"one": Compared({}, 0, [])}, [row]
    )
    if isinstance(expected, str):
        with pytest.raises(
            (ConfigError, DataError), match=rf"^max_loss of {key} \(--max-loss\): {expected}"
        ):
            compared.losses({key: most})
    else:
        assert len(compared.losses({key: most})) == expected


def edit(folder, **changes):
    """Change parts of a signature."""
    path = folder / "metrics/signature.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_runs_of_other_labellers_are_refused(tmp_path, runs):
    """Asked before the labels of the references, which differ where another labeller made them."""
    other = run(tmp_path / "c", 2, 0.9, labeller="b" * 64)
    path = other / "metrics/cases.parquet"
    pl.read_parquet(path).with_columns(
        reference_labels=pl.lit([0] * 14, dtype=pl.List(pl.Int64))
    ).write_parquet(path)
    with pytest.raises(DataError, match="have different or unrecorded labellers, or one has none"):
        compare(runs[0], other)
    for folder in runs:
        edit(folder, clinical={"labeller": {}})
    with pytest.raises(DataError, match="have different or unrecorded labellers"):
        compare(*runs)


def add(folder, **numbers):
    """Give a run columns of ``score.columns``, by record id."""
    path = folder / "metrics/cases.parquet"
    cases = pl.read_parquet(path)
    columns = (
        pl.Series(name, list(map(of_record, cases["record_id"])))
        for name, of_record in numbers.items()
    )
    cases.with_columns(columns).write_parquet(path)
    edit(folder, columns={"scores": [*numbers], "groups": []})


def test_columns_are_compared_over_the_records_that_both_have(runs):
    add(runs[0], mine=lambda key: None if key == "sn-1" else 1.0, single=lambda _: 1.0)
    add(runs[1], mine=lambda key: 100.0 if key == "sn-1" else 3.0)
    found = compare(*runs, resamples=20)
    assert found.scores["sn"]["mine"].difference == found.scores["mean"]["mine"].difference == 2.0
    assert (found.scores["sn"]["mine"].counts, found.scores["sn"]["mine"].units) == ((23, 23), 12)
    assert "mine: compared over 47 of 48 records" in repr(found)
    assert "single is left out: only the first run has this score" in repr(found)
    [sn] = [row for row in found.table().rows if row[:2] == ("SN", "mine")]
    assert sn[2:5] == ("1.000 (23)", "3.000 (23)", "12")


@pytest.mark.parametrize(("change", "problem"), listed_cases(__file__, "other_records"))
def test_runs_of_other_records_are_refused(runs, change, problem):
    path = runs[1] / "metrics/cases.parquet"
    eval(change, {"cases": pl.read_parquet(path), "pl": pl}).write_parquet(path)
    with pytest.raises(DataError, match=problem):
        compare(*runs, resamples=20)


def test_a_run_that_earlier_code_scored_is_compared(runs):
    """It has columns, and what the signature says of them, of scores that there are no more."""
    before, folder = compare(*runs, resamples=50), runs[0] / "metrics"
    counts = pl.Series("uncommitted_sides", [[0, 1]] * 48, pl.List(pl.Int64))
    cases = pl.read_parquet(folder / "cases.parquet")
    cases = cases.with_columns(counts, pl.lit(9).alias("tokens"))
    cases.write_parquet(folder / "cases.parquet")
    signature = json.loads((folder / "signature.json").read_text())
    of_earlier_code = {"scores": {"uncommitted_sides": "a share", "empty_rate": "empty reports"}}
    of_earlier_code["counted"] = {"sn": {"uncommitted_sides": 24}}
    (folder / "signature.json").write_text(json.dumps(signature | of_earlier_code))
    assert compare(*runs, resamples=50) == before


def test_wrong_arguments_are_refused(runs, tmp_path):
    with pytest.raises(ConfigError, match="convention 'x' is not one of"):
        compare(*runs, convention="x")
    with pytest.raises(ConfigError, match="resamples: expected at least 19 splits, got 18"):
        compare(*runs, resamples=18)
    for wrong in (({"a": runs[0]},), (runs[0],), ({"a": runs[0], "b": runs[1]}, runs[0])):
        with pytest.raises(ConfigError, match="expected two systems, or a mapping"):
            compare(*wrong)
    with pytest.raises(
        DataError, match=r"has no cases\.parquet; pass a folder written by `pacer score`"
    ):
        compare(tmp_path / "nowhere", runs[0])
    path = runs[1] / "metrics/cases.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"cases\.parquet is damaged .*score the run again"):
        compare(*runs)


def test_repeats_are_averaged_and_are_no_further_patients(tmp_path, runs):
    others = run(tmp_path / "c", 3, 0.5), run(tmp_path / "d", 4, 0.8)
    single = [compare(*pair, resamples=300).scores["mean"] for pair in (runs, others)]
    assert compare_repeats([runs], resamples=300) == single[0]
    both = compare_repeats([runs, others], resamples=300)
    for name, found in both.items():
        assert found.difference == pytest.approx(
            np.mean([scores[name].difference for scores in single])
        )
    for name, found in compare_repeats([runs, runs, runs], resamples=300).items():
        once = single[0][name]
        assert (found.low, found.high, found.p) == pytest.approx((once.low, once.high, once.p))
    for folder in others:
        path = folder / "metrics/cases.parquet"
        pl.read_parquet(path).filter(pl.col("subject_id") != "3").write_parquet(path)
    with pytest.raises(DataError, match="repeats must match"):
        compare_repeats([runs, others], resamples=50)


def test_repeats_without_patients_and_examinations_are_compared_by_record(runs):
    for folder in runs:
        path = folder / "metrics/cases.parquet"
        unknown = (pl.lit(None, pl.String).alias(name) for name in ("subject_id", "study_id"))
        pl.read_parquet(path).with_columns(unknown).write_parquet(path)
    found = compare_repeats([runs, runs], resamples=50)
    assert found["f1"].difference == compare(*runs, resamples=50).scores["mean"]["f1"].difference


def test_repeats_have_the_convention_that_they_were_scored_with(tmp_path, runs):
    for folder in runs:
        edit(folder, clinical={"labeller": {"files": {"chexbert.pth": "a"}}, "convention": "top5"})
    expected = compare(*runs, convention="top5", resamples=50).scores["mean"]["f1"]
    assert compare_repeats([runs], resamples=50)["f1"] == expected
    assert compare(*runs, resamples=50).scores["mean"]["f1"] == expected
    by_another = compare(*runs, convention="llm-rg4", resamples=50)
    assert by_another.scores["mean"]["f1"] != expected and by_another.convention == "llm-rg4"


def test_runs_of_different_conventions_need_a_choice(runs):
    clinical = json.loads((runs[1] / "metrics/signature.json").read_text())["clinical"]
    edit(runs[1], clinical=clinical | {"convention": "top5"})
    with pytest.raises(ConfigError, match=r"scored with llm-rg4 and .* with top5; choose one"):
        compare(*runs, resamples=50)
    assert compare(*runs, convention="top5", resamples=50).convention == "top5"


SIDES = ("reference", "hypothesis")


@pytest.fixture
def cases(quick_meteor) -> pl.DataFrame:
    return made_cases(3, 0.5)


def micro(cases: pl.DataFrame, columns: slice) -> tuple[float, float, float]:
    truth, found = (
        np.isin(np.array(cases[f"{side}_labels"].to_list()), (1, 3))[:, columns] for side in SIDES
    )
    return tuple(
        score(truth.ravel(), found.ravel()) for score in (precision_score, recall_score, f1_score)
    )


def test_the_values_are_the_scores_of_the_reference_packages(cases: pl.DataFrame):
    found = score_intervals(cases, "llm-rg4", resamples=200)
    assert (found.unit, found.units) == ("subject", 12) and list(found.scores) == [
        "sn",
        "mw",
        "mean",
    ]
    for context in ("sn", "mw"):
        own = cases.filter(context=context)
        scores = found.scores[context]
        assert [scores[name].value for name in ("precision", "recall", "f1")] == pytest.approx(
            micro(own, slice(None))
        )
        pairs = [{place: [text] for place, text in enumerate(own[side])} for side in SIDES]
        bleu = [scores[f"bleu{order}"].value for order in range(1, 5)]
        assert bleu == pytest.approx(Bleu(4).compute_score(*pairs, verbose=0)[0])
        assert scores["rougeL"].value == pytest.approx(Rouge().compute_score(*pairs)[0])
        assert scores["meteor"].value == meteor(
            meteor_statistics(own["meteor_statistics"].to_list()).sum(axis=0)
        )
        for name in ("positive", "negative"):
            both = (
                [one in found for found in own[f"{side}_{name}"] for one in FINDINGS]
                for side in ("reference", "report")
            )
            assert scores[f"report_{name}_f1"].value == pytest.approx(f1_score(*both))
    for scores in found.scores.values():
        assert all(
            one.low <= one.value <= one.high and one.low < one.high for one in scores.values()
        )


def test_each_observation_over_all_contexts_and_in_each(cases: pl.DataFrame):
    found = {one.name: one for one in label_intervals(cases, "llm-rg4", resamples=200)}
    assert set(found) == set(OBSERVATIONS)
    for name, one in found.items():
        column = OBSERVATIONS.index(name)
        only = slice(column, column + 1)
        assert [one.scores[key].value for key in ("precision", "recall", "f1")] == pytest.approx(
            micro(cases, only)
        )
        assert one.f1["mw"] == pytest.approx(micro(cases.filter(context="mw"), only)[2])
        counted = [
            np.isin(np.array(cases[f"{side}_labels"].to_list())[:, column], (1, 3)).sum()
            for side in SIDES
        ]
        assert [one.present, one.predicted] == counted
    assert [*found] == sorted(found, key=lambda name: -found[name].present)
    nobody = cases.with_columns(
        reference_labels=pl.lit([0] * 14), hypothesis_labels=pl.lit([0] * 14)
    )
    none = label_intervals(nobody, "llm-rg4", resamples=20)
    assert all(one.scores["f1"].value is None and set(one.f1.values()) == {None} for one in none)


def test_the_unit_is_the_coarsest_that_is_known(cases: pl.DataFrame):
    assert units_of(cases)[0] == "subject"
    assert units_of(cases.drop("subject_id"))[0] == "study"
    assert (
        units_of(cases.with_columns(subject_id=pl.lit(None), study_id=pl.lit(" ")))[0] == "record"
    )


def test_a_record_without_a_patient_id_is_a_patient_of_its_own(cases: pl.DataFrame):
    """With the others of its study; one of the 12 patients has two studies in two contexts."""
    blank = pl.when(pl.col("study_id") != "0").then("subject_id").otherwise(pl.lit(" "))
    units = units_of(cases.with_columns(subject_id=blank))
    assert (units.name, units.count) == ("subject", 13)
    assert units.note == "2 of 48 records have no patient id and count as patients of their own"
    unknown = units_of(cases.with_columns(subject_id=blank).drop("study_id"))
    assert unknown.count == 14 and units_of(cases).note == ""
    own = units.codes[(cases["study_id"] == "0").to_numpy()]
    assert len(set(own)) == 1 and (units.codes == own[0]).sum() == 2


def test_other_patient_ids_of_the_second_run_are_noted(runs):
    before = compare(*runs, resamples=50)
    assert not any("ids" in note for note in before.table().notes)
    path = runs[1] / "metrics/cases.parquet"
    cases = pl.read_parquet(path)
    for subjects in (pl.lit(None), "study_id", pl.col("subject_id").replace("3", " ")):
        cases.with_columns(subject_id=subjects).write_parquet(path)
        found = compare(*runs, resamples=50)
        assert found.scores == before.scores
        [note] = found.others["B"].notes
        assert note == (
            "the runs group their records into different patients; the ids of the first run are "
            "used"
        )
        assert note in found.table().notes


def test_scores_without_any_change_are_in_one_line(runs):
    """Two of 48 reports of the second run differ from the first, in words that the labels and the
    rules do not see."""
    base = runs[0] / "metrics"
    cases = pl.read_parquet(base / "cases.parquet").sort("record_id")
    words = pl.when(pl.col("record_id").is_in(["sn-0", "sn-3"])).then(pl.lit("zzz"))
    other = with_meteor(with_rouge(cases.with_columns(hypothesis=words.otherwise("hypothesis"))))
    (runs[1] / "metrics/cases.parquet").unlink()
    other.write_parquet(runs[1] / "metrics/cases.parquet")
    add(runs[0], mine=lambda key: len(key) % 2)
    add(runs[1], mine=lambda key: len(key) % 2 if key[0] == "s" else 1)
    found = compare(*runs, resamples=50)
    table = found.table()
    words = [("SN", "BLEU-4"), ("SN", "ROUGE-L"), ("SN", "METEOR")]
    assert [row[:2] for row in table.rows] == [
        *words,
        ("MW", "mine"),
        *(("Mean", score) for _, score in words),
        ("Mean", "mine"),
    ]
    fields = "CE F1, Positive F1, Negative F1"
    assert table.notes[1] == (
        f"no change in {fields}, BLEU-4 (MW), ROUGE-L (MW), METEOR (MW), mine (SN); 2 of 48 "
        "reports differ"
    )
    several = compare({"a": runs[0], "b": runs[1], "c": runs[0]}, resamples=50).table()
    assert [row[:2] for row in several.rows] == [
        (score, "b") for score in ("BLEU-4", "ROUGE-L", "METEOR", "mine")
    ]
    assert [note for note in several.notes if "no change" in note] == [
        f"b: no change in {fields}; 2 of 48 reports differ",
        f"c: no change in {fields}, BLEU-4, ROUGE-L, METEOR, mine; 0 of 48 reports differ",
    ]
    assert compare(runs[0], runs[0], resamples=50).table().rows == ()


def test_the_last_line_on_two_training_runs_says_how_much_seeds_change(runs):
    """By hundredths: the widest range of F1 over seeds in the stored table."""
    assert "seed" not in " ".join(compare(*runs, resamples=50).others["B"].notes)
    edit(runs[0], predictions={"settings": {}})
    assert "seed" not in " ".join(compare(*runs, resamples=50).others["B"].notes)
    edit(runs[1], predictions={"settings": {}}, versions={"rules": "1"})
    for systems in (runs, [dict(zip("abc", (*runs, runs[0]), strict=True))]):
        last = compare(*systems, resamples=50).table().notes[-1]
        assert last.startswith("each system is one training run") and "seeds" in last
    page = (ROOT / "bench/results/seeds.md").read_text(encoding="utf-8")
    rows = [
        dict(zip(columns, cells, strict=True))
        for table in page.split("<!-- table")[1:]
        for columns, _, *body in [[line.strip("| ").split(" | ") for line in lines_of(table)]]
        for cells in body
    ]
    values = [[float(value) for value in row["F1"].split(",")] for row in rows]
    assert len(values) == 7
    assert 0.01 <= max(max(of) - min(of) for of in values) < 0.1
    assert "move F1 by some hundredths" in last


def lines_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]
