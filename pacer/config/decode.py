"""How reports are generated and scored."""

from typing import Literal, Self

from pydantic import model_validator

from pacer.config.corpus import Cleaner
from pacer.config.strict import Beams, LengthPenalty, Natural, Positive, PositiveFloat, Strict, Tokens


class Decode(Strict):
    """The group ``decode``: records, beam search (lengths in tokens) and controls."""

    split: Literal["test", "val", "all"]
    limit: Positive | None
    engine: Literal["beam", "generate"]
    select: Literal["score", "agreement"] = "score"
    candidates: Beams = 8
    temperature: PositiveFloat = 0.4
    num_beams: Beams
    min_new_tokens: Natural
    max_new_tokens: Tokens
    repetition_penalty: PositiveFloat
    length_penalty: LengthPenalty
    batch_size: Positive
    examples: Natural
    controls: list[Literal["another_patient", "no_lateral", "no_prior", "nearest_report"]]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_new_tokens > self.max_new_tokens:
            raise ValueError("min_new_tokens is above max_new_tokens")
        if self.select == "agreement" and self.engine != "beam":
            raise ValueError("select: agreement needs engine: beam, because generate makes no candidates")
        return self


class Score(Strict):
    """The group ``score``: convention of F1, references and the labeller's batches."""

    convention: Literal["llm-rg4", "r2gen", "nicolson", "top5", "weighted"]
    originals: Literal[Cleaner, "lowercase", "as_is"]
    batch_size: Positive
    precision: Literal["float32", "bfloat16"]
    columns: str | None
