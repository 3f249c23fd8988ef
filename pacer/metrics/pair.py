"""References and hypotheses paired strictly, and the changes to other systems' reports before they
are scored."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import polars as pl

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.metrics.cases import UNKNOWN
from pacer.metrics.options import Pairing
from pacer.metrics.predictions import PREDICTIONS
from pacer.tables.generated import (
    check_residue,
    last_box,
    residue_of,
    without_repeats,
    without_thoughts,
)
from pacer.tables.ids import check_pairs, format_ids
from pacer.tables.reports import ALSO, Reports, is_blank, not_english
from pacer.tables.sources import NAME_INDEX
from pacer.text.cleaning.cleaners import CLEANERS

#: Signs of uncleaned text that change language scores: capitals, and a period or comma without a
#: space before it.
_UNCLEAN = r"[A-Z]|[^\s.]\.(\s|$)|[^\W\d_],|\S,(\s|$)"
#: Spaces between which ROUGE-L finds an empty word: several within a line, or any at the beginning
#: or end of a text. A text with line breaks is stripped (``single_line``), so only a text of one
#: line can begin or end with a space. ``" ."`` does not match: cleaners make it of an empty text.
_SPACES = r"\S {2,}\S|^ +[^\s.].*$|^.*\S +$"
#: A bullet of a list, which no cleaner removes.
_BULLET = r"(^|\n|[.:;]\s)\s*[-–•]\s"
#: A heading of a section, which is scored as a word.
_HEADING = (
    r"(?im)(?:^|[.:;]\s)\W{0,4}(?:findings?|impressions?|indications?|comparisons?|techniques?"
    r"|conclusions?|history|clinical history|examination|recommendations?)\W{0,4}:"
)
#: First words that so large a share of the reports has are probably a prompt; fewer reports are not
#: compared.
_FIRST_WORDS, _SAME_OPENING, _FEWEST = 8, 0.9, 10
#: Remedies for ids that are repeated, are not those of references, or are missing.
_SELECT = "select references (in Python by split and context of pacer.score)"
_REPEATED = (
    f"keep one row for each id: {_SELECT}, and write one file for each system or further set of "
    "references"
)
_UNKNOWN = (
    "use the same ids in both files, name their column (`--id`, in Python reference_id and "
    "hypothesis_id), or remove these rows"
)
_MISSING = (
    f'{_SELECT}, or use missing="empty" (--missing=empty), which scores a missing or null report '
    "as empty"
)
#: Columns of predictions that other systems do not provide.
_NOT_PROVIDED = (
    "anchor_positive",
    "anchor_negative",
    "anchor_uncertain",
    "gate",
)


def pair_reports(
    references: Reports, hypotheses: Reports, options: Pairing, one_table: bool = False
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return the cases, in the order of the references, and counts of what was done to the reports.
    ``one_table``: both are columns of one table. Raises a DataError if only one side has ids; an id
    is missing, extra or repeated; a text is missing; only some contexts are known; or many reports
    contain something else."""
    pairs, left_out = _matched(references, hypotheses, options, one_table)
    reports = [_report_in(text, options) for text in pairs["hypothesis"].fill_null("")]
    counts = _counts_before_cleaning(pairs, reports)
    ids = pairs["id"].to_list()
    if found := check_residue(str(hypotheses.path), ids, reports, options.as_is):
        counts["residue_hypotheses"] = found
    if left_out:
        counts["left_out_references"] = left_out
    written = pl.Series("hypothesis_raw", reports)
    if options.deduplicate:
        reports = list(map(without_repeats, reports))
    contexts = _contexts(pairs, references)
    if contexts is None:
        counts["text_context"] = True
    cases = pairs.select(
        pl.col("id").alias("record_id"),
        pl.Series("context", contexts or [UNKNOWN] * len(pairs)),
        "study_id",
        "subject_id",
        "findings_original",
        "view",
        "prior_report",
        _cleaned(pairs["text"], options.clean_references).alias("reference"),
        pl.coalesce("report_raw", "text").alias("reference_raw"),
        written,
        _cleaned(pl.Series("hypothesis", reports), options.clean_hypotheses),
        pl.lit(False).alias("fallback"),
    ).with_columns(pl.lit(None, PREDICTIONS[name]).alias(name) for name in _NOT_PROVIDED)
    return cases, counts | _counts_after_cleaning(cases)


