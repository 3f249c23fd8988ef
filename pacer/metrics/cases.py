"""The evaluation table, one row per record: texts, labels and row scores. It is saved as
``cases.parquet``.

It begins with the predictions in the pipeline's format, paired strictly with their records: exactly
one for each, none left over. Every step of scoring reads columns and adds others. The file holds
what other evaluation packages read (``reference``, ``hypothesis``) and what `pacer compare`
needs.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import AfterValidator, BaseModel, Field, FiniteFloat, ValidationError

from pacer.commitments.anchor import ANCHOR_SCHEMA, DESCRIBED, POLARITIES, Anchor
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.io import numbered_jsonl
from pacer.core.validation import explain
from pacer.data.findings import FINDINGS
from pacer.data.hygiene import LONGEST_ID
from pacer.data.schemas import read_table
from pacer.data.values import quoted

#: Context name for reports whose inputs are unknown.
UNKNOWN = "all"
#: Name of the row that averages the contexts.
MEAN = "mean"

_TEXTS = pl.List(pl.String)
#: CheXbert's class of each observation; null without a labeller.
LABELS = pl.List(pl.Int64)
#: Columns that every ``cases.parquet`` has. ``anchor_*``: the generated commitment;
#: ``reference_*``: the reference commitment; ``report_*``: what the rules read in the generated
#: report; ``*_wording``: rules of comparison that match.
COLUMNS: dict[str, pl.DataType] = {
    **dict.fromkeys(("record_id", "context", "study_id", "subject_id"), pl.String()),
    **dict.fromkeys(("reference", "hypothesis", "findings_original"), pl.String()),
    **dict.fromkeys(("reference_labels", "hypothesis_labels"), LABELS),
    **dict.fromkeys(("rougeL", "meteor"), pl.Float64()),
    "meteor_statistics": pl.List(pl.Float64),
    **{
        f"{side}_{polarity}": _TEXTS
        for side in ("anchor", "reference", "report")
        for polarity in POLARITIES
    },
    **dict.fromkeys(("reference_wording", "hypothesis_wording"), _TEXTS),
    "gate": pl.Float64(),
    "fallback": pl.Boolean(),
}
#: Also optional: findings in which a report contradicts its commitment, a property by which records
#: can be grouped, the findings of a generated world, and the probabilities of findings.
ALL_COLUMNS = (
    *COLUMNS,
    "contradictions",
    "view",
    "truth",
    "present",
    "absent",
)


def case_table(cases: pl.DataFrame, columns: Iterable[str]) -> pl.DataFrame:
    """Select the columns that ``cases.parquet`` keeps; ``columns``: those of scores and of
    ``score.columns``. Of each control it has whether a report equals the one from the case's own
    sources, and its labels."""
    of_controls = [
        f"{control}_{what}" for control in controls_of(cases) for what in ("unchanged", "labels")
    ]
    names = dict.fromkeys((*ALL_COLUMNS, *of_controls, *columns))
    return cases.select(name for name in names if name in cases.columns).cast(pl.Schema(COLUMNS))


def controls_of(cases: pl.DataFrame) -> list[str]:
    """Return the controls whose texts the table holds, as ``{control}_hypothesis``."""
    return [
        name.removesuffix("_hypothesis") for name in cases.columns if name.endswith("_hypothesis")
    ]


def contexts_of(cases: pl.DataFrame) -> list[str]:
    """Return the contexts of the cases, in the paper's order."""
    present = set(cases["context"])
    return [name for name in (*CONTEXTS, UNKNOWN) if name in present]


def row_name(context: str) -> str:
    """Return a context in capitals, or ``Mean``."""
    return "Mean" if context == MEAN else context.upper()


