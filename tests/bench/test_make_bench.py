"""`make bench` runs each of its scripts without arguments."""

from __future__ import annotations

import argparse
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DRY = subprocess.run(["make", "--dry-run", "bench"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
(LOOP,) = re.findall("^for script in (.*?);", DRY, flags=re.MULTILINE)


class Parsed(Exception):
    """The script has read its arguments."""


@pytest.mark.slow
@pytest.mark.parametrize("script", LOOP.split())
def test_every_script_runs_without_arguments(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, parse = (ROOT / script).read_text(), argparse.ArgumentParser.parse_args
    if "argparse" not in text:
        assert "sys.argv" not in text or "len(sys.argv)" in text
        return

    def parsed(parser: argparse.ArgumentParser, *_: object) -> None:
        parse(parser, [])
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parsed)
    monkeypatch.setattr(sys, "argv", [script])
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    with pytest.raises(Parsed):
        runpy.run_path(str(ROOT / script), run_name="__main__")
