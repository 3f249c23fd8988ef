"""Model folders as somebody hostile, or a bad disk, makes them: each is refused in one sentence, or harmless.

What was tried: in each file that a folder brings (configurations, tokenizers, processors, weights, settings, manifest)
nothing, zeros, half of it, other JSON and values of other types, with hashes that fit; `auto_map`, which names code to
run; a file that transformers reads although it was not exported; pickles that call
functions, for LLM-RG4 (CheXbert's: `tests/metrics/test_chexbert.py`).
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from pacer.core.seal import SEAL

from pacer.core.errors import CheckpointError, PacerError
from pacer.core.io import read_json, write_json
from pacer.model.upstream import import_llm_rg4
from pacer.serving.package import MANIFEST, write_manifest
from pacer.serving.reporter import Reporter

pytestmark = pytest.mark.slow

#: Runs where it is imported.
CODE = "import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n"
NAMES_CODE = {
    "auto_map": {
        "AutoConfig": "evil.Config",
        "AutoModel": "evil.Model",
        "AutoModelForCausalLM": "evil.Model",
        "AutoTokenizer": ["evil.Tokenizer", "evil.Tokenizer"],
        "AutoImageProcessor": "evil.Processor",
    },
    "model_type": "not-known",
    "tokenizer_class": "EvilTokenizer",
    "image_processor_type": "EvilProcessor",
}


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "model"))


def unsealed(folder: Path) -> dict:
    """What the manifest says, by whoever may have written it."""
    return {key: value for key, value in read_json(folder / MANIFEST).items() if key != SEAL}


def opened(folder: Path) -> None:
    """Load a folder whose hashes fit whatever is in it now."""
    about = {key: value for key, value in unsealed(folder).items() if key not in ("version", "files")}
    (folder / MANIFEST).unlink()
    write_manifest(folder, about)
    Reporter.from_pretrained(folder, device="cpu")


def spoiled(content: bytes, name: str) -> Iterator[bytes]:
    yield b""
    yield bytes(100)
    if not name.endswith(".json"):
        yield content[: len(content) // 2]
        yield (2**62).to_bytes(8, "little") + content[8:]
        return
    yield from (b"[]", b"null", b"{}", b'"x"', b"\xff\xfe{}", b'{"a":' * 5000 + b"1" + b"}" * 5000)
    fields = json.loads(content)
    for key in list(fields)[:4]:
        for value in (None, -1, "x", [1]):
            yield json.dumps(fields | {key: value}).encode()


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "model.safetensors",
        "reporter.json",
        "tokenizer/tokenizer.json",
        "tokenizer/tokenizer_config.json",
        "backbones/language/config.json",
        "backbones/vision/preprocessor_config.json",
        "backbones/text/model.safetensors",
    ],
)
def test_spoiled_files(folder: Path, name: str, capfd: pytest.CaptureFixture) -> None:
    content = (folder / name).read_bytes()
    refused = 0
    for bad in spoiled(content, name):
        (folder / name).write_bytes(bad)
        try:
            opened(folder)
        except PacerError as error:
            refused += 1
            assert "weights_only" not in str(error) and "trust_remote" not in str(error) and len(str(error)) < 600
    assert refused >= 4
    told = capfd.readouterr()
    assert "[y/N]" not in told.out + told.err


@pytest.mark.parametrize("place", ["backbones/language", "backbones/vision", "backbones/text", "tokenizer"])
def test_no_code_of_a_folder_runs(folder: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where somebody would answer `y`."""
    monkeypatch.setattr("builtins.input", lambda prompt="": "y")
    for path in (folder / place).glob("*config.json"):
        write_json(path, read_json(path) | NAMES_CODE)
    (folder / place / "evil.py").write_text(CODE)
    with pytest.raises(PacerError):
        opened(folder)
    assert not list(folder.rglob("ran"))


def test_a_file_that_was_not_exported(folder: Path) -> None:
    """Transformers would read it: another EOS gives other reports. What a system leaves in any folder may stay."""
    (folder / ".DS_Store").touch()
    Reporter.from_pretrained(folder, device="cpu")
    write_json(folder / "tokenizer" / "special_tokens_map.json", {"eos_token": "a"})
    with pytest.raises(CheckpointError, match=r"holds tokenizer/special_tokens_map\.json, which was not exported"):
        Reporter.from_pretrained(folder, device="cpu")


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"path": 1, "files": {}},
        {"path": "/none", "files": ["config.json"]},
        {"path": "/none", "files": {"config.json": 1}},
        {"path": "/none", "files": {"../../secret": "0"}},
        {"path": "/none", "files": {"/etc/passwd": "0"}},
        {"path": "/none", "files": {}, "bytes": 3},
        {"path": "n" * 5000, "files": {}},
        {"path": "a\0b", "files": {}},
    ],
)
def test_pointers(folder: Path, content: object) -> None:
    vision = folder / "backbones" / "vision"
    shutil.rmtree(vision)
    vision.mkdir()
    write_json(vision / "pointer.json", content)
    for origin in ({"provider": "hub"}, {"provider": "hub", "id": ["../.."], "revision": 2}, {"provider": {}}):
        write_json(vision / "provenance.json", origin)
        with pytest.raises(PacerError, match=r"pointer\.json is malformed|the frozen vision model|hub"):
            opened(folder)


