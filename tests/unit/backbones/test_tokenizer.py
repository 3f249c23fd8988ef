"""The language model's tokenizer gives the ids of its sentencepiece model, or is refused."""

import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from transformers import AutoTokenizer

from pacer.backbones.tokenizer import SENTENCEPIECE, read_tokenizer
from pacer.core.errors import BackboneError
from pacer.core.io import yaml_beside
from pacer.model.assemble import load_tokenizer
from pacer.phantom.language import sample_texts

#: Vicuna's, what decides about ids.
SETTINGS: dict[str, Any] = yaml_beside(__file__, "tokenizer.yaml")


@pytest.fixture(scope="module", params=["blanks last", "blanks by frequency"])
def vicuna(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model's directory as Vicuna's is, with a tokenizer learnt from the phantom's
    reports.

    Llama's runs of blanks have the ids that training gave them and the lowest score; as trained,
    they merge early.
    """
    reports = [report.text for report in sample_texts(1, 400)]
    lines = [
        line
        for text in reports
        for line in (text, text.replace(". ", ".  "), f"Human:  <Img>    {text}")
    ]
    content = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=content,
        model_type="bpe",
        vocab_size=700,
        byte_fallback=True,
        split_digits=True,
        allow_whitespace_only_pieces=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    model = ModelProto()
    model.ParseFromString(content.getvalue())
    blanks = [piece for piece in model.pieces if piece.piece and not piece.piece.strip("▁")]
    assert len(blanks) > 2  # runs of several lengths
    if request.param == "blanks last":
        for piece in blanks:
            piece.score = -1e9
    return directory(tmp_path_factory.mktemp("language"), model)


def directory(folder: Path, model: ModelProto) -> Path:
    (folder / SENTENCEPIECE).write_bytes(model.SerializeToString())
    (folder / "config.json").write_text(
        json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"]})
    )
    (folder / "tokenizer_config.json").write_text(json.dumps(SETTINGS))
    (folder / "model.safetensors").touch()
    return folder


@pytest.fixture(scope="module")
def both(vicuna: Path) -> tuple:
    """The tokenizer, and sentencepiece with the same model."""
    return read_tokenizer(vicuna), SentencePieceProcessor(str(vicuna / SENTENCEPIECE))


TEXTS = st.lists(
    st.sampled_from(
        ["", "a", "no", "edema", "left", "<Img>", ".", "12", "\n", "\t", "é", "ﬁ", "▁", "給", "\0"]
    )
    | st.text(max_size=4),
    max_size=12,
)


@given(TEXTS, st.lists(st.integers(0, 20), min_size=12, max_size=12))
def test_any_text(both, words: list[str], gaps: list[int]) -> None:
    tokenizer, reference = both
    text = "".join(word + " " * gap for word, gap in zip(words, gaps, strict=False)).lstrip(" ▁")
    if re.search("<(s|/s|unk)>", text):  # control tokens to transformers, text to sentencepiece
        return
    assert tokenizer(text)["input_ids"] == [1, *reference.encode(text)]


def test_a_tokenizer_that_disagrees_with_its_own_model_is_refused(
    vicuna: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "language"
    shutil.copytree(vicuna, folder)
    read_tokenizer(vicuna).save_pretrained(folder)
    read_tokenizer(folder)
    definition = json.loads((folder / "tokenizer.json").read_text())
    definition["model"]["merges"].reverse()
    (folder / "tokenizer.json").write_text(json.dumps(definition))
    with pytest.raises(BackboneError, match=r"and its tokenizer\.model give different ids for"):
        load_tokenizer(tmp_path)


def test_the_merges_that_transformers_makes_are_refused(vicuna: Path, tmp_path: Path) -> None:
    """Its version orders them by id. Where scores follow ids that is right."""
    AutoTokenizer.from_pretrained(vicuna).save_pretrained(tmp_path)
    shutil.copy(vicuna / SENTENCEPIECE, tmp_path)
    model = ModelProto()
    model.ParseFromString((vicuna / SENTENCEPIECE).read_bytes())
    if any(piece.score == -1e9 for piece in model.pieces):
        with pytest.raises(BackboneError, match="for doubled spaces"):
            read_tokenizer(tmp_path)
    else:
        read_tokenizer(tmp_path)


def test_a_damaged_model_is_named(vicuna: Path, tmp_path: Path) -> None:
    shutil.copytree(vicuna, tmp_path, dirs_exist_ok=True)
    (tmp_path / SENTENCEPIECE).write_bytes(b"<!DOCTYPE html>")
    with pytest.raises(BackboneError, match=r"tokenizer\.model is not a SentencePiece model"):
        read_tokenizer(tmp_path)


def test_a_tokenizer_needs_an_end(vicuna: Path, tmp_path: Path) -> None:
    shutil.copytree(vicuna, tmp_path, dirs_exist_ok=True)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(SETTINGS | {"eos_token": None}))
    with pytest.raises(BackboneError, match="must have an EOS token, which ends a report"):
        read_tokenizer(tmp_path)
