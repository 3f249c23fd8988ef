"""Commands of README.md and of pages run on a finished run and print what is quoted; so does the
notebook docs/tour.ipynb."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository import ROOT, Repository


def block(page: str, heading: str) -> str:
    """The first block of commands below a heading of a page."""
    found = re.search(
        rf"^{heading}\n.*?```bash\n(.*?)```",
        (ROOT / page).read_text(),
        re.DOTALL | re.MULTILINE,
    )
    assert found is not None
    return found[1]


def test_experiments(repository: Repository) -> None:
    # a few updates in miniature may change no score, which --all shows too
    commands = block("README.md", "## Experiments with DVC")
    commands = commands.replace("dvc metrics diff", "dvc metrics diff --all")
    commands = commands.replace(
        "git commit", "git -c user.name=test -c user.email=test@localhost commit --allow-empty"
    )
    output = repository.run("bash", "-euo", "pipefail", "-c", commands)
    assert "mean.f1" in output
    assert "variant: endpoint" not in (repository.folder / "params.yaml").read_text()


def test_a_trained_model(repository: Repository) -> None:
    """`pacer serve` waits for requests, so it is asked for its help alone; the study is one of the
    micro profile."""
    image = next((repository.folder / "data/source/images").glob("p*/p*/s*/*.jpg"))
    study = image.parent.relative_to(repository.folder)
    commands = block("docs/serving.md", "# Serving")
    commands = re.sub(r"^study=\S+", f"study={study}", commands, flags=re.MULTILINE)
    commands = re.sub(r"\$study/\w+\*\.jpg", str(image.relative_to(repository.folder)), commands)
    commands = re.sub(r"\$\(ls [^)]*\)", str(image.relative_to(repository.folder)), commands)
    commands = commands.replace("pacer serve", "pacer serve --help")
    output = repository.run("bash", "-euo", "pipefail", "-c", commands)
    assert (repository.folder / "models/mine/model.safetensors").is_file()
    assert all(context in output for context in ("SN", "SW", "--port"))


BLOCK = re.compile(r"```bash\n([^`]*)```\n```text\n([^`]*)```", re.DOTALL)
QUOTED = [
    found
    for found in BLOCK.findall((ROOT / "docs/evaluation.md").read_text(encoding="utf-8"))
    if "pacer compare" in found[0]
]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quoted") / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return folder


def test_quoted_output(clone: Path) -> None:
    assert len(QUOTED) == 1
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    }
    for commands, quoted in QUOTED:
        run = ["bash", "-euo", "pipefail", "-c", commands]
        done = subprocess.run(
            run, cwd=clone, env=environment, capture_output=True, text=True, check=True
        )
        printed = iter([line.rstrip() for line in done.stdout.splitlines()])
        for line in quoted.splitlines():
            assert line.rstrip() in printed, (commands, line)


TOUR = ROOT / "docs" / "tour.ipynb"


def forms(path: Path) -> list[list[list[str]]]:
    """The forms of each output of each cell of code."""
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    return [
        [sorted(output.get("data", ["stream"])) for output in cell["outputs"]] for cell in cells
    ]


def test_the_tour(repository: Repository, tmp_path: Path) -> None:
    copy = shutil.copy(TOUR, tmp_path)
    repository.run(sys.executable, "-P", str(ROOT / "tests" / "support" / "tour.py"), str(copy))
    assert not any(forms(TOUR))
    assert all(forms(tmp_path / "tour.ipynb"))
    shown = [form for cell in forms(tmp_path / "tour.ipynb") for form in cell]
    assert shown.count(["image/png", "text/plain"]) == 2
    assert shown.count(["text/html", "text/plain"]) >= 5
