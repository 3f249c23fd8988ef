"""What ``data/anchors/audit.json`` says: tables, and the lines that decide whether the targets can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pacer.core.contexts import CONTEXTS
from pacer.reporting.tables import Check, Table, number, reading_audit


@dataclass(frozen=True)
class AnchorAudit:
    """The commitment targets: who wrote them, how often each finding has each polarity, how two extractors agree.

    ``by_context``: context -> finding -> polarity -> number of targets, of its ``records``. ``agreement`` is None
    without labelling answers, ``strata`` (how the sample to be labelled was drawn) without a sample.
    """

    origins: Table
    strata: Table | None
    by_context: dict[str, dict[str, dict[str, int]]]
    records: dict[str, int]
    agreement: Table | None
    checks: list[Check]


def read_anchor_audit(audit: Mapping[str, Any]) -> AnchorAudit:
    """What ``data/anchors/audit.json`` says.

    Raises:
        DataError: the audit lacks a part.
    """
    with reading_audit("anchors"):
        rows = tuple(
            (context.upper(), number(audit["origins"][context]["llm"]), number(audit["origins"][context]["rules"]))
            for context in CONTEXTS
            if context in audit["origins"]
        )
        by_context = {
            str(context): audit["polarities_by_context"][context]
            for context in CONTEXTS
            if context in audit["polarities_by_context"]
        }
        records = {context: sum(audit["origins"][context].values()) for context in by_context}
        checks = _anchor_checks(audit)
        strata = _strata(audit["sample"]) if "sample" in audit else None
        agreement = None
        if audit["agreement"]["records"]:
            found = audit["agreement"]["findings"].items()
            agreement = Table(
                ("Finding", "Same polarity", "Cohen's kappa", "One affirms, one denies"),
                tuple(
                    (name, number(row["agreement"]), number(row["kappa"]), number(row["clashes"]))
                    for name, row in found
                ),
            )
    origins = Table(("Context", "labelled", "by rules"), rows)
    return AnchorAudit(origins, strata, by_context, records, agreement, checks)


def _strata(sample: Mapping[str, Any]) -> Table | None:
    """How many of the sample were drawn for each stratum, of its quota, and how many lie in it."""
    drawn = {context: counts for context, counts in sample["contexts"].items() if counts["drawn"]}
    rows = []
    for context, counts in drawn.items():
        for name, stratum in counts["strata"].items():
            cells = (stratum[key] for key in ("train_records", "quota", "drawn_for_it", "in_sample"))
            rows.append((context.upper(), name.replace("_", " "), *map(number, cells)))
        fill = counts["drawn_to_fill_up"]
        rows.append((context.upper(), "none in particular", number(counts["train_records"]), "", number(fill), ""))
    heads = ("Context", "Stratum", "Train records", "Quota", "Drawn for it", "In the sample")
    return Table(heads, tuple(rows), numeric=(False, False, True, True, True, True)) if rows else None


def _anchor_checks(audit: Mapping[str, Any]) -> list[Check]:
    answers = audit["answers"]
    counts = {name.replace("_", " "): count for name, count in answers["statuses"].items() if count}
    statuses = ", ".join(f"{number(count)} {name}" for name, count in counts.items())
    unread = answers["read"] - answers["statuses"].get("ok", 0)
    checks = [
        Check("Targets", number(audit["records"])),
        Check("Empty targets", number(audit["empty_anchors"])),
        Check("Findings in a target", _spread(audit["findings_named"])),
        Check("Labelling answers", statuses or "none: all targets are by the rules", not unread),
    ]
    identical = audit["agreement"]["identical"]
    if identical is not None:
        shown = f"{100 * identical:.1f} % of {number(audit['agreement']['records'])} targets identical"
        checks.append(Check("Labels against rules", shown))
    labelling = audit.get("labelling")
    if labelling and labelling["answered"]:
        evidence = labelling["evidence"]
        if evidence["phrases"]:
            found = evidence["phrases"] - evidence["not_in_report"]
            shown = f"{number(found)} of {number(evidence['phrases'])} stand in their report word for word"
            checks.append(Check("Evidence phrases", shown))
        if labelling["provider"] == "openai":
            lost = labelling["lost_and_perhaps_paid"]
            maybe = f"; {number(lost)} lost answers may have been paid too" if lost else ""
            checks.append(Check("Cost of the labels", f"${labelling['dollars']:.2f}{maybe}", not lost))
    return checks


def _spread(counts: Mapping[str, int]) -> str:
    """Mean and largest of the numbers whose frequencies ``counts`` has."""
    total = sum(counts.values())
    mean = sum(int(value) * count for value, count in counts.items()) / max(total, 1)
    return f"{mean:.1f} on average, {max(map(int, counts), default=0)} at most"
