"""Run a stage in this process: ``python stages/run.py SCRIPT [ARGUMENT...]`` calls the script's
``main``."""

import runpy
import sys
from pathlib import Path

from pacer.core.machine import prepare_environment
from pacer.core.messages import printed_messages
from pacer.core.outputs import run_stage


def run_script() -> None:
    """Call ``main`` of the script that the command line names. A signal stops its imports, too,
    which take seconds."""
    del sys.argv[0]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))  # of the script's neighbours
    with printed_messages():
        runpy.run_path(sys.argv[0])["main"]()


if __name__ == "__main__":
    prepare_environment()
    run_stage(run_script)