def _matched(
    references: Reports, hypotheses: Reports, options: Pairing, one_table: bool
) -> tuple[pl.DataFrame, int]:
    """Return the rows of the references with the ``hypothesis`` of each (null: it has no text), and
    the number of references that were left out, as they have no text. Texts without ids are
    numbered; as they are the only column, they have no split or context."""
    has_ids = "id" in references.columns
    if has_ids != ("id" in hypotheses.columns):
        without, other = (hypotheses, references) if has_ids else (references, hypotheses)
        hint = "" if without.path.suffix else NAME_INDEX  # a frame in memory has no suffix
        raise DataError(
            f"{without.path} has no ids, but {other.path} does; add ids{hint}, or drop them if the "
            "rows are in the same order"
        )
    expected, name = _select(references, options)
    blank_references = [
        key for key, text in zip(expected["id"], expected["text"]) if text is None or is_blank(text)
    ]
    if blank_references and options.missing_references == "error":
        raise DataError(
            f"{references.path}: the references for {format_ids(blank_references)} are blank or "
            "placeholders such as nan; correct the file, or leave these pairs out, in Python with "
            'missing_references="leave-out"'
        )
    is_left_out = pl.col("id").is_in(blank_references)
    expected = expected.filter(~is_left_out)
    offered = _select(hypotheses, options)[0] if one_table else hypotheses.rows
    offered = offered.filter(~is_left_out)
    if expected.is_empty():
        raise DataError(f"{name}: all references are empty")
    lacking = len(expected) - len(offered)
    if not has_ids and (lacking < 0 or (lacking and options.missing == "error")):
        raise DataError(
            f"{name} has {len(expected)} texts and {hypotheses.path} {len(offered)}; texts without "
            "ids are paired in their order, so both need as many"
        )
    _check_ids(
        expected,
        offered,
        (name, str(hypotheses.path)),
        missing=options.missing == "empty",
    )
    # a column of ids that the caller names is a deliberate choice, which others need not confirm
    if has_ids and options.reference_id is None and options.hypothesis_id is None:
        _check_other_ids(expected, offered, references, hypotheses)
    texts = offered.drop_nulls("text").select("id", pl.col("text").alias("hypothesis"))
    return expected.join(texts, on="id", how="left", maintain_order="left"), len(blank_references)


def _counts_before_cleaning(pairs: pl.DataFrame, reports: list[str]) -> dict[str, Any]:
    """Count what cleaning would hide: reports that are absent, blank, or begin alike, and what
    other tools left in the references. ``reports`` are the texts that will be scored."""
    counts: dict[str, Any] = {"missing_hypotheses": pairs["hypothesis"].null_count()}
    num_marked, kinds = residue_of(pairs["id"].to_list(), pairs["text"].to_list())
    if num_marked:
        counts["residue_references"] = f"{num_marked} of {len(pairs)} references contain {kinds}"
    for side, column in (("references", "text"), ("hypotheses", "hypothesis")):
        if foreign := not_english(pairs["id"], pairs[column]):
            counts[f"not_english_{side}"] = foreign
    is_absent = pl.col("hypothesis").is_null()
    rows = pairs.select("id", "hypothesis", report=pl.Series(reports, dtype=pl.String))
    found = {
        "absent": rows.filter(is_absent),
        "blank": rows.filter(~is_absent, pl.col("report") == ""),
    }
    for name, chosen in found.items():
        if len(chosen):
            counts[f"{name}_hypotheses"] = f"{len(chosen)} ({format_ids(chosen['id'].to_list())})"
    if same := _same_opening(reports, pairs["text"].to_list()):
        counts["same_opening_hypotheses"] = same
    return counts


def _same_opening(reports: Sequence[str], references: Sequence[str]) -> int:
    """Return how many reports begin with the same words; 0 if they are not nearly all, or if nearly
    all references begin with these words too."""
    openings = Counter(" ".join(text.lower().split()[:_FIRST_WORDS]) for text in reports)
    [(words, count)] = openings.most_common(1)
    in_references = sum(" ".join(text.lower().split()).startswith(words) for text in references)
    is_long = len(reports) >= _FEWEST and len(words.split()) == _FIRST_WORDS
    return count if is_long and count >= _SAME_OPENING * len(reports) > in_references else 0


def _counts_after_cleaning(cases: pl.DataFrame) -> dict[str, int]:
    """Count the signs that texts were not cleaned, or not alike, or that the reports are the
    references themselves."""
    counts = {}
    equal = int((cases["reference"] == cases["hypothesis"]).sum())
    if 2 * equal > len(cases):
        counts["equal_hypotheses"] = equal
    for side, column in (("references", "reference"), ("hypotheses", "hypothesis")):
        counts[f"unclean_{side}"] = int(cases[column].str.contains(_UNCLEAN).sum())
        for name, pattern in (("bulleted", _BULLET), ("spaced", _SPACES), ("headed", _HEADING)):
            matches = int(cases[column].str.contains(pattern).sum())
            if matches:
                counts[f"{name}_{side}"] = matches
    return counts


