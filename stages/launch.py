"""Start a stage in as many processes as accelerate's configuration or the visible devices require.

Usage: ``python stages/launch.py SCRIPT [ARGUMENT...]``. Several processes are started by
``accelerate launch``, without its warning about default values, which are intended. A single
process is this one, so that a small machine imports torch only once per stage.
"""

import logging
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # Python does not, if PYTHONSAFEPATH is set
from run import run_script, run_stage

from pacer.core.errors import ConfigError, PacerError
from pacer.core.machine import prepare_environment
from pacer.core.stops import GO_ON, Stopped

#: What accelerate's configuration may start; the last two train as MULTI_GPU does.
_KINDS = ("NO", "MULTI_CPU", "MULTI_GPU", "FSDP", "MEGATRON_LM")
#: Variables with which a user sets CUDA's allocator.
_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


def main() -> None:
    threads = prepare_environment()
    let_segments_grow()
    import torch

    from pacer.core.devices import share_cores

    # accelerate sets this variable in the processes that it starts
    if "ACCELERATE_MIXED_PRECISION" not in os.environ:
        from accelerate.commands.config import default_config_file

        is_configured = Path(default_config_file).exists()
        if is_configured:
            check_configuration(default_config_file)
        if is_configured or torch.cuda.device_count() > 1:
            start_several()
            return
    share_cores(int(os.environ.get("LOCAL_WORLD_SIZE", "1")), threads)
    run_script()


def let_segments_grow() -> None:
    """Let the segments of CUDA's allocator grow, unless the user has set its variables: batches
    differ in length, and segments of one size would leave gaps."""
    if not any(name in os.environ for name in _ALLOCATOR):
        os.environ[_ALLOCATOR[0]] = "expandable_segments:True"


def check_configuration(file: str) -> None:
    """Raise a ConfigError if accelerate's configuration, which may be that of another project,
    cannot be read, or starts something else than processes on this machine's GPUs or CPU."""
    from accelerate.commands.config.config_args import load_config_from_file

    try:
        kind = load_config_from_file(file).distributed_type
    except Exception:
        reason = "it is empty, damaged, for SageMaker or from a different version of accelerate"
    else:
        if kind in _KINDS:
            return
        reason = f"it is for {kind.value}"
    raise ConfigError(
        f"accelerate's configuration {file} cannot be used: {reason}; move the file away, or write "
        "one for this machine with `accelerate config` (docs/training.md)"
    )


def start_several() -> None:
    """Run the script in several processes, or with the settings of accelerate's configuration."""
    import psutil
    from accelerate.commands.launch import main as accelerate_launch
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    # it warns of defaults, which are intended
    logging.getLogger("accelerate.commands.launch").setLevel(logging.ERROR)
    # the processes use the code beside this script, as `run` has this one do
    root = Path(__file__).resolve().parents[1]
    paths = [str(root), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    sys.argv = ["accelerate-launch", "--quiet", *sys.argv]
    # Ctrl-C must reach this process, where a second Ctrl-C ends everything, not torch's launcher
    os.environ.setdefault("PET_SIGNALS_TO_HANDLE", "SIGTERM,SIGHUP,SIGQUIT,SIGUSR1")
    try:
        accelerate_launch()
    except ChildFailedError as error:
        first = error.get_first_failure()[1]
        reason = f"failed (exit code {first.exitcode})"
        if first.exitcode < 0:
            reason = f"was killed ({first.signal_name()})"
        raise PacerError(
            f"process {first.local_rank} on this machine {reason}, so the others were stopped; "
            f"{GO_ON}"
        ) from None
    except SignalException as stop:  # it has stopped the processes
        raise Stopped(stop.sigval) from None
    except Stopped:  # with a single process, it has not
        processes = psutil.Process().children()
        for process in processes:
            process.terminate()
        psutil.wait_procs(processes)
        raise


if __name__ == "__main__":
    run_stage(main)
