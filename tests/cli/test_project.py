"""Set-up: pins that agree, the test command that continuous integration reads, and stages that the README names."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from importlib.metadata import packages_distributions
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


def test_what_is_imported_is_a_dependency():
    """Of the package itself, or of an extra that its users install; not of the tools for development alone."""
    extras = PROJECT["optional-dependencies"]
    given = [*PROJECT["dependencies"], *(one for name, own in extras.items() if name != "dev" for one in own)]
    wanted = {canonical(one.split("==")[0]) for one in given}
    of_module = packages_distributions()
    for path in [*(REPOSITORY / "pacer").rglob("*.py"), *(REPOSITORY / "stages").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
            for name in {name.split(".")[0] for name in names} & of_module.keys() - {"pacer"}:
                assert wanted & {canonical(one) for one in of_module[name]}, (
                    f"{path.relative_to(REPOSITORY)} imports {name}"
                )


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


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
