"""Model folders as somebody hostile makes them, refused in one sentence each."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from pacer.core.errors import PacerError
from pacer.core.io import read_json, write_json
from pacer.serving.layout import located
from pacer.serving.reporter import Reporter
from tests.support.world import rehashed


def test_a_folder_of_that_name_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "mine@v1").mkdir(parents=True)
    for name in ("models/mine@v1", "models/mine", "/models/mine@v1", "mine@v1"):
        assert located(name) == Path(name)


#: Runs where it is imported.
PICKLED = "import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n"
CLASSES = {
    "AutoConfig": "evil.Config",
    "AutoModelForCausalLM": "evil.Model",
    "AutoTokenizer": ["evil.Tokenizer"] * 2,
}
NAMES_CODE = {"auto_map": CLASSES, "model_type": "not-known", "tokenizer_class": "EvilTokenizer"}


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def one_row(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name, tensor in tensors.items() if tensor.dim() == 2 and len(tensor) > 1)
    save_file(tensors | {name: tensors[name][:1].contiguous()}, folder / "model.safetensors")


def code(folder: Path) -> None:
    for path in (folder / "backbones/language").glob("*config.json"):
        write_json(path, read_json(path) | NAMES_CODE)
    (folder / "backbones/language/evil.py").write_text(PICKLED)


def permuted(folder: Path) -> None:
    path = folder / "backbones/language/tokenizer.json"
    content = read_json(path)
    content["model"]["vocab"] = dict(
        zip(content["model"]["vocab"], [*content["model"]["vocab"].values()][::-1])
    )
    write_json(path, content)


def pointer_outside(folder: Path) -> None:
    shutil.rmtree(folder / "backbones/vision")
    (folder / "backbones/vision").mkdir()
    write_json(
        folder / "backbones/vision/pointer.json", {"path": "/none", "files": {"../../secret": "0"}}
    )


CHANGES = [
    (cut, "model"),
    (one_row, "size mismatch|shape"),
    (code, "language"),
    (permuted, "a different language backbone"),
    (pointer_outside, r"pointer\.json: "),
]


@pytest.mark.parametrize(("change", "sentence"), CHANGES)
def test_a_folder_is_refused(
    folder: Path, change: Callable[[Path], None], sentence: str, monkeypatch
) -> None:
    """No code in it runs, not even where somebody would answer `y`."""
    monkeypatch.setattr("builtins.input", lambda prompt="": "y")
    change(folder)
    rehashed(folder)
    with pytest.raises(PacerError, match=sentence):
        Reporter(folder, device="cpu")
    assert not list(folder.rglob("ran"))
