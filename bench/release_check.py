"""Fail if the committed run is not of the committed code (``make release-check``).

    python bench/release_check.py --last-run   # only: is the last run as those of the profile?

The last says nothing where parameters other than `train.seed` are not those of
`configs/phantom.yaml`.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pacer.config import load_params
from pacer.core.io import read_json

ROOT = Path(__file__).resolve().parents[1]
#: The range of the mean F1 of earlier runs of the default profile.
SEEN = Path(__file__).parent / "results" / "default_f1.yaml"


def verdict(f1: float, seed: int, seen: dict[str, Any]) -> str:
    """Say in a sentence whether ``f1`` is within, below or above the range of ``seen``."""
    low, high = seen["low"], seen["high"]
    place = "matches" if low <= round(f1, 3) <= high else "is below" if f1 < low else "is above"
    return (
        f"mean F1 {f1:.3f}, seed {seed}, {place} earlier runs of this profile: {low:.3f} to "
        f"{high:.3f}, seeds {', '.join(map(str, seen['seeds']))}"
    )


def compare_last_run() -> None:
    """Print the verdict on the last run."""
    run, committed = (
        load_params(ROOT / name).model_dump() for name in ("params.yaml", "configs/phantom.yaml")
    )
    seed = run["train"].pop("seed")
    committed["train"].pop("seed")
    if run == committed:
        f1 = read_json(ROOT / "metrics" / "scores.json")["mean"]["f1"]
        print(verdict(f1, seed, YAML(typ="safe").load(SEEN.read_text(encoding="utf-8"))))


def stale_stages() -> list[str]:
    """Return the stages that `dvc repro` would run in a clone without data.

    The list ends at the first stage whose inputs are not in the clone: `--allow-missing` fails
    there (dvc#9818).

    Raises:
        RuntimeError: `dvc` ends with another error.
    """
    command = [sys.executable, "-m", "dvc", "repro", "--allow-missing", "--dry"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    stages = re.findall(
        r"(?:Running stage|failed to reproduce) '([^']+)'", done.stdout + done.stderr
    )
    if done.returncode and not stages:
        raise RuntimeError(done.stderr)
    return list(dict.fromkeys(stages))


def main() -> None:
    if "--last-run" in sys.argv:
        compare_last_run()
    elif stale := stale_stages():
        raise SystemExit(
            f"dvc.lock is not of this code: {', '.join(stale)} and what follows would run again "
            "(`dvc repro`)"
        )


if __name__ == "__main__":
    main()