def by_context(cases: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the cases of each context, in the paper's order."""
    return {name: cases.filter(context=name) for name in contexts_of(cases)}


def is_labelled(cases: pl.DataFrame) -> bool:
    """Return whether the cases were scored with a labeller."""
    return cases["hypothesis_labels"].null_count() == 0


def is_empty(side: str) -> pl.Expr:
    """Return whether a text consists only of spaces and periods."""
    return pl.col(side).str.strip_chars(" .") == ""


def labels_of(cases: pl.DataFrame, texts: str) -> np.ndarray:
    """Return CheXbert's labels ``[n, 14]`` of the ``reference``, the ``hypothesis`` or a control's
    report."""
    return np.array(cases[f"{texts}_labels"].to_list())


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


#: Columns of the records that are used; those of the second line are optional.
_OF_RECORDS = (
    *(
        "record_id",
        "context",
        "study_id",
        "subject_id",
        "report",
        "report_raw",
        "findings_original",
    ),
    *("view", "prior_report", "frontal_report"),
)
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


def check_pairs(
    expected: Sequence[str],
    given: Sequence[str],
    expected_name: str,
    given_name: str,
    *,
    missing: bool = False,
) -> None:
    """Raise a :class:`~pacer.core.errors.DataError` unless both sides hold the same ids, each once,
    in any order. With ``missing``, ``given`` may lack some ids of ``expected``."""
    problems = []
    for ids, name in ((expected, expected_name), (given, given_name)):
        if repeated := [key for key, count in Counter(ids).items() if count > 1]:
            problems.append(f"repeated in {name}: {named(repeated)}")
    known, present = set(expected), set(given)
    if not missing and (lacking := [key for key in expected if key not in present]):
        problems.append(f"missing in {given_name}: {named(lacking)}")
    if extra := [key for key in given if key not in known]:
        problems.append(f"in {given_name} but not in {expected_name}: {named(extra)}")
    if problems:
        raise DataError(
            f"ids of {expected_name} and {given_name} do not match; {'; '.join(problems)}"
        )


def named(ids: Sequence[str], most: int = 3) -> str:
    """Return the first of ``ids`` as text, with the number of the others. Sentences may be report
    text: hidden."""
    first = ", ".join(quoted(str(key), LONGEST_ID) for key in ids[:most])
    return first + (f" and {len(ids) - most} more" if len(ids) > most else "")


def read_predictions(path: Path, record_ids: Sequence[str]) -> pl.DataFrame:
    """Read the predictions in ``path``, columns :data:`PREDICTIONS`, one for each of
    ``record_ids``, in this order. Raises a DataError if the file is missing, a line lacks a field
    or has one of the wrong type, or ids do not pair."""
    lines = [_prediction(row, f"{path}, line {number}") for number, row in numbered_jsonl(path)]
    check_pairs(record_ids, [line.record_id for line in lines], "the records", str(path))
    rows = {}
    for line in lines:
        anchor = [(line.anchor or {}).get(name) for name in POLARITIES]
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


def read_cases(records: pl.DataFrame, predictions_dir: Path, anchors: Path | None) -> pl.DataFrame:
    """Return the records, which must all have a prediction, with their predictions: columns
    :data:`PREDICTIONS`, the reports of each control (``{control}_hypothesis``, null if it was not
    run), and ``reference_{polarity}``.

    The folder ``predictions_dir`` has ``{context}.jsonl``, and
    ``controls/{control}/{context}.jsonl`` for controls that were run; ``anchors`` are the reference
    commitments (None: scoring reads them in ``report_raw``). Raises a DataError if there are no
    records, ids do not pair one to one, or an input is missing or malformed.
    """
    ids = records["record_id"].to_list()
    if not ids:
        raise DataError(
            "there are no records to score in this split; choose a different --split, or all"
        )
    records = records.select(name for name in _OF_RECORDS if name in records.columns)
    contexts = {
        name: records.filter(context=name) for name in CONTEXTS if name in set(records["context"])
    }
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
        raise DataError(f"{anchors} has no anchor for record {named(lacking, 1)}")
    return cases.join(given, on="record_id", how="left", maintain_order="left")
