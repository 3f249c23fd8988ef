"""The anchors of a corpus: every record by rules, sampled training records by their labelling answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from pacer.anchors.anchor import Anchor
from pacer.anchors.table import ANCHOR_SCHEMA
from pacer.anchors.vocabulary import FINDINGS, MAX_PER_FIELD, POLARITIES
from pacer.core.errors import DataError
from pacer.core.io import atomic_path, read_jsonl
from pacer.labelling.answers.reading import STATUSES, Answer, read_answer
from pacer.labelling.sample.draw import refuse_held_out
from pacer.records.columns import BATCH, TableWriter, batches, check_records
from pacer.rules.extract import extract_anchors
from pacer.rules.version import Version


def build_anchors(records: Path, cache: Path, out: Path, version: Version) -> dict[str, Any]:
    """Write the anchor of every record, a block of records at a time.

    Args:
        records: ``records.parquet``; rules read ``report_raw``.
        cache: ``llm_cache.jsonl``. Answers that cannot be read leave their record to the rules.
        out: where the table of :data:`ANCHOR_SCHEMA` goes, in the order of the records; it says with which version of
            the rules it was made (:func:`rules_of`).
        version: of the rules.

    Returns:
        The audit of how the anchors came about.

    Raises:
        DataError: the records are missing or malformed, two have one id; the cache is missing or malformed, or names a
            record that is unknown, repeated or held out.
    """
    check_records(records)
    answers = _read_cache(cache, records)
    audit = _Audit(answers)
    with atomic_path(out) as temporary, TableWriter(temporary, ANCHOR_SCHEMA, {"rules": version}) as table:
        for block in batches(records, ["record_id", "context", "report_raw"], BATCH):
            table.add_frame(audit.settle(block, list(extract_anchors(block["report_raw"], version))))
    return audit.summary(version)


class _Audit:
    """Settles for every record which anchor counts, and counts what comes of it."""

    def __init__(self, answers: Mapping[str, Answer]):
        self.answers = answers
        self.origins: dict[str, Counter[str]] = {}
        self.polarities: dict[str, Counter[tuple[str, str]]] = {"llm": Counter(), "rules": Counter()}
        self.by_context: dict[str, Counter[tuple[str, str]]] = {}
        self.named: Counter[int] = Counter()
        self.records = self.empty = self.over = 0
        self.both: list[tuple[Anchor, Anchor]] = []

    def settle(self, block: pl.DataFrame, by_rules: list[Anchor]) -> pl.DataFrame:
        """The rows of :data:`ANCHOR_SCHEMA` for a block of records."""
        final, origins = list(by_rules), ["rules"] * len(by_rules)
        for place, record_id in enumerate(block["record_id"]):
            answer = self.answers.get(record_id)
            if answer is not None and answer.anchor is not None:
                final[place], origins[place] = answer.anchor, "llm"
                self.both.append((by_rules[place], answer.anchor))
        self.records += len(final)
        for context, origin in zip(block["context"], origins, strict=True):
            self.origins.setdefault(context, Counter())[origin] += 1
        for (context, origin, anchor), count in Counter(zip(block["context"], origins, final, strict=True)).items():
            for name in POLARITIES:
                found = dict.fromkeys(((finding, name) for finding in getattr(anchor, name)), count)
                self.polarities[origin].update(found)
                self.by_context.setdefault(context, Counter()).update(found)
                self.over += count * (len(found) > MAX_PER_FIELD)
            self.named[sum(len(getattr(anchor, name)) for name in POLARITIES)] += count
            self.empty += count * (anchor == Anchor())
        columns: dict[str, Any] = {name: [list(getattr(anchor, name)) for anchor in final] for name in POLARITIES}
        return pl.DataFrame({"record_id": block["record_id"], **columns, "origin": origins}, schema=ANCHOR_SCHEMA)

    def summary(self, version: Version) -> dict[str, Any]:
        """The content of ``audit.json``."""
        answers = self.answers.values()
        return {
            "rules": version,
            "records": self.records,
            "origins": {
                context: {name: counts[name] for name in ("llm", "rules")}
                for context, counts in sorted(self.origins.items())
            },
            "answers": {
                "read": len(answers),
                "statuses": {status: sum(answer.status == status for answer in answers) for status in STATUSES},
                "names_off_vocabulary": sum(len(answer.off_vocabulary) for answer in answers),
                "answers_with_names_off_vocabulary": sum(bool(answer.off_vocabulary) for answer in answers),
                "findings_repeated": sum(answer.repeated for answer in answers),
            },
            "polarities": {origin: _table(counts) for origin, counts in self.polarities.items()},
            "polarities_by_context": {context: _table(counts) for context, counts in sorted(self.by_context.items())},
            "findings_named": {str(number): self.named[number] for number in sorted(self.named)},
            "empty_anchors": self.empty,
            f"fields_over_{MAX_PER_FIELD}": self.over,
            "agreement": agreement([rules for rules, _ in self.both], [labelled for _, labelled in self.both]),
        }


def _table(counts: Counter[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """``{finding: {positive, negative, uncertain}}``: in how many anchors."""
    return {finding: {name: counts[finding, name] for name in POLARITIES} for finding in FINDINGS}


def agreement(first: list[Anchor], second: list[Anchor]) -> dict[str, Any]:
    """How two extractors agree on the same reports, over positive, negative, uncertain and not mentioned.

    Returns:
        ``{records, identical, findings: {finding: {kappa, agreement, clashes}}}``; ``identical`` and ``agreement`` are
        shares, ``clashes`` counts reports in which one affirms what the other denies. Cohen's kappa is None where it is
        not defined (both name one and the same state throughout, or no records).
    """
    count = len(first)
    findings = {}
    for finding in FINDINGS:
        pairs = Counter((a.polarity(finding), b.polarity(finding)) for a, b in zip(first, second))
        observed = sum(n for (one, other), n in pairs.items() if one == other)
        left, right = Counter(), Counter()
        for (one, other), n in pairs.items():
            left[one] += n
            right[other] += n
        by_chance = sum(left[state] * right[state] for state in left)
        defined = count > 0 and by_chance < count * count
        kappa = (observed * count - by_chance) / (count * count - by_chance) if defined else None
        clashes = pairs["positive", "negative"] + pairs["negative", "positive"]
        findings[finding] = {"kappa": kappa, "agreement": observed / count if count else None, "clashes": clashes}
    identical = sum(a == b for a, b in zip(first, second))
    return {"records": count, "identical": identical / count if count else None, "findings": findings}


def _read_cache(path: Path, records: Path) -> dict[str, Answer]:
    """The answers by record id, read anew from the model's own words."""
    answers = {}
    for number, line in enumerate(read_jsonl(path), start=1):
        if not isinstance(line, dict) or not isinstance(line.get("record_id"), str) or "raw" not in line:
            raise DataError(f"{path}, line {number} must be an object with record_id and raw; label the sample again")
        if not line.get("current", True):  # paid for, and for another prompt or sample
            continue
        record_id = line["record_id"]
        if record_id in answers:
            raise DataError(f"{path}, line {number}: record {record_id} has two answers; label the sample again")
        answers[record_id] = read_answer(line["raw"] or "", record_id, line.get("finish_reason"))
    labelled = pl.Series("record_id", list(answers), dtype=pl.String)
    concerned = pl.col("record_id").is_in(labelled.implode()) | (pl.col("split") != "train")
    columns = ["record_id", "study_id", "subject_id", "split"]
    found = [block.filter(concerned) for block in batches(records, columns)] if answers else []
    known = pl.concat(found) if found else pl.DataFrame(schema={name: pl.String() for name in columns})
    unknown = sorted(answers.keys() - set(known["record_id"]))
    if unknown:
        raise DataError(f"{path} has answers for {len(unknown)} records that the corpus lacks, such as {unknown[0]}")
    refuse_held_out(known, labelled)
    return answers
