"""How the commitment target of every record is made."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pacer.params.strict import Fraction, Natural, NaturalFloat, Positive, PositiveFloat, Strict


class Labelling(Strict):
    provider: Literal["none", "recorded", "openai"]
    recorded: str | None
    model: str
    base_url: str | None
    temperature: NaturalFloat
    max_tokens: Positive
    structured: bool
    mode: Literal["requests", "batch"]
    batch_requests: Annotated[int, Field(ge=1, le=50_000)]
    concurrency: Positive
    timeout: PositiveFloat
    attempts: Positive
    backoff: PositiveFloat
    unanswered: Literal["stop", "rules"]
    max_requests: Natural | None
    max_dollars: NaturalFloat | None
    input_price: NaturalFloat
    output_price: NaturalFloat
    batch_discount: Fraction
    send_reports_to: str | None
    prompt_file: str | None

    @model_validator(mode="after")
    def _needs(self) -> Labelling:
        if self.provider == "recorded" and self.recorded is None:
            raise ValueError("provider: recorded needs anchors.llm.recorded, the file of answers by record id")
        return self


class Anchors(Strict):
    seed: Natural
    rules: Literal["paper", "scoped"]
    sample_per_context: Natural
    llm: Labelling
