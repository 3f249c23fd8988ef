"""A page in a real browser: what it writes to the console and what it asks of the network."""

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
