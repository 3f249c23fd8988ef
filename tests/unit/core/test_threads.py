"""How OpenMP's threads wait is said before torch is imported, and the user's own word counts."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("script", sorted((ROOT / "stages").glob("*.py")), ids=lambda path: path.stem)
def test_no_stage_imports_torch_before_the_package(script: Path) -> None:
    lines = script.read_text(encoding="utf-8").splitlines()
    imported = [line.split()[1].split(".")[0] for line in lines if line.startswith(("import ", "from "))]
    of_torch = [place for place, name in enumerate(imported) if name in ("torch", "accelerate")]
    assert not of_torch or "pacer" in imported[: of_torch[0]]
