"""Commands of DVC in the documentation run the stages that they are said to run, and no others."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import REPOSITORY
from tests.unit.cli.test_documented_commands import PAGES

#: Commands as documented -> the stages that run in a repository that is up to date.
EXPECTED = {
    "dvc repro -f -s score": ["score"],
    "dvc repro -f -s anchor_llm": ["anchor_llm"],
    "dvc repro -f -s features": ["features"],
    "dvc repro -f source": ["source"],
    "dvc exp run -S calibrate.lambda_cons=0.1": ["calibrate", "decode", "score", "report"],
    "dvc exp run -S score.columns=columns.csv": ["score", "report"],
    "dvc exp run -S decode.commitment=read -S decode.select=agreement": [
        "decode",
        "score",
        "report",
    ],
}
#: Options that change what runs; commands with them must be in EXPECTED.
FORCED = re.compile(r"\s(-f|--force)\b")


def documented() -> set[str]:
    """Every `dvc repro` and `dvc exp run` of the pages, without comments and what follows."""
    found = set()
    for page in PAGES:
        for text in re.findall(r"dvc (?:repro|exp run)[^`#;|&\n]*", page.read_text("utf-8")):
            found.add(" ".join(text.replace("\\", " ").split()))
    return found


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of the repository, whose committed `dvc.lock` says that all is up to date; skipped
    while it is that of other code."""
    folder = tmp_path_factory.mktemp("clone") / "repository"
    subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(folder)], check=True)
    command = ["dvc", "repro", "--dry", "--allow-missing"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    if "Running stage" in done.stdout:
        pytest.skip("dvc.lock is not of this code; run `dvc repro` and commit it")
    return folder


def test_every_forced_command_is_expected() -> None:
    assert {command for command in documented() if FORCED.search(command)} <= EXPECTED.keys()
    assert EXPECTED.keys() <= documented()


@pytest.mark.parametrize("command", sorted(documented() | EXPECTED.keys()))
def test_it_runs_these_stages(clone: Path, command: str) -> None:
    words = shlex.split(command)
    at = words.index("run") + 1 if "exp" in words else 2
    dry = [*words[:at], "--dry", "--allow-missing", *words[at:]]
    if "--queue" in words or words[-1].endswith("-S"):
        pytest.skip("it only queues, or its value is the reader's")
    done = subprocess.run(dry, cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ran = re.findall(r"Running stage '(\w+)'", done.stdout)
    subprocess.run(["git", "reset", "--quiet", "--hard"], cwd=clone, check=True)
    if command in EXPECTED:
        assert ran == EXPECTED[command]
    elif "repro" in words:
        assert ran == []
    else:
        assert ran
