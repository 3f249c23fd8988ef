"""Which report tokens L_TLW counts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pacer.config.strict import NaturalFloat, Positive, Strict


class Emphasis(Strict):
    source: Literal["corpus", "computed", "none"]
    steps: Positive
    smoothing: NaturalFloat
    threshold: Annotated[float, Field(ge=0.0, lt=1.0)]
    batch_size: Positive
