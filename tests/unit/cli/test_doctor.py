"""`pacer doctor`: what is there, what is missing, and how to get it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import torch
from rich.filesize import decimal

from pacer.backbones.families import patch_grid, vision_config
from pacer.cli.doctor import Finding, diagnose, models
from pacer.config import Params, parse_params
from pacer.core.io import write_json
from pacer.data.source import point_to_files
from pacer.features.encode import image_bytes
from pacer.features.prepare import Preparation
from tests.support.families import write_encoder
from tests.support.profiles import profile


def changed(name: str, **groups: dict) -> Params:
    values = profile(name).model_dump()
    for group, changes in groups.items():
        values[group] |= changes
    return parse_params(values)


def found(title: str, params: Params) -> dict[str, Finding]:
    return {finding.what: finding for finding in dict(diagnose(params))[title]}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, as working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """``free(bytes)`` says how much room the disk has."""
    return lambda size: monkeypatch.setattr(
        shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**14, 0, size)
    )


def test_the_default_profile_lacks_nothing(pacer):
    outcome = pacer("doctor")
    assert outcome.code == 0, outcome.error
    for shown in ("params.yaml: phantom", "torch", "CPU cores", "GB free", "stand-in, comes with the package"):
        assert shown in outcome.out


def test_a_machine_without_a_supported_gpu(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    for available, told in {False: "none available", True: "an Intel GPU (xpu) is not supported"}.items():
        monkeypatch.setattr(torch.xpu, "is_available", lambda available=available: available)
        expected = Finding("GPU", "note", f"{told}, models run on the CPU")
        assert found("Machine", changed("phantom"))["GPU"] == expected


def test_missing_weights_say_how_to_get_them(pacer):
    assert pacer("use", "mimic_rg4").code == 0
    outcome = pacer("doctor")
    assert outcome.code == 1
    assert outcome.error.strip() == "error: `dvc repro` would stop; fix what is marked `missing` above"
    command = "`hf download lmsys/vicuna-7b-v1.5 --revision 3321f76e3f527bd14065daf69dad9344000a201d`"
    assert command in outcome.out, "it can be pasted"
    assert "corpus.root" in outcome.out


def test_the_refusal_to_send_reports_is_seen_before_any_stage_and_before_the_key(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    params = profile("mimic_rg4")

    def labels(**changes: object) -> Finding:
        llm = params.anchors.llm.model_copy(update=changes)
        anchors = params.anchors.model_copy(update={"llm": llm})
        return found("Labels", params.model_copy(update={"anchors": anchors}))["anchors.llm"]

    assert labels().state == "missing" and "send_reports_to is not set" in labels().detail
    assert "needs an API key" in labels(send_reports_to="api.openai.com").detail
    assert "absent.jsonl does not exist" in labels(provider="recorded", recorded="absent.jsonl").detail
    assert "absent.md cannot be read" in labels(provider="none", prompt_file="absent.md").detail
    assert labels(provider="none").state == "ok"
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    assert labels(send_reports_to="api.openai.com").state == "ok"


def test_a_local_model_is_checked_for_what_its_role_needs(tmp_path: Path):
    (tmp_path / "config.json").write_text("{}")
    params = changed("phantom", backbones={"chexbert": {"provider": "local", "path": str(tmp_path)}})
    finding = models(params)[3]
    assert finding.state == "missing" and "no chexbert.pth" in finding.detail
    assert "chexbert.pth is linked in the README of github.com/stanfordmlgroup/CheXbert" in finding.detail


def test_the_checkpoint_that_the_parent_starts_from_is_looked_for(tmp_path: Path):
    for start, state in ((tmp_path, "ok"), (tmp_path / "absent", "missing")):
        assert models(changed("phantom", parent={"start": str(start)}))[4].state == state


def test_the_package_that_quantises_is_missed(monkeypatch: pytest.MonkeyPatch):
    def installed(name: str) -> str:
        if name == "bitsandbytes":
            raise PackageNotFoundError
        return version(name)

    monkeypatch.setattr("pacer.cli.doctor.version", installed)
    assert "bitsandbytes" not in found("Machine", changed("phantom"))
    row = found("Machine", changed("phantom", train={"quantization": "nf4"}))["bitsandbytes"]
    assert row.state == "missing" and "'.[nf4]'" in row.detail


def audited(params: Params, root: str, images: int) -> None:
    """What the stages `source` and `corpus` leave of a corpus below ``root``."""
    write_json("data/source/source.json", {"root": root, "files": {}, "images": ""})
    audit = {"contexts": dict.fromkeys(params.corpus.contexts), "images": {"count": images}}
    write_json("data/corpus/audit.json", audit)


def test_the_disk_is_judged_once_the_same_corpus_is_read(free: Callable[[int], None], here: Path):
    params = changed("mimic_rg4", corpus={"root": str(here)})
    unknown = "is known after `dvc repro corpus`"
    free(10**13)
    assert found("Machine", params)["Disk"].detail.endswith(unknown)
    audited(params, "/another/corpus", 269_402)
    assert found("Machine", params)["Disk"].detail.endswith(unknown)
    audited(params, str(here), 269_402)
    for size, state, told in (
        (10**13, "ok", "about 1.7 TB (269,402 images)"),
        (10**12, "missing", "set features.mode: pixels (72.3 GB)"),
        (10**9, "missing", "free some space"),
    ):
        free(size)
        disk = found("Machine", params)["Disk"]
        assert disk.state == state and disk.detail.endswith(told)
    (here / "data" / "features").mkdir()
    assert found("Machine", params)["Disk"].state == "ok", "features that are there need no room"


def test_the_disk_is_planned_by_the_encoder_that_is_named(free: Callable[[int], None], here: Path):
    encoder = write_encoder("dinov2", here / "encoder")
    local = {"vision": {"provider": "local", "path": str(encoder)}}
    params = changed("openi", corpus={"root": str(here)}, backbones=local)
    audited(params, str(here), 1000)
    config, preparation = vision_config(encoder), Preparation(encoder)
    rows, columns = patch_grid(config, *preparation.size)
    need = 1000 * image_bytes(
        params.features, params.features.mode, rows * columns, config.hidden_size, preparation.pixels
    )
    free(10**12)
    assert f"about {decimal(need)} (1,000 images)" in found("Machine", params)["Disk"].detail


@pytest.mark.parametrize(
    ("role", "name", "reason"),
    [
        ("language", "mistralai/Mixtral-8x7B-v0.1", "mixture of experts"),
        ("language", "Qwen/Qwen3-30B-A3B", "mixture of experts"),
        ("language", "google/gemma-2-2b-it", "changes its logits"),
        ("language", "CohereLabs/c4ai-command-r7b-12-2024", "changes its logits"),
        ("language", "openai-community/gpt2", "form of blocks"),
        ("language", "google/gemma-3-4b-it", "images and text"),
        ("vision", "openai/clip-vit-base-patch32", "no norm"),
        ("language", "google/gemma-3-1b-it", "`hf download google/gemma-3-1b-it"),
        ("language", "Qwen/Qwen3-0.6B", "`hf download Qwen/Qwen3-0.6B"),
        ("language", "meta-llama/Llama-3.2-1B", "`hf download meta-llama/Llama-3.2-1B"),
    ],
)
def test_a_family_that_is_refused_is_never_downloaded(role: str, name: str, reason: str):
    backbone = {"provider": "hub", "id": name, "revision": "0" * 40}
    row = {finding.what: finding for finding in models(changed("mimic_rg4", backbones={role: backbone}))}[role]
    assert row.state == "missing" and reason in row.detail
    assert ("hf download" in row.detail) == ("hf download" in reason)


def test_files_of_the_corpus_are_looked_for(here: Path):
    detail = found("Corpus", changed("table"))["corpus.root"].detail
    assert "my-studies is not a folder; set it to the folder that contains the corpus" in detail
    (here / "NLMCXR_reports.tgz").write_text("")
    params = changed("openi", corpus={"root": str(here), "images": "."}, score={"columns": "absent.csv"})
    assert {what: finding.state for what, finding in found("Corpus", params).items()} == {
        "corpus.root": "ok",
        "openi.reports": "ok",
        "openi.projections": "missing",
        "images": "ok",
        "score.columns": "missing",
    }


def test_files_that_changed_since_they_were_described_are_named(here: Path):
    (here / "studies.csv").write_text("a")
    table = {"file": "studies.csv", "columns": {}, "delimiter": None, "encoding": "utf-8"}
    params = changed("openi", corpus={"root": str(here), "format": "table", "images": ".", "table": table})
    point_to_files(params.corpus, here / "data" / "source")
    assert "source" not in found("Corpus", params)
    (here / "studies.csv").write_text("b")
    note = found("Corpus", params)["source"]
    assert note.state == "note"
    assert "has changed since the source was made" in note.detail and "dvc repro -f source" in note.detail


@pytest.mark.parametrize(("profile_name", "config", "warned"), [
    ("table", "[core]\n    remote = lab\n['remote \"lab\"']\n    url = /mnt/lab\n", True),
    ("table", "[core]\n    analytics = false\n", False),
    ("phantom", "[core]\n    remote = lab\n", False),
])  # fmt: skip
def test_a_remote_that_reports_would_be_pushed_to(here: Path, profile_name: str, config: str, warned: bool):
    (here / ".dvc").mkdir()
    (here / ".dvc/config.local").write_text(config, encoding="utf-8")
    findings = found("Corpus", changed(profile_name))
    assert ("DVC remote" in findings) == warned and (not warned or "lab" in findings["DVC remote"].detail)
