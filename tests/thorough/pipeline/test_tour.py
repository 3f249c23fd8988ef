"""The notebook docs/tour.ipynb runs on a finished run, and has its outputs."""

import json
import shutil
import sys
from pathlib import Path

from tests.support.repository import ROOT, Repository

TOUR = ROOT / "docs" / "tour.ipynb"


def forms(path: Path) -> list[list[list[str]]]:
    """The forms of each output of each cell of code."""
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    return [[sorted(output.get("data", ["stream"])) for output in cell["outputs"]] for cell in cells]


def test_the_tour(repository: Repository, tmp_path: Path) -> None:
    copy = shutil.copy(TOUR, tmp_path)
    repository.run(sys.executable, "-P", str(ROOT / "tests" / "support" / "tour.py"), str(copy))
    assert forms(tmp_path / "tour.ipynb") == forms(TOUR)
    assert sum(map(len, forms(TOUR))) >= 8 and TOUR.stat().st_size < 400_000
