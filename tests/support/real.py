"""Real data, where they lie beside the repository."""

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def real(path: str) -> Path:
    """A file or folder of the real data; without it the test is skipped."""
    if not (DATA / path).exists():
        pytest.skip(f"the real data are not at {DATA / path}")
    return DATA / path
