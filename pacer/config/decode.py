"""How reports are generated and scored."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from pacer.config.strict import Natural, NaturalFloat, Positive, PositiveFloat, Strict, Tokens

#: A share strictly between 0 and 1.
ProperFraction = Annotated[float, Field(gt=0.0, lt=1.0)]
Beams = Annotated[int, Field(ge=1, le=64)]


class Decode(Strict):
    """The group ``decode``: records, beam search (lengths in tokens) and controls."""

    removed: ClassVar = {
        "risk": "delete it; docs/training.md shows how to choose decode.threshold so that the "
        "share of wrong findings has a bound",
        "engine": "delete it; reports are always written by PACER's beam search",
        "temperature": "delete it, or export the model again; candidates are drawn at 0.4",
    }

    split: Literal["test", "val", "all"]
    limit: Positive | None
    commitment: Literal["generated", "read"] = "generated"
    list_bias: NaturalFloat = 0.0
    threshold: ProperFraction = 0.3
    select: Literal["score", "agreement"] = "score"
    candidates: Beams = 8
    num_beams: Beams
    min_new_tokens: Natural
    max_new_tokens: Tokens
    repetition_penalty: PositiveFloat
    # exponent of the length; bounded to keep scores finite
    length_penalty: Annotated[float, Field(ge=-10.0, le=10.0)]
    batch_size: Positive
    examples: Natural
    controls: list[Literal["another_patient", "no_lateral", "no_prior", "gold_list"]]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_new_tokens > self.max_new_tokens:
            raise ValueError("min_new_tokens must not exceed max_new_tokens")
        return self


class ScoreSettings(Strict):
    """The group ``score``: convention of F1, and further columns."""

    removed: ClassVar = {"originals": "delete it; original findings are cleaned by upstream"}

    convention: Literal["llm-rg4", "r2gen", "nicolson", "top5", "weighted"]
    columns: str | None
    metrics: list[str] = Field(default_factory=list)
