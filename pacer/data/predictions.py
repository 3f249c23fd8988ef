"""The lines that decoding writes, as scoring reads them; strictly, since they may be another
program's."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from pydantic import AfterValidator, BaseModel, Field, FiniteFloat, ValidationError

from pacer.commitments.anchor import POLARITIES, Anchor
from pacer.core.errors import DataError
from pacer.core.io import numbered_jsonl
from pacer.core.validation import explain
from pacer.data.findings import FINDINGS
from pacer.data.ids import check_pairs

#: Columns of predictions; ``present``, ``absent``: the probabilities of the findings, in the
#: vocabulary's order.
PREDICTIONS: dict[str, pl.DataType] = {
    "record_id": pl.String(),
    "hypothesis": pl.String(),
    **{f"anchor_{name}": pl.List(pl.String()) for name in (*POLARITIES, "attributes")},
    "gate": pl.Float64(),
    "fallback": pl.Boolean(),
    **dict.fromkeys(("present", "absent"), pl.List(pl.Float64)),
}


class Chance(BaseModel, strict=True):
    """The probability that a report affirms a finding (``present``), and that it denies it
    (``absent``)."""

    present: Annotated[float, Field(ge=0, le=1)]
    absent: Annotated[float, Field(ge=0, le=1)]


def _known(anchor: dict[str, list[str]]) -> dict[str, list[str]]:
    findings = set().union(*(of_kind for name, of_kind in anchor.items() if name != "attributes"))
    if anchor.keys() - {"attributes"} != set(POLARITIES) or findings - set(FINDINGS):
        raise ValueError(
            f"expected {', '.join(POLARITIES)}, each a list of findings from the vocabulary"
        )
    try:
        Anchor.of_lists(anchor)
    except ValueError:
        raise ValueError(
            "attributes: expected only findings listed and not denied, such as 'mild edema'"
        ) from None
    return anchor


def _complete(findings: dict[str, Chance]) -> dict[str, Chance]:
    if set(findings) != set(FINDINGS):
        raise ValueError(
            "expected one probability for each finding in the vocabulary, and no others"
        )
    return findings


class Prediction(BaseModel, strict=True):
    """What is used of a line of predictions; missing fields are None. ``findings``: chances."""

    record_id: str
    report: str
    anchor: Annotated[dict[str, list[str]], AfterValidator(_known)] | None = None
    fallback: bool | None = None
    gate: FiniteFloat | None = None
    findings: Annotated[dict[str, Chance], AfterValidator(_complete)] | None = None


def read_predictions(path: Path, record_ids: Sequence[str]) -> pl.DataFrame:
    """Read the predictions in ``path``, columns :data:`PREDICTIONS`, one for each of
    ``record_ids``, in this order. Raises a DataError if the file is missing, a line lacks a field
    or has one of the wrong type, or ids do not pair."""
    lines = [_prediction(row, f"{path}, line {number}") for number, row in numbered_jsonl(path)]
    check_pairs(record_ids, [line.record_id for line in lines], "the records", str(path))
    rows = {}
    for line in lines:
        lists = {} if line.anchor is None else Anchor.of_lists(line.anchor).as_dict()
        anchor = [lists.get(name) for name in (*POLARITIES, "attributes")]
        ended = (line.gate, bool(line.fallback))
        chances = (
            None if line.findings is None else [line.findings[finding] for finding in FINDINGS]
        )
        read = [
            chances and [getattr(chance, what) for chance in chances]
            for what in ("present", "absent")
        ]
        rows[line.record_id] = (line.record_id, line.report, *anchor, *ended, *read)
    return pl.DataFrame([rows[key] for key in record_ids], schema=PREDICTIONS, orient="row")


def _prediction(row: Any, place: str) -> Prediction:
    try:
        return Prediction.model_validate(row)
    except ValidationError as error:
        name = (
            f" ({row['record_id']})"
            if isinstance(row, dict) and isinstance(row.get("record_id"), str)
            else ""
        )
        raise DataError(f"{place}{name}: {explain(error, 'the line')}") from None
