"""The report in a real browser: nothing on the console, nothing asked of the network, nothing wider than the window."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pacer.reporting.build_report import build_report
from tests.support.browser import CHROMIUM, needs_browser, visit

pytestmark = needs_browser


@pytest.mark.parametrize("width", [420, 1400])
def test_the_report_in_a_browser(full_run, tmp_path: Path, width: int):
    build_report(**full_run.arguments, out=tmp_path / "reports")
    page = tmp_path / "reports" / "index.html"
    seen = visit(page, width, tmp_path / "visit")
    assert (seen.console, seen.requests) == ([], [])
    assert seen.picture.size == (width, 3000)
    pixels = np.asarray(seen.picture.convert("RGB"))
    assert len(np.unique(pixels[:1000].reshape(-1, 3), axis=0)) > 50 and pixels[2000:].std() > 5  # something is drawn


@pytest.mark.parametrize("width", [390, 1400])
def test_axe_finds_nothing_in_the_unfolded_report(full_run, tmp_path: Path, width: int):
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (extra dev)")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (extra dev)").Axe()
    build_report(**full_run.arguments, out=tmp_path / "reports")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto((tmp_path / "reports" / "index.html").as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(folded => folded.open = true)")
        violations = axe.run(page).response["violations"]
        assert not [(one["id"], one["nodes"][0]["html"][:120]) for one in violations]
        assert page.evaluate("document.documentElement.scrollWidth") == width
        browser.close()
