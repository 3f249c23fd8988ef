"""Llama's tokenizer against sentencepiece on Open-I's reports."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from pacer.corpus.text.cleaning import clean_report
from pacer.phantom.language import sample_texts
from pacer.pretrained.tokenizer import SENTENCEPIECE, read_tokenizer

OPENI = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "openi" / "reports.jsonl.gz"

SECTIONS = ("indication", "findings", "impression")

#: Vicuna's, what decides about ids.
SETTINGS = {
    "add_bos_token": True,
    "add_eos_token": False,
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": None,
    "clean_up_tokenization_spaces": False,
    "legacy": False,
    "model_max_length": 64,
    "sp_model_kwargs": {},
    "tokenizer_class": "LlamaTokenizer",
}


@pytest.fixture(scope="module", params=["blanks last", "blanks by frequency"])
def vicuna(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model's directory as Vicuna's is, with a tokenizer learnt from the phantom's reports.

    Llama's runs of blanks have the ids that training gave them and the lowest score; as trained, they merge early.
    """
    reports = [report.text for report in sample_texts(1, 400)]
    lines = [line for text in reports for line in (text, text.replace(". ", ".  "), f"Human:  <Img>    {text}")]
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
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}))
    (folder / "tokenizer_config.json").write_text(json.dumps(SETTINGS))
    (folder / "model.safetensors").touch()
    return folder


@pytest.fixture(scope="module")
def both(vicuna: Path) -> tuple:
    """The tokenizer, and sentencepiece with the same model."""
    return read_tokenizer(vicuna), SentencePieceProcessor(str(vicuna / SENTENCEPIECE))


def ids(tokenizer, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def test_real_reports_with_doubled_blanks(both) -> None:
    if not OPENI.is_file():
        pytest.skip(f"{OPENI} is not here")
    tokenizer, reference = both
    with gzip.open(OPENI, "rt") as lines:
        reports = [" ".join(filter(None, map(json.loads(line).get, SECTIONS))) for line in lines]
    # as they are, as upstream cleans them, and with the blanks that removed marks of de-identification leave
    texts = {t.strip() for r in reports for t in (r, clean_report(r), r.replace("XXXX", "")) if "  " in t.strip()}
    assert len(texts) > 1000
    for text in texts:
        assert ids(tokenizer, text) == reference.encode(text)
