"""Curves of a training stage, by DVCLive."""

import getpass
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from dvclive import Live


def name_user() -> None:
    """Name a user without an entry in ``/etc/passwd``, as in a container, whose name DVC asks
    for."""
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = f"user-{os.getuid()}"


@contextmanager
def dvclive_log(scratch: Path, final: Path) -> Generator:
    """Yield a function that logs curves in the run's scratch directory; move them to ``final`` when
    the phase ends."""
    name_user()
    live_directory = scratch / "live"
    shutil.rmtree(
        live_directory, ignore_errors=True
    )  # after a resume the earlier points are logged again
    with Live(str(live_directory), save_dvc_exp=False, dvcyaml=None, monitor_system=False) as live:
        Path(live.plots_dir).mkdir(
            parents=True
        )  # DVC expects it, also of a phase that trains nothing

        def log(values: dict[str, float], step: int) -> None:
            live.step = step
            for name, value in values.items():
                live.log_metric(name, value)
            live.make_summary()

        yield log
    shutil.rmtree(final, ignore_errors=True)
    final.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(live_directory, final)
