"""Whatever a command would write, a place that cannot be written is one sentence, said before any work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

COMMANDS = {
    "audit": ["audit", "--params", "configs/micro.yaml", "--out", "{}"],
    "decode": ["decode", "--records", "nowhere.parquet", "--out", "{}"],
    "features": ["decode", "--records", "nowhere.parquet", "--images", "i", "--out", "new", "--features", "{}"],
    "score": ["score", "--records", "nowhere.parquet", "--predictions", "nowhere", "--out", "{}"],
    "export": ["export", "{}"],
    "show": ["show", "s", "--systems", "a", "b", "--out", "{}"],
    "import": ["import-llm-rg4", "nowhere.pth", "--out", "{}"],
}
FILES = {
    "labels": ["score", "--records", "r", "--predictions", "p", "--out", "new", "--labels", "{}"],
    "generate": ["generate", "--model", "nowhere", "--cases", "nowhere.csv", "--out", "{}"],
    "checklist": ["checklist", "--out", "{}"],
    "anchors": ["anchors", "show", "sn-1", "--html", "{}"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("a file", "is a file; name a folder for the output"),
        ("/proc/x", "cannot be written: No such file or directory; name a folder for the output elsewhere"),
        ("a file/below", "cannot be written: Not a directory; name a folder for the output elsewhere"),
    ],
)
def test_a_folder_that_cannot_be_written_is_refused_first(pacer, repository: Path, command: str, out: str, said: str):
    (repository / "a file").touch()
    outcome = pacer(*(argument.format(out) for argument in COMMANDS[command]))
    assert outcome.code == 1 and outcome.error == f"error: {out} {said}\n"


@pytest.mark.parametrize("command", FILES)
@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("configs", "is a folder; name a file for the output"),
        ("/dev/full", "is a device or a pipe; name a file for the output"),
        ("/proc/x", "cannot be written: No such file or directory; name a file for the output elsewhere"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_first(pacer, repository: Path, command: str, out: str, said: str):
    outcome = pacer(*(argument.format(out) for argument in FILES[command]))
    assert outcome.code == 1 and outcome.error == f"error: {out} {said}\n"


def test_without_a_folder_audit_needs_one_that_can_be_written_for_its_problems(pacer, repository: Path):
    (repository / "problems.csv").mkdir()
    outcome = pacer("audit", "--params", "configs/micro.yaml")
    assert outcome.code == 1 and outcome.error == "error: problems.csv is a folder; name a file for the output\n"


def test_a_study_needs_its_folder_of_results(pacer, repository: Path):
    (repository / "studies").mkdir()
    (repository / "studies" / "one.yaml").write_text(
        (Path(__file__).parents[2] / "studies/mechanisms.yaml").read_text()
    )
    (repository / "studies" / "results").touch()
    for verb in ("run", "show"):
        outcome = pacer("study", verb, "one")
        assert outcome.code == 1 and "studies/results/one cannot be written: Not a directory" in outcome.error


@pytest.mark.parametrize("name", ["cases.csv", "cases.tsv", "cases"])
def test_cases_in_a_pipe_are_refused_instead_of_waited_for(pacer, repository: Path, name: str):
    os.mkfifo(repository / name)
    outcome = pacer("generate", "--model", "nowhere", "--cases", name, "--out", "reports.jsonl")
    assert outcome.code == 1 and f"error: {name}" in outcome.error and outcome.error.count("\n") == 1
