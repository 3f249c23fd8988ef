"""What the audits and the scores' signature say, in a form that the page can show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pacer.anchors.vocabulary import POLARITIES
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.reporting.tables import Table, number


@dataclass(frozen=True)
class Check:
    """One line of an audit: what was looked at, what was found, and whether a reader should worry."""

    name: str
    found: str
    good: bool


@dataclass(frozen=True)
class AnchorSummary:
    """The commitment targets: who wrote them, how often each finding has each polarity, how two extractors agree.

    ``polarities`` is finding -> polarity -> number of targets, ``by_context`` the same of each context, which has
    ``records``; ``agreement`` is None without labelling answers,
    ``strata`` (how the sample to be labelled was drawn) without a sample.
    """

    origins: Table
    strata: Table | None
    polarities: dict[str, dict[str, int]]
    by_context: dict[str, dict[str, dict[str, int]]]
    records: dict[str, int]
    agreement: Table | None
    checks: list[Check]


def anchor_summary(audit: Mapping[str, Any]) -> AnchorSummary:
    """What ``data/anchors/audit.json`` says.

    Raises:
        DataError: the audit lacks a part.
    """
    try:
        rows = tuple(
            (context.upper(), number(audit["origins"][context]["llm"]), number(audit["origins"][context]["rules"]))
            for context in CONTEXTS
            if context in audit["origins"]
        )
        by_origin = audit["polarities"].values()
        findings = dict.fromkeys(finding for counts in by_origin for finding in counts)
        polarities = {
            finding: {name: sum(counts[finding][name] for counts in by_origin) for name in POLARITIES}
            for finding in findings
        }
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
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"the audit of the anchors lacks {error}; make the anchors again") from None
    origins = Table(("Context", "labelled", "by rules"), rows)
    return AnchorSummary(origins, strata, polarities, by_context, records, agreement, checks)


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
        Check("Targets", number(audit["records"]), True),
        Check("Empty targets", number(audit["empty_anchors"]), True),
        Check("Findings in a target", _spread(audit["findings_named"]), True),
        Check("Labelling answers", statuses or "none: all targets are by the rules", not unread),
    ]
    identical = audit["agreement"]["identical"]
    if identical is not None:
        shown = f"{100 * identical:.1f} % of {number(audit['agreement']['records'])} targets identical"
        checks.append(Check("Labels against rules", shown, True))
    labelling = audit.get("labelling")
    if labelling and labelling["answered"]:
        evidence = labelling["evidence"]
        if evidence["phrases"]:
            found = evidence["phrases"] - evidence["not_in_report"]
            shown = f"{number(found)} of {number(evidence['phrases'])} stand in their report word for word"
            checks.append(Check("Evidence phrases", shown, True))
        if labelling["provider"] == "openai":
            lost = labelling["lost_and_perhaps_paid"]
            maybe = f"; {number(lost)} lost answers may have been paid too" if lost else ""
            checks.append(Check("Cost of the labels", f"${labelling['dollars']:.2f}{maybe}", not lost))
    return checks


def _spread(counts: Mapping[str, int]) -> str:
    """Mean and largest of the numbers that ``counts`` tells the frequencies of."""
    total = sum(counts.values())
    mean = sum(int(value) * count for value, count in counts.items()) / max(total, 1)
    return f"{mean:.1f} on average, {max(map(int, counts), default=0)} at most"


def signature_line(signature: Mapping[str, Any]) -> str:
    """What decides the numbers, in one line: ``name:value`` joined by bars.

    Raises:
        DataError: a part that every signature has is missing.
    """
    try:
        clinical, language = signature["clinical"], signature["language"]
        classes = "+".join(str(value) for value in clinical["present_classes"])
        labeller = {True: "stand-in", False: "published", None: "unknown"}[signature["standin_labeller"]]
        checkpoint = next(iter(clinical["labeller"]["files"].values()), "")[:8]
        parts = {
            "ce": clinical["convention"],
            "obs": len(clinical["observations"]),
            "present": classes,
            "avg": clinical.get("average", "micro"),
            "labeller": f"{labeller}-{checkpoint}",
            "clean": language["cleaner"],
            "tok": "blank",
            "bleu": "corpus",
            "meteor": "1.5",
            "mean": "contexts",
            "n": "+".join(str(context["n"]) for context in signature["counts"].values()) + _limit(signature),
            "empty": sum(context.get("empty_hypotheses", 0) for context in signature["counts"].values()),
            **_protocol(signature.get("protocol") or {}),
            **_line_breaks(signature["counts"]),
            "data": signature["data"]["records"][:8],
            "version": signature["versions"]["pacer"],
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"the signature of the scores lacks {error}; score again") from None
    return " | ".join(f"{name}:{value}" for name, value in parts.items())


def _protocol(protocol: Mapping[str, Any]) -> dict[str, str]:
    """What was done to other systems' reports, where something was."""
    parts = {}
    if protocol.get("missing_hypotheses"):
        parts["missing"] = f"{protocol['missing']}-{protocol['missing_hypotheses']}"
    repeated = protocol.get("duplicate_hypotheses", 0) + protocol.get("duplicate_references", 0)
    if repeated:
        parts["duplicates"] = f"{protocol['duplicates']}-{repeated}"
    for name in ("extract", "clean_hypotheses", "clean_references"):
        if protocol.get(name, "none") != "none":
            parts[name.replace("_", "-")] = protocol[name]
    if protocol.get("deduplicate"):
        parts["deduplicated"] = "sentences"
    return parts


