"""Importing the package says how threads wait, before torch is imported."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("given", "expected"), [({}, "1000"), ({"GOMP_SPINCOUNT": "5"}, "5")])
def test_importing_the_package_says_how_long_threads_spin(given: dict[str, str], expected: str) -> None:
    clean = {key: value for key, value in os.environ.items() if key != "GOMP_SPINCOUNT"}
    code = "import os, sys, pacer; print(os.environ['GOMP_SPINCOUNT'], 'torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], env=clean | given, capture_output=True, text=True, check=True)
    assert shown.stdout.split() == [expected, "False"]
