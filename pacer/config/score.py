"""How reports are scored."""

from __future__ import annotations

from typing import Literal

from pacer.config.corpus import Cleaner
from pacer.config.strict import Positive, Strict


class Score(Strict):
    """The group ``score``: convention of F1, references and the labeller's batches."""

    convention: Literal["llm-rg4", "r2gen", "nicolson", "top5", "weighted"]
    originals: Literal[Cleaner, "lowercase", "as_is"]
    batch_size: Positive
    precision: Literal["float32", "bfloat16"]
    columns: str | None
