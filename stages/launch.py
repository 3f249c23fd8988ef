"""Start a stage in every process that accelerate's configuration or the visible devices ask for.

Usage: ``python stages/launch.py SCRIPT [ARGUMENT...]``. Several processes are started by ``accelerate launch``, without
its warning about default values, which are intended. A single process is this one, so that a small machine imports
torch only once per stage.
"""

import logging
import os
import sys
from pathlib import Path

from run import run_script

from pacer import THREADS
from pacer.core.outputs import run_stage
from pacer.core.stops import Stopped

#: Start of accelerate's warning about values that were left to their defaults.
_LEFT_TO_IT = "The following values were not passed to `accelerate launch`"


def main() -> None:
    import torch
    from accelerate.commands.config import default_config_file
    from torch.distributed.elastic.multiprocessing import SignalException

    from pacer.core.devices import share_cores

    launched = "ACCELERATE_MIXED_PRECISION" in os.environ  # by accelerate, which sets it always
    if launched or not (torch.cuda.device_count() > 1 or Path(default_config_file).exists()):
        share_cores(int(os.environ.get("LOCAL_WORLD_SIZE", "1")), THREADS)
        run_script()
        return
    from accelerate.commands.accelerate_cli import main as accelerate

    launcher = logging.getLogger("accelerate.commands.launch")
    launcher.addFilter(lambda record: not record.getMessage().startswith(_LEFT_TO_IT))
    sys.argv = ["accelerate", "launch", "--quiet", *sys.argv]
    try:
        accelerate()
    except SignalException:  # it has stopped the processes
        raise Stopped from None


if __name__ == "__main__":
    run_stage(main)
