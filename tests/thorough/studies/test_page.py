"""A study's page in a real browser: nothing on the console, nothing asked of the network, no wider than the window."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pacer.studies.page import write_table
from pacer.studies.study import load_study
from pacer.studies.table import build_table
from tests.support.browser import needs_browser, overflow, visit
from tests.unit.studies.test_table import scored

pytestmark = needs_browser
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("width", [420, 1400])
def test_the_page_of_a_study_in_a_browser(tmp_path: Path, width: int) -> None:
    study = load_study(ROOT / "studies", "components")
    values = {metric: 0.5 for metric in study.metrics} | {"n": 20}
    contexts = {context: values for context in ("sn", "sw", "mn", "mw")}
    runs = [scored(row, 42, **contexts) for row in range(len(study.rows))]
    write_table(*build_table(study, runs), tmp_path / "study")
    page = tmp_path / "study" / "table.html"
    seen = visit(page, width, tmp_path / "visit")
    assert (seen.console, seen.requests) == ([], [])
    pixels = np.asarray(seen.picture.convert("RGB"))
    assert len(np.unique(pixels[:1000].reshape(-1, 3), axis=0)) > 50  # text is drawn
    assert overflow(page, width, tmp_path / "width") <= 0
