"""The processes of one run."""

from __future__ import annotations

from datetime import timedelta

from accelerate import Accelerator, InitProcessGroupKwargs, PartialState
from accelerate.utils import parse_choice_from_env, parse_flag_from_env

from pacer.core.errors import ConfigError

#: How long processes wait for each other: one may have a survey, a validation or the slower disk.
PATIENCE = timedelta(hours=2)

#: What an accelerate configuration may ask for that would split the model, by the variable that the launcher sets.
_SPLITTING = {
    "ACCELERATE_USE_FSDP": "FSDP",
    "ACCELERATE_USE_DEEPSPEED": "DeepSpeed",
    "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "a parallelism_config",
}


def process_state() -> PartialState:
    """The processes that the launcher started, on CPUs where it said so (by itself the class looks for GPUs alone).

    Raises:
        ConfigError: see :func:`open_accelerator`.
    """
    _check_launcher()
    return PartialState(cpu=parse_flag_from_env("ACCELERATE_USE_CPU"), timeout=PATIENCE)


def open_accelerator(mixed_precision: str) -> Accelerator:
    """The processes that the launcher started, for training in ``mixed_precision`` (``no`` | ``bf16``).

    Raises:
        ConfigError: the accelerate configuration asks for something that the frozen, replicated model does not take.
    """
    _check_launcher()
    return Accelerator(mixed_precision=mixed_precision, kwargs_handlers=[InitProcessGroupKwargs(timeout=PATIENCE)])


def _check_launcher() -> None:
    asked = [name for variable, name in _SPLITTING.items() if parse_flag_from_env(variable)]
    precision = parse_choice_from_env("ACCELERATE_MIXED_PRECISION", "no")
    if precision != "no":
        asked.append(f"mixed_precision {precision}")
    if asked:
        raise ConfigError(
            f"the accelerate configuration asks for {' and '.join(asked)}; the language model is frozen and each "
            "process holds all of it, so there are no gradients or optimiser states of it to split, and its "
            "arithmetic is a parameter that results are recorded with: in the configuration set distributed_type: "
            "MULTI_GPU (NO for one GPU) and mixed_precision: 'no', and in params.yaml train.precision, and where "
            "memory is short train.checkpointing: on or train.quantization: nf4"
        )
