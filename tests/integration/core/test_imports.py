"""What a module does not import."""

from __future__ import annotations

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
