"""The processes of one run."""

from __future__ import annotations

from datetime import timedelta

from accelerate import Accelerator, InitProcessGroupKwargs, PartialState
from accelerate.utils import parse_choice_from_env, parse_flag_from_env

from pacer.core.devices import compute_device
from pacer.core.errors import ConfigError

#: How long processes wait for each other: one may be validating or searching an old store, or have a slower disk.
COLLECTIVE_TIMEOUT = timedelta(hours=2)

#: Names, in the launcher's variables, of features of accelerate that would split the model.
_SPLITTING = ("FSDP", "DEEPSPEED", "MEGATRON_LM", "PARALLELISM_CONFIG")


def process_state() -> PartialState:
    """Return the state of the launcher's processes, on the CPU if it says so or there is no CUDA GPU.

    Raises:
        ConfigError: see :func:`open_accelerator`.
    """
    _check_launcher()
    return PartialState(cpu=_on_cpu(), timeout=COLLECTIVE_TIMEOUT)


def open_accelerator(mixed_precision: str) -> Accelerator:
    """Return an accelerator of the launcher's processes, for training in ``mixed_precision`` (``no`` | ``bf16``).

    Raises:
        ConfigError: the accelerate configuration asks for something that the frozen, replicated model does not allow.
    """
    _check_launcher()
    patience = InitProcessGroupKwargs(timeout=COLLECTIVE_TIMEOUT)
    return Accelerator(cpu=_on_cpu(), mixed_precision=mixed_precision, kwargs_handlers=[patience])


def _on_cpu() -> bool:
    """Decide for accelerate, which by itself would choose GPUs that are not supported."""
    return parse_flag_from_env("ACCELERATE_USE_CPU") or compute_device().type == "cpu"


def _check_launcher() -> None:
    asked = [name for name in _SPLITTING if parse_flag_from_env(f"ACCELERATE_USE_{name}")]
    precision = parse_choice_from_env("ACCELERATE_MIXED_PRECISION", "no")
    if precision != "no":
        asked.append(f"mixed_precision {precision}")
    if asked:
        raise ConfigError(
            f"the accelerate configuration asks for {' and '.join(asked)}; the frozen language model is not split, and "
            "precision is a parameter: set distributed_type: MULTI_GPU (NO for one GPU) and mixed_precision: 'no' "
            "there, and in params.yaml train.precision, or train.checkpointing to save memory"
        )
