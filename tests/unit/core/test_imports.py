"""Importing the package changes nothing in the process."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Modules of the extra ``pipeline``, which are called as their distributions. Base modules are
#: those that are imported without them.
OF_PIPELINE = {line.partition(">")[0] for line in PROJECT["optional-dependencies"]["pipeline"]}
#: Imports the base modules. Modules of other packages that they need are listed at the end, and are
#: imported before the comparison by a second process, so that only changes by this package count.
CODE = """
import logging
import os
import pkgutil
import signal
import sys
import threading
import warnings
from importlib import import_module

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in OF_PIPELINE:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def modules():
    import pacer
    yield "pacer"
    def fail(name):
        pass
    for module in pkgutil.walk_packages(pacer.__path__, "pacer.", onerror=fail):
        yield module.name

def import_base_modules():
    imported = []
    for name in modules():
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name.partition(".")[0] not in OF_PIPELINE:
                raise
        else:
            imported.append(name)
    return imported

def state():
    return {
        "environment": dict(os.environ),
        "working directory": os.getcwd(),
        "sys.path": list(sys.path),
        "warnings": list(warnings.filters),
        "handlers": [
            list(logger.handlers) for logger in map(logging.getLogger, ("", "pacer"))
        ],
        "levels": [logging.getLogger(name).level for name in ("", "pacer")],
        "signals": {
            number: signal.getsignal(number)
            for number in signal.valid_signals()
        },
        "hooks": (sys.excepthook, sys.unraisablehook, sys.displayhook, threading.excepthook),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "streams": (sys.stdout, sys.stderr),
        "umask": os.umask(UMASK),
    }

sys.meta_path.insert(0, Blocked())
os.umask(UMASK)
for name in OTHERS:
    import_module(name)
before = state()
imported = import_base_modules()
after = state()
if OTHERS:
    changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    assert not changed, changed
assert len(imported) > 60, imported
others = []
for name, module in sys.modules.items():
    # compiled packages leave modules without a specification, which cannot be imported by name
    has_specification = getattr(module, "__spec__", None) is not None
    if has_specification and name.partition(".")[0] not in ("pacer", "__main__"):
        others.append(name)
print(*others)
"""


def others_imported(others: list[str]) -> list[str]:
    """The modules of other packages that the base modules import, in a new process."""
    code = f"OF_PIPELINE = {sorted(OF_PIPELINE)}\nOTHERS = {others}\nUMASK = 0o027\n{CODE}"
    # not the environment of the tests, which has what an import in this process may have set; an
    # entry point would change MPLBACKEND
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "MPLBACKEND": "svg"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_importing_every_base_module_changes_nothing() -> None:
    others_imported(others_imported([]))


def test_the_package_is_marked_as_typed() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert (ROOT / "pacer" / "py.typed").read_text(encoding="utf-8") == ""
    assert "py.typed" in data["tool"]["setuptools"]["package-data"]["*"]
