"""PACER's rows in docs/compatibility.md are what it gives now. The other tools are not run."""

from pathlib import Path

import other_tools
import pytest

from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
SCORERS = other_tools.scorers(without=["meteor"])  # Java takes seconds


def test_images(tmp_path: Path) -> None:
    name = "PACER, `open_image`"
    (written,) = (cells for row, *cells in ROWS if row == name)
    paths = other_tools.write_images(tmp_path).values()
    for cell, path in zip(written, paths, strict=True):
        if path.exists():  # JPEG 2000 needs an encoder that is not installed everywhere
            assert other_tools.read(other_tools.READERS[name], path) == cell


@pytest.mark.parametrize("name", ["PACER", "PACER, `--clean decimals`"])
def test_scores(name: str) -> None:
    written = {score: cells for row, score, *cells in ROWS if row == name}
    del written["METEOR"]
    assert other_tools.cells(SCORERS[name]) == written


def test_the_pairs_are_those_of_the_page() -> None:
    text = " ".join(PAGE.split())
    for pair in other_tools.PAIRS.values():
        assert all(one in text for one in pair)
