"""Scores and groups of the user: columns of a file, functions, and those that an installed package
offers."""

import re
import sys
import textwrap
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import pacer
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import read_json
from pacer.metrics.cases import with_mean
from pacer.metrics.columns import check_names, column_scores, names_by_kind
from pacer.metrics.options import DEFAULTS
from pacer.metrics.scores import score_of
from pacer.reporting.breakdowns import GroupScore, group_scores
from pacer.reporting.score_tables import group_table, score_table
from pacer.statistics.halves import LEAST_UNITS
from pacer.tables.columns import read_columns
from tests.support.cases import cases, listed_cases
from tests.support.metrics import efficacy
from tests.support.repository import ROOT

pytestmark = pytest.mark.usefixtures("quick_meteor")
IDS = ["sn-1", "sn-2", "007"]


@pytest.mark.parametrize(("name", "text", "columns"), listed_cases(__file__, "read"))
def test_numbers_and_texts_are_read_by_record(
    tmp_path: Path, name: str, text: str, columns: dict[str, Any]
) -> None:
    (tmp_path / name).write_text(text)
    found = read_columns(tmp_path / name, IDS)
    assert found.to_dict(as_series=False) == columns
    typed = pl.DataFrame({"record_id": IDS} | columns)
    typed = typed.with_columns(urgent=pl.col("urgent") == "true") if "urgent" in columns else typed
    typed.write_parquet(tmp_path / "columns.parquet")
    typed.write_json(tmp_path / "columns.json")
    for name in ("columns.parquet", "columns.json"):
        assert read_columns(tmp_path / name, IDS).equals(found), name


@pytest.mark.parametrize(("text", "sentence"), listed_cases(__file__, "refused"))
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "columns.csv").write_text(text)
    with pytest.raises(DataError, match=sentence):
        read_columns(tmp_path / "columns.csv", IDS)


def test_too_many_texts_are_refused(tmp_path: Path) -> None:
    ids = [str(number) for number in range(21)]
    (tmp_path / "columns.csv").write_text(
        "record_id,age\n" + "".join(f"{key},{key} years\n" for key in ids)
    )
    with pytest.raises(
        DataError,
        match=r"column age has 21 distinct values; use numbers \(a score\), or up to 20 groups",
    ):
        read_columns(tmp_path / "columns.csv", ids)


def test_a_column_of_numbers_is_a_score_with_a_count() -> None:
    found = pl.DataFrame(
        {"words": [1.5, None, 3.0], "dose_n": [1.0, 2.0, 6.0], "sex": ["M", None, "F"]}
    )
    assert names_by_kind(found) == {"scores": ["words", "dose_n"], "groups": ["sex"]}
    scores = column_scores(found)
    assert scores == {"words": 2.25, "words_n": 2, "dose_n": 3.0, "dose_n_n": 3}
    assert with_mean({"sn": scores, "mw": scores}, ["words_n", "dose_n_n"])["mean"] == {
        "words": 2.25,
        "dose_n": 3.0,
    }
    assert column_scores(found[1:2])["words"] is None


@pytest.mark.parametrize(
    "names", [["bleu4"], ["mine", "mine_n"], ["mine", "mine"], ["gate"], ["my_labels"], [" "]]
)
def test_a_name_is_free_or_refused(names: list[str]) -> None:
    check_names(["mine", "yours"], ["bleu4", "gate_n"])
    with pytest.raises(
        DataError, match=r"may be the name of a score, an id or a cases\.parquet column"
    ):
        check_names(names, ["bleu4", "gate_n"])


VIEWS = ("AP", "PA", "other")


@pytest.fixture
def examined() -> pl.DataFrame:
    """Patients with two examinations in two contexts; some patients are harder than others."""
    draw = np.random.default_rng(0)
    rows = []
    for patient in range(60):
        hard, sex = draw.uniform(0.05, 0.4), str(draw.choice(["F", "M"]))
        for study in range(2):
            labels = (draw.random(14) < 0.3).astype(int)
            view = str(draw.choice(VIEWS))
            for context in ("sn", "mw"):
                found = np.where(draw.random(14) < hard, draw.random(14) < 0.3, labels).astype(int)
                rows.append(
                    {
                        "record_id": f"{context}-{patient}-{study}",
                        "context": context,
                        "study_id": f"{patient}-{study}",
                    }
                    | {"subject_id": str(patient), "view": view, "sex": sex}
                    | {"reference_labels": labels.tolist(), "hypothesis_labels": found.tolist()}
                )
    return pl.DataFrame(rows)


def by_group(
    examined: pl.DataFrame, convention: str = "llm-rg4", resamples: int = 50
) -> dict[tuple, GroupScore]:
    return {
        (one.column, one.value): one
        for one in group_scores(examined, convention, ["sex"], resamples)
    }


