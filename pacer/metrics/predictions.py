"""Predictions of the pipeline, paired with their records: a folder with ``{context}.jsonl``, and
``controls/{control}/{context}.jsonl`` for controls that were run."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from pydantic import AfterValidator, BaseModel, Field, FiniteFloat, ValidationError

from pacer.core.anchor import ANCHOR_SCHEMA, DESCRIBED, POLARITIES, Anchor
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.findings import FINDINGS
from pacer.core.io import numbered_jsonl, read_json
from pacer.core.schemas import of_split, read_about, read_records, read_table
from pacer.core.validation import explain
from pacer.metrics.cases import by_context
from pacer.metrics.signature import Decoding, Origin
from pacer.tables.ids import check_pairs, format_ids

_log = logging.getLogger(__name__)


#: Columns of predictions; ``present``, ``absent``: the probabilities of the findings, in the
#: vocabulary's order.
PREDICTIONS: dict[str, pl.DataType] = {
    "record_id": pl.String(),
    "hypothesis": pl.String(),
    **{f"anchor_{name}": pl.List(pl.String()) for name in POLARITIES},
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
        return Anchor.of_lists(anchor).as_dict()
    except ValueError:
        raise ValueError(
            "attributes: expected only findings listed and not denied, after left, right or "
            "bilateral, such as 'left edema'"
        ) from None


def _complete(findings: dict[str, Chance]) -> dict[str, Chance]:
    if set(findings) != set(FINDINGS):
        raise ValueError(
            "expected one probability for each finding in the vocabulary, and no others"
        )
    return findings


class Prediction(BaseModel, strict=True):
    """The fields of a line of predictions that are used; missing fields are None."""

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
    line_of = {line.record_id: line for line in lines}
    rows = []
    for line in map(line_of.__getitem__, record_ids):
        row: dict[str, Any] = {"record_id": line.record_id, "hypothesis": line.report}
        if line.anchor is not None:
            row |= {f"anchor_{polarity}": line.anchor[polarity] for polarity in POLARITIES}
        row |= {"gate": line.gate, "fallback": bool(line.fallback)}
        if line.findings is not None:
            for what in ("present", "absent"):
                row[what] = [getattr(line.findings[finding], what) for finding in FINDINGS]
        rows.append(row)
    return pl.DataFrame(rows, PREDICTIONS)


def _prediction(row: Any, place: str) -> Prediction:
    try:
        return Prediction.model_validate(row)
    except ValidationError as error:
        key = row.get("record_id") if isinstance(row, dict) else None
        name = f" ({key})" if isinstance(key, str) else ""
        raise DataError(f"{place}{name}: {explain(error, 'the line')}") from None


#: Columns of the records that are used; the last two are optional.
_OF_RECORDS = (
    "record_id",
    "context",
    "study_id",
    "subject_id",
    "report",
    "report_raw",
    "findings_original",
    "view",
    "prior_report",
)


def read_cases(records: pl.DataFrame, predictions_dir: Path, anchors: Path | None) -> pl.DataFrame:
    """Return the records, which must all have a prediction, with ``reference`` and
    ``reference_raw`` for ``report`` and ``report_raw``, the columns of :func:`read_predictions`,
    the reports of each control (``{control}_hypothesis``, null if it was not run), and
    ``reference_{polarity}``.

    The folder ``predictions_dir`` has ``{context}.jsonl``, and
    ``controls/{control}/{context}.jsonl`` for controls that were run; ``anchors`` are the reference
    commitments (None: scoring reads them in ``reference_raw``). Raises a DataError if there are no
    records, ids do not pair one to one, or an input is missing or malformed.
    """
    ids = records["record_id"].to_list()
    if not ids:
        raise DataError(
            "there are no records to score in this split; choose a different --split, or all"
        )
    records = records.select(name for name in _OF_RECORDS if name in records.columns)
    # in the columns of cases, "report" is the system's
    records = records.rename({"report": "reference", "report_raw": "reference_raw"})
    contexts = by_context(records)
    if sum(map(len, contexts.values())) < len(records):
        raise DataError(f"a record has an unknown context; expected one of {', '.join(CONTEXTS)}")
    decoded = [name for name in CONTEXTS if (predictions_dir / f"{name}.jsonl").is_file()]
    missing = [name for name in contexts if name not in decoded]
    if missing and decoded:
        raise DataError(
            f"{predictions_dir} has no {missing[0]}.jsonl, but there are records for context "
            f"{', '.join(missing)}; to score only the others, add "
            f"{' '.join(f'--context={name}' for name in decoded)}"
        )
    parts = []
    for name, rows in contexts.items():
        keys = rows["record_id"].to_list()
        controls = [
            read_predictions(path, keys)["hypothesis"].alias(f"{path.parent.name}_hypothesis")
            for path in sorted(predictions_dir.glob(f"controls/*/{name}.jsonl"))
        ]
        predictions = read_predictions(predictions_dir / f"{name}.jsonl", keys).drop("record_id")
        parts.append(rows.hstack(predictions).with_columns(controls))
    cases = pl.concat(parts, how="diagonal")
    if anchors is None:
        return cases
    given = read_table(anchors, ANCHOR_SCHEMA, optional=DESCRIBED)
    given = given.select("record_id", pl.col(POLARITIES).name.prefix("reference_"))
    if lacking := cases.join(given, on="record_id", how="anti")["record_id"].to_list():
        raise DataError(f"{anchors} has no commitment for record {format_ids(lacking, 1)}")
    return cases.join(given, on="record_id", how="left", maintain_order="left")


def decoded_records(
    records: pl.DataFrame,
    predictions_dir: str | Path,
    split: str | None = None,
    contexts: Sequence[str] = (),
) -> tuple[pl.DataFrame, str | None]:
    """Return the records that predictions should cover, and a note if they are not the whole split.
    ``split`` and ``contexts`` default to those of the manifest, else to test and all; its limit
    applies to each context."""
    manifest = _manifest(Path(predictions_dir))
    settings = Decoding.of(manifest)
    split, limit = split or settings.split or "test", settings.limit
    contexts = contexts or (manifest or {}).get("contexts") or ()
    decoded = of_the_split = of_split(records, split)
    why = []
    if contexts:
        decoded = decoded.filter(pl.col("context").is_in(list(contexts)))
        why.append(f"contexts {', '.join(contexts)}")
    if limit is not None:
        decoded = decoded.group_by("context", maintain_order=True).head(limit)
        why.append(f"decode.limit {limit}")
    cut = f"{len(decoded)} of {len(of_the_split)} records of split {split}: {', '.join(why)}"
    return decoded, cut if len(decoded) < len(of_the_split) else None


def _manifest(predictions: Path) -> dict[str, Any] | None:
    path = predictions / "manifest.json"
    return read_json(path) if path.is_file() else None


def read_run(
    records: Path,
    predictions: Path,
    anchors: Path | None = None,
    *,
    split: str | None = None,
    contexts: Sequence[str] = (),
) -> tuple[pl.DataFrame, Origin]:
    """Return the cases of the decoded reports of a corpus, and their origin. ``split`` and
    ``contexts`` are as in :func:`decoded_records`; a message is logged if these are not the whole
    split. Raises a DataError as :func:`read_cases`."""
    table = read_records(records)
    wanted, note = decoded_records(table, predictions, split, contexts)
    if note:
        _log.info(note)
    cases = read_cases(wanted, predictions, anchors)
    files = {f"predictions/{name}": predictions / f"{name}.jsonl" for name in by_context(cases)}
    manifest = _manifest(predictions)
    return cases, Origin({"anchors": anchors} | files, read_about(records), manifest=manifest)
