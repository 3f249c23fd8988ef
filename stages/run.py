"""How a stage starts, and the curves of one that trains.

Usage: ``python stages/run.py SCRIPT [ARGUMENT...]`` calls the script's ``main`` in this process.
"""

import getpass
import os
import runpy
import shutil
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

# DVC's queue runs stages in copies of the repository, whose own code they must use
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pacer.config.outputs import check_folders
from pacer.core.errors import run_cleanly
from pacer.core.io import parse_yaml
from pacer.core.machine import prepare_environment
from pacer.core.messages import printed_messages
from pacer.core.stops import stoppable


def run_stage(main: Callable[[], None]) -> None:
    """Run a stage's ``main`` in the root of the repository, as
    :func:`~pacer.core.errors.run_cleanly` does, after
    :func:`~pacer.config.outputs.check_folders`. SIGINT and SIGTERM stop it
    (:func:`~pacer.core.stops.stoppable`)."""

    @stoppable()
    def checked() -> None:
        check_folders(Path())
        main()

    run_cleanly(checked)


def run_script() -> None:
    """Call ``main`` of the script that the command line names. A signal stops its imports, too,
    which take seconds."""
    del sys.argv[0]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))  # of the script's neighbours
    if os.environ.get("RANK", "0") == "0" and (line := place_of(sys.argv)):
        print(line, file=sys.stderr, flush=True)
    with printed_messages():
        runpy.run_path(sys.argv[0])["main"]()


def place_of(command: Sequence[str]) -> str:
    """Say which of the pipeline's stages a script and its arguments run, and for one that trains
    which follow; empty if no ``dvc.yaml`` runs them."""
    pipeline = Path("dvc.yaml")
    if not pipeline.exists():
        return ""
    stages = parse_yaml(pipeline.read_text(encoding="utf-8"))["stages"]
    names = [name for name, stage in stages.items() if stage["cmd"].endswith(" ".join(command))]
    if not names:
        return ""
    order = [*stages]
    place = order.index(names[0]) + 1
    after = order[place:] if command[0].endswith("train.py") else ()
    follows = f"; then {', '.join(after)}" if after else ""
    return f"stage {place} of {len(order)}: {names[0]}{follows}"


def name_user() -> None:
    """Set a user name, which DVC needs, if the user has no entry in ``/etc/passwd``, for example in
    a container."""
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = f"user-{os.getuid()}"


@contextmanager
def dvclive_log(scratch: Path, final: Path) -> Generator:
    """Yield a function that logs curves with DVCLive in the run's scratch directory; move them to
    ``final`` when the phase ends. Speed and memory go to ``telemetry.tsv`` beside DVCLive's files,
    which git and DVC ignore: all other files are equal after two runs on the same machine."""
    from dvclive import Live  # only training stages need it, and it takes a second to import

    from pacer.training.loop import TELEMETRY

    name_user()
    live_directory = scratch / "live"
    # a resumed run logs the earlier rows again
    shutil.rmtree(live_directory, ignore_errors=True)
    with Live(str(live_directory), save_dvc_exp=False, dvcyaml=None, monitor_system=False) as live:
        # DVC expects it, also of a phase that trains nothing
        Path(live.plots_dir).mkdir(parents=True)
        with open(live_directory / "telemetry.tsv", "w", encoding="utf-8") as telemetry:
            print("step", *TELEMETRY, sep="\t", file=telemetry, flush=True)

            def log(values: dict[str, float], step: int) -> None:
                live.step = step
                for name, value in values.items():
                    if name not in TELEMETRY:
                        live.log_metric(name, value)
                live.make_summary()
                row = (values[name] for name in TELEMETRY)
                print(step, *row, sep="\t", file=telemetry, flush=True)

            yield log
    shutil.rmtree(final, ignore_errors=True)
    final.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(live_directory, final)


if __name__ == "__main__":
    prepare_environment()
    run_stage(run_script)
