"""The whole DAG on the micro profile with an encoder and a language model of other families than the paper's."""

from __future__ import annotations

from pathlib import Path

import pytest

from pacer.core.io import read_jsonl
from tests.support.families import use_models
from tests.support.repository import STAGES, Repository


@pytest.mark.parametrize(
    ("encoder", "language", "engine"),
    [("dinov3_vit", "qwen3", "beam"), ("siglip_vision_model", "gemma3_text", "generate")],
)
def test_the_whole_dag(encoder: str, language: str, engine: str, tmp_path: Path) -> None:
    made = Repository.make(tmp_path / "repository")
    use_models(
        made.folder,
        encoder,
        language,
        corpus={"contexts": ["sn", "mw"]},
        anchors={"sample_per_context": 4},
        decode={"limit": 4, "controls": []},
    )
    made.without_dvc(*STAGES)
    provenance = made.json("models/backbones/language/provenance.json")
    assert ("bos" in provenance) == (language == "qwen3")
    manifest = made.json("data/features/manifest.json")
    assert manifest["processor"].endswith("56 x 56, followed exactly")
    predictions = made.json("predictions/manifest.json")
    assert predictions["settings"]["engine"] == engine
    for context in ("sn", "mw"):
        assert all(line["tokens"] >= 8 for line in read_jsonl(made.folder / "predictions" / f"{context}.jsonl"))
        assert 0 <= made.json("metrics/scores.json")[context]["f1"] <= 1
    assert (made.folder / "reports" / "index.html").exists()
