"""Agreement with radiologists, on an invented repository in RadPref's and RadJudge's layout."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import radiologists
from scipy.stats import kendalltau

import pacer
from pacer.phantom.language import sample_texts

TEXTS = [report.text for report in sample_texts(3, 12)]
TESTS = """
RANKING_TESTS = [
    {"category": "A", "tests": [
        {"id": "1", "ground_truth": "Edema.", "expected_ranking": ["C1 > C2", "C2 > C3"],
         "candidates": {"C1": {"text": "Edema."}, "C2": {"text": "Possible edema."},
                        "C3": {"text": "No edema."}}},
        {"id": "2", "ground_truth": "Pneumothorax.", "expected_ranking": "C2 > C1",
         "candidates": {"C1": {"text": "Pneumothorax."}, "C2": {"text": "Clear."}}},
    ]},
    {"category": "B", "tests": [
        {"id": "3", "ground_truth": "Edema.", "expected_ranking": "C1 = C2",
         "candidates": {"C1": {"text": "There is edema."}, "C2": {"text": "Edema."}}},
    ]},
]
raise SystemExit("this file was run")
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """All radiologists rate by the reward."""
    cases, marks = [], {}
    for number, text in enumerate(TEXTS):
        reports = {"C1": TEXTS[number - 1], "C2": TEXTS[number - 2]}
        cases.append({"id": f"case {number}", "ground_truth_report": text})
        marks[f"case {number}"] = {}
        for (name, report), source in zip(reports.items(), ("one", "other"), strict=True):
            cases[-1] |= {f"{name}_source": source, f"{name}_report": report}
            (value,) = pacer.reward([report], [text])
            errors = {str(index): {} for index in range(round(100 - 100 * value))}
            found = {"rating": 1 + 4 * value, "finding_errors": errors, "missing_findings": {}}
            marks[f"case {number}"][name] = found
    (folder := tmp_path / "RadPref" / "radiologist_annotations").mkdir(parents=True)
    (folder.parent / "preference_data.json").write_text(json.dumps(cases))
    for reader in (1, 2, 3):
        (folder / f"user_{reader}.json").write_text(json.dumps({"annotations": marks}))
    (tmp_path / "RadJudge").mkdir()
    (tmp_path / "RadJudge" / "test_cases.py").write_text(TESTS)
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for command in (("init", "--quiet"), ("add", "."), (*who, "commit", "--quiet", "-m", "a")):
        subprocess.run(["git", "-C", tmp_path, *command], check=True)
    return tmp_path


def test_tau_is_that_of_scipy_and_weights_repeat_values() -> None:
    draw = np.random.default_rng(0)
    first, second = draw.integers(0, 5, (2, 40)).astype(float)
    counts = draw.integers(0, 4, (3, 40))
    found = radiologists.taus(first, second, counts.astype(float))
    for one, value in zip(counts, found, strict=True):
        expected = kendalltau(first.repeat(one), second.repeat(one)).statistic
        assert value == pytest.approx(expected)


def test_scores_of_an_invented_repository(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = clone / "results.md"
    monkeypatch.setattr(sys, "argv", ["radiologists.py", str(clone), "--out", str(out)])
    radiologists.main()
    printed = capsys.readouterr().out
    assert out.read_text() == printed.rstrip("\n") + "\n"
    assert not any(text in printed for text in TEXTS)
    rows = [line.strip("| ").split(" | ") for line in printed.splitlines() if line[:1] == "|"]
    ratings, errors, values = (row[1:] for row in rows if row[0] == "pacer:reward")
    perfect = "1.000 (1.00 to 1.00)"
    assert ratings[:-1] == ["24", *[perfect] * 5] == errors[:-1]
    assert int(values[0]) > 5 and values[1:] == ["0.000", "2"]
    assert [row[2] for row in rows if row[0].startswith("radiologist 2")] == [perfect] * 2
    language = next(row for row in rows if row[0] == "bleu4")
    assert float(language[-1].split()[0]) == pytest.approx(1 - float(language[2].split()[0]))
    assert ["a copy of the reference", "1.000", "1.000"] in rows
    assert [row[2] for row in rows if row[0] == "repetition"][:2] == ["–", "–"]


def test_a_folder_that_is_no_clone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="expected a clone of https"):
        radiologists.read_pairs(tmp_path)
