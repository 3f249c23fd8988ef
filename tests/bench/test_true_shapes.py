"""The bench of the published shapes in miniature: files in the released formats that the ordinary loaders take."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from ruamel.yaml import YAML

from pacer.backbones.hub import locate
from pacer.features.encoder import ImageEncoder, TextEncoder
from pacer.metrics.chexbert.labeller import CheXbert
from pacer.model.assemble import build_model, load_tokenizer
from pacer.model.specification import specification_of
from pacer.params import load_params

pytestmark = pytest.mark.slow

TEXTS = ["Human:  the heart is enlarged .", "no pleural effusion . no focal consolidation ."]


BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("true_shapes")


def test_released_formats_are_read_by_the_ordinary_stages(bench: ModuleType, tmp_path: Path) -> None:
    small = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}
    shapes = bench.Shapes(
        vision=small | {"num_hidden_layers": 12, "image_size": 56},
        text=small | {"vocab_size": 40},
        language=small | {"hidden_size": 32, "intermediate_size": 48, "vocab_size": 400},
        queries=4,
    )
    bench.make_weights(shapes, TEXTS * 40, torch.bfloat16, tmp_path / "weights")
    params_file = tmp_path / "params.yaml"
    YAML().dump(bench.parameters(tmp_path, shapes), params_file)
    params = load_params(params_file)
    backbones = tmp_path / "backbones"
    backbones.mkdir()
    for role in ("vision", "text", "language", "chexbert"):
        found = locate(getattr(params.backbones, role), role)
        assert found is not None
        (backbones / role).symlink_to(found)

    assert ImageEncoder(backbones / "vision", params.features.depths).encode(torch.rand(1, 3, 56, 56)).shape[-1] == 16
    assert TextEncoder(backbones / "text", 12).encode(TEXTS)[0].shape == (2, 12, 16)
    assert CheXbert(backbones / "chexbert")(TEXTS).shape == (2, 14)
    assert len(load_tokenizer(backbones)) == 400
    interface = params.interface.model_copy(update={"num_heads": 2, "d_hidden": 24})
    specification = specification_of("calibrate", params).model_copy(update={"interface": interface})
    model = build_model(backbones, specification, torch.bfloat16)
    assert {p.dtype for n, p in model.language.named_parameters() if "lora_" not in n} == {torch.bfloat16}


def test_stages_up_to_the_scores(bench: ModuleType) -> None:
    names = [name for name, _ in bench.stages()]
    assert names[0] == "source" and names[-1] == "score" and "report" not in names


def test_peak_memory_is_that_of_the_largest_process(bench: ModuleType, tmp_path: Path) -> None:
    # in a process of its own: what this one held would count in the peak of those that it starts
    said = (
        "from pathlib import Path; import true_shapes as t; print(*t.run('python -c b=bytearray(900_000_000)', Path()))"
    )
    made = subprocess.run([sys.executable, "-c", said], cwd=BENCH, capture_output=True, text=True, check=True)
    seconds, gigabytes = map(float, made.stdout.split())
    assert seconds > 0 and 0.9 < gigabytes < 1.1
    with pytest.raises(SystemExit, match="failed; mend it and call again"):
        bench.run("python -c raise(SystemExit(3))", tmp_path)
