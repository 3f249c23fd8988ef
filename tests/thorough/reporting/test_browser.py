"""The report in a real browser: nothing on the console, nothing asked of the network, nothing wider
than the window."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pacer.reporting.results import read_results
from pacer.reporting.sections import build_report
from tests.support.browser import CHROMIUM


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed; `apt-get install chromium`")
@pytest.mark.parametrize("width", [390, 1400])
def test_the_report_in_a_browser(full_run, tmp_path: Path, width: int):
    """Unfolded for axe, which looks for what shuts people out."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed (extra dev)"
    )
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed (extra dev)"
    ).Axe()
    build_report(read_results(**full_run.arguments), tmp_path / "reports")
    address, problems = (tmp_path / "reports" / "index.html").as_uri(), []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "request",
            lambda request: (
                request.url.startswith((address, "data:")) or problems.append(request.url)
            ),
        )
        page.goto(address)
        shown = np.asarray(Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB"))
        assert (
            len(np.unique(shown[:1000].reshape(-1, 3), axis=0)) > 50 and shown[2000:3000].std() > 5
        )  # it is drawn
        page.evaluate("document.querySelectorAll('details').forEach(folded => folded.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") == width and problems == []
        violations = axe.run(page).response["violations"]
        assert not [(one["id"], one["nodes"][0]["html"][:120]) for one in violations]
        browser.close()
