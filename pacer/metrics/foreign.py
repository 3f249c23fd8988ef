"""Scoring of any system's reports: references and hypotheses, paired strictly and scored like PACER's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl

from pacer.config.decode import Score
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import ConfigError, DataError
from pacer.core.hygiene import ANY_RESIDUE
from pacer.data.cleaning import CLEANERS
from pacer.data.schemas import read_about
from pacer.metrics.cases import UNKNOWN
from pacer.metrics.commitments import anchor_columns
from pacer.metrics.inputs import DEFAULTS, Origin, ScoreInputs
from pacer.metrics.predictions import PREDICTIONS, check_pairs, named
from pacer.metrics.reports import HYPOTHESIS_COLUMNS, REFERENCE_COLUMNS, Protocol, Reports, reports_of
from pacer.metrics.score import score_cases
from pacer.metrics.signature import STRICTLY

#: Signs of uncleaned text that change language scores: capitals, and a period without a blank before it.
_UNCLEAN = r"[A-Z]|[^\s.]\.(\s|$)"
#: Remedies for ids that do not pair, by a phrase in the error message.
_WAYS = {
    "more than once in": "keep one row for each id, or select references with --split and --context",
    "missing in": "write the ids in the same way in both files, name their columns with --reference-id and "
    "--hypothesis-id, or score an empty report where one is missing or null with --missing empty",
    "but not in": "remove these rows, or give their references",
}
#: Columns of predictions that other systems do not provide.
_NOT_SAID = ("anchor_positive", "anchor_negative", "anchor_uncertain", "gate", "unclosed", "tokens")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


#: Whole reports, paired one to one.
AS_GIVEN = Protocol()


def score_reports(
    references: str | Path,
    hypotheses: str | Path,
    chexbert_dir: str | Path | None,
    out_dir: str | Path,
    protocol: Protocol = AS_GIVEN,
    *,
    labels_path: str | Path | None = None,
    settings: Score = DEFAULTS,
) -> dict[str, dict]:
    """Score a file of hypotheses against a file of references; writes and returns the same as
    :func:`~pacer.metrics.score.score_cases`.

    Args:
        references, hypotheses: see :mod:`pacer.metrics.reports`. References with a column ``context`` that names the
            four contexts are scored by context, others as one, ``all``.
        chexbert_dir: the labeller; None: no scores of labels.
        labels_path: CheXbert labels of the references; the file is created if it does not exist.

    Raises:
        DataError: a file is malformed, both sides are the same column, the references lack the requested split or
            context, or ids do not pair. ConfigError: the references are already clean.
    """
    inputs = ScoreInputs(*(None if path is None else Path(path) for path in (chexbert_dir, labels_path)))
    expected = reports_of(references, REFERENCE_COLUMNS, protocol.reference_id, protocol.reference_text)
    generated = reports_of(hypotheses, HYPOTHESIS_COLUMNS, protocol.hypothesis_id, protocol.hypothesis_text)
    if expected.path.samefile(generated.path) and expected.columns["text"] == generated.columns["text"]:
        raise DataError(
            f"references and hypotheses are the same column {expected.columns['text']} of {expected.path}; name "
            "another file, or another column with --reference-text or --hypothesis-text"
        )
    if protocol.split is None and expected.rows["split"].count():
        protocol = protocol.model_copy(update={"split": "test"})
    about = _about(expected, protocol)
    cases, counts = pair_reports(expected, generated, protocol)
    loose = "by id, as protocol says" if counts["missing_hypotheses"] else STRICTLY
    files = {"references": expected, "hypotheses": generated}
    read = {name: {"file": file.path.name} | file.columns for name, file in files.items()}
    applied = read | protocol.model_dump() | counts | {"pairing": loose if "id" in generated.columns else "by position"}
    origin = Origin({name: file.path for name, file in files.items()}, about, protocol=applied)
    return score_cases(cases, Path(out_dir), inputs, settings, origin, _train_reports(expected, protocol))


def _about(references: Reports, protocol: Protocol) -> dict[str, Any]:
    """Return how the references were made. The metadata of a records.parquet describes only its column of reports."""
    is_cleaned_column = references.path.suffix.lower() == ".parquet" and references.columns["text"] == "report"
    about = read_about(references.path) if is_cleaned_column else {}
    if protocol.clean_references == "none":
        return about
    if about:
        raise ConfigError(
            f"{references.path} holds reports that are clean already; cleaning them again would change them: "
            "leave out --clean-references"
        )
    return {"cleaner": protocol.clean_references}


def _train_reports(references: Reports, protocol: Protocol) -> list[str] | None:
    """Return the train split's references, used to detect copies; None if the file does not identify that split."""
    if protocol.split in (None, "train", "all"):
        return None
    texts = references.rows.filter(split="train")["text"].drop_nulls().to_list()
    clean = CLEANERS.get(protocol.clean_references, str)
    return [clean(text) for text in texts if text] or None


