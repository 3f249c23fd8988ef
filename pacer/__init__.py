"""PACER: chest X-ray reports when the lateral view or the previous report may be missing.

Scoring from Python: :func:`score`, :func:`compare`, :func:`label`; a trained model:
:class:`Reporter`.
"""

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pacer.core.machine import core_count, core_quota

if TYPE_CHECKING:
    from pacer.metrics.calls import Scores, compare, label, score
    from pacer.serving.reporter import Reporter

__all__ = ["Reporter", "Scores", "compare", "label", "score"]

# OpenMP threads wait for each other in a busy loop. If another process uses the cores, waiting
# takes many times as long as the work, so the threads yield the core after a short while
# (docs/performance.md). The variable is read when torch is first imported; a value that the user
# has set is kept.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
# The user's number of threads, before a launcher sets its own for its processes; empty if the user
# has set none.
_GIVEN = "" if "LOCAL_RANK" in os.environ else os.environ.get("OMP_NUM_THREADS", "")
THREADS = os.environ.setdefault("PACER_THREADS", _GIVEN)
if not THREADS and core_quota() < (
    os.cpu_count() or 1
):  # a container's quota, which OpenMP does not know
    os.environ["OMP_NUM_THREADS"] = str(core_count())
# Figures are drawn without a window. The backend of a notebook need not be installed where its
# programs run, and matplotlib could then not be imported; within a notebook, the backend is the
# notebook's.
if "MPLBACKEND" in os.environ and not {"ipykernel", "matplotlib"} & sys.modules.keys():
    os.environ["MPLBACKEND"] = "agg"


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used; only :class:`Reporter` needs torch."""
    if name not in __all__:
        raise AttributeError(f"module 'pacer' has no attribute {name!r}")
    return getattr(
        import_module("pacer.serving.reporter" if name == "Reporter" else "pacer.metrics.calls"),
        name,
    )
