"""The committed params.yaml."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]


def test_the_committed_parameters_are_the_phantom_profile():
    committed = subprocess.run(["git", "show", "HEAD:params.yaml"], cwd=REPOSITORY, capture_output=True, text=True)
    if committed.returncode:
        pytest.skip("not a git checkout")
    assert committed.stdout == (REPOSITORY / "configs" / "phantom.yaml").read_text(encoding="utf-8")
