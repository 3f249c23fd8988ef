import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """A script of `bench/` as a module, by its name."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[3] / "bench"))
    return importlib.import_module
