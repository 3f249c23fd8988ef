"""The training phases and their common settings; intervals in updates, batch sizes in records over
all processes."""

from typing import Annotated, Literal

from pydantic import Field

from pacer.config.model import Calibrator
from pacer.config.strict import Fraction, Natural, NaturalFloat, Positive, PositiveFloat, Strict
from pacer.core.contexts import Context


class Train(Strict):
    seed: Natural
    lambda_tlw: NaturalFloat
    weight_decay: NaturalFloat
    max_grad_norm: PositiveFloat | None
    precision: Literal["auto", "float32", "bfloat16"]
    checkpointing: Literal["off", "on"]
    checkpoint: Literal["last", "best"]
    workers: Natural
    log_interval: Positive
    validation_interval: Positive
    validation_records: Positive | None
    state_interval: Positive


class Batches(Strict):
    mix: bool
    window: Positive
    positive_repeats: Positive


class Schedule(Strict):
    """The schedule of every phase, and all of the group ``warmup``."""

    learning_rate: PositiveFloat
    batch_size: Positive
    accumulation: Positive
    updates: Positive
    warmup_updates: Natural


class Parent(Schedule):
    contexts: Annotated[list[Context], Field(min_length=1)] | None
    rho_start: Fraction
    rho_end: Fraction
    rho_updates: Natural
    lambda_q: NaturalFloat
    lateral_start: Literal["random", "frontal"]
    prior_start: Literal["random", "frontal"]
    start: Annotated[str, Field(min_length=1)]


class Calibrate(Schedule, Calibrator):
    trains: Literal["calibrator", "interface", "lora"]
    rho: Fraction
    lambda_q: NaturalFloat
    lambda_cons: NaturalFloat
    lambda_drift: NaturalFloat
