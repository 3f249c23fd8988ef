"""The scoring bench in miniature: its checks of equality can fail, and its parts fill their tables."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest
import torch
from transformers import BertConfig

from pacer.metrics.chexbert.labeller import CheXbert

pytestmark = pytest.mark.slow

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def score(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("score")


@pytest.fixture
def labeller(score, tmp_path: Path) -> Path:
    folder = tmp_path / "chexbert"
    folder.mkdir()
    config = BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, initializer_range=0.5
    )
    return score.make_chexbert(folder, score.reports(150, 0), config)


def test_reports_are_of_the_length_of_real_ones_and_repeatable(score):
    made = score.reports(300, 0)
    words = torch.tensor([float(len(report.split())) for report in made])
    assert abs(words.mean() - score.LENGTH) < 8 and abs(words.std() - score.SPREAD) < 8
    assert made == score.reports(300, 0) != score.reports(300, 1)


def test_the_labels_are_compared_before_the_timing(score, labeller, monkeypatch):
    rows, faster = score.chexbert_part(labeller, score.reports(60, 0), 1)
    assert rows[0][0].startswith("60 reports") and faster > 0
    call = CheXbert.__call__

    def wrong(self, texts):
        return call(self, texts).flip(0)

    monkeypatch.setattr(CheXbert, "__call__", wrong)
    with pytest.raises(Exception, match="reports have other labels in batches"):
        score.chexbert_part(labeller, score.reports(60, 0), 1)


def test_the_second_evaluation_keeps_the_labels_of_the_references(score, labeller, tmp_path):
    texts = score.reports(40, 0)
    rows = score.second_part(labeller, tmp_path / "references.parquet", texts[:20], texts[20:])
    assert rows[0][0] == "20 references, as many reports"


def test_every_language_score_is_timed(score):
    rows, whole = score.nlg_part(score.reports(10, 1), score.reports(10, 2))
    assert [row[0] for row in rows][:3] == ["BLEU-1 to 4", "ROUGE-L", "CIDEr"] and len(rows) == 6
    assert whole > 0
