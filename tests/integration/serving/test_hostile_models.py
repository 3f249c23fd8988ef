"""Model folders as somebody careless or hostile makes them, with hashes that fit: each is refused in one sentence."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load, save

from pacer.core.errors import CheckpointError, PacerError
from pacer.core.io import read_json, write_json
from pacer.serving.package import MANIFEST
from pacer.serving.reporter import Reporter
from tests.support.world import manifest_of, rehashed

#: Runs where it is imported.
CODE = "import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n"
NAMES_CODE = {
    "auto_map": {
        "AutoConfig": "evil.Config",
        "AutoModelForCausalLM": "evil.Model",
        "AutoTokenizer": ["evil.Tokenizer", "evil.Tokenizer"],
    },
    "model_type": "not-known",
    "tokenizer_class": "EvilTokenizer",
}


def opened(folder: Path) -> None:
    rehashed(folder)
    Reporter(folder, device="cpu")


def test_weights_of_another_kind(folder: Path) -> None:
    path = folder / "model.safetensors"
    content, weights = path.read_bytes(), load(path.read_bytes())
    name = next(name for name, tensor in weights.items() if tensor.dim() == 2 and len(tensor) > 1)
    for bad in (b"", bytes(100), content[: len(content) // 2]):
        path.write_bytes(bad)
        with pytest.raises(PacerError, match="model"):
            opened(folder)
    path.write_bytes(save(weights | {name: weights[name][:1].contiguous()}))
    with pytest.raises(PacerError, match=name):
        opened(folder)


@pytest.mark.parametrize("place", ["backbones/language", "tokenizer"])
def test_no_code_of_a_folder_runs(folder: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where somebody would answer `y`."""
    monkeypatch.setattr("builtins.input", lambda prompt="": "y")
    for path in (folder / place).glob("*config.json"):
        write_json(path, read_json(path) | NAMES_CODE)
    (folder / place / "evil.py").write_text(CODE)
    with pytest.raises(PacerError):
        opened(folder)
    assert not list(folder.rglob("ran"))


@pytest.mark.parametrize("change", ["permuted", "without its settings", "with another file"])
def test_a_tokenizer_of_another_model(folder: Path, change: str) -> None:
    """A vocabulary in another order, for example, with a manifest that fits it."""
    tokenizer = folder / "tokenizer"
    if change == "permuted":
        content = read_json(tokenizer / "tokenizer.json")
        content["model"]["vocab"] = dict(zip(content["model"]["vocab"], [*content["model"]["vocab"].values()][::-1]))
        write_json(tokenizer / "tokenizer.json", content)
    elif change == "without its settings":
        (tokenizer / "tokenizer_config.json").unlink()
        manifest = manifest_of(folder)
        del manifest["files"]["tokenizer/tokenizer_config.json"]
        write_json(folder / MANIFEST, manifest)
    else:
        write_json(tokenizer / "added_tokens.json", {"<new>": 7})
    with pytest.raises(CheckpointError, match=r"tokenizer: \w+\.json is not that of the language model"):
        opened(folder)


@pytest.mark.parametrize("content", [[], {"path": "/none", "files": {"../../secret": "0"}}])
def test_pointers(folder: Path, content: object) -> None:
    vision = folder / "backbones" / "vision"
    shutil.rmtree(vision)
    vision.mkdir()
    write_json(vision / "pointer.json", content)
    write_json(folder / MANIFEST, manifest_of(folder) | {"files": {}})
    with pytest.raises(PacerError, match=r"pointer\.json: "):
        opened(folder)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd"])
def test_a_manifest_that_leads_elsewhere(folder: Path, name: str) -> None:
    manifest = manifest_of(folder)
    write_json(folder / MANIFEST, manifest | {"files": manifest["files"] | {name: "0"}})
    with pytest.raises(CheckpointError, match="is missing; copy the folder again"):
        Reporter(folder, device="cpu")


@pytest.mark.parametrize(
    ("name", "keys", "value", "sentence"),
    [
        ("config.json", ["model", "lora", "rank"], 10**7, "less than or equal to 16384"),
        ("reporter.json", ["search", "max_new_tokens"], 10**12, "less than or equal to 100000"),
    ],
)
def test_sizes_without_an_end(folder: Path, name: str, keys: list[str], value: int, sentence: str) -> None:
    content = read_json(folder / name)
    group: dict[str, Any] = content
    for key in keys[:-1]:
        group = group[key]
    group[keys[-1]] = value
    write_json(folder / name, content)
    with pytest.raises(PacerError, match=f"{keys[-1]} = {value}: .*{sentence}"):
        opened(folder)
