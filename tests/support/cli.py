"""The command line as a user meets it: arguments in, exit code and words out."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pacer.cli import main
from pacer.display.terminal import console

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    error: str


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like the repository's root, with its profiles and its params.yaml, as working
    directory."""
    shutil.copytree(REPOSITORY / "configs", tmp_path / "configs")
    shutil.copy(REPOSITORY / "configs" / "phantom.yaml", tmp_path / "params.yaml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(
        console, "width", 200
    )  # read at its creation, which an earlier test may have caused
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


@pytest.fixture
def pacer(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> Callable[..., Outcome]:
    """``pacer("use", "micro")`` -> :class:`Outcome`."""

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["pacer", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return Outcome(ended.value.code or 0, printed.out, printed.err)

    return run
