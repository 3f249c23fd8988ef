import os

import pytest
import torch
from transformers import BertModel

from pacer.backbones.chexbert import CheXbert, CheXbertNetwork
from pacer.backbones.observations import (
    BLANK,
    NEGATIVE,
    OBSERVATION_OF,
    OBSERVATIONS,
    POSITIVE,
    UNCERTAIN,
)
from pacer.core.errors import BackboneError
from pacer.core.findings import FINDINGS
from tests.support.metrics import checkpoint_state, small_config


def test_heads_and_classes_are_numbered_as_those_of_the_published_weights():
    """``CONDITIONS`` and ``CLASS_MAPPING`` of CheXbert's ``src/constants.py``: another order names
    other findings."""
    conditions = (
        "Enlarged Cardiomediastinum, Cardiomegaly, Lung Opacity, Lung Lesion, Edema, "
        "Consolidation, Pneumonia, Atelectasis, Pneumothorax, Pleural Effusion, Pleural Other, "
        "Fracture, Support Devices, No Finding"
    )
    assert ", ".join(OBSERVATIONS) == conditions
    assert tuple(OBSERVATION_OF) == FINDINGS and set(OBSERVATION_OF.values()) == set(
        OBSERVATIONS[:-1]
    )
    assert (BLANK, POSITIVE, NEGATIVE, UNCERTAIN) == (0, 1, 2, 3)


def test_batches_give_the_labels_of_single_reports(chexbert_directory, reports):
    original, single = list(reports), CheXbert(chexbert_directory(), batch_size=1)
    labels = CheXbert(chexbert_directory(), batch_size=16)(reports)
    assert labels.shape == (40, 14) and labels.dtype == torch.int32
    assert labels.min() >= 0 and labels[:, :13].max() <= 3 and labels[:, 13].max() <= 1
    assert len(labels.unique(dim=0)) > 3, "random weights that label everything alike test nothing"
    assert torch.equal(labels, torch.cat([single([text]) for text in reports]))
    assert single([]).shape == (0, 14) and reports == original
    single.network.train()
    assert not any(module.training for module in single.network.modules()), (
        "dropout is never active"
    )


def test_scores_are_those_of_a_plain_bert_and_its_heads():
    """The network leaves out what [CLS] does not need; the numbers are those of all positions."""
    network = CheXbertNetwork(BertModel(small_config()))
    network.load_state_dict(checkpoint_state())
    plain = BertModel(small_config()).eval()
    plain.load_state_dict(network.bert.state_dict())
    ids = torch.randint(5, 21, (6, 30), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(30) < torch.tensor([[30], [1], [17], [30], [2], [9]])).long()
    with torch.inference_mode():
        states = plain(input_ids=ids, attention_mask=mask).last_hidden_state
        assert states.shape == (6, 30, 16)
        for found, head in zip(network(ids, mask), network.linear_heads, strict=True):
            torch.testing.assert_close(found, head(states[:, 0]), rtol=1e-5, atol=1e-5)


def test_cut_at_512_pieces_keeps_the_closing_piece_and_is_said(chexbert_directory, words, caplog):
    label = CheXbert(chexbert_directory())
    text = (words * 60)[:700]
    ids = [2, *(5 + words.index(word) for word in text[:510]), 3]
    with torch.inference_mode():
        expected = [
            scores.argmax().item()
            for scores in label.network(torch.tensor([ids]), torch.ones(1, 512))
        ]
    assert label([" ".join(text[:510])])[0].tolist() == expected and not caplog.messages
    assert label([" ".join(text), "no edema"])[0].tolist() == expected
    (said,) = caplog.messages
    assert "the first 512 pieces" in said and "1 of 2 texts are longer" in said


def test_accepts_both_generations_of_checkpoints(chexbert_directory, reports):
    state = checkpoint_state()
    positions = {"bert.embeddings.position_ids": torch.arange(512).expand(1, -1)}
    expected = CheXbert(chexbert_directory())(reports)
    for variant in (state, state | positions):
        prefixed = {f"module.{key}": value for key, value in variant.items()}
        for content in (variant, prefixed):
            directory = chexbert_directory({"model_state_dict": content, "epoch": 7})
            assert torch.equal(CheXbert(directory)(reports), expected)


HEAD = "linear_heads.3.weight"


def test_refuses_everything_else(chexbert_directory):
    lacking = {key: value for key, value in checkpoint_state().items() if key != HEAD}
    for content, named in (
        ({"model_state_dict": lacking}, rf"Missing key.*{HEAD}"),
        (
            {"model_state_dict": checkpoint_state() | {"more": torch.zeros(4, 16)}},
            r"Unexpected key.*more",
        ),
        ({"state_dict": checkpoint_state()}, "model_state_dict"),
        ([1, 2], "model_state_dict"),
    ):
        with pytest.raises(BackboneError, match=named):
            CheXbert(chexbert_directory(content))


class Payload:
    def __reduce__(self):
        return os.mkdir, ("/tmp/pacer-payload-must-not-run",)


def test_a_checkpoint_cannot_run_code(chexbert_directory):
    with pytest.raises(BackboneError, match="cannot be read as weights"):
        CheXbert(chexbert_directory({"model_state_dict": checkpoint_state(), "extra": Payload()}))
    assert not os.path.exists("/tmp/pacer-payload-must-not-run")


def test_damaged_and_missing_files_are_named(chexbert_directory):
    directory = chexbert_directory()
    for content in (b"", b"not weights", b"PK\x03\x04 cut off"):
        (directory / "chexbert.pth").write_bytes(content)
        with pytest.raises(BackboneError, match=r"chexbert\.pth cannot be read"):
            CheXbert(directory)
    for name in ("vocab.txt", "config.json", "chexbert.pth"):
        (directory / name).unlink()
        with pytest.raises(BackboneError, match=name):
            CheXbert(directory)
