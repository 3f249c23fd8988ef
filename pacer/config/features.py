"""Which hidden states of the frozen encoders are stored, and how."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pacer.config.strict import Natural, Positive, Strict


class Features(Strict):
    """The group ``features``: encoder blocks, stored type and size of shards."""

    mode: Literal["states", "pixels"]
    depths: Annotated[list[Positive], Field(min_length=1)]
    dtype: Literal["float32", "float16", "bfloat16"]
    precision: Literal["float32", "bfloat16"]
    batch_size: Positive
    shard_size: Positive
    workers: Natural
    prior_tokens: Annotated[int, Field(ge=2, le=100_000)]

    @model_validator(mode="after")
    def _ascending(self) -> Features:
        if self.depths != sorted(set(self.depths)):
            raise ValueError("depths must ascend without repeats; depths are counted in blocks, 1 is the first")
        return self
