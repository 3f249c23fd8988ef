"""What a module does not import, and what the package says before torch is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("imported", "absent"),
    [
        ("pacer.data.images", "pydicom"),  # loaded for DICOM files only
        ("pacer.emphasis.build_emphasis", "torch"),  # loaded for computed marks alone
    ],
)
def test_what_is_loaded_only_where_it_is_needed(imported: str, absent: str) -> None:
    code = f"import sys, {imported}; sys.exit({absent!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


@pytest.mark.parametrize(("given", "expected"), [({}, "1000"), ({"GOMP_SPINCOUNT": "5"}, "5")])
def test_importing_the_package_says_how_long_threads_spin(given: dict[str, str], expected: str) -> None:
    clean = {key: value for key, value in os.environ.items() if key != "GOMP_SPINCOUNT"}
    code = "import os, sys, pacer; print(os.environ['GOMP_SPINCOUNT'], 'torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], env=clean | given, capture_output=True, text=True, check=True)
    assert shown.stdout.split() == [expected, "False"]
