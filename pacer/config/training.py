"""The three phases, and what they share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pacer.config.strict import Fraction, Natural, NaturalFloat, Positive, PositiveFloat, Size, Strict
from pacer.core.contexts import Context


class Train(Strict):
    """The group ``train``: what the three phases share; intervals in updates."""

    seed: Natural
    lambda_tlw: NaturalFloat
    weight_decay: NaturalFloat
    max_grad_norm: PositiveFloat | None
    precision: Literal["auto", "float32", "bfloat16"]
    attention: Literal["sdpa", "eager", "flash_attention_2", "flash_attention_3"]
    checkpointing: Literal["off", "on"]
    quantization: Literal["none", "nf4"]
    checkpoint: Literal["last", "best"]
    workers: Natural
    log_interval: Positive
    validation_interval: Positive
    validation_records: Positive | None
    state_interval: Positive


class Batches(Strict):
    """The group ``batches``: mixing and sorting of micro-batches."""

    mix: bool
    window: Positive


class Warmup(Strict):
    """The group ``warmup``, and the schedule of every phase; batch size in records over all processes."""

    learning_rate: PositiveFloat
    batch_size: Positive
    accumulation: Positive
    updates: Positive
    warmup_updates: Natural


class Parent(Warmup):
    """The group ``parent``: schedule, rise of rho and weight of commitment tokens."""

    contexts: Annotated[list[Context], Field(min_length=1)] | None
    rho_start: Fraction
    rho_end: Fraction
    rho_updates: Natural
    lambda_q: NaturalFloat
    lateral_start: Literal["random", "frontal"]
    prior_start: Literal["random", "frontal"]
    start: Annotated[str, Field(min_length=1)]


class Calibrate(Warmup):
    """The group ``calibrate``: schedule, loss weights and size of the calibrator."""

    trains: Literal["calibrator", "interface", "lora"]
    rho: Fraction
    lambda_q: NaturalFloat
    lambda_cons: NaturalFloat
    lambda_drift: NaturalFloat
    gate_inputs: Literal["none", "h", "he", "hz", "hze"]
    rank: Size
    d_availability: Size | None
    d_gate: Size | None
    dropout: Fraction
    gate_bias: float
