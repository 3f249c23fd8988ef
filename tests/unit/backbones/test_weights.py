"""Frozen models that a run points to: located, pinned, told from headers if they would load
wrongly; the stand-ins."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForCausalLM, BertConfig, BertModel
from transformers.utils.logging import is_progress_bar_enabled

from pacer.backbones import external
from pacer.backbones.chexbert import CheXbert
from pacer.backbones.external import check_model, locate
from pacer.backbones.make_backbones import make_backbones, unpack
from pacer.backbones.observations import OBSERVATIONS
from pacer.backbones.pointers import fingerprint, is_standin, load_frozen, provenance, resolve
from pacer.backbones.tokenizer import read_tokenizer
from pacer.config import Backbone, Params, validated
from pacer.config.backbones import CARD, ROLES
from pacer.core.errors import BackboneError, ConfigError
from pacer.core.io import hash_bytes, hash_file, read_json, write_json
from pacer.phantom.tokenizer import VOCABULARY
from tests.support.cases import cases, listed_cases
from tests.support.families import write_language
from tests.support.profiles import profile

WEIGHTS, NORM = "model.safetensors", "model.norm.weight"


def adapter(folder: Path) -> None:
    write_json(folder / "adapter_config.json", {"peft_type": "LORA"})


def quantised(method: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        config = read_json(folder / "config.json") | {
            "quantization_config": {"quant_method": method}
        }
        write_json(folder / "config.json", config)

    return change


def pointer(folder: Path) -> None:
    (folder / WEIGHTS).write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n"
    )


def truncated(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-10])


def no_weights(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes(b"<html>404</html>")


def wrong_size_of_a_tensor(folder: Path) -> None:
    content = (folder / WEIGHTS).read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header[NORM]["shape"] = [2 * header[NORM]["shape"][0]]
    changed = json.dumps(header).encode()
    (folder / WEIGHTS).write_bytes(
        len(changed).to_bytes(8, "little") + changed + content[8 + length :]
    )


def twice(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    save_file(tensors, folder / "a.safetensors")
    save_file({NORM: tensors[NORM]}, folder / "b.safetensors")
    shards = dict.fromkeys(tensors, "a.safetensors") | {NORM: "b.safetensors"}
    write_json(folder / f"{WEIGHTS}.index.json", {"weight_map": shards})


def of_another_configuration(folder: Path) -> None:
    config = read_json(folder / "config.json")
    write_json(
        folder / "config.json", config | {"intermediate_size": config["intermediate_size"] + 8}
    )


def truncated_pickle(folder: Path) -> None:
    torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()
    (folder / "pytorch_model.bin").write_bytes((folder / "pytorch_model.bin").read_bytes()[:-30])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (adapter, r"LoRA adapter beside the weights .*merge it into them first"),
        *(
            (quantised(name), rf"quantised \({name}\), .*the original")
            for name in ("bitsandbytes", "gptq", "fp8")
        ),
        (pointer, r"model\.safetensors is a Git LFS pointer.*git lfs pull"),
        (
            truncated,
            r"model\.safetensors has [\d,]+ bytes, but its header states [\d,]+; download it again",
        ),
        (no_weights, r"model\.safetensors is not a safetensors file, or is damaged"),
        (wrong_size_of_a_tensor, r"model\.safetensors has [\d,]+ bytes, but its header states"),
        (twice, r"b\.safetensors: tensor model\.norm\.weight is also in another shard"),
        (
            of_another_configuration,
            r"tensor model\.layers\.0\.mlp\.\w+\.weight has shape \[.*\] in the weights, but",
        ),
        (truncated_pickle, r"pytorch_model\.bin is truncated"),
    ],
)
def test_weights_are_judged_by_their_headers(
    change: Callable, problem: str, tmp_path: Path
) -> None:
    write_language("llama", tmp_path)
    check_model("language", tmp_path)
    change(tmp_path)
    with pytest.raises(BackboneError, match=problem):
        check_model("language", tmp_path)


def test_weights_in_shards_and_files_beside_them_are_right(tmp_path: Path) -> None:
    write_language("llama", tmp_path)
    AutoModelForCausalLM.from_pretrained(tmp_path).save_pretrained(tmp_path, max_shard_size="20KB")
    (tmp_path / WEIGHTS).unlink(missing_ok=True)
    (tmp_path / "consolidated.safetensors").write_bytes(b"of another program")
    check_model("language", tmp_path)


def test_weights_that_are_no_numbers_are_refused_when_they_are_loaded(tmp_path: Path) -> None:
    write_language("llama", tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    tensors[NORM][3] = float("nan")
    save_file(tensors, tmp_path / WEIGHTS, {"format": "pt"})
    with pytest.raises(
        BackboneError, match=r"tensor model\.norm\.weight has NaN or infinite values"
    ):
        load_frozen(AutoModelForCausalLM, tmp_path)


PHANTOM = profile("phantom").model_dump()


def test_the_card_describes_every_file_and_all_are_small() -> None:
    models = read_json(CARD)["models"]
    assert models.keys() == set(ROLES)
    described = {
        f"{role}/{name}": digest
        for role in models
        for name, digest in models[role]["files"].items()
    }
    there = {
        path.relative_to(CARD.parent).as_posix(): path
        for path in CARD.parent.rglob("*")
        if path.is_file()
    }
    assert there.keys() == {*described, CARD.name}
    assert all(hash_file(there[name]) == digest for name, digest in described.items())
    assert sum(path.stat().st_size for path in there.values()) < 8_000_000
    assert models["text"]["training"]["held_out_f1"] >= 0.95
    assert min(models["vision"]["training"]["held_out_place"].values()) >= 0.9
    contradictions = models["language"]["training"]["held_out_contradictions"]
    assert (
        max(contradictions["agreeing"], contradictions["uninformed"]) <= 0.03
        and contradictions["contrary"] <= 0.25
    )
    for role in ROLES:
        assert len(models[role]["training"]["first_losses"]) == 10
        weights = load_file(CARD.parent / role / "model.safetensors").values()
        assert {w.dtype for w in weights if w.is_floating_point()} == {torch.float16}


def test_a_model_that_is_trained_here_is_copied_from_where_it_was_trained(tmp_path: Path) -> None:
    unpack("text", tmp_path / "standins" / "text")
    trained = {"backbones": PHANTOM["backbones"] | {"text": {"provider": "standin"}}}
    out = tmp_path / "backbones"
    make_backbones(validated(PHANTOM | trained, "params", Params), tmp_path / "standins", out)
    assert {folder.name for folder in out.iterdir()} == set(ROLES)
    for file in (out / "text").iterdir():
        assert hash_file(file) == hash_file(tmp_path / "standins" / "text" / file.name)


def test_they_load_as_what_they_stand_for(tmp_path: Path) -> None:
    for role in ROLES:
        unpack(role, tmp_path / role)
        assert is_standin(provenance(tmp_path / role))
    for role, family in (("vision", "dinov2"), ("language", "llama"), ("text", "bert")):
        assert (
            AutoModel.from_pretrained(tmp_path / role, dtype=torch.float32).config.model_type
            == family
        )
    assert len(read_tokenizer(tmp_path / "language")) == VOCABULARY == external._PHANTOM_TOKENS
    labels = CheXbert(tmp_path / "chexbert", device="cpu")(["There is a large right pneumothorax."])
    assert labels[0, OBSERVATIONS.index("Pneumothorax")] == 1


@pytest.mark.parametrize(("changes", "message"), listed_cases(__file__, "settings"))
def test_settings_of_another_model_ask_for_one_that_is_trained(changes: dict, message: str) -> None:
    backbones = PHANTOM["backbones"] | changes
    with pytest.raises(ConfigError, match=message):
        validated(PHANTOM | {"backbones": backbones}, "params", Params)
    trained = {role: {"provider": "standin"} for role in ROLES}
    assert (
        validated(PHANTOM | {"backbones": backbones | trained}, "params", Params).backbones.seed
        == backbones["seed"]
    )


COMMIT = "c" * 40
HUB = Backbone(provider="hub", id="owner/model", revision="main")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty hub cache; gives a function that puts a snapshot of owner/model there, with links to
    blobs."""
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
    for name, content in {
        "config.json": "{}",
        "model.safetensors": "weights",
        "vocab.txt": "[PAD]",
    }.items():
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
    files = {"config.json": b"{}", "vocab.txt": b""} | {
        name: b"weights" for name in case.get("files", [])
    }
    for name, shards in case.get("indexes", {}).items():
        files[name] = json.dumps({"weight_map": dict(enumerate(shards))}).encode()
    cache(**files)
    if "missing" in case:
        with pytest.raises(BackboneError, match=case["missing"]):
            point_to(HUB, "text", tmp_path / "out")
        return
    assert point_to(HUB, "text", tmp_path / "out").name == COMMIT


