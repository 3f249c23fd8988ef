"""`pacer doctor`: what is there, what is missing, and how to get it."""

from __future__ import annotations

import json
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
from pacer.config.profiles import load_profile
from pacer.core.io import write_json
from pacer.data.source import point_to_files
from pacer.features.encode import image_bytes
from pacer.features.prepare import Preparation
from tests.support.families import write_encoder

REPOSITORY = Path(__file__).parents[3]


def changed(name: str, **groups: dict) -> Params:
    values = load_profile(REPOSITORY / "configs" / f"{name}.yaml").model_dump()
    for group, changes in groups.items():
        values[group] |= changes
    return parse_params(values)


def found(title: str, params: Params, root: Path = REPOSITORY / "tests") -> dict[str, Finding]:
    return {finding.what: finding for finding in diagnose(params, root)[title]}


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
    told = "none with CUDA, models run on the CPU"
    assert found("Machine", changed("phantom"))["GPU"] == Finding("GPU", "note", told)


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
    params = load_profile(REPOSITORY / "configs" / "mimic_rg4.yaml")

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


@pytest.mark.parametrize("revision", ["main", "0" * 40])
def test_a_revision_is_pinned_by_a_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, revision: str):
    (snapshot := tmp_path / ("0" * 40)).mkdir()
    (snapshot / "config.json").write_text('{"model_type": "bert"}')
    monkeypatch.setattr("pacer.backbones.hub.locate", lambda backbone, role: snapshot)
    params = changed("phantom", backbones={"text": {"provider": "hub", "id": "owner/model", "revision": revision}})
    text = models(params)[2]
    assert text.state == ("note" if revision == "main" else "ok")
    assert ("revision main can move to another commit; this one is " + "0" * 40 in text.detail) == (revision == "main")


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


@pytest.mark.parametrize("profile", ["mimic_rg4", "mimic_cxr"])
def test_the_disk_is_judged_once_the_corpus_is_read(free: Callable[[int], None], tmp_path: Path, profile: str):
    params = changed(profile, corpus={"root": str(tmp_path)})
    free(10**13)
    assert found("Machine", params, tmp_path)["Disk"].detail.endswith("is known after `dvc repro corpus`")
    for name, content in (
        ("source/source.json", {"root": str(tmp_path)}),
        ("corpus/audit.json", {"contexts": dict.fromkeys(params.corpus.contexts), "images": {"count": 269_402}}),
    ):
        write_json(tmp_path / "data" / name, content)
    disk = found("Machine", params, tmp_path)["Disk"]
    assert disk.state == "ok" and disk.detail.endswith("about 1.7 TB (269,402 images)")
    free(10**12)
    disk = found("Machine", params, tmp_path)["Disk"]
    assert disk.state == "missing" and disk.detail.endswith("set features.mode: pixels (72.3 GB)")
    free(10**9)
    assert found("Machine", params, tmp_path)["Disk"].detail.endswith("free some space")


def test_the_disk_is_planned_by_the_encoder_that_is_named(free: Callable[[int], None], tmp_path: Path):
    encoder = write_encoder("dinov2", tmp_path / "encoder")
    local = {"vision": {"provider": "local", "path": str(encoder)}}
    params = changed("openi", corpus={"root": str(tmp_path)}, backbones=local)
    write_json(tmp_path / "data/source/source.json", {"root": str(tmp_path)})
    audit = {"contexts": dict.fromkeys(params.corpus.contexts), "images": {"count": 1000}}
    write_json(tmp_path / "data/corpus/audit.json", audit)
    config, preparation = vision_config(encoder), Preparation(encoder)
    rows, columns = patch_grid(config, *preparation.size)
    need = 1000 * image_bytes(
        params.features, params.features.mode, rows * columns, config.hidden_size, preparation.pixels
    )
    free(10**12)
    assert f"about {decimal(need)} (1,000 images)" in found("Machine", params, tmp_path)["Disk"].detail


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
    ],
)
def test_a_family_that_is_refused_is_never_downloaded(role: str, name: str, reason: str):
    backbone = {"provider": "hub", "id": name, "revision": "0" * 40}
    row = {finding.what: finding for finding in models(changed("mimic_rg4", backbones={role: backbone}))}[role]
    assert row.state == "missing" and reason in row.detail and "hf download" not in row.detail


@pytest.mark.parametrize("name", ["google/gemma-3-1b-it", "Qwen/Qwen3-0.6B", "meta-llama/Llama-3.2-1B"])
def test_other_families_are_to_be_downloaded(name: str):
    backbone = {"provider": "hub", "id": name, "revision": "0" * 40}
    row = models(changed("mimic_rg4", backbones={"language": backbone}))[1]
    assert row.state == "missing" and f"hf download {name}" in row.detail


def test_images_are_counted_by_the_audit_of_the_same_corpus_only(free: Callable[[int], None], tmp_path: Path):
    free(10**12)
    params = changed("openi", corpus={"root": str(tmp_path)})
    for name in ("source", "corpus"):
        (tmp_path / "data" / name).mkdir(parents=True)
    audit = {"contexts": {"sn": {}, "mn": {}}, "images": {"count": 11}}
    (tmp_path / "data" / "corpus" / "audit.json").write_text(json.dumps(audit))
    for root, state in ((str(tmp_path), "ok"), ("/another/corpus", "note")):
        (tmp_path / "data" / "source" / "source.json").write_text(json.dumps({"root": root, "files": {}, "images": ""}))
        disk = found("Machine", params, tmp_path)["Disk"]
        assert disk.state == state and ("(11 images)" in disk.detail) == (state == "ok")
    source = tmp_path / "data" / "source" / "source.json"
    source.write_text(json.dumps({"root": str(tmp_path), "files": {}, "images": ""}))
    (tmp_path / "data" / "features").mkdir()
    free(1)
    assert found("Machine", params, tmp_path)["Disk"].state == "ok", "features that are there need no room"


def test_a_root_that_is_no_folder_is_named(tmp_path: Path):
    detail = found("Corpus", changed("table"), tmp_path)["corpus.root"].detail
    assert "my-studies is not a folder; set it to the folder that contains the corpus" in detail


def test_annotation_files_are_looked_for(tmp_path: Path):
    (tmp_path / "NLMCXR_reports.tgz").write_text("")
    params = changed("openi", corpus={"root": str(tmp_path), "images": "."})
    assert {what: finding.state for what, finding in found("Corpus", params).items()} == {
        "corpus.root": "ok",
        "openi.reports": "ok",
        "openi.projections": "missing",
        "images": "ok",
    }


def test_files_that_changed_since_they_were_described_are_named(tmp_path: Path):
    (tmp_path / "studies.csv").write_text("a")
    table = {"file": "studies.csv", "columns": {}, "delimiter": None, "encoding": "utf-8"}
    params = changed("openi", corpus={"root": str(tmp_path), "format": "table", "images": ".", "table": table})
    point_to_files(params.corpus, tmp_path / "data" / "source")
    assert "source" not in found("Corpus", params, tmp_path)
    (tmp_path / "studies.csv").write_text("b")
    note = found("Corpus", params, tmp_path)["source"]
    assert note.state == "note"
    assert "has changed since the source was made" in note.detail and "dvc repro -f source" in note.detail
