"""PACER: chest X-ray reports when the lateral view or the previous report may be missing.

Scoring from Python: :func:`score`, :func:`compare`, :func:`label`; a reward for reinforcement
learning: :func:`reward`; a trained model: :class:`Reporter`. Importing the package changes nothing
in the process.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pacer.serving.reporter import Reporter
    from pacer.statistics.calls import Scores, compare, label, reward, score

__all__ = ["Reporter", "Scores", "compare", "label", "reward", "score"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used; only :class:`Reporter` needs torch."""
    if name not in __all__:
        raise AttributeError(f"module 'pacer' has no attribute {name!r}")
    if name == "Reporter":
        from pacer.core.machine import prepare_environment

        prepare_environment()
        return import_module("pacer.serving.reporter").Reporter
    return getattr(import_module("pacer.statistics.calls"), name)
