"""How reports are generated."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from pacer.config.strict import Beams, LengthPenalty, Natural, Positive, PositiveFloat, Strict, Tokens


class Decode(Strict):
    """The group ``decode``: records, beam search (lengths in tokens) and controls."""

    split: Literal["test", "val", "all"]
    limit: Positive | None
    engine: Literal["beam", "generate"]
    num_beams: Beams
    min_new_tokens: Natural
    max_new_tokens: Tokens
    repetition_penalty: PositiveFloat
    length_penalty: LengthPenalty
    batch_size: Positive
    examples: Natural
    controls: list[Literal["another_patient", "no_lateral", "no_prior"]]

    @model_validator(mode="after")
    def _ordered(self) -> Decode:
        if self.min_new_tokens > self.max_new_tokens:
            raise ValueError("min_new_tokens is above max_new_tokens")
        return self
