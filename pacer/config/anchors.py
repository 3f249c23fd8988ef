"""The targets made from report text: commitments (``anchors``), and the tokens that L_TLW emphasises."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pacer.config.strict import Natural, NaturalFloat, Positive, PositiveFloat, Strict


class Labelling(Strict):
    """The group ``anchors.llm``: how the LLM labels the sampled reports."""

    provider: Literal["none", "recorded", "openai"]
    recorded: str | None
    model: str
    base_url: str | None
    temperature: NaturalFloat | None
    reasoning_effort: Annotated[str, Field(pattern=r"^\w+$")] | None = None
    response_format: Literal["json_object", "json_schema", "none"] = "json_object"
    max_tokens: Positive
    concurrency: Positive
    timeout: PositiveFloat
    attempts: Positive
    unanswered: Literal["stop", "rules"]
    send_reports_to: str | None
    prompt_file: str | None

    @model_validator(mode="after")
    def _has_answers(self) -> Self:
        if self.provider == "recorded" and self.recorded is None:
            raise ValueError("provider = 'recorded' needs anchors.llm.recorded, a file of answers keyed by record id")
        return self


class Anchors(Strict):
    seed: Natural
    sample_per_context: Natural
    rules: Literal["careful", "paper"] = "careful"
    llm: Labelling


class Emphasis(Strict):
    source: Literal["corpus", "computed", "none"]
    steps: Positive
    smoothing: NaturalFloat
    threshold: Annotated[float, Field(ge=0.0, lt=1.0)]
    batch_size: Positive
