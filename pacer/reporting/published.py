"""The paper's own numbers for rows in studies, and whether a run's can stand beside them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML

from pacer.metrics.display import Mark
from pacer.metrics.signature import Signature
from pacer.reporting.score_tables import contexts_in

FILE = Path(__file__).with_name("published.yaml")

_MARKS: Mapping[str, Mark] = {"*": "best", "_": "second"}


class PrintedValue(NamedTuple):
    """A number as printed in the paper; ``text`` is None if it reports none. ``mark``: best, second or None."""

    text: str | None = None
    mark: Mark | None = None


@dataclass(frozen=True)
class PublishedBlock:
    """Rows that the paper prints and ranks together; ``context``: the context of the values, or ``mean``."""

    name: str
    context: str
    marked: bool
    rows: Mapping[str, Mapping[str, PrintedValue]]
    protocol: str = ""


@dataclass(frozen=True)
class PublishedTable:
    """One table; ``where``: its place in the paper. ``blocks`` hold ``rows[system][metric]``. ``provenance``: the
    source of each system's row. ``target``, ``records``: what was scored, and the number of records per context.
    ``decoding``: how PACER's reports were decoded (empty: the paper does not say)."""

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
    """Load all tables of ``pacer/reporting/published.yaml``, by name."""
    raw = YAML(typ="safe").load(FILE.read_text(encoding="utf-8"))["tables"]
    return {name: _table(table) for name, table in raw.items()}


def _table(raw: dict[str, Any]) -> PublishedTable:
    metrics = tuple(raw["metrics"])
    blocks = []
    for block in raw["blocks"]:
        rows = {
            system: dict(zip(metrics, map(_value, values.split()), strict=True))
            for system, values in block["rows"].items()
        }
        blocks.append(PublishedBlock(**block | {"rows": rows}))
    fields: dict[str, Any] = raw | {"metrics": metrics, "blocks": tuple(blocks)}
    return PublishedTable(**fields)


def _value(text: str) -> PrintedValue:
    digits = text.strip("*_")
    return PrintedValue(None if digits == "--" else digits, _MARKS.get(text[0]))


def stands_beside(
    table: PublishedTable, scores: Mapping[str, Any], signature: Signature, record: Mapping[str, Any] | None
) -> bool:
    """Return whether scores are of the records of the published rows, by the same measures.

    Args:
        record: of the run; None for other systems' scores, whose corpus is known only by its number of records.
    """
    corpus = (record or {}).get("corpus", {})
    used = [*map(corpus.get, ("source", "format", "limit")), *map((record or {}).get, ("split", "limit"))]
    contexts = contexts_in(scores)
    counts = {context: scores[context].get("n") for context in contexts}
    has_mean = any(block.context == "mean" for block in table.blocks)
    expected = {name: n for name, n in table.records.items() if has_mean or name in contexts}
    return (
        (used == ["files", "rg4", None, "test", None] if record else bool(expected))
        and (counts == expected or not expected)
        and signature.standin_labeller is False
        and signature.convention == "llm-rg4"
        and [*map(signature.language.get, ("target", "cleaner", "unseen_comparisons"))]
        == [table.target, "upstream", "keep"]
    )
