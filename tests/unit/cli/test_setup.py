"""What check_setup.py finds in an environment, which is made of files here."""

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from pacer.cli import command
from tests.support.cases import listed_cases
from tests.support.cli import REPOSITORY
from tests.support.setup import setup_script

VERSION = f"python{sysconfig.get_python_version()}"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """check_setup.py of a clone whose `.venv` is right; it starts no process."""
    for name in ("check_setup.py", "pyproject.toml", "constraints.txt"):
        shutil.copy(REPOSITORY / name, tmp_path)
    script = setup_script(tmp_path)
    monkeypatch.setattr(script, "subprocess", None)
    (script.VENV / "bin").mkdir(parents=True)
    (script.VENV / "bin" / "python").symlink_to(sys.executable)
    packages = script.VENV / "lib" / VERSION / "site-packages"
    for name, version in (script.pinned() | own(script)).items():
        folder = packages / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "INSTALLER").write_text("pip\n")
    (packages / "pip").mkdir()
    (packages / "pip" / "__main__.py").touch()
    for name in script.SCRIPTS:
        write_script(script, name, f"#!{script.VENV}/bin/python")
    (packages / "__editable__.pacer_cxr.pth").write_text(f"{tmp_path}\n")
    return script


def own(script: ModuleType) -> dict[str, str]:
    """The versions of packages that constraints.txt does not name."""
    return {"pacer-cxr": script.project()["version"], "pip": "26.0"}


def write_script(script: ModuleType, name: str, head: str) -> None:
    (script.VENV / "bin" / name).write_text(f"{head}\nimport sys\n")


def metadata(script: ModuleType, name: str) -> Path:
    [folder] = script.site_packages(script.VENV).glob(f"{name}-*.dist-info")
    return folder


def test_a_right_environment(script: ModuleType, capsys: pytest.CaptureFixture) -> None:
    assert script.look(script.VENV) == ([], {}) and script.usable() == 0
    assert script.install(exactly=False) == 0 and capsys.readouterr().out == ""
    assert script.install(exactly=True) == 0
    assert capsys.readouterr().out == ".venv has the packages of constraints.txt; nothing to do\n"


def test_other_versions_are_listed(script: ModuleType, capsys: pytest.CaptureFixture) -> None:
    """A build for certain hardware is the pinned version, and other packages are not compared."""
    for name, version in {"pillow": "13.0.0", "torch": "2.13.0+cu126", "pip": "27.0"}.items():
        folder = metadata(script, name)
        folder.rename(folder.with_name(f"{name}-{version}.dist-info"))
    assert script.look(script.VENV) == ([], {"pillow": "pillow 13.0.0 instead of 12.3.0"})
    assert script.install(exactly=False) == 0
    assert capsys.readouterr().out == (
        "note: .venv has other versions than constraints.txt: pillow 13.0.0 instead of 12.3.0; "
        "`make setup` restores these\n"
    )


def test_what_is_missing_is_listed(script: ModuleType) -> None:
    """Also missing: a package whose installation was interrupted, be it one that pyproject.toml
    does not name, and one whose console script was removed."""
    shutil.rmtree(metadata(script, "torch"))
    (metadata(script, "sympy") / "INSTALLER").unlink()
    (script.VENV / "bin" / "dvc").unlink()
    assert script.look(script.VENV) == (["dvc", "sympy", "torch"], {})
    shutil.rmtree(metadata(script, "pacer_cxr"))
    assert script.look(script.VENV) == (["dvc", "pacer-cxr", "sympy", "torch"], {})
    assert script.described(list("abcdefg"), {}) == "lacks a, b, c, d, e and 2 more"


def test_the_package_is_this_clone_of_this_version_by_a_path_entry(
    script: ModuleType, tmp_path: Path
) -> None:
    packages = script.site_packages(script.VENV)
    file = packages / "__editable__.pacer_cxr.pth"
    for text in (f"{REPOSITORY}\n", "import __editable___pacer_cxr_finder\n"):
        file.write_text(text)
        assert script.look(script.VENV) == ([f"the path of {tmp_path}"], {})
    metadata(script, "pacer_cxr").rename(packages / "pacer_cxr-0.1.dist-info")
    assert script.look(script.VENV) == ([f"pacer-cxr {script.project()['version']}"], {})


def test_nothing_is_installed_in_a_linked_environment(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """It is that of another clone, where this package comes from as well."""
    script.VENV.rename(tmp_path / "other")
    script.VENV.symlink_to("other")
    (script.site_packages(script.VENV) / "__editable__.pacer_cxr.pth").unlink()
    assert script.install(exactly=True) == 0
    metadata(script, "pillow").rename(script.site_packages(script.VENV) / "pillow-1.dist-info")
    assert script.install(exactly=True) == 0
    assert "pillow 1 instead of 12.3.0; it is a link" in capsys.readouterr().out
    shutil.rmtree(metadata(script, "pillow"))
    refused = script.install(exactly=True)
    assert "an environment that lacks pillow" in refused and "remove the link" in refused
    shutil.rmtree(script.site_packages(script.VENV) / "pip")
    assert script.usable() == 0
    shutil.rmtree(tmp_path / "other" / "lib")
    assert script.usable() == 1 and "remove the link" in script.create()
    assert (tmp_path / "other" / "bin").is_dir()


@pytest.mark.parametrize(("head", "starts"), listed_cases(__file__, "heads"))
def test_console_scripts_name_the_environments_python(
    script: ModuleType, head: str, starts: bool
) -> None:
    """They keep naming the old folder after the clone was moved or copied."""
    write_script(script, "dvc", head.replace("VENV", str(script.VENV)))
    assert (script.flaw(script.VENV) is None) == starts
    assert starts or "`dvc` belongs to another folder" in script.flaw(script.VENV)


def test_a_python_that_was_replaced(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    script.site_packages(script.VENV).parent.rename(script.VENV / "lib" / "python3.10")
    assert script.flaw(script.VENV).startswith("its Python was replaced by 3.")
    monkeypatch.setattr(sys, "version_info", (3, 10, 0))
    assert script.flaw(script.VENV).startswith("its Python is 3.")


def test_doctor_compares_with_the_constraints(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command._environment(tmp_path) == [], "another environment runs"
    monkeypatch.setattr(sys, "prefix", str(script.VENV))
    [found] = command._environment(tmp_path)
    assert found.state == "ok"
    metadata(script, "pillow").rename(script.site_packages(script.VENV) / "pillow-1.dist-info")
    [found] = command._environment(tmp_path)
    assert found.state == "note" and "pillow 1 instead of 12.3.0; run `make setup`" in found.detail
    shutil.rmtree(metadata(script, "torch"))
    [found] = command._environment(tmp_path)
    assert found.state == "missing" and "lacks torch, and has other versions" in found.detail
    os.remove(tmp_path / "check_setup.py")
    assert command._environment(tmp_path) == [], "not a clone"