def pair_reports(references: Reports, hypotheses: Reports, protocol: Protocol) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return the cases, in the order of the references, and counts of what was done to the reports.

    Raises:
        DataError: only one side has ids; an id is missing, extra or repeated; a text is missing; or a context is not
            one of the four.
    """
    if ("id" in references.columns) != ("id" in hypotheses.columns):
        without, other = (references, hypotheses) if "id" in hypotheses.columns else (hypotheses, references)
        raise DataError(
            f"{without.path} has no ids, {other.path} has; give ids on both sides, or two files in the same order"
        )
    expected, name = _select(references, protocol)
    given = hypotheses.rows.filter(pl.col("text").is_not_null())
    allowed = protocol.missing == "empty"
    try:
        for rows in (hypotheses.rows, given):  # an id without a text must also pair
            check_pairs(expected["id"].to_list(), rows["id"].to_list(), name, str(hypotheses.path), missing=allowed)
    except DataError as error:
        ways = "; ".join(way for words, way in _WAYS.items() if words in str(error))
        raise DataError(f"{error}; {ways}") from None
    if unwritten := expected.filter(pl.col("text").is_null())["id"].to_list():
        raise DataError(f"{references.path}: the reference is missing for {named(unwritten)}")
    written = given.select("id", pl.col("text").alias("hypothesis"))
    cases = expected.join(written, on="id", how="left", maintain_order="left")
    missing = cases["hypothesis"].null_count()
    # counted before cleaning, which breaks it up; only files that have some get an entry
    texts = {"references": cases["text"], "hypotheses": cases["hypothesis"]}
    found = {f"residue_{side}": int(column.str.contains(ANY_RESIDUE).sum()) for side, column in texts.items()}
    residue = {name: count for name, count in found.items() if count}
    reports = _changed(cases["hypothesis"].fill_null("").to_list(), protocol)
    clean = CLEANERS.get(protocol.clean_references, str)

    cases = cases.select(
        pl.col("id").alias("record_id"),
        pl.Series("context", _contexts(cases, references.path, protocol)),
        *("study_id", "subject_id", "findings_original", "view", "sections"),
        pl.Series("report", [clean(text) for text in cases["text"]]),
        pl.coalesce("report_raw", "text").alias("report_raw"),
        pl.Series("hypothesis", reports),
        *(pl.lit(None, kind).alias(name) for name, kind in PREDICTIONS.items() if name in _NOT_SAID),
        pl.lit(False).alias("fallback"),
    )
    counts: dict[str, Any] = {"missing_hypotheses": missing} | residue
    for side, name in (("references", "report"), ("hypotheses", "hypothesis")):
        counts[f"unclean_{side}"] = int(cases[name].str.contains(_UNCLEAN).sum())
    return cases.with_columns(anchor_columns(cases["report_raw"], "reference")), counts


def _select(file: Reports, protocol: Protocol) -> tuple[pl.DataFrame, str]:
    """Return the references of the requested split and context, and a name for this selection."""
    rows, words = file.rows, []
    for column, wanted in (("split", protocol.split), ("context", protocol.context)):
        if wanted is None or (column, wanted) == ("split", "all"):
            continue
        if not rows[column].count():
            raise DataError(f"{file.path} has no column {column}, so {column} {wanted} cannot be chosen")
        rows = rows.filter(pl.col(column) == wanted)
        words.append(f", {column} {wanted}")
    name = f"{file.path}{''.join(words)}"
    if rows.is_empty():
        there = ", ".join(file.rows["split"].drop_nulls().unique().sort().head(5))
        raise DataError(f"{name}: there is no reference" + f"; its splits are {there}" * bool(there))
    return rows, name


def _contexts(cases: pl.DataFrame, path: Path, protocol: Protocol) -> list[str]:
    """Return the context of each reference; :data:`UNKNOWN` for all if the file does not name the four contexts."""
    contexts = cases["context"].to_list()
    if set(contexts) <= set(CONTEXTS):
        return contexts
    if protocol.context is None and any(contexts):
        raise DataError(f"{path}: column context must hold {', '.join(CONTEXTS)} in every row")
    return [UNKNOWN] * len(cases)


def _changed(texts: list[str], protocol: Protocol) -> list[str]:
    """Return the reports in the form in which they are scored."""
    if protocol.extract == "boxed":
        texts = [last_box(text) for text in texts]
    if protocol.deduplicate:
        texts = [without_repeats(text) for text in texts]
    if protocol.clean_hypotheses != "none":
        texts = [CLEANERS[protocol.clean_hypotheses](text) if text.strip() else text for text in texts]
    return texts


def last_box(text: str) -> str:
    r"""Return the content of the last ``\boxed{...}``, with its end found by counting braces (paper, appendix
    "Additional Conventional-SN Baselines"). The text is empty if there is no box or the last one is not closed."""
    _, box, rest = text.rpartition("\\boxed{")
    depth = 1
    for position, letter in enumerate(rest if box else ""):
        depth += (letter == "{") - (letter == "}")
        if depth == 0:
            return rest[:position].strip()
    return ""


def without_repeats(text: str) -> str:
    """Return the report with only the first occurrence of every sentence.

    Sentences end at a period, question or exclamation mark before white space. They are equal if they differ only in
    case, white space and the blank before the end mark.
    """
    sentences: dict[str, str] = {}
    for sentence in _SENTENCE_END.split(text.strip()):
        sentences.setdefault(" ".join(sentence.lower().rstrip(".!? ").split()), sentence)
    return " ".join(sentences.values())
