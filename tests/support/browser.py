"""A page in a real browser: what it writes to the console, what it asks of the network, and whether it fits."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from PIL import Image

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        if (found := shutil.which(name))
    ),
    None,
)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed; `apt-get install chromium`")

#: Added to a copy of the page, all of it unfolded: what is wider than the window, outside of what scrolls by itself,
#: goes to the console.
_WIDTH_CHECK = """<script>addEventListener("load", () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
  const wide = document.documentElement.scrollWidth;
  console.log("WIDTH " + wide + " of " + innerWidth);
});</script></body>"""


class Visit(NamedTuple):
    """What the browser wrote to its console, which addresses it asked for, and the picture of the page."""

    console: list[str]
    requests: list[str]
    picture: Image.Image


def visit(page: Path, width: int, folder: Path) -> Visit:
    folder.mkdir()
    log, picture = folder / "net.json", folder / "page.png"
    assert CHROMIUM is not None
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--disable-extensions",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        f"--user-data-dir={folder / 'profile'}",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--enable-logging=stderr",
        "--v=0",
        f"--log-net-log={log}",
        f"--screenshot={picture}",
        f"--window-size={width},3000",
        page.absolute().as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    content = json.loads(log.read_text())
    started = content["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    # the browser's own questions (updates, clock) have no origin
    asked = [
        event["params"]["url"]
        for event in content["events"]
        if event["type"] == started
        and "url" in event.get("params", {})
        and event["params"].get("initiator") != "not an origin"
    ]
    image = Image.open(picture)
    image.load()
    return Visit([line for line in done.stderr.splitlines() if "CONSOLE" in line], asked, image)


def overflow(page: Path, width: int, folder: Path) -> int:
    """Pixels by which a page is wider than the window."""
    folder.mkdir()
    checked = folder / "checked.html"
    checked.write_text(page.read_text(encoding="utf-8").replace("</body>", _WIDTH_CHECK), encoding="utf-8")
    [line] = visit(checked, width, folder / "visit").console
    widest, window = (int(part) for part in line.split("WIDTH ")[1].split('"')[0].split(" of "))
    return widest - window
