"""Scores of the user: functions given to `pacer.score`, and those that an installed package offers."""

import re
import sys
import textwrap
import traceback
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import pacer
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import read_json
from pacer.metrics.scores import score_of
from pacer.metrics.signature import DEFAULTS
from pacer.reporting.score_tables import score_table
from tests.support.cases import cases

pytestmark = pytest.mark.usefixtures("quick_meteor")
ROOT = Path(__file__).parents[3]
REFERENCES = {"a": "no effusion .", "b": "the heart is large .", "c": "a zephyrine tube ."}
REPORTS = {"c": "a zephyrine .", "a": "no effusion . no edema .", "b": "the heart is normal ."}


def words(references: list[str], reports: list[str]) -> list[int]:
    return [len(report.split()) for report in reports]


@cases(__file__)
def test_a_function_that_does_not_give_a_number_for_each_pair(kind: str, case: dict[str, Any]) -> None:
    function = eval(case["function"])
    if case["error"] is None:
        assert pacer.score(REFERENCES, REPORTS, metrics={case["name"]: function}).scores["all"]["n"] == 3
        return
    with pytest.raises(DataError, match=case["error"]) as raised:
        pacer.score(REFERENCES, REPORTS, metrics={case["name"]: function})
    assert "zephyrine" not in "".join(traceback.format_exception(raised.value))


def test_the_example_of_contributing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """With interval and paired test, in tables, and in the files with the name of its function."""
    many = {str(number): f"no effusion {number % 3} ." for number in range(12)}
    others = {key: text.replace("1", "one").replace("2", "two") for key, text in many.items()}
    for name, texts in (("references", many), ("a", many), ("b", others)):
        pl.DataFrame({"id": list(texts), "report": list(texts.values())}).write_csv(tmp_path / f"{name}.csv")
    monkeypatch.chdir(tmp_path)
    [example] = re.findall(r"  ```python\n(.*?)  ```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(textwrap.dedent(example), names)
    second, compared = names["second"], pacer.compare(names["first"], names["second"], resamples=200)
    assert second.scores["all"]["shared_words"] == pytest.approx(1 - 8 / 12 / 4)
    assert second.cases["shared_words"].to_list()[:3] == [1.0, 0.75, 0.75]
    tested, interval = compared.scores["all"]["shared_words"], second.intervals.scores["all"]["shared_words"]
    assert interval.low < interval.value < interval.high and tested.high < 0 and tested.p < 0.05
    assert "shared_words: mean of your score, __main__:shared_words" in second.notes
    table = score_table(second.scores, [score_of("shared_words")], counted=second.signature.counted)
    assert table.rows == (("ALL", "0.833 (12)"),)


def test_whose_a_score_is_is_in_the_signature_and_two_versions_are_told(tmp_path: Path) -> None:
    first = pacer.score(REFERENCES, REPORTS, metrics={"mine": words}, out=tmp_path)
    assert read_json(tmp_path / "signature.json")["scores"]["mine"] == f"mean of your score, {__name__}:words"
    other = pacer.score(REFERENCES, REPORTS, metrics={"mine": lambda references, reports: [1.0] * 3})
    compared = pacer.compare(first, other, resamples=20)
    notes = compared.table().notes
    assert "; they may compute different values" in repr(compared) and "yours" not in repr(compared)
    further = pacer.score(REFERENCES, REPORTS, metrics={"mine": words, "yours": words})
    assert "\nyours is left out: only one run has this score" in repr(pacer.compare(first, further, resamples=20))
    assert any(re.match(r"mine: mean of your score, \S+:words and mean of your score, \S+<lambda>", n) for n in notes)


def test_a_package_offers_a_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = {
        "lab.py": "def overlap(references, reports):\n    return [len(text) for text in reports]\n",
        "lab_scores-1.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: lab-scores\nVersion: 1.2\n",
        "lab_scores-1.2.dist-info/entry_points.txt": "[pacer.scores]\noverlap = lab:overlap\nbroken = lab:none\n",
        "lab_scores-1.2.dist-info/top_level.txt": "lab\n",
    }
    for name, text in package.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    scored = pacer.score(REFERENCES, REPORTS, metrics=["overlap"])
    assert scored.scores["all"]["overlap"] == pytest.approx(sum(map(len, REPORTS.values())) / 3)
    assert scored.signature.scores["overlap"] == "mean of your score, lab:overlap of lab-scores 1.2"
    by_setting = pacer.score(REFERENCES, REPORTS, settings=DEFAULTS.model_copy(update={"metrics": ["overlap"]}))
    assert by_setting.scores == scored.scores
    by_function = pacer.score(REFERENCES, REPORTS, metrics={"overlap": sys.modules["lab"].overlap})
    assert by_function.signature.scores["overlap"] == scored.signature.scores["overlap"]
    for name, error in (
        ("missing", "pacer.scores has no entry point missing; known: overlap"),
        ("broken", "cannot be imported"),
    ):
        with pytest.raises(ConfigError, match=error):
            pacer.score(REFERENCES, REPORTS, metrics=[name])
    monkeypatch.delitem(sys.modules, "lab")
