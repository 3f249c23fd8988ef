"""The recipes of CONTRIBUTING.md for a mixer and a loss term: their diffs, applied to a copy, pass
the tests that every row has to pass."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DIFFS = re.findall(
    r"^  ```diff\n(.*?)^  ```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL | re.MULTILINE
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the tests of mixers and terms read, with both diffs applied."""
    folder = tmp_path_factory.mktemp("recipes") / "pacer"
    for name in ("pacer", "tests", "configs"):
        shutil.copytree(
            ROOT / name,
            folder / name,
            ignore=shutil.ignore_patterns("__pycache__", "*.safetensors"),
        )
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copy(ROOT / "configs" / "phantom.yaml", folder / "params.yaml")
    recipes = [re.sub("^  ", "", diff, flags=re.MULTILINE) for diff in DIFFS if "+++ b/" in diff]
    assert len(recipes) == 2
    for recipe in recipes:
        subprocess.run(["git", "apply", "-"], input=recipe, cwd=folder, text=True, check=True)
    assert (folder / "pacer" / "model" / "image_mixer.py").exists()
    return folder


def ran(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ) | {
        "PYTHONPATH": str(folder),
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
    }
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_the_recipes_pass_the_tests_of_every_row(copy: Path) -> None:
    files = ("tests/unit/model/test_refine.py", "tests/unit/training/test_reference.py")
    done = ran(
        copy,
        "-m",
        "pytest",
        "-v",
        "-p",
        "no:cacheprovider",
        *files,
        "-k",
        "mixer or shares or whole_batch",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for test in ("every_mixer_starts", "depth_weights_are_shares", "two_processes"):
        assert re.search(rf"{test}.*PASSED", done.stdout), done.stdout
    assert len(re.findall(r"\[image\b.*PASSED", done.stdout)) == 3, done.stdout


def test_after_the_new_key_pacer_use_says_what_to_do(copy: Path) -> None:
    main = "from pacer.cli import main; main()"
    refused = ran(copy, "-c", main, "use", "micro")
    assert (
        refused.returncode == 1
        and "train.lambda_entropy is missing (params.yaml was edited, or comes from a different "
        "version"
        in refused.stderr
    )
    assert "`pacer use micro --force` overwrites it" in refused.stderr
    assert ran(copy, "-c", main, "use", "micro", "--force").returncode == 0
    assert "lambda_entropy: 0.0" in (copy / "params.yaml").read_text()
