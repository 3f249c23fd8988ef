from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel
from transformers.utils.logging import is_progress_bar_enabled

from pacer.core.errors import BackboneError
from pacer.core.pointers import load_frozen


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