@pytest.mark.parametrize("convention", ["llm-rg4", "weighted"])
def test_values_are_the_scores_of_the_groups_records(
    examined: pl.DataFrame, convention: str
) -> None:
    found = by_group(examined, convention)
    assert set(found) == {("sex", "F"), ("sex", "M"), *(("view", view) for view in VIEWS)}
    for (column, value), one in found.items():
        members = examined.filter(pl.col(column) == value)
        expected = efficacy(
            members["reference_labels"].to_list(),
            members["hypothesis_labels"].to_list(),
            convention,
        )
        assert one.n == len(members) and one.f1.value == pytest.approx(expected["f1"])
        assert one.f1.low <= one.f1.value <= one.f1.high


def test_intervals_are_somewhat_wider_than_those_of_a_bootstrap_over_patients(
    examined: pl.DataFrame,
) -> None:
    """Which are too narrow for the 31 patients with this view."""
    draw, one = np.random.default_rng(0), by_group(examined, resamples=500)["view", "PA"].f1
    labels = [
        np.array(examined[f"{side}_labels"].to_list()) for side in ("reference", "hypothesis")
    ]
    patient, shown = (
        examined["subject_id"].to_numpy().astype(int),
        (examined["view"] == "PA").to_numpy(),
    )
    rows = [np.flatnonzero((patient == number) & shown) for number in range(60)]
    samples = (
        np.concatenate([rows[number] for number in draw.integers(0, 60, 60)]) for _ in range(200)
    )
    drawn = [efficacy(*(side[sample] for side in labels), "llm-rg4")["f1"] for sample in samples]
    low, high = np.quantile(drawn, (0.025, 0.975))
    assert 1 < (one.high - one.low) / (high - low) < 1.4


def test_small_groups_and_unknown_values(examined: pl.DataFrame) -> None:
    place = pl.int_range(pl.len())
    rare = pl.when(place < 4).then(pl.lit("rare")).when(place >= 40).then(pl.lit("usual"))
    found = by_group(examined.with_columns(sex=rare, view=pl.lit("PA")))
    assert found["sex", "rare"].n == 4 < LEAST_UNITS
    assert found["sex", "rare"].f1.value is not None and found["sex", "rare"].f1.low is None
    assert found["sex", "usual"].n == len(examined) - 40, (
        "records without a value stand in neither group"
    )
    assert {column for column, _ in found} == {"sex"}, "one value is no group"
    table = group_table(list(found.values()))
    assert table.rows[-2][:3] == ("sex", "rare", "4") and table.rows[-2][-1] == ""


REFERENCES = {"a": "no effusion .", "b": "the heart is large .", "c": "a zephyrine tube ."}
REPORTS = {"c": "a zephyrine .", "a": "no effusion . no edema .", "b": "the heart is normal ."}


def words(references: list[str], reports: list[str]) -> list[int]:
    return [len(report.split()) for report in reports]


@cases(__file__, "functions")
def test_a_function_that_does_not_give_a_number_for_each_pair(
    kind: str, case: dict[str, Any]
) -> None:
    function = eval(case["function"])
    if case["error"] is None:
        assert (
            pacer.score(REFERENCES, REPORTS, metrics={case["name"]: function}).scores["all"]["n"]
            == 3
        )
        return
    with pytest.raises(DataError, match=case["error"]) as raised:
        pacer.score(REFERENCES, REPORTS, metrics={case["name"]: function})
    assert "zephyrine" not in "".join(traceback.format_exception(raised.value))


ORDERS = """
def f(references, texts): return share(references, texts)
def f(one, other): return share(one, other)
def f(one, other, /): return share(one, other)
def f(*texts): return share(*texts)
def f(references, texts, output_dir=None): return share(references, texts)
def f(texts, references): return share(references, texts)
def f(reports, references): return share(references, reports)
def f(generated, ground_truth): return share(ground_truth, generated)
def f(hyps, other): return share(other, hyps)
def f(candidate_list, reference_list): return share(reference_list, candidate_list)
def f(y_pred, y_true): return share(y_true, y_pred)
def f(sys_sents, orig_sents): return share(orig_sents, sys_sents)
def f(summaries, sources): return share(sources, summaries)
def f(outputs, labels, /): return share(labels, outputs)
def f(prediction_texts, reference_texts=None): return share(reference_texts, prediction_texts)
def f(completions, prompts=None, references=None): return share(references, completions)
def f(completions, **columns): return share(columns["references"], completions)
def f(*, candidates, references): return share(references, candidates)
"""


