"""The commitments of a corpus: from labelling answers for sampled training records, from rules for
all others."""

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.anchor import ANCHOR_SCHEMA, DESCRIBED, POLARITIES, Anchor
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.schemas import read_records, write_table
from pacer.display.numbers import Check, counted, number, percent
from pacer.labels.answers import STATUSES, Answer, read_answer, read_answers
from pacer.labels.sampling import COLUMNS, refuse_held_out
from pacer.text.rules import EXTRACTORS, read_attributes


def build_commitments(
    records: Path, cache: Path, out: Path, rules: str = "careful", sides: bool = False
) -> dict[str, Any]:
    """Write the commitment of every record. Raises a DataError if the records are missing or
    malformed, or two have the same id; the cache is missing or malformed, or names a
    record that is unknown, repeated or held out.

    Args:
        records: ``records.parquet``; rules read ``report_raw``.
        cache: ``llm_cache.jsonl``. Records with unreadable answers get their commitments from
            the rules.
        out: output table of :data:`~pacer.core.anchor.ANCHOR_SCHEMA`, in the order of the
            records.
        rules: ``anchors.rules``, the rule set of the records without an answer.
        sides: whether ``commit.attributes`` has the side, which the rules read whatever the origin
            of a commitment. Otherwise the table has no column :data:`~pacer.core.anchor.DESCRIBED`.

    Returns:
        The audit; those of its ``checks`` that are not marked good deserve attention.
    """
    table = read_records(records, COLUMNS)
    answers = _read_cache(cache, table)
    by_rules = [EXTRACTORS[rules](report) for report in table["report_raw"]]
    labelled = {
        record_id: answer.anchor
        for record_id, answer in answers.items()
        if answer.anchor is not None
    }
    ids = table["record_id"].to_list()
    anchors = [
        labelled.get(record_id, anchor) for record_id, anchor in zip(ids, by_rules, strict=True)
    ]
    origins = ["llm" if record_id in labelled else "rules" for record_id in ids]
    columns: dict[str, list] = {
        name: [getattr(anchor, name) for anchor in anchors] for name in POLARITIES
    }
    schema = ANCHOR_SCHEMA | (DESCRIBED if sides else {})
    if sides:
        known = [
            anchor.with_sides(read_attributes(report))
            for anchor, report in zip(anchors, table["report_raw"], strict=True)
        ]
        columns["attributes"] = [anchor.as_dict().get("attributes", []) for anchor in known]
    write_table(
        out, pl.DataFrame({"record_id": ids, **columns, "origin": origins}, schema=schema), schema
    )
    both = [
        anchor == labelled[record_id]
        for record_id, anchor in zip(ids, by_rules)
        if record_id in labelled
    ]
    return _audit(
        answers.values(), list(zip(table["context"], origins, anchors, strict=True)), both
    )


def _read_cache(path: Path, records: pl.DataFrame) -> dict[str, Answer]:
    """Read the current answers by record id, parsed again from the model's raw text."""
    if not path.exists():
        raise DataError(f"{path} does not exist; run the `anchor_llm` stage")
    answers: dict[str, Answer] = {}
    for line in read_answers(path):
        if not line.current:  # a paid answer for another prompt or sample
            continue
        if line.record_id in answers:
            raise DataError(
                f"{path}: record {line.record_id} has two answers; rerun the `anchor_llm` stage"
            )
        answers[line.record_id] = read_answer(line.raw, line.record_id, line.finish_reason)
    unknown = sorted(answers.keys() - set(records["record_id"]))
    if unknown:
        raise DataError(
            f"{path} has answers for records that are not in the corpus ({len(unknown)}), e.g. "
            f"{unknown[0]}"
        )
    refuse_held_out(records, pl.Series("record_id", list(answers), dtype=pl.String))
    return answers


def _audit(
    answers: Collection[Answer], rows: Sequence[tuple[str, str, Anchor]], identical: Sequence[bool]
) -> dict[str, Any]:
    """Summarise the commitments. A row has a record's context, origin and commitment; ``identical``
    has, for each answer, whether the rules agree with it."""
    statuses = {
        name.replace("_", " "): sum(answer.status == name for answer in answers)
        for name in STATUSES
    }
    targets = Counter(context for context, _, _ in rows)
    labelled = Counter(context for context, origin, _ in rows if origin == "llm")
    shares = (
        f"{name} {number(labelled[name])} of {number(targets[name])}"
        for name in CONTEXTS
        if targets[name]
    )
    answered = counted(statuses) or "none: all targets come from the rules"
    outside = sum(answer.outside for answer in answers)
    if outside:
        answered += f"; names outside the 13 findings, left out: {number(outside)}"
    checks = [
        Check("Targets", number(len(rows))),
        Check("Targets labelled by a model", ", ".join(shares)),
        Check("Empty targets", number([anchor for _, _, anchor in rows].count(Anchor()))),
        Check("Labelling answers", answered, statuses["ok"] == len(answers) and not outside),
    ]
    if identical:
        agreeing = (
            f"{percent(sum(identical), len(identical))} of {number(len(identical))} "
            "targets identical"
        )
        checks.append(Check("Labels against rules", agreeing))
    return {"checks": [check._asdict() for check in checks]}
