"""The paper's own numbers, for the rows that stand beside one's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from ruamel.yaml import YAML

from pacer.core.errors import DataError

FILE = Path(__file__).with_name("published.yaml")

_VALUE = re.compile(r"(?P<mark>[*_]?)(?P<value>\d\.\d{3})(?P=mark)")
_MARKS = {"": None, "*": "best", "_": "second"}


@dataclass(frozen=True)
class PrintedValue:
    """A number as the paper prints it; ``text`` is None where it reports none. ``mark``: best, second or None."""

    text: str | None
    mark: str | None


@dataclass(frozen=True)
class PublishedBlock:
    """Rows that the paper sets and ranks together; ``context`` is that of the values, or ``mean``."""

    name: str
    context: str
    marked: bool
    protocol: str
    rows: Mapping[str, Mapping[str, PrintedValue]]


@dataclass(frozen=True)
class PublishedTable:
    """One table, and ``where`` it stands in the paper. ``rows[system][metric]`` are in ``blocks``; ``provenance`` says
    where each system's row is from; ``target`` and ``records`` what was scored, and how many of each context;
    ``decoding`` how PACER's reports were searched for (empty: the paper does not say)."""

    where: str
    title: str
    target: str
    records: Mapping[str, int]
    decoding: Mapping[str, float]
    protocol: str
    metrics: tuple[str, ...]
    provenance: Mapping[str, str]
    blocks: tuple[PublishedBlock, ...]


@cache
def load_published() -> Mapping[str, PublishedTable]:
    """All tables of ``pacer/reporting/published.yaml``, by name.

    Raises:
        DataError: a row does not have one value for every metric.
    """
    raw = YAML(typ="safe").load(FILE.read_text(encoding="utf-8"))["tables"]
    return MappingProxyType({name: _table(table) for name, table in raw.items()})


def _table(raw: dict) -> PublishedTable:
    metrics = tuple(raw["metrics"])
    blocks = tuple(
        PublishedBlock(
            block["name"],
            block["context"],
            block["marked"],
            block.get("protocol", ""),
            {system: _row(system, values, metrics) for system, values in block["rows"].items()},
        )
        for block in raw["blocks"]
    )
    return PublishedTable(
        raw["where"],
        raw["title"],
        raw["target"],
        raw["records"],
        raw["decoding"],
        raw["protocol"],
        metrics,
        raw["provenance"],
        blocks,
    )


def _row(system: str, values: str, metrics: tuple[str, ...]) -> dict[str, PrintedValue]:
    parts = values.split()
    if len(parts) != len(metrics):
        raise DataError(f"{FILE}: {system} has {len(parts)} values for {len(metrics)} metrics")
    return {metric: _printed(system, part) for metric, part in zip(metrics, parts, strict=True)}


def _printed(system: str, text: str) -> PrintedValue:
    if text == "--":
        return PrintedValue(None, None)
    found = _VALUE.fullmatch(text)
    if found is None:
        raise DataError(f"{FILE}: {system} has the value {text!r}; expected 0.123, *0.123*, _0.123_ or --")
    return PrintedValue(found["value"], _MARKS[found["mark"]])
