"""Which report tokens enter L_TLW."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pacer.config.strict import NaturalFloat, Positive, Strict


class Emphasis(Strict):
    """The group ``emphasis``: marks from the corpus, computed ones, or none."""

    source: Literal["corpus", "computed", "none"]
    steps: Positive
    smoothing: NaturalFloat
    threshold: Annotated[float, Field(ge=0.0, lt=1.0)]
    batch_size: Positive