@pytest.mark.parametrize(
    "role, named", [("vision", "preprocessor_config.json"), ("chexbert", r"chexbert\.pth")]
)
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
    assert provenance(tmp_path / "out")["provider"] == "local" and is_standin(
        provenance(tmp_path / "out")
    )
    assert not is_standin({"provider": "hub"}) and provenance(tmp_path) == {}


def test_a_listed_file_that_changes_is_noticed(local, tmp_path):
    point_to(backbone(local), "text", tmp_path / "out")
    before = fingerprint(tmp_path / "out")
    (local / "notes.txt").write_text("a new file does not matter")
    assert resolve(tmp_path / "out") == local and fingerprint(tmp_path / "out") == before
    (local / "model.safetensors").write_text("weighty")
    with pytest.raises(BackboneError, match=r"model\.safetensors is missing, or does not match"):
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
    with pytest.raises(BackboneError, match="is missing, or does not match"):
        resolve(tmp_path / "out")
    (tmp_path / "out" / "pointer.json").write_text('{"file": 1}')
    with pytest.raises(BackboneError, match=r"pointer\.json: path is missing"):
        resolve(tmp_path / "out")
    for name in ("../config.json", "/etc/passwd", "a/config.json", ".."):
        (tmp_path / "out" / "pointer.json").write_text(
            json.dumps({"path": str(tmp_path), "files": {name: "0"}})
        )
        with pytest.raises(BackboneError, match=r"pointer\.json: files"):
            resolve(tmp_path / "out")
    with pytest.raises(BackboneError, match="is not a folder"):
        resolve(tmp_path / "nothing")


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    config = BertConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
    )
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
        BackboneError,
        match=r"lacks weights that BertModel needs \(1 missing, first: embeddings\.word_embeddings",
    ):
        load_frozen(BertModel, bert)
