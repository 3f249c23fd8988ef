"""CheXbert: the labeller, and the labels of the references.

Uses pretrained, records and core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pacer.metrics.chexbert.labeller import CheXbert

__all__ = ["CheXbert"]


def __getattr__(name: str) -> Any:
    """The labeller once it is asked for: torch and transformers take seconds, and the names of observations do not."""
    if name != "CheXbert":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from pacer.metrics.chexbert.labeller import CheXbert

    return CheXbert
