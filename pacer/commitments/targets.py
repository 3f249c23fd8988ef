"""The anchors of a corpus: from labelling answers for sampled training records, from rules for all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pacer.commitments.anchor import ANCHOR_SCHEMA, FINDINGS, POLARITIES, Anchor
from pacer.commitments.answers import STATUSES, Answer, read_answer, read_answers
from pacer.commitments.rules import EXTRACTORS
from pacer.commitments.sampling import COLUMNS, refuse_held_out
from pacer.core.audits import Check, counted, number, percent
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.data.schemas import read_records, write_table


def build_anchors(records: Path, cache: Path, out: Path, rules: str = "careful") -> dict[str, Any]:
    """Write the anchor of every record.

    Args:
        records: ``records.parquet``; rules read ``report_raw``.
        cache: ``llm_cache.jsonl``. Records with unreadable answers get their anchors from the rules.
        out: output table of :data:`~pacer.commitments.anchor.ANCHOR_SCHEMA`, in the order of the records.
        rules: ``anchors.rules``, the rule set of the records without an answer.

    Returns:
        The audit: origins of the anchors, their content, the agreement of answers and rules, and its ``checks``: lines
        of which those not marked good deserve attention.

    Raises:
        DataError: the records are missing or malformed, or two have the same id; the cache is missing or malformed, or
            names a record that is unknown, repeated or held out.
    """
    table = read_records(records, COLUMNS)
    answers = _read_cache(cache, table)
    by_rules = [EXTRACTORS[rules](report) for report in table["report_raw"]]
    labelled = {record_id: answer.anchor for record_id, answer in answers.items() if answer.anchor is not None}
    ids = table["record_id"].to_list()
    anchors = [labelled.get(record_id, anchor) for record_id, anchor in zip(ids, by_rules, strict=True)]
    origins = ["llm" if record_id in labelled else "rules" for record_id in ids]
    columns = {name: [getattr(anchor, name) for anchor in anchors] for name in POLARITIES}
    frame = pl.DataFrame({"record_id": ids, **columns, "origin": origins}, schema=ANCHOR_SCHEMA)
    write_table(out, frame, ANCHOR_SCHEMA)
    rows = list(zip(table["context"], origins, anchors, strict=True))
    both = [anchor == labelled[record_id] for record_id, anchor in zip(ids, by_rules) if record_id in labelled]
    return _audit(answers.values(), rows, both)


def _read_cache(path: Path, records: pl.DataFrame) -> dict[str, Answer]:
    """Read the current answers by record id, parsed again from the model's raw text."""
    if not path.exists():
        raise DataError(f"{path} does not exist; run the stage anchor_llm")
    answers: dict[str, Answer] = {}
    for line in read_answers(path):
        if not line.current:  # a paid answer for another prompt or sample
            continue
        if line.record_id in answers:
            raise DataError(f"{path}: record {line.record_id} has two answers; label the sample again")
        answers[line.record_id] = read_answer(line.raw, line.record_id, line.finish_reason)
    unknown = sorted(answers.keys() - set(records["record_id"]))
    if unknown:
        raise DataError(f"{path} has answers for {len(unknown)} records that the corpus lacks, such as {unknown[0]}")
    refuse_held_out(records, pl.Series("record_id", list(answers), dtype=pl.String))
    return answers


def _audit(
    answers: Collection[Answer], rows: Sequence[tuple[str, str, Anchor]], identical: Sequence[bool]
) -> dict[str, Any]:
    """Summarise origins and content of the anchors; a row has a record's context, origin and anchor; ``identical``:
    whether the rules agree with each answer."""
    contexts = [context for context in CONTEXTS if any(context == of for of, _, _ in rows)]
    counts = Counter((context, origin) for context, origin, _ in rows)
    origins = {context: {origin: counts[context, origin] for origin in ("llm", "rules")} for context in contexts}
    statuses = {status: sum(answer.status == status for answer in answers) for status in STATUSES}
    named = [[(finding, name) for name in POLARITIES for finding in getattr(anchor, name)] for _, _, anchor in rows]
    states = Counter((context, *state) for (context, _, _), stated in zip(rows, named) for state in stated)
    sizes = [len(stated) for stated in named]
    labelled = (f"{context} {number(by['llm'])} of {number(sum(by.values()))}" for context, by in origins.items())
    answered = counted({status.replace("_", " "): count for status, count in statuses.items()})
    checks = [
        Check("Targets", number(len(rows))),
        Check("Targets by a labelling model", ", ".join(labelled)),
        Check("Empty targets", number(sizes.count(0))),
        Check(
            "Findings in a target", f"{sum(sizes) / max(len(rows), 1):.1f} on average, {max(sizes, default=0)} at most"
        ),
        Check("Labelling answers", answered or "none: all targets are by the rules", statuses["ok"] == len(answers)),
    ]
    if identical:
        share = percent(sum(identical), len(identical))
        checks.append(Check("Labels against rules", f"{share} of {number(len(identical))} targets identical"))
    return {
        "records": len(rows),
        "origins": origins,
        "answers": {
            "read": len(answers),
            "statuses": statuses,
            "names_off_vocabulary": sum(answer.off_vocabulary for answer in answers),
        },
        "polarities_by_context": {
            context: {finding: {name: states[context, finding, name] for name in POLARITIES} for finding in FINDINGS}
            for context in contexts
        },
        "agreement": {"records": len(identical), "identical": sum(identical) / len(identical) if identical else None},
        "checks": [check._asdict() for check in checks],
    }
