"""What a module does not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_pydicom_is_loaded_for_dicom_only() -> None:
    code = "import sys, pacer.data.images; sys.exit('pydicom' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_torch_is_loaded_for_computed_marks_alone() -> None:
    code = "import sys, pacer.emphasis.build_emphasis; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
