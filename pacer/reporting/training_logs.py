"""Reads the training curves that DVCLive wrote: ``plots/metrics/<name>.tsv``, names nested in folders."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.reporting.tables import Check

#: Title of a panel, its file name, and the pattern of the names that it takes. The first pattern that matches wins.
PANELS = (
    ("Validation loss", "validation", r"^validation/"),
    ("Loss and its parts", "loss", r"^loss(_|$)"),
    ("Learning rate", "learning_rate", r"^learning_rate$"),
    ("Gate of Calibrate, mean over records", "gate", r"^gate(/|$)"),
    ("Depth weights, mean over patches", "depth_weight", r"^depth_weight/"),
)

#: What is drawn over all phases: log name, axis label. It has no panel of its own.
FOLLOWED = {"rho": "ρ, direct route", "alpha": "α_D, residual"}

#: What a phase counts before its first update, in words.
COUNTED = {
    "targets/reports": "Training targets",
    "targets/cut": "cut at the token limit",
    "targets/emphasised": "with emphasised tokens",
    "targets/commitment_tokens_mean": "tokens of a commitment, mean",
    "targets/commitment_tokens_most": "tokens of a commitment, most",
    "batches/real_share": "Real over padded tokens of an epoch",
    "batches/published_real_share": "the same in LLM-RG4's order",
}


@dataclass(frozen=True)
class Curve:
    """One logged quantity of one phase: ``values[i]`` at update ``steps[i]``."""

    name: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Panel:
    """Curves that share an axis; ``name``: its part of a file name."""

    title: str
    name: str
    curves: tuple[tuple[str, Curve], ...]  # (label, curve)


def read_curves(directory: Path) -> dict[str, Curve]:
    """All curves below a DVCLive directory, by name (``train/loss``).

    Raises:
        DataError: a file is malformed.
    """
    root = Path(directory) / "plots" / "metrics"
    names = {path: str(path.relative_to(root).with_suffix("")) for path in sorted(root.rglob("*.tsv"))}
    return {name: _read(path, name) for path, name in names.items()}


def _read(path: Path, name: str) -> Curve:
    with open(path, encoding="utf-8", newline="") as file:
        header, *lines = list(csv.reader(file, delimiter="\t"))
    try:
        step = header.index("step")
        value = next(index for index, column in enumerate(header) if column not in ("step", "timestamp"))
        steps = tuple(int(line[step]) for line in lines)
        values = tuple(float(line[value]) for line in lines)
    except (ValueError, StopIteration, IndexError):
        raise DataError(f"{path} is not a DVCLive curve: expected the columns step and {name}") from None
    return Curve(name, steps, values)


def counted(curves: Mapping[str, Curve]) -> list[Check]:
    """Name and value of what was counted once, before the first update; counts of none are left out."""
    found = [(label, curves[name].values[0]) for name, label in COUNTED.items() if name in curves]
    return [
        Check(label, f"{value:,.0f}" if value == int(value) else f"{value:,.3f}") for label, value in found if value
    ]


def panels(curves: Mapping[str, Curve], depths: Sequence[int] | None = None) -> list[Panel]:
    """Sort curves into panels: the known quantities first, then one panel for each other name. What is counted once
    (:func:`counted`), or drawn over all phases, has none.

    Args:
        depths: the encoder blocks that ``depth_weight/0``, ``depth_weight/1``, ... belong to, where known.
    """
    left = {name: curve for name, curve in curves.items() if curve.values and name not in {**COUNTED, **FOLLOWED}}
    found = []
    for title, file_name, pattern in PANELS:
        taken = sorted((left.pop(name) for name in list(left) if re.search(pattern, name)), key=_rank)
        if taken:
            found.append(Panel(title, file_name, tuple((_label(curve.name, depths), curve) for curve in taken)))
    for name, curve in left.items():
        found.append(Panel(name.replace("_", " ").capitalize(), name.replace("/", "-"), ((name, curve),)))
    return found


def _label(name: str, depths: Sequence[int] | None) -> str:
    head, _, tail = name.partition("/")
    if head == "depth_weight" and tail.isdigit():
        known = depths is not None and int(tail) < len(depths)
        return f"block {depths[int(tail)]}" if known and depths else f"depth {int(tail) + 1}"
    if head.startswith("loss"):
        return head.removeprefix("loss").strip("_").replace("_", " ") or "total"
    return tail.upper() if tail in CONTEXTS else (tail or head).replace("_", " ")


def _rank(curve: Curve) -> tuple:
    """Totals and means first, contexts in the paper's order, the rest by name."""
    tail = curve.name.rpartition("/")[2]
    order = CONTEXTS.index(tail) if tail in CONTEXTS else len(CONTEXTS)
    return (tail not in ("loss", "mean"), order, curve.name)
