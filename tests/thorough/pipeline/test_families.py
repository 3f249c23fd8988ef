"""Each encoder with Llama, each language model with Dinov2: features, three phases, decode and export.

And the whole DAG where neither is of the paper's families.
"""

from pathlib import Path

import pytest

from pacer.config import load_params
from pacer.core.io import read_jsonl
from pacer.serving.package import export_model
from pacer.serving.reporter import Reporter
from tests.support.families import ENCODERS, LANGUAGES, use_models
from tests.support.repository import STAGES, Repository

UP_TO_DECODE = STAGES[: STAGES.index("decode") + 1]
UPDATES = {"updates": 5}
#: Pairs, neither of the paper's families, that run the whole DAG, with the engine that decodes.
WHOLE = {("dinov3_vit", "qwen3"): "beam", ("siglip_vision_model", "gemma3_text"): "generate"}
PAIRS = [(encoder, "llama") for encoder in ENCODERS] + [("dinov2", name) for name in LANGUAGES if name != "llama"]
PAIRS += WHOLE


@pytest.mark.parametrize(("encoder", "language"), PAIRS)
def test_from_features_to_an_exported_model(encoder: str, language: str, tmp_path: Path) -> None:
    made, engine = Repository.make(tmp_path / "repository"), WHOLE.get((encoder, language))
    use_models(
        made.folder,
        encoder,
        language,
        corpus={"contexts": ["sn", "mw"]},
        anchors={"sample_per_context": 4},
        decode={"limit": 3, "controls": []},
        warmup=UPDATES,
        parent=UPDATES,
        calibrate=UPDATES,
    )
    made.without_dvc(*(STAGES if engine else UP_TO_DECODE))
    for phase in ("warmup", "parent", "calibrate"):
        assert made.json(f"metrics/{phase}/metrics.json")["step"] == 5
    if engine:
        assert made.json("data/features/manifest.json")["processor"].endswith("56 x 56, followed exactly")
        assert made.json("predictions/manifest.json")["settings"]["engine"] == engine
        assert all(0 <= made.json("metrics/scores.json")[context]["f1"] <= 1 for context in ("sn", "mw"))
        assert (made.folder / "reports" / "index.html").exists()
    params = load_params(made.folder / "params.yaml")
    models, data = made.folder / "models", made.folder / "data"
    inputs = {"model": models / "calibrate", "backbones": models / "backbones", "features": data / "features"}
    export_model(tmp_path / "exported", params.decode, **inputs, records=data / "corpus" / "records.parquet")
    reporter = Reporter(tmp_path / "exported")
    images = sorted((data / "source" / "images").rglob("*.jpg"))
    result = reporter(images[0], view="PA")
    assert result.tokens >= 8 and result.frontal.weights.shape[:2] == (4, 4)
    for context in ("sn", "mw"):
        lines = read_jsonl(made.folder / "predictions" / f"{context}.jsonl")
        assert len(lines) == 3 and all(line["tokens"] >= 8 for line in lines)
