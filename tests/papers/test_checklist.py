"""The checklist: every number of both standards, every answer from a file, and none from a file that is not there."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from pacer.papers.checklist import FILE, _said, _yaml, fill_checklist
from pacer.params import load_params
from tests.reporting.conftest import ROOT, Run

pytestmark = pytest.mark.slow


@pytest.fixture
def repository(full_run: Run, tmp_path: Path) -> Path:
    """The made-up run in the layout of the repository, with its lock file."""
    root = tmp_path / "repository"
    for name in ("corpus", "anchors", "emphasis"):
        shutil.copytree(full_run.root / name, root / "data" / name)
    shutil.copytree(full_run.root / "metrics", root / "metrics")
    shutil.copy(ROOT / "configs" / "phantom.yaml", root / "params.yaml")
    signature = json.loads((root / "metrics/signature.json").read_text())
    signature["predictions"]["settings"] = {"num_beams": 3, "max_new_tokens": 260}
    (root / "metrics/signature.json").write_text(json.dumps(signature))
    cases = pl.read_parquet(root / "metrics/cases.parquet")
    views = [("AP", "PA")[place % 2] for place in range(len(cases))]
    cases.with_columns(pl.Series("view", views)).write_parquet(root / "metrics/cases.parquet")
    corpus = load_params(root / "params.yaml").corpus.model_dump(mode="json")
    made = [{"path": "data/corpus", "hash": "md5", "md5": "abc.dir", "size": 1}]
    lock = {"stages": {"corpus": {"cmd": "x", "params": {"params.yaml": {"corpus": corpus}}, "outs": made}}}
    (root / "dvc.lock").write_text(json.dumps(lock))  # JSON is YAML
    return root


def tripod() -> list[str]:
    letters = {3: "ab", 5: "abcde", 6: "abcde", 7: "abcde", 8: "abc", 9: "ab", 14: "abcdef", 16: "abcd", 19: "abcdefg"}
    return [f"{number}{letter}" for number in range(1, 20) for letter in letters.get(number, [""])]


def test_both_standards_have_all_their_items() -> None:
    one, other = (standard["items"] for standard in _yaml(FILE)["standards"])
    assert list(one) == tripod() and len(one) == 49
    assert list(other) == [str(number) for number in range(1, 45)]
    for item in (*one.values(), *other.values()):
        assert {"asks"} <= set(item) <= {"asks", "facts", "left"} and all(
            isinstance(text, str) for text in item.values()
        )


def test_every_fact_answers_something_and_every_file_is_one_that_the_pipeline_makes() -> None:
    questions = _yaml(FILE)
    items = [item for standard in questions["standards"] for item in standard["items"].values()]
    assert {fact for item in items for fact in item.get("facts", "").split()} == set(questions["facts"])
    text = (ROOT / "dvc.yaml").read_text() + (ROOT / "README.md").read_text() + (ROOT / "docs/training.md").read_text()
    for name in {name for files in questions["facts"].values() for name in files}:
        folder = name.rsplit("/", 1)[0] if "/" in name else name
        assert (ROOT / name).is_file() or folder in text or folder.rsplit("/", 1)[0] in text, name


def test_answers_name_their_file_and_hold_its_numbers(repository: Path) -> None:
    filled = fill_checklist(repository, repository / "metrics")
    text = filled.markdown
    assert "- [x] **5b** " in text and "[sizes](#sizes)" in text and "(`data/corpus/audit.json`)" in text
    audit = json.loads((repository / "data/corpus/audit.json").read_text())
    assert f"records (sn train {audit['contexts']['sn']['train']['records']}, " in text
    assert "settings (num_beams 3, max_new_tokens 260)" in text and "MD5 of (data/corpus abc.dir)" in text
    assert "Write radiological finding and impression for this posterior anterior chest X-ray visual feature" in text
    [f1] = re.findall(r"F1 \(sn ([\d.]+) \[([\d.]+), ([\d.]+)\]", text)
    assert float(f1[1]) <= float(f1[0]) <= float(f1[2]) and "10,000 bootstrap samples of" in text
    assert "F1 by (" in text.split("### groups\n")[1].split("###")[0]
    assert "- [ ] **3a** What is the clinical context" in text and "stand-in for CheXbert" in text
    for line in text.splitlines():
        if line.startswith("- [x]"):
            facts, files = re.findall(r"\]\(#(\w+)\)", line), re.findall(r"`([\w/.]+)`", line)
            assert facts and files and all(f"### {fact}\n" in text for fact in facts)
    for title, counts in filled.counts.items():
        part = text.split(f"## {title}\n")[1].split("\n## ")[0]
        assert part.count("- [x]") == counts[0] + counts[1] and part.count("- [ ]") == counts[2]


def test_a_fresh_clone_has_few_answers_and_says_what_is_not_there(tmp_path: Path) -> None:
    filled = fill_checklist(tmp_path, tmp_path / "metrics")
    assert "`data/corpus/audit.json`" in filled.markdown.split("Not there: ")[1]
    answered = re.findall(r"- \[x\] \*\*(\w+)\*\*", filled.markdown)
    assert answered == ["6c", "9a", "11"]  # the prompt is in the code
    assert "(`pacer/model/prompt/instruction.py`), nothing on decoding\n" in filled.markdown
    assert filled.counts == {"TRIPOD-LLM": (0, 3, 46), "CLAIM 2024": (0, 0, 44)}


def test_parameters_that_changed_since_are_told(repository: Path) -> None:
    assert "params.yaml is not what" not in fill_checklist(repository, repository / "metrics").markdown
    text = (repository / "params.yaml").read_text()
    (repository / "params.yaml").write_text(text.replace("target: findings_and_impression", "target: findings", 1))
    said = fill_checklist(repository, repository / "metrics").markdown
    assert "**params.yaml is not what corpus ran with (dvc.lock): its answers may be of another run.**" in said


def test_scores_of_another_folder(repository: Path, tmp_path: Path) -> None:
    shutil.move(repository / "metrics", tmp_path / "elsewhere")
    filled = fill_checklist(repository, tmp_path / "elsewhere")
    assert "- `metrics/scores.json`: precision (sn 0.612" in filled.markdown


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("a", "x 1"),
        ("b/*", "x (u 2, v 3)"),
        ("b", "x (u 2, v 3)"),
        ("*/u", "x (b 2)"),
        ("d/*/n", "x (p 0.1235, q none)"),
        ("e", "x [f, g]"),
        ("g", "x \\<A>"),
        ("no", ""),
        ("a/u", ""),
        ("empty", "x []"),
        ("nothing", "x none"),
    ],
)
def test_paths(path: str, said: str) -> None:
    values = {
        "a": 1,
        "b": {"u": 2, "v": 3},
        "d": {"p": {"n": 0.12345678}, "q": {"n": None}},
        "e": ["f", "g"],
        "empty": [],
        "nothing": {},
        "g": "<A>",
    }
    assert _said(values, {"x": path}) == said


def test_the_wording_is_plain_ascii_questions() -> None:
    assert FILE.read_text().isascii()
    for standard in _yaml(FILE)["standards"]:
        assert all(item["asks"].rstrip(")").endswith(("?", ".")) for item in standard["items"].values())
