"""Whether the mean F1 of the last run is in the range of the default profile (`bench/results/default_f1.yaml`).

    python bench/expected.py

It prints nothing where parameters other than `train.seed` are not those of `configs/phantom.yaml`.
"""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pacer.config import load_params
from pacer.core.io import read_json

ROOT = Path(__file__).resolve().parents[1]
SEEN = Path(__file__).parent / "results" / "default_f1.yaml"


def verdict(f1: float, seed: int, seen: dict[str, Any]) -> str:
    """Say in a sentence whether ``f1`` is within, below or above the range of ``seen``."""
    low, high = seen["low"], seen["high"]
    place = "matches" if low <= round(f1, 3) <= high else "is below" if f1 < low else "is above"
    values = f"{low:.3f}" if low == high else f"{low:.3f} to {high:.3f}"
    several, count = len(seen["seeds"]) > 1, seen["processors"]
    of = "" if seed in seen["seeds"] else f"; this run: seed {seed}"
    return (
        f"mean F1 {f1:.3f} {place} earlier runs of this profile: {values} (seed{'s' * several} "
        f"{', '.join(map(str, seen['seeds']))}{of}; {count} processor{'s' * (count != 1)})"
    )


def main() -> None:
    run, committed = (load_params(ROOT / name).model_dump() for name in ("params.yaml", "configs/phantom.yaml"))
    seed = run["train"].pop("seed")
    committed["train"].pop("seed")
    if run == committed:
        f1 = read_json(ROOT / "metrics" / "scores.json")["mean"]["f1"]
        print(verdict(f1, seed, YAML(typ="safe").load(SEEN.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
