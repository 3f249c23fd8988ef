"""The paper's own numbers for rows in studies, and the reasons why they may not be comparable with a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML

from pacer.metrics.signature import Signature
from pacer.reporting.score_tables import contexts_in
from pacer.reporting.tables import Mark

FILE = Path(__file__).with_name("published.yaml")

_MARKS: Mapping[str, Mark] = {"*": "best", "_": "second"}
#: Settings of the published scores.
CONVENTION, CLEANER, SPLIT, PRECISION = "llm-rg4", "upstream", "test", "float32"


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


def differences_to_published(
    table: PublishedTable, scores: Mapping[str, Any], signature: Signature, record: Mapping[str, Any] | None
) -> list[str]:
    """Return, in words, each difference in corpus, split, number of records or labeller between a scored run and the
    published rows; empty if none is known.

    Args:
        record: of the run; None for other systems' scores, whose corpus is only recognisable by its number of records.
    """
    reasons = []
    if record is not None:
        corpus = record["corpus"]
        if (corpus.get("source"), corpus.get("format")) != ("files", "rg4"):
            reasons.append("the corpus is not MIMIC-RG4")
        if corpus.get("limit", 0) is not None or record.get("limit", 0) is not None:
            reasons.append("not all records were used, or it is not recorded")
        if record["split"] != SPLIT:
            reasons.append(f"scored on split {record['split']}")
    elif not table.records:
        reasons.append("it is not recorded of which corpus the reports are")
    if signature.standin_labeller is not False:
        reasons.append("the labeller is not CheXbert as published, or it is not recorded")
    language = signature.language
    for what, value, wanted in (
        ("label convention", signature.convention, CONVENTION),
        ("labeller's precision", signature.labeller.get("arithmetic", "not recorded"), PRECISION),
        ("target", language.get("target"), table.target),
        ("cleaning", language.get("cleaner"), CLEANER),
        ("unseen comparisons", language.get("unseen_comparisons"), "keep"),
    ):
        if value != wanted:
            reasons.append(f"{what} {value}, published {wanted}")
    contexts = contexts_in(scores)
    counts = {context: (scores[context].get("n"), table.records.get(context)) for context in contexts}
    sizes = [f"{c.upper()} {n} ({printed or 'none'})" for c, (n, printed) in counts.items() if n != printed]
    if sizes and table.records:
        reasons.append(f"records (published): {', '.join(sizes)}")
    missing = [context.upper() for context in table.records if context not in contexts]
    if missing and any(block.context == "mean" for block in table.blocks):
        reasons.append(f"the mean lacks {', '.join(missing)}")
    return reasons


def decoded_otherwise(table: PublishedTable, signature: Signature) -> list[str]:
    """Return, in words, each decoding setting that differs from the paper's; empty if none does or the paper does not
    say."""
    decoded = signature.decoding
    return [
        f"decode.{name} {decoded.get(name, 'not recorded')}, published {wanted}"
        for name, wanted in table.decoding.items()
        if decoded.get(name) != wanted
    ]
