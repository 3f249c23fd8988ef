"""The anchors of a corpus: every record by rules, sampled training records by their labelling answer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pacer.commitments.anchor import Anchor
from pacer.commitments.labelling.draw import refuse_held_out
from pacer.commitments.labelling.reading import STATUSES, Answer, read_answer
from pacer.commitments.rules.extract import extract_anchor
from pacer.commitments.table import ANCHOR_SCHEMA
from pacer.commitments.vocabulary import FINDINGS, MAX_PER_FIELD, POLARITIES
from pacer.core.errors import DataError
from pacer.core.io import atomic_path, numbered_jsonl
from pacer.data.columns import BATCH, TableWriter, batches, read_columns


def build_anchors(records: Path, cache: Path, out: Path) -> dict[str, Any]:
    """Write the anchor of every record, a block of records at a time.

    Args:
        records: ``records.parquet``; rules read ``report_raw``.
        cache: ``llm_cache.jsonl``. Answers that cannot be read leave their record to the rules.
        out: where the table of :data:`ANCHOR_SCHEMA` goes, in the order of the records.

    Returns:
        The audit of how the anchors came about.

    Raises:
        DataError: the records are missing or malformed, two have one id; the cache is missing or malformed, or names a
            record that is unknown, repeated or held out.
    """
    read_columns(records, ["record_id"])  # which refuses what is no table of records
    answers = _read_cache(cache, records)
    counts: Counter[tuple[str, str, Anchor]] = Counter()  # context, origin, anchor
    both: list[tuple[Anchor, Anchor]] = []
    with atomic_path(out) as temporary, TableWriter(temporary, ANCHOR_SCHEMA) as table:
        for block in batches(records, ["record_id", "context", "report_raw"], BATCH):
            final, origins = [*map(extract_anchor, block["report_raw"])], ["rules"] * len(block)
            for place, record_id in enumerate(block["record_id"]):
                labelled = answers[record_id].anchor if record_id in answers else None
                if labelled is not None:
                    both.append((final[place], labelled))
                    final[place], origins[place] = labelled, "llm"
            counts.update(zip(block["context"], origins, final, strict=True))
            columns = {name: [list(getattr(anchor, name)) for anchor in final] for name in POLARITIES}
            rows = {"record_id": block["record_id"], **columns, "origin": origins}
            table.add_frame(pl.DataFrame(rows, schema=ANCHOR_SCHEMA))
    return _audit(list(answers.values()), counts) | {"agreement": agreement(both)}


def _audit(answers: Sequence[Answer], counts: Mapping[tuple[str, str, Anchor], int]) -> dict[str, Any]:
    """How the anchors came about, and what they say. ``counts``: of records by context, origin and anchor."""
    origins: Counter[tuple[str, str]] = Counter()
    polarities: dict[str, Counter[tuple[str, str]]] = {"llm": Counter(), "rules": Counter()}
    by_context: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    named: Counter[int] = Counter()
    over = 0
    for (context, origin, anchor), count in counts.items():
        origins[context, origin] += count
        found = {(finding, name): count for name in POLARITIES for finding in getattr(anchor, name)}
        polarities[origin].update(found)
        by_context[context].update(found)
        named[len(found)] += count
        over += count * sum(len(getattr(anchor, name)) > MAX_PER_FIELD for name in POLARITIES)
    return {
        "records": sum(counts.values()),
        "origins": {name: {origin: origins[name, origin] for origin in polarities} for name in sorted(by_context)},
        "answers": {
            "read": len(answers),
            "statuses": {status: sum(answer.status == status for answer in answers) for status in STATUSES},
            "names_off_vocabulary": sum(len(answer.off_vocabulary) for answer in answers),
            "answers_with_names_off_vocabulary": sum(bool(answer.off_vocabulary) for answer in answers),
            "findings_repeated": sum(answer.repeated for answer in answers),
        },
        "polarities": {origin: _table(found) for origin, found in polarities.items()},
        "polarities_by_context": {context: _table(by_context[context]) for context in sorted(by_context)},
        "findings_named": {str(number): named[number] for number in sorted(named)},
        "empty_anchors": named[0],
        f"fields_over_{MAX_PER_FIELD}": over,
    }


def _table(counts: Counter[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """``{finding: {positive, negative, uncertain}}``: in how many anchors."""
    return {finding: {name: counts[finding, name] for name in POLARITIES} for finding in FINDINGS}


def agreement(pairs: Sequence[tuple[Anchor, Anchor]]) -> dict[str, Any]:
    """How two extractors agree on the same reports, over positive, negative, uncertain and not mentioned.

    Returns:
        ``{records, identical, findings: {finding: {kappa, agreement, clashes}}}``; ``identical`` and ``agreement`` are
        shares, ``clashes`` counts reports in which one affirms what the other denies. Cohen's kappa is None where it is
        not defined (both name one and the same state throughout, or no records).
    """
    count = len(pairs)
    findings = {}
    for finding in FINDINGS:
        states = [(one.polarity(finding), other.polarity(finding)) for one, other in pairs]
        observed = sum(one == other for one, other in states)
        left, right = Counter(one for one, _ in states), Counter(other for _, other in states)
        by_chance = sum(left[state] * right[state] for state in left)
        defined = by_chance < count * count
        kappa = (observed * count - by_chance) / (count * count - by_chance) if defined else None
        clashes = states.count(("positive", "negative")) + states.count(("negative", "positive"))
        findings[finding] = {"kappa": kappa, "agreement": observed / count if count else None, "clashes": clashes}
    identical = sum(one == other for one, other in pairs)
    return {"records": count, "identical": identical / count if count else None, "findings": findings}


def _read_cache(path: Path, records: Path) -> dict[str, Answer]:
    """The answers by record id, read anew from the model's own words."""
    answers = {}
    for number, line in numbered_jsonl(path):
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