def _select(file: Reports, options: Pairing) -> tuple[pl.DataFrame, str]:
    """Return the references of the requested split and context, and a name for this selection."""
    rows = file.rows
    name = str(file.path)
    for column, wanted in (("split", options.split), ("context", options.context)):
        if wanted is None or (column, wanted) == ("split", "all"):
            continue
        if not rows[column].count():
            raise DataError(
                f"{file.path} has no column `{column}`, so {column} {wanted} cannot be selected"
            )
        rows = rows.filter(pl.col(column) == wanted)
        name = f"{name}, {column} {wanted}"
    if rows.is_empty():
        splits = ", ".join(file.rows["split"].drop_nulls().unique().sort().head(5))
        known = f"; the file's splits: {splits}" if splits else ""
        raise DataError(f"{name}: no references{known}")
    return rows, name


def _check_ids(
    expected: pl.DataFrame, offered: pl.DataFrame, names: tuple[str, str], missing: bool
) -> None:
    """Check that the ids of the hypotheses, ``offered``, pair with the ``expected``. ``missing``:
    whether hypotheses may be missing."""
    try:
        for rows in (offered, offered.drop_nulls("text")):  # an id without a text must also pair
            check_pairs(expected["id"].to_list(), rows["id"].to_list(), *names, missing=missing)
    except DataError as error:
        ids, given = expected["id"], offered["id"]
        repeated = ids.is_duplicated().any() or given.is_duplicated().any()
        remedy = _MISSING if set(given) <= set(ids) else _UNKNOWN
        if not {*ids} & {*given} and {*map(_bare, ids)} & {*map(_bare, given)}:
            remedy = (
                "they differ in a prefix or a final .0; write the ids in both files the same way"
            )
        raise DataError(f"{error}; {_REPEATED if repeated else remedy}") from None


def _bare(key: str) -> str:
    """Return an id without letters before it and decimals after it: ``s50414267``,
    ``50414267.0``."""
    return re.sub(r"^[A-Za-z]+[-_]?(?=\d)|\.0+$", "", key)


def _check_other_ids(
    expected: pl.DataFrame, offered: pl.DataFrame, references: Reports, hypotheses: Reports
) -> None:
    """Refuse pairs of rows that differ in another column of ids which both files have, such as
    ``study_id`` where rows are paired by ``id``."""
    second = {name.lower(): name for name in offered.columns if name.startswith(ALSO)}
    pairs = expected.join(offered.rename("offered {}".format), left_on="id", right_on="offered id")
    for name in expected.columns:
        other = second.get(name.lower())
        if not name.startswith(ALSO) or other is None:
            continue
        wrong = pairs.filter(pl.col(name) != pl.col(f"offered {other}"))["id"]
        if len(wrong):
            column, other_column = name.removeprefix(ALSO), other.removeprefix(ALSO)
            matched = " and ".join({file.columns["id"]: 0 for file in (references, hypotheses)})
            raise DataError(
                f"{references.path} and {hypotheses.path} match on {matched}, but {column} in the "
                f"first and {other_column} in the second differ in {len(wrong)} of {len(pairs)} "
                f"pairs (first: {wrong[0]}); choose the columns that match: give them one name and "
                f'pass it as `--id`, or in Python pass reference_id="{column}" and '
                f'hypothesis_id="{other_column}"'
            )


def _contexts(cases: pl.DataFrame, references: Reports) -> list[str] | None:
    """Return the context of each reference; :data:`UNKNOWN` for all if none has one, and None if
    the column ``context`` has other texts, such as ReXrank's."""
    contexts = cases["context"].to_list()
    known = set(contexts) & set(CONTEXTS)
    if known and known != set(contexts):
        raise DataError(
            f"{references.path}: column `context` must be one of {', '.join(CONTEXTS)} in every "
            "row, or in none"
        )
    if not known and any(contexts):
        return None
    return contexts if known else [UNKNOWN] * len(cases)


def _cleaned(texts: pl.Series, cleaner: str) -> pl.Series:
    """Return the cleaned texts. Blank texts, and all texts with the cleaner ``none``, stay."""
    if cleaner == "none":
        return texts
    clean = CLEANERS[cleaner]
    return pl.Series(texts.name, [clean(text) if text.strip() else text for text in texts])


def _report_in(text: str, options: Pairing) -> str:
    """Return the report in a generated text; empty if that is blank, or a placeholder such as
    ``nan`` or ``[]``."""
    report = last_box(text) if options.extract == "boxed" else without_thoughts(text)
    return "" if is_blank(report) else report
