"""Stages `warmup`, `parent` and `calibrate`: one training phase, named on the command line."""

import os
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from dvclive import Live

from pacer.core.config import Params, load_params
from pacer.core.errors import run_cleanly
from pacer.core.threads import share_cores
from pacer.training.run import run_phase

PHASES = ("warmup", "parent", "calibrate")


def start_of(phase: str, params: Params) -> Path | None:
    """The checkpoint that a phase starts from."""
    if phase == "parent":
        return Path("models/warmup") if params.parent.start == "warmup" else Path(params.parent.start).expanduser()
    return Path("models/parent") if phase == "calibrate" else None


@contextmanager
def dvclive_log(scratch: Path, final: Path) -> Generator:
    """Curves in the run's scratch directory; moved to ``final`` when the phase has ended."""
    live_directory = scratch / "live"
    shutil.rmtree(live_directory, ignore_errors=True)  # after a resume the earlier points are logged again
    with Live(str(live_directory), save_dvc_exp=False, dvcyaml=None, monitor_system=False) as live:

        def log(values: dict[str, float], step: int) -> None:
            live.step = step
            for name, value in values.items():
                live.log_metric(name, value)
            live.make_summary()

        yield log
    if final.exists():
        shutil.rmtree(final)
    final.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(live_directory, final)


def main() -> None:
    phase = sys.argv[1] if len(sys.argv) > 1 else ""
    if phase not in PHASES:
        sys.exit(f"error: usage: stages/train.py {' | '.join(PHASES)}")
    params = load_params()
    share_cores(int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    run_phase(
        phase,
        params,
        corpus=Path("data/corpus"),
        backbones=Path("models/backbones"),
        features=Path("data/features"),
        anchors=None if phase == "warmup" else Path("data/anchors/anchors.parquet"),
        start=start_of(phase, params),
        out=Path(f"models/{phase}"),
        open_log=lambda scratch: dvclive_log(scratch, Path(f"metrics/{phase}")),
    )


if __name__ == "__main__":
    run_cleanly(main)
