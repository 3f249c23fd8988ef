"""`make setup` with a real environment and pip. The project is a small one that needs no network:
its only dependency is a wheel in its folder, and a script there builds it."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.cli import REPOSITORY
from tests.support.setup import setup_script

PROJECT = """
[build-system]
requires = []
build-backend = "builder"
backend-path = ["."]

[project]
name = "pacer-cxr"
version = "1.0"
dependencies = ["leaf>=1"]

[project.optional-dependencies]
meteor = []
corpus = []
pages = []
pipeline = []
excel = []
dev = ["pacer-cxr[pipeline]"]
"""
#: A build backend. The package is a path entry, and has the command `pacer`.
BUILDER = """
import os
from zipfile import ZipFile

def build_editable(folder, config_settings=None, metadata_directory=None):
    with ZipFile(os.path.join(folder, "pacer_cxr-1.0-py3-none-any.whl"), "w") as wheel:
        wheel.writestr("here.pth", os.getcwd())
        wheel.writestr(
            "pacer_cxr-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\\nName: pacer-cxr\\nVersion: 1.0\\n"
            "Requires-Dist: leaf>=1\\nProvides-Extra: dev\\n",
        )
        wheel.writestr("pacer_cxr-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        entry = "[console_scripts]\\npacer = leaf:main\\n"
        wheel.writestr("pacer_cxr-1.0.dist-info/entry_points.txt", entry)
        wheel.writestr("pacer_cxr-1.0.dist-info/RECORD", "")
    return "pacer_cxr-1.0-py3-none-any.whl"
"""


def write_leaf(folder: Path, version: str) -> None:
    with zipfile.ZipFile(folder / f"leaf-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("leaf.py", f"def main():\n    print({version!r})\n")
        metadata = f"Metadata-Version: 2.1\nName: leaf\nVersion: {version}\n"
        wheel.writestr(f"leaf-{version}.dist-info/METADATA", metadata)
        tags = "Wheel-Version: 1.0\nTag: py3-none-any\n"
        wheel.writestr(f"leaf-{version}.dist-info/WHEEL", tags)
        wheel.writestr(f"leaf-{version}.dist-info/RECORD", "")


class Clone:
    """A clone of the small project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".git").mkdir(parents=True)
        for name in ("Makefile", "check_setup.py"):
            shutil.copy(REPOSITORY / name, folder)
        (folder / "pyproject.toml").write_text(PROJECT)
        (folder / "builder.py").write_text(BUILDER)
        (folder / "constraints.txt").write_text("leaf==1.0\n")
        for version in ("1.0", "2.0"):
            write_leaf(folder, version)
        # without what `make test` and the user's pip have set
        own = ("PIP_", "PYTHON", "MAKE", "MFLAGS")
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(own)
        } | {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}

    def run(self, *command: str, code: int = 0) -> str:
        """Return what a command prints."""
        ended = subprocess.run(
            command,
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert ended.returncode == code, ended.stdout
        return ended.stdout

    def make(self, target: str, python: str = sys.executable, code: int = 0) -> str:
        return self.run("make", target, f"PYTHON={python}", code=code)

    def pip(self, *arguments: str) -> None:
        self.run(".venv/bin/python", "-m", "pip", *arguments)


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path / "clone")


def test_setup_makes_and_mends_the_environment(clone: Clone) -> None:
    """All begins with an environment without pip, such as that of `uv venv`."""
    clone.run(sys.executable, "-m", "venv", "--without-pip", ".venv")
    assert "setting up .venv, which lacks leaf, pacer-cxr\n" in clone.make("setup")
    assert "nothing to do" in clone.make("setup") and clone.make("ready") == ""
    assert clone.run(".venv/bin/pacer") == "1.0\n"

    clone.pip("install", "leaf==2.0")
    assert "leaf 2.0 instead of 1.0; `make setup` restores these" in clone.make("ready")
    assert clone.run(".venv/bin/pacer") == "2.0\n"
    assert "leaf 2.0 instead of 1.0\n" in clone.make("setup")
    assert clone.run(".venv/bin/pacer") == "1.0\n"

    clone.pip("uninstall", "--yes", "leaf")
    script = clone.folder / ".venv" / "bin" / "pacer"
    script.unlink()
    assert "lacks leaf, pacer-cxr" in clone.make("ready")
    assert clone.run(".venv/bin/pacer") == "1.0\n"

    script.write_text(f"#!/elsewhere{script.parent}/python\n")
    refused = clone.make("setup", python="false", code=2)
    assert "its command `pacer` belongs to another folder or Python" in refused


@pytest.mark.parametrize("left", ["nothing", "a link to a Python that is gone", "half of pip"])
def test_an_environment_without_use_is_made_anew(clone: Clone, left: str) -> None:
    """The other Python writes down what it is asked."""
    python = clone.folder / "python"
    python.write_text('#!/bin/sh\necho "asked: $@"\nexit 3\n')
    python.chmod(0o755)
    own = clone.folder / ".venv" / "bin" / "python"
    if left == "half of pip":
        clone.run(sys.executable, "-m", "venv", "--without-pip", ".venv")
        packages = setup_script(clone.folder).site_packages(clone.folder / ".venv")
        (packages / "pip-99.0.dist-info").mkdir()
        (packages / "pip-99.0.dist-info" / "METADATA").write_text("Name: pip\nVersion: 99.0\n")
    elif left != "nothing":
        own.parent.mkdir(parents=True)
        own.symlink_to("/gone/python3")
    printed = clone.make("ready", python=str(python), code=2)
    assert "asked: check_setup.py create\n" in printed and "not found" not in printed
    assert ("it has no pip" in printed) == (left == "half of pip")


def test_a_python_without_ensurepip_is_refused_before_anything_is_written(clone: Clone) -> None:
    """Debian and Ubuntu have it in a package of its own."""
    (clone.folder / "ensurepip").mkdir()
    clone.environment["PYTHONPATH"] = str(clone.folder)
    (clone.folder / "ensurepip" / "__init__.py").touch()
    refused = clone.make("setup", code=2)
    version = ".".join(map(str, sys.version_info[:2]))
    assert "without ensurepip" in refused and f"apt install python{version}-venv" in refused
    assert not (clone.folder / ".venv").exists()
