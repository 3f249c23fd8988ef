"""Start a stage in every process that accelerate's configuration or the visible devices ask for.

Usage: ``python stages/launch.py SCRIPT [ARGUMENT...]``. Several processes are started by ``accelerate launch``, without
its warning about default values, which are intended. A single process is this one, so that a small machine imports
torch only once per stage.
"""

import logging
import runpy
import sys
from pathlib import Path

from pacer.core.stops import STOPPED, follow_parent  # with pacer, which sets how threads wait, before torch

follow_parent()  # the import of torch takes seconds

# isort: split
import torch  # noqa: E402
from accelerate.commands.config import default_config_file  # noqa: E402
from torch.distributed.elastic.multiprocessing import SignalException  # noqa: E402

#: Start of accelerate's warning about values that were left to their defaults.
_LEFT_TO_IT = "The following values were not passed to `accelerate launch`"

if __name__ == "__main__":
    if torch.cuda.device_count() > 1 or Path(default_config_file).exists():
        from accelerate.commands.accelerate_cli import main

        launcher = logging.getLogger("accelerate.commands.launch")
        launcher.addFilter(lambda record: not record.getMessage().startswith(_LEFT_TO_IT))
        sys.argv[1:1] = ["launch", "--quiet"]
        try:
            main()
        except SignalException:  # it has stopped the processes
            sys.exit(STOPPED)
    else:
        del sys.argv[0]
        runpy.run_path(sys.argv[0], run_name="__main__")
