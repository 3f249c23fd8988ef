"""The polars lines that mend tables, and the polars code of two pages, run with the lowest and the
pinned version of polars."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support import page_code
from tests.support.lowest_versions import PROJECT, lowest
from tests.support.mending_lines import run_lines


def lowest_polars() -> str:
    """Return ``polars==version``, the lowest that pyproject.toml allows."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    return next(lowest(line) for line in project["dependencies"] if line.startswith("polars>="))


def pinned(package: str) -> str:
    """Return ``package==version`` of constraints.txt."""
    lines = PROJECT.with_name("constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith(f"{package}=="))


@pytest.mark.parametrize("polars", [lowest_polars(), pinned("polars")])
def test_each_line_runs(polars: str, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    others = [pinned(package) for package in ("openpyxl", "numpy", "pillow")]
    install = [str(python), "-m", "pip", "install", "--quiet", polars, *others]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode:
        reason = f"{polars} cannot be installed (no network?)"
        pytest.skip(f"{reason}; the unit test runs the lines with the installed version")
    version = polars.partition("==")[2]
    assert run_lines(python, tmp_path) == version
    done = subprocess.run([str(python), page_code.__file__], capture_output=True, text=True)
    assert done.stdout.strip() == version, done.stderr
