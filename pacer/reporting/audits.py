"""Tables of the audits; their lines come from the modules that write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pacer.core.audits import number
from pacer.core.contexts import CONTEXTS
from pacer.data.schemas import SPLITS
from pacer.reporting.tables import Table


def corpus_table(audit: Mapping[str, Any]) -> Table:
    """Return records by context and split, with the paper's for MIMIC-RG4, and studies and patients by context."""
    shown = ("records", "paper") if audit["format"] == "rg4" else ("records",)
    contexts = {context: audit["contexts"][context] for context in CONTEXTS if context in audit["contexts"]}
    used = audit["splits"]
    rows = []
    for context, splits in contexts.items():
        counts = [number(splits[split][name]) for split in used for name in shown]
        units = [number(sum(splits[split][name] for split in SPLITS)) for name in ("studies", "subjects")]
        rows.append((context.upper(), *counts, *units))
    totals = [number(sum(splits[split][name] for splits in contexts.values())) for split in used for name in shown]
    headings = [heading for split in used for heading in (split, "paper")[: len(shown)]]
    return Table(
        columns=("Context", *headings, "studies", "patients"),
        # no sum here: a study with records in several contexts would count more than once
        rows=(*rows, ("All", *totals, "", "")),
        summary=len(rows),
    )
