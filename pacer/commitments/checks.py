"""The lines of the commitments' audit: the checks that show whether the targets can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pacer.core.audits import Check, number
from pacer.core.contexts import CONTEXTS


def anchor_checks(audit: Mapping[str, Any]) -> list[Check]:
    """Return counts and rates; those not marked good deserve attention."""
    answers = audit["answers"]
    counts = {name.replace("_", " "): count for name, count in answers["statuses"].items() if count}
    statuses = ", ".join(f"{number(count)} {name}" for name, count in counts.items())
    unread = answers["read"] - answers["statuses"].get("ok", 0)
    checks = [
        Check("Targets", number(audit["records"])),
        Check("Targets by a labelling model", _labelled(audit["origins"])),
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
            literal = evidence["phrases"] - evidence["not_in_report"]
            shown = f"{number(literal)} of {number(evidence['phrases'])} occur word for word in their report"
            checks.append(Check("Evidence phrases", shown))
        if labelling["provider"] == "openai":
            lost = labelling["lost_and_perhaps_paid"]
            maybe = f"; {number(lost)} lost answers may have been paid too" if lost else ""
            checks.append(Check("Cost of the labels", f"${labelling['dollars']:.2f}{maybe}", not lost))
    return checks


def _labelled(origins: Mapping[str, Mapping[str, int]]) -> str:
    """Return how many of each context's targets a labelling model wrote."""
    shares = {context: origins[context] for context in CONTEXTS if context in origins}
    return ", ".join(f"{name} {number(by['llm'])} of {number(sum(by.values()))}" for name, by in shares.items())


def _spread(counts: Mapping[str, int]) -> str:
    """Return mean and maximum of the numbers with frequencies ``counts``."""
    total = sum(counts.values())
    mean = sum(int(value) * count for value, count in counts.items()) / max(total, 1)
    return f"{mean:.1f} on average, {max(map(int, counts), default=0)} at most"
