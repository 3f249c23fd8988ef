import json
import os
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel
from transformers.utils.logging import is_progress_bar_enabled

from pacer.backbones import external
from pacer.backbones.external import locate
from pacer.backbones.pointers import fingerprint, is_standin, load_frozen, provenance, resolve
from pacer.config import Backbone
from pacer.core.errors import BackboneError
from pacer.core.io import hash_bytes
from tests.support.cases import cases

COMMIT = "c" * 40
HUB = Backbone(provider="hub", id="owner/model", revision="main")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty hub cache; gives a function that puts a snapshot of owner/model there, with links to blobs."""
    root = tmp_path / "hub"
    root.mkdir()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(root))

    def put(**files: bytes) -> None:
        repository = root / "models--owner--model"
        snapshot = repository / "snapshots" / COMMIT
        for folder in (snapshot, repository / "blobs", repository / "refs"):
            folder.mkdir(parents=True, exist_ok=True)
        (repository / "refs" / "main").write_text(COMMIT)
        for name, content in files.items():
            blob = repository / "blobs" / hash_bytes(content)
            blob.write_bytes(content)
            os.symlink(blob, snapshot / name)

    return put


@pytest.fixture
def local(tmp_path):
    """A model's directory."""
    folder = tmp_path / "here"
    folder.mkdir()
    for name, content in {"config.json": "{}", "model.safetensors": "weights", "vocab.txt": "[PAD]"}.items():
        (folder / name).write_text(content)
    return folder


def backbone(folder) -> Backbone:
    return Backbone(provider="local", path=str(folder))


def point_to(model: Backbone, role: str, out: Path) -> Path:
    """As the stage does."""
    target = locate(model, role)
    assert target is not None
    external.point_to(target, model, out)
    return target


def test_a_cached_snapshot_is_pointed_to(cache, tmp_path):
    cache(**{"config.json": b"{}", "model.safetensors": b"weights", "tokenizer.json": b"{}"})
    target = point_to(HUB, "language", tmp_path / "out")
    assert resolve(tmp_path / "out") == target and target.name == COMMIT
    assert provenance(tmp_path / "out") == {
        "provider": "hub",
        "id": "owner/model",
        "revision": "main",
        "commit": COMMIT,
        "path": str(target),
        "files": {
            "config.json": hash_bytes(b"{}"),
            "model.safetensors": hash_bytes(b"weights"),
            "tokenizer.json": hash_bytes(b"{}"),
        },
    }


@pytest.mark.parametrize("name", ["owner/model", "a/b/c"])
def test_a_model_that_is_not_cached_names_the_command(cache, tmp_path, name):
    with pytest.raises(BackboneError, match=f"hf download {name} --revision main"):
        point_to(Backbone(provider="hub", id=name, revision="main"), "text", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@cases(__file__, "weights")
def test_weights_are_looked_for_as_transformers_does(kind, case, cache, tmp_path):
    files = {"config.json": b"{}", "vocab.txt": b""} | {name: b"weights" for name in case.get("files", [])}
    for name, shards in case.get("indexes", {}).items():
        files[name] = json.dumps({"weight_map": dict(enumerate(shards))}).encode()
    cache(**files)
    if "missing" in case:
        with pytest.raises(BackboneError, match=case["missing"]):
            point_to(HUB, "text", tmp_path / "out")
        return
    assert point_to(HUB, "text", tmp_path / "out").name == COMMIT


@pytest.mark.parametrize("role, named", [("vision", "preprocessor_config.json"), ("chexbert", r"chexbert\.pth")])
def test_each_role_needs_its_files(local, tmp_path, role, named):
    with pytest.raises(BackboneError, match=named):
        point_to(backbone(local), role, tmp_path / "out")
    with pytest.raises(BackboneError, match="nowhere is not a folder"):
        point_to(backbone(tmp_path / "nowhere"), role, tmp_path / "out")
    assert point_to(backbone(local), "text", tmp_path / "out") == local
    assert locate(Backbone(provider="standin"), role) is None


def test_a_stand_in_stays_one_when_it_is_pointed_to(local, tmp_path):
    (local / "provenance.json").write_text('{"provider": "standin"}')
    point_to(backbone(local), "text", tmp_path / "out")
    assert provenance(tmp_path / "out")["provider"] == "local" and is_standin(provenance(tmp_path / "out"))
    assert not is_standin({"provider": "hub"}) and provenance(tmp_path) == {}


def test_a_listed_file_that_changes_is_noticed(local, tmp_path):
    point_to(backbone(local), "text", tmp_path / "out")
    before = fingerprint(tmp_path / "out")
    (local / "notes.txt").write_text("a new file does not matter")
    assert resolve(tmp_path / "out") == local and fingerprint(tmp_path / "out") == before
    (local / "model.safetensors").write_text("weighty")
    with pytest.raises(BackboneError, match=r"model\.safetensors is missing, or is not the file listed in"):
        resolve(tmp_path / "out")


def test_a_directory_without_pointer_is_itself(local):
    assert resolve(local) == local
    before = fingerprint(local)
    (local / "provenance.json").write_text('{"seconds": 3}')
    assert fingerprint(local) == before
    (local / "model.safetensors").write_text("others!")
    assert fingerprint(local) != before


def test_broken_pointers_are_errors(local, tmp_path):
    point_to(backbone(local), "text", tmp_path / "out")
    local.rename(tmp_path / "gone")
    with pytest.raises(BackboneError, match="is missing, or is not the file listed in"):
        resolve(tmp_path / "out")
    (tmp_path / "out" / "pointer.json").write_text('{"file": 1}')
    with pytest.raises(BackboneError, match=r"pointer\.json: path is missing"):
        resolve(tmp_path / "out")
    for name in ("../config.json", "/etc/passwd", "a/config.json", ".."):
        (tmp_path / "out" / "pointer.json").write_text(json.dumps({"path": str(tmp_path), "files": {name: "0"}}))
        with pytest.raises(BackboneError, match=r"pointer\.json: files"):
            resolve(tmp_path / "out")
    with pytest.raises(BackboneError, match="is not a folder"):
        resolve(tmp_path / "nothing")


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    config = BertConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    BertModel(config).save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


def test_weights_that_are_not_used_are_no_news(
    bert: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture
) -> None:
    before = is_progress_bar_enabled()
    model = load_frozen(BertModel, bert, add_pooling_layer=False)
    assert model.pooler is None and is_progress_bar_enabled() == before
    assert not caplog.records and "Loading weights" not in capfd.readouterr().err
    BertModel.from_pretrained(bert, add_pooling_layer=False)
    assert "LOAD REPORT" in caplog.text, "others who load a model are told as before"


def test_a_missing_weight_is_refused(bert: Path) -> None:
    weights = load_file(bert / "model.safetensors")
    del weights["embeddings.word_embeddings.weight"]
    save_file(weights, bert / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        BackboneError, match=r"lacks weights of a BertModel \(1 missing, first: embeddings\.word_embeddings"
    ):
        load_frozen(BertModel, bert)