def _limit(signature: Mapping[str, Any]) -> str:
    """That the records are the first of each context alone, where they are."""
    limit = ((signature.get("predictions") or {}).get("settings") or {}).get("limit")
    return "" if limit is None else f" (decode.limit {limit})"


def _line_breaks(counts: Mapping[str, Any]) -> dict[str, str]:
    """How many texts had line breaks, of both sides and all contexts, where any had."""
    joined = sum(sum(context.get("texts_with_line_breaks", {}).values()) for context in counts.values())
    return {"line-breaks": f"blanks-{joined}"} if joined else {}


def reading_notes(signature: Mapping[str, Any]) -> list[str]:
    """How the files of other systems were read, one a line, and a warning where most of their reports are empty;
    nothing for the pipeline's own predictions."""
    protocol = signature.get("protocol") or {}
    notes = [
        f"{side}: {read['file']}, text: {read['text']}, paired by {read.get('id', 'position')}"
        for side in ("references", "hypotheses")
        if (read := protocol.get(side))
    ]
    empty, pairs = (
        sum(context.get(name, 0) for context in signature["counts"].values()) for name in ("empty_hypotheses", "n")
    )
    if protocol and 2 * empty > pairs:
        missing = protocol.get("missing_hypotheses", 0)
        notes.append(f"warning: {empty} of {pairs} reports are empty, {missing} of them because they are missing")
    return notes


def signature_entries(signature: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The whole signature as (dotted name, value) pairs."""
    return [(name, in_words(value)) for name, value in flat(signature)]


def standin_note(signature: Mapping[str, Any]) -> str | None:
    """A warning where models are stand-ins or of unknown origin, else None."""
    notes = []
    labeller = signature["standin_labeller"]
    if labeller is None:
        notes.append("It is not recorded where the labeller of the findings comes from.")
    elif labeller:
        notes.append(
            "The findings were labelled by a stand-in for CheXbert, made by this pipeline: precision, recall and F1 "
            "compare runs that share it, and no published numbers."
        )
    frozen = (signature.get("predictions") or {}).get("stand_ins") or []
    if frozen:
        names = ", ".join(frozen[:-1]) + (" and " if len(frozen) > 1 else "") + frozen[-1]
        model = "model is a stand-in" if len(frozen) == 1 else "models are stand-ins"
        notes.append(f"The frozen {names} {model}, made by this pipeline.")
    return " ".join(notes) or None


def in_words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(in_words(part) for part in value) or "none"
    return "none" if value is None else str(value)


def flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found = []
    for name, value in values.items():
        found += flat(value, f"{prefix}{name}.") if isinstance(value, dict) and value else [(prefix + name, value)]
    return found
