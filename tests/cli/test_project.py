"""Set-up: pins that agree, the test command that continuous integration reads, and stages that the README names."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONSTRAINTS = dict(
    line.split("==")
    for line in (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)


def test_direct_dependencies_are_pinned_as_in_the_constraints():
    listed = PROJECT["dependencies"] + [line for extra in PROJECT["optional-dependencies"].values() for line in extra]
    canonical = {name.lower().replace("_", "-"): version for name, version in CONSTRAINTS.items()}
    assert {
        name.lower().replace("_", "-"): version for name, version in (line.split("==") for line in listed)
    }.items() <= (canonical.items())


def test_constraints_fit_every_machine():
    assert not [version for version in CONSTRAINTS.values() if "+" in version]
    assert not [name for name in CONSTRAINTS if re.match(r"nvidia-(?!ml-py)|cuda|triton|torchvision", name)]


def test_continuous_integration_fails_when_the_tests_fail(tmp_path: Path):
    outcome = run_ci(tmp_path, "echo '3 passed, 2 failed in 0.10s'; false", check="true")
    assert outcome.returncode == 1
    assert outcome.stdout.splitlines()[-1] == "4 passed, 2 failed"


def test_continuous_integration_fails_when_the_check_fails(tmp_path: Path):
    outcome = run_ci(tmp_path, "echo '3 passed, 5 deselected in 75.10s (0:01:15)'", check="false")
    assert outcome.returncode == 1
    assert outcome.stdout.splitlines()[-1] == "3 passed, 1 failed"


@pytest.mark.parametrize("command", ["false", "echo no tests ran in 0.01s; exit 5"])
def test_continuous_integration_fails_when_no_test_ran(tmp_path: Path, command: str):
    outcome = run_ci(tmp_path, command, check="true")
    assert outcome.returncode == 1
    assert outcome.stdout.splitlines()[-1] == "1 passed, 1 failed"


def test_continuous_integration_passes_when_all_pass(tmp_path: Path):
    outcome = run_ci(tmp_path, "echo '== 12 passed in 1.00s =='", check="true")
    assert outcome.returncode == 0
    assert outcome.stdout.splitlines()[-1] == "13 passed, 0 failed"


def test_the_readme_states_the_test_command():
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    stated = readme.partition("<!-- test-command -->")[2].partition("<!-- /test-command -->")[0]
    assert [line for line in stated.splitlines() if line and not line.startswith("```")] == ["make test"]


def run_ci(folder: Path, command: str, check: str) -> subprocess.CompletedProcess:
    """``.ci/run`` in a folder whose README states ``command`` and whose `make check` runs ``check``."""
    (folder / ".ci").mkdir()
    (folder / ".ci" / "run").write_bytes((REPOSITORY / ".ci" / "run").read_bytes())
    (folder / "README.md").write_text(f"<!-- test-command -->\n```bash\n{command}\n```\n<!-- /test-command -->\n")
    (folder / "Makefile").write_text(f"check:\n\t{check}\n")
    return subprocess.run(["bash", ".ci/run"], cwd=folder, capture_output=True, text=True)
