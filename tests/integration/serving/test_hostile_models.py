"""Model folders as somebody careless or hostile makes them, with hashes that fit: each is refused in one sentence."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
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


def weights(change: Callable[[bytes], bytes], folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(change(path.read_bytes()))


def one_row(content: bytes) -> bytes:
    tensors = load(content)
    name = next(name for name, tensor in tensors.items() if tensor.dim() == 2 and len(tensor) > 1)
    return save(tensors | {name: tensors[name][:1].contiguous()})


def code(place: str, folder: Path) -> None:
    for path in (folder / place).glob("*config.json"):
        write_json(path, read_json(path) | NAMES_CODE)
    (folder / place / "evil.py").write_text(CODE)


def permuted(folder: Path) -> None:
    path = folder / "backbones/language/tokenizer.json"
    content = read_json(path)
    content["model"]["vocab"] = dict(zip(content["model"]["vocab"], [*content["model"]["vocab"].values()][::-1]))
    write_json(path, content)


def pointer(content: object, folder: Path) -> None:
    shutil.rmtree(folder / "backbones" / "vision")
    (folder / "backbones" / "vision").mkdir()
    write_json(folder / "backbones" / "vision" / "pointer.json", content)


def setting(name: str, group: str, key: str, value: int, folder: Path) -> None:
    content: dict[str, Any] = read_json(folder / name)
    (content["model"]["lora"] if group == "lora" else content[group])[key] = value
    write_json(folder / name, content)


FOLDERS = [  # what is changed, before the hashes are made again, and the refusal
    (partial(weights, lambda content: b""), "model"),
    (partial(weights, lambda content: bytes(100)), "model"),
    (partial(weights, lambda content: content[: len(content) // 2]), "model"),
    (partial(weights, one_row), "size mismatch|shape"),
    (partial(code, "backbones/language"), "language"),
    (permuted, "another language backbone"),
    (partial(pointer, []), r"pointer\.json: "),
    (partial(pointer, {"path": "/none", "files": {"../../secret": "0"}}), r"pointer\.json: "),
    (partial(setting, "config.json", "lora", "rank", 10**7), "rank = 10000000: .*less than or equal to 16384"),
    (
        partial(setting, "reporter.json", "search", "max_new_tokens", 10**12),
        "max_new_tokens = 1000000000000: .*less than or equal to 100000",
    ),
]


@pytest.mark.parametrize(("change", "sentence"), FOLDERS)
def test_a_folder_is_refused(folder: Path, change: Callable[[Path], None], sentence: str, monkeypatch) -> None:
    """No code in it runs, not even where somebody would answer `y`."""
    monkeypatch.setattr("builtins.input", lambda prompt="": "y")
    change(folder)
    rehashed(folder)
    with pytest.raises(PacerError, match=sentence):
        Reporter(folder, device="cpu")
    assert not list(folder.rglob("ran"))


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd"])
def test_a_manifest_that_leads_elsewhere(folder: Path, name: str) -> None:
    manifest = manifest_of(folder)
    write_json(folder / MANIFEST, manifest | {"files": manifest["files"] | {name: "0"}})
    with pytest.raises(CheckpointError, match="is missing; copy the folder again"):
        Reporter(folder, device="cpu")
