"""The typed form of ``baselines/params.yaml``; its keys are explained there."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from pacer.config.strict import (
    Fraction,
    Natural,
    NaturalFloat,
    Positive,
    PositiveFloat,
    Strict,
    read_params,
)
from pacer.config.training import Schedule


class Adaptation(Schedule):
    """How modules added to the frozen parent are trained."""

    seed: Natural
    weight_decay: NaturalFloat
    rho: Fraction
    lambda_q: NaturalFloat


class SimMLM(Adaptation):
    rank: Positive
    d_gate: Positive
    alpha: NaturalFloat

    @model_validator(mode="after")
    def _in_pairs(self) -> Self:
        if self.batch_size % 2:
            raise ValueError(
                f"batch_size ({self.batch_size}) must be even: a micro-batch consists of pairs"
            )
        return self


class Bank(Strict):
    neighbours: Positive


class RAGPT(Adaptation):
    bank: Bank
    prompt_tokens: Positive
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)]


class LLMRG4(Strict):
    weights: str | None
    num_beams: Positive
    min_new_tokens: Natural
    max_new_tokens: Positive
    repetition_penalty: PositiveFloat
    length_penalty: float


class BaselineParams(Strict):
    simmlm: SimMLM
    ragpt: RAGPT
    llm_rg4: LLMRG4


def load_baseline_params(path: str | Path = "baselines/params.yaml") -> BaselineParams:
    """Read and validate the baselines' parameter file, as :func:`~pacer.config.strict.read_params`
    does."""
    return read_params(path, BaselineParams)
