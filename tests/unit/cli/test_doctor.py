"""Setting up and `pacer doctor`: what is missing is said first, and how to get it."""

import platform
import runpy
import shutil
import sys
from pathlib import Path

import pytest
import torch

from pacer.cli.command import Finding, diagnose, models
from pacer.config import Params, validated
from tests.support.cases import listed_cases
from tests.support.cli import REPOSITORY
from tests.support.profiles import profile

obstacle = runpy.run_path(str(REPOSITORY / "check_setup.py"))["obstacle"]


def test_nothing_stands_against_a_clone_on_a_supported_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    (tmp_path / ".git").mkdir()
    for minor in range(11, 15):
        monkeypatch.setattr(sys, "version_info", (3, minor, 0))
        for system, machine in (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")):
            monkeypatch.setattr(sys, "platform", system)
            monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
            assert obstacle() is None


@pytest.mark.parametrize(("changes", "told"), listed_cases(__file__, "obstacles"))
def test_each_obstacle_is_one_sentence(
    changes: dict[str, object], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    for name, value in changes.items():
        monkeypatch.setattr(sys, name, tuple(value) if isinstance(value, list) else value)
    assert told in obstacle() and "\n" not in obstacle()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert changes or obstacle().startswith("git is not on the PATH")


def changed(name: str, **groups: dict) -> Params:
    values = profile(name).model_dump()
    for group, changes in groups.items():
        values[group] |= changes
    return validated(values, "params", Params)


def found(params: Params) -> dict[str, Finding]:
    return {finding.what: finding for finding in diagnose(params)}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, as working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_default_profile_lacks_nothing(pacer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    outcome = pacer("doctor")
    assert outcome.code == 0 and "no CUDA GPU available; models run on the CPU" in outcome.out, (
        outcome.error
    )
    for shown in (
        "params.yaml: phantom",
        "torch",
        "stand-in: bundled with the package",
    ):
        assert shown in outcome.out


def test_missing_weights_say_how_to_get_them(pacer):
    assert pacer("use", "mimic_rg4").code == 0
    outcome = pacer("doctor")
    assert outcome.code == 1
    assert (
        outcome.error.strip()
        == "error: `dvc repro` would fail; fix everything marked `missing` above"
    )
    command = (
        "`hf download lmsys/vicuna-7b-v1.5 --revision 3321f76e3f527bd14065daf69dad9344000a201d`"
    )
    assert command in outcome.out, "it can be pasted"
    assert "corpus.root" in outcome.out


@pytest.mark.parametrize(("settings", "key", "state", "detail"), listed_cases(__file__, "labels"))
def test_settings_of_labelling_that_a_stage_would_refuse(
    settings: dict, key: bool, state: str, detail: str, monkeypatch: pytest.MonkeyPatch
):
    """Consent is seen before any stage, and before the key."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if key:
        monkeypatch.setenv("OPENAI_API_KEY", "key")
    params = profile("mimic_rg4")
    anchors = params.anchors.model_copy(
        update={"llm": params.anchors.llm.model_copy(update=settings)}
    )
    finding = found(params.model_copy(update={"anchors": anchors}))["anchors.llm"]
    assert finding.state == state and detail in finding.detail


def test_a_local_model_is_checked_for_what_its_role_needs(tmp_path: Path):
    (tmp_path / "config.json").write_text("{}")
    params = changed(
        "phantom", backbones={"chexbert": {"provider": "local", "path": str(tmp_path)}}
    )
    finding = models(params)[3]
    assert finding.state == "missing" and "it lacks chexbert.pth" in finding.detail


def test_the_checkpoint_that_the_parent_starts_from_is_looked_for(tmp_path: Path):
    for start, state in ((tmp_path, "ok"), (tmp_path / "absent", "missing")):
        assert models(changed("phantom", parent={"start": str(start)}))[4].state == state


def test_files_of_the_corpus_are_looked_for(here: Path):
    detail = found(changed("table"))["corpus.root"].detail
    assert "my-studies is not a folder; set it to the folder that contains the corpus" in detail
    (here / "NLMCXR_reports.tgz").write_text("")
    params = changed("openi", corpus={"root": str(here), "images": "."})
    states = {what: finding.state for what, finding in found(params).items()}
    expected = {
        "corpus.root": "ok",
        "openi.reports": "ok",
        "openi.projections": "missing",
        "images": "ok",
    }
    assert expected.items() <= states.items()


@pytest.mark.parametrize(("name", "config", "warned"), listed_cases(__file__, "remotes"))
def test_a_remote_that_reports_would_be_pushed_to(here: Path, name: str, config: str, warned: bool):
    (here / ".dvc").mkdir()
    (here / ".dvc/config.local").write_text(config, encoding="utf-8")
    findings = found(changed(name))
    assert ("DVC remote" in findings) == warned and (
        not warned or "lab" in findings["DVC remote"].detail
    )


def test_weights_that_are_not_llm_rg4s_are_one_clear_line(pacer, repository: Path):
    (repository / "page.pth").write_text("<html>quota</html>")
    outcome = pacer("import-llm-rg4", "page.pth", "--out", "llm")
    assert outcome.code == 1 and "page.pth is not a complete PyTorch file" in outcome.error
    assert not (repository / "llm").exists()
