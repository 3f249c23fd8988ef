"""Code that the pages show is laid out and linted as `make check` asks."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def ruff(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ruff", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_the_recipes_for_parts_pass_the_check_as_they_are_pasted(tmp_path: Path) -> None:
    diffs = re.findall(r"^  ```diff\n(.*?)^  ```", CONTRIBUTING, re.DOTALL | re.MULTILINE)
    recipes = [re.sub("^  ", "", diff, flags=re.MULTILINE) for diff in diffs if "+++ b/" in diff]
    assert len(recipes) == 2
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    names = set(re.findall(r"^--- a/(.*)$", "".join(recipes), re.MULTILINE))
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    for recipe in recipes:
        subprocess.run(["git", "apply", "-"], input=recipe, cwd=tmp_path, text=True, check=True)
    assert len(list(tmp_path.rglob("*.py"))) == len(names)  # one is new, and one is no Python
    ours = "lint.isort.known-first-party = ['pacer']"  # few of its modules are here
    for arguments in (("format", "--diff"), ("check", "--config", ours)):
        done = ruff(tmp_path, *arguments, "--no-cache", ".")
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_examples_are_laid_out(tmp_path: Path) -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for page in pages:
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^( *)```python\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
        for number, (indent, block) in enumerate(blocks, 1):
            code = re.sub(f"^{indent}", "", block, flags=re.MULTILINE)
            (tmp_path / f"{page.stem}_{number}.py").write_text(code)
    assert len(list(tmp_path.glob("*.py"))) > 8
    done = ruff(tmp_path, "format", "--diff", "--no-cache", ".")
    assert done.returncode == 0, done.stdout + done.stderr
    done = ruff(tmp_path, "check", "--select", "E501", "--no-cache", ".")
    assert done.returncode == 0, done.stdout + done.stderr