def test_a_link_to_a_folder(folder: Path, tmp_path: Path) -> None:
    """What lies behind it could be changed without the manifest's noticing."""
    shutil.move(folder / "tokenizer", tmp_path / "elsewhere")
    (folder / "tokenizer").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="holds tokenizer, which was not exported"):
        Reporter.from_pretrained(folder, device="cpu")
    manifest = unsealed(folder)
    others = {name: value for name, value in manifest["files"].items() if not name.startswith("tokenizer/")}
    write_json(folder / MANIFEST, manifest | {"files": others | {"tokenizer": "0"}})
    with pytest.raises(CheckpointError, match="tokenizer is missing; copy the folder again"):
        Reporter.from_pretrained(folder, device="cpu")


@pytest.mark.parametrize(
    ("name", "groups", "sentence"),
    [
        ("config.json", ["model", "interface", "d_hidden"], "16384"),
        ("config.json", ["model", "lora", "rank"], "16384"),
        ("config.json", ["model", "refine", "d_routing"], "16384"),
        ("reporter.json", ["search", "num_beams"], "64"),
    ],
)
def test_sizes_that_no_memory_has(folder: Path, name: str, groups: list[str], sentence: str) -> None:
    content = group = {key: value for key, value in read_json(folder / name).items() if key != "sha256"}
    for key in groups[:-1]:
        group = group[key]
    group[groups[-1]] = 10**7
    write_json(folder / name, content)
    with pytest.raises(PacerError, match=f"{groups[-1]} = 10000000: .*less than or equal to {sentence}"):
        opened(folder)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"files": {}}, "which was not exported"),
        ({"files": ["config.json"]}, "does not say which files"),
        ({"files": None}, "does not say which files"),
        ({"version": "1"}, "version '1'"),
    ],
)
def test_manifests(folder: Path, change: dict, sentence: str) -> None:
    write_json(folder / MANIFEST, unsealed(folder) | change)
    with pytest.raises(CheckpointError, match=sentence):
        Reporter.from_pretrained(folder, device="cpu")


def test_a_manifest_that_has_changed(folder: Path) -> None:
    """Nothing else says that the model knows generated images alone."""
    content = (folder / MANIFEST).read_bytes()
    for changed in (
        content.replace(b"generated_corpus", b"generated_corpuS"),
        content.replace(b'"copied"', b'"copies"'),
    ):
        assert changed != content
        (folder / MANIFEST).write_bytes(changed)
        with pytest.raises(CheckpointError, match=r"manifest\.json is not as it was written; copy the folder again"):
            Reporter.from_pretrained(folder, device="cpu")


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("max_new_tokens", 10**12, "max_new_tokens = 1000000000000: .*less than or equal to 100000"),
        ("min_new_tokens", 10**6, "min_new_tokens is above max_new_tokens"),
        ("length_penalty", 1e308, "length_penalty = 1e\\+308: .*less than or equal to 10"),
    ],
)
def test_a_search_without_an_end(folder: Path, name: str, value: float, sentence: str) -> None:
    content = read_json(folder / "reporter.json")
    content["search"][name] = value
    write_json(folder / "reporter.json", content)
    with pytest.raises(PacerError, match=sentence):
        opened(folder)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "n" * 5000, "a\0b"])
def test_a_manifest_that_leads_elsewhere(folder: Path, name: str) -> None:
    manifest = unsealed(folder)
    write_json(folder / MANIFEST, manifest | {"files": manifest["files"] | {name: "0"}})
    with pytest.raises(CheckpointError, match="is missing; copy the folder again"):
        Reporter.from_pretrained(folder, device="cpu")


class Calls:
    """Unpickled, it runs a command."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[Callable, tuple]:
        return os.system, (f"touch {self.path}",)


def pickles(folder: Path) -> Iterator[Path]:
    """Files that are no weights, some of which call a function."""
    path = folder / "bad.pth"
    for content in (b"", b"\x80", b"not a pickle", bytes(1000), b"PK\x03\x04" + bytes(50), pickle.dumps([1])):
        path.write_bytes(content)
        yield path
    for version in range(6):
        path.write_bytes(pickle.dumps(Calls(folder / "ran"), protocol=version))
        yield path
    for value in (Calls(folder / "ran"), {"model_state_dict": Calls(folder / "ran")}, {"a": torch.zeros(2)}, 3, None):
        torch.save(value, path)
        yield path
        path.write_bytes(path.read_bytes()[:-40])
        yield path


def test_pickles_of_llm_rg4(tmp_path: Path) -> None:
    for path in pickles(tmp_path):
        with pytest.raises(PacerError) as error:
            import_llm_rg4(path)
        assert "weights_only" not in str(error.value)
    assert not (tmp_path / "ran").exists()
