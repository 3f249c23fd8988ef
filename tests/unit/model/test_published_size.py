"""The published model's trainable parameters, against the arithmetic of its layers."""

from __future__ import annotations

import runpy
from pathlib import Path

from tests.support.profiles import profile

ROOT = Path(__file__).parents[3]
V, D, HIDDEN, QUERIES, RANK = 768, 4096, 2048, 128, 32


def linear(inside: int, outside: int) -> int:
    return inside * outside + outside


def test_trainable_parameters_are_those_of_the_published_layers() -> None:
    bench = runpy.run_path(str(ROOT / "bench" / "parameters.py"))
    params = profile("mimic_rg4")
    model = bench["published_model"](params)
    assert all(parameter.is_meta for parameter in model.parameters())
    counts = bench["trainable_counts"](model, params)

    router = 3 * (2 * V + linear(V, V)) + V + 3 + 2 * V + linear(V, V) + 1
    attention = 3 * linear(V, V) + 2 * V + linear(V, V)  # with the bias key and value
    branch = attention + 2 * V + linear(V, V) + 2 * V + linear(V, HIDDEN) + linear(HIDDEN, D) + 2 * D
    fusion = linear(3 * D, D) + 2 * D
    lora = 32 * 2 * RANK * (D + D)
    calibrator = 4 * D + linear(3 * D, D) + linear(D, 1) + 2 * D + 2 * 16 * D
    assert counts["warmup"] == {
        "router": router,
        "interfaces": QUERIES * V + branch,
        "fusion": 0,
        "LoRA": 0,
        "calibrator": 0,
    }
    assert counts["parent"] == {
        "router": router,
        "interfaces": QUERIES * V + 3 * branch,
        "fusion": fusion,
        "LoRA": lora,
        "calibrator": 0,
    }
    assert counts["calibrate"] == dict.fromkeys(counts["parent"], 0) | {"calibrator": calibrator}
    rounded = [round(count / 1e6, 2) for count in (*list(counts["parent"].values())[:4], calibrator)]
    assert rounded == [2.37, 38.9, 50.34, 16.78, 50.5]
