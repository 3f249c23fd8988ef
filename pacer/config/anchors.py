"""How the commitment target of every record is made."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from pacer.config.strict import Natural, NaturalFloat, Positive, PositiveFloat, Strict


class Labelling(Strict):
    """How the LLM labels the sampled reports."""

    provider: Literal["none", "recorded", "openai"]
    recorded: str | None
    model: str
    base_url: str | None
    temperature: NaturalFloat
    max_tokens: Positive
    structured: bool
    concurrency: Positive
    timeout: PositiveFloat
    attempts: Positive
    unanswered: Literal["stop", "rules"]
    max_requests: Natural | None
    max_dollars: NaturalFloat | None
    input_price: NaturalFloat
    output_price: NaturalFloat
    send_reports_to: str | None
    prompt_file: str | None

    @model_validator(mode="after")
    def _needs(self) -> Labelling:
        if self.provider == "recorded" and self.recorded is None:
            raise ValueError("provider: recorded needs anchors.llm.recorded, the file of answers by record id")
        return self


class Anchors(Strict):
    """The group ``anchors``: the sample and how it is labelled."""

    seed: Natural
    sample_per_context: Natural
    llm: Labelling
