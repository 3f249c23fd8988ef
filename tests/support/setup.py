"""The script that looks at an environment."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def setup_script(clone: Path) -> ModuleType:
    """Return check_setup.py of a clone as a module."""
    spec = spec_from_file_location("check_setup", clone / "check_setup.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