@pytest.mark.parametrize("definition", ORDERS.strip().splitlines())
def test_a_function_gets_references_and_reports_whatever_its_order(definition: str) -> None:
    """The report has all words of the reference, but the reference lacks one of the report."""

    def share(references: list[str], reports: list[str]) -> list[float]:
        pairs = zip(references, reports, strict=True)
        return [len({*a.split()} & {*b.split()}) / len({*a.split()}) for a, b in pairs]

    names: dict[str, Any] = {"share": share}
    exec(definition, names)
    found = pacer.score(["no effusion ."], ["no effusion . no edema ."], metrics={"f": names["f"]})
    assert found.scores["all"]["f"] == 1


@pytest.mark.parametrize("names", ["predictions, outputs", "references, labels", "hyps, refs, k"])
def test_a_function_whose_parameters_are_unclear_is_refused(names: str) -> None:
    function = eval(f"lambda {names}: [1.0] * 3")
    with pytest.raises(ConfigError, match=f"takes {names}; expected two parameters"):
        pacer.score(REFERENCES, REPORTS, metrics={"mine": function})


def test_the_example_of_contributing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """With interval and paired test, in tables, and in the files with the name of its function."""
    many = {str(number): f"no effusion {number % 3} ." for number in range(12)}
    others = {key: text.replace("1", "one").replace("2", "two") for key, text in many.items()}
    for name, texts in (("references", many), ("a", many), ("b", others)):
        pl.DataFrame({"id": list(texts), "report": list(texts.values())}).write_csv(
            tmp_path / f"{name}.csv"
        )
    monkeypatch.chdir(tmp_path)
    [example] = re.findall(
        r"  ```python\n(.*?)  ```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL
    )
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(textwrap.dedent(example), names)
    second, compared = (
        names["second"],
        pacer.compare(names["first"], names["second"], resamples=200),
    )
    assert second.scores["all"]["shared_words"] == pytest.approx(1 - 8 / 12 / 4)
    assert second.cases["shared_words"].to_list()[:3] == [1.0, 0.75, 0.75]
    tested, interval = (
        compared.scores["all"]["shared_words"],
        second.intervals.scores["all"]["shared_words"],
    )
    assert interval.low < interval.value < interval.high and tested.high < 0 and tested.p < 0.05
    assert "shared_words: mean of your score, __main__:shared_words" in second.notes
    table = score_table(second.scores, [score_of("shared_words")], counted=second.signature.counted)
    assert table.rows == (("ALL", "0.833 (12)"),)


def test_whose_a_score_is_is_in_the_signature_and_two_versions_are_told(tmp_path: Path) -> None:
    first = pacer.score(REFERENCES, REPORTS, metrics={"mine": words}, out=tmp_path)
    assert (
        read_json(tmp_path / "signature.json")["scores"]["mine"]
        == f"mean of your score, {__name__}:words"
    )
    other = pacer.score(
        REFERENCES, REPORTS, metrics={"mine": lambda references, reports: [1.0] * 3}
    )
    compared = pacer.compare(first, other, resamples=20)
    notes = compared.table().notes
    assert "yours" not in repr(compared)
    further = pacer.score(REFERENCES, REPORTS, metrics={"mine": words, "yours": words})
    assert "\nyours is left out: only the second run has this score" in repr(
        pacer.compare(first, further, resamples=20)
    )
    assert any(
        re.match(
            r"scored differently: mine mean of your score, \S+:words and mean of your score, "
            r"\S+<lambda>; score both alike",
            n,
        )
        for n in notes
    )


def test_a_package_offers_a_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = {
        "lab.py": "def overlap(references, reports):\n    return [len(text) for text in reports]\n",
        "lab_scores-1.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: lab-scores\nVersion: "
        "1.2\n",
        "lab_scores-1.2.dist-info/entry_points.txt": "[pacer.scores]\noverlap = "
        "lab:overlap\nbroken = lab:none\n",
        "lab_scores-1.2.dist-info/top_level.txt": "lab\n",
    }
    for name, text in package.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    scored = pacer.score(REFERENCES, REPORTS, metrics=["overlap"])
    assert scored.scores["all"]["overlap"] == pytest.approx(sum(map(len, REPORTS.values())) / 3)
    assert scored.signature.scores["overlap"] == "mean of your score, lab:overlap of lab-scores 1.2"
    by_setting = pacer.score(
        REFERENCES, REPORTS, settings=DEFAULTS.model_copy(update={"metrics": ["overlap"]})
    )
    assert by_setting.scores == scored.scores
    by_function = pacer.score(REFERENCES, REPORTS, metrics={"overlap": sys.modules["lab"].overlap})
    assert by_function.signature.scores["overlap"] == scored.signature.scores["overlap"]
    for name, error in (
        ("missing", r"missing is unknown; .* pacer.scores \(installed: overlap"),
        ("broken", "cannot be imported"),
    ):
        with pytest.raises(ConfigError, match=error):
            pacer.score(REFERENCES, REPORTS, metrics=[name])
    monkeypatch.delitem(sys.modules, "lab")
