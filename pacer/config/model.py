"""The trained blocks, and the text that they are trained on; lengths in tokens."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from pacer.config.strict import Fraction, Positive, PositiveFloat, Size, Strict

#: The subclass of :class:`pacer.model.refine.DepthRouter` for each value of ``refine.variant``.
MIXERS = {
    "patchwise": "pacer.model.refine:Patchwise",  # the paper's
    "global": "pacer.model.refine:Global",  # one learned mixture for all patches and images
}


def _known_variant(name: str) -> str:
    if name != "endpoint" and name not in MIXERS:
        raise ValueError(f"must be {', '.join(MIXERS)} or endpoint")
    return name


class Prompt(Strict):
    before_tokens: Annotated[int, Field(ge=8)]
    unknown_view: Literal["upstream", "by_sections"]
    # absent in checkpoints of earlier versions
    truncation: Literal["context", "upstream"] = "context"


class Trajectory(Strict):
    report_tokens: Annotated[int, Field(ge=8)]


class Commit(Strict):
    """The group ``commit``: the route of training, and whether the list states the side of
    findings (``[]``, the paper: it does not)."""

    route: Literal["stochastic", "always", "direct"]
    # absent in checkpoints of earlier versions
    attributes: list[str] = Field(default_factory=list)

    @field_validator("attributes")
    @classmethod
    def _allowed(cls, kinds: list[str]) -> list[str]:
        if kinds not in ([], ["side"]):
            raise ValueError(
                "must be [] or [side]; since version 0.5, lists do not state severity and course"
            )
        return kinds


class Refine(Strict):
    """The group ``refine``: router over depths; alpha_D starts at init_scale < max_scale, its
    bound."""

    variant: Annotated[str, AfterValidator(_known_variant)]
    d_routing: Size | None
    max_scale: PositiveFloat
    init_scale: PositiveFloat

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.init_scale >= self.max_scale:
            raise ValueError("init_scale must be less than max_scale, its upper bound")
        return self


class Interface(Strict):
    """The group ``interface``: compression of each source to ``num_queries`` tokens, and their
    fusion."""

    num_queries: Size
    num_heads: Size
    d_hidden: Size
    dropout: Fraction
    query_std: PositiveFloat
    fusion_init: Literal["random", "identity"]
    mask_prior_padding: bool


class Lora(Strict):
    """The group ``lora``: adapters of the language model, scaled by alpha / rank; targets None:
    PEFT's defaults."""

    rank: Size
    alpha: Positive
    dropout: Fraction
    targets: Annotated[list[str], Field(min_length=1)] | None


class Calibrator(Strict):
    """The part of the group ``calibrate`` that is the module's; with the gate inputs ``none`` there
    is no module."""

    gate_inputs: Literal["none", "h", "he", "hz", "hze"]
    rank: Size
    d_availability: Size | None
    d_gate: Size | None
    dropout: Fraction
    gate_bias: float
