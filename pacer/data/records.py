"""From studies to records: targets and previous reports joined, cleaned and checked, a row for each context.

This is the only place where report text is cleaned. The same text serves every context of a study, but for the
sentences that ``corpus.unseen_comparisons: strip`` takes out where there is no previous report.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import polars as pl

from pacer.config import Corpus
from pacer.core.hygiene import id_fault, is_absent
from pacer.data.account import Account
from pacer.data.cleaning import CLEANERS
from pacer.data.formats import Format
from pacer.data.sentences import says_something, without_sentences
from pacer.data.studies import mapped
from pacer.data.values import BAD, LEFT_OUT, bare_id, quoted
from pacer.data.wording import compares_with_prior

#: Text sections of a study, and their names in the audit.
_SECTIONS = {
    "findings": "findings",
    "impression": "impression",
    "indication": "indication",
    "history": "history",
    "prior_findings": "previous findings",
    "prior_impression": "previous impression",
}
#: The sections that a target is joined from.
_TARGET = ("findings", "target_impression")
#: What upstream takes as the previous report where both of its sections are marked as absent: the mark itself.
_ABSENT_PRIOR = "s"
_EMPTY_PRIOR = "a context with a previous report needs one that is not empty (corpus.keep_empty_priors)"
_ALL_COMPARES = "every sentence presupposes a previous report (corpus.unseen_comparisons: strip)"

#: A context with the lateral view, and one with the previous report.
_HAS_LATERAL = pl.col("context").str.starts_with("m")
_HAS_PRIOR = pl.col("context").str.ends_with("w")
_NO_CONTEXT = pl.col("contexts").list.len() == 0

#: ``{context: {split: {records, comparing}}}``
Wording = dict[str, dict[str, dict[str, int]]]


class Draft(NamedTuple):
    """Records whose ids and images are not checked yet, and what became of the studies.

    Attributes:
        records: the columns of ``records.parquet``, those of the studies, and ``number`` (the study's), ``compares``
            (whether the target presupposes a previous report; null where it has one) and ``nothing_left``.
        beyond_limit: rows of the input whose studies are beyond ``corpus.limit``.
        empty_priors: studies whose previous report was empty after cleaning, so that only their contexts without one
            were made. kept_priors: the same, where ``corpus.keep_empty_priors`` kept all contexts.
    """

    records: pl.DataFrame
    beyond_limit: int
    empty_priors: int
    kept_priors: int


def draft_records(
    studies: pl.DataFrame, config: Corpus, form: Format, originals: Mapping[str, str], account: Account
) -> Draft:
    """The records that studies give; every study without one is listed, or counted as beyond the limit.

    Args:
        form: the layout of the input; its names of fields stand in messages.
        originals: untouched findings by study id, MIMIC's letter left out.
    """
    findings_only, clean = config.target == "findings", CLEANERS[config.cleaner]
    for field in ("id", "study_id", "subject_id"):
        fault = mapped(field, id_fault)
        studies = account.divert(studies, field, fault.is_not_null(), fault)
    studies = _without_absent_words(studies, config.format == "rg4", account)
    in_use = pl.col("contexts").list.eval(pl.element().filter(pl.element().is_in(config.contexts)))
    studies = studies.with_columns(contexts=in_use)
    studies = account.divert(studies, "", _NO_CONTEXT, "its sources fit no context of corpus.contexts", LEFT_OUT)
    target = pl.lit(None, pl.String) if findings_only else pl.col("impression")
    studies = studies.with_columns(target_impression=target)
    if findings_only:
        without = pl.col("findings").is_null() & pl.col("impression").is_not_null()
        studies = account.divert(studies, "", without, "no findings section (corpus.target: findings)", LEFT_OUT)
    same = pl.col("lateral") == pl.col("frontal")
    studies = account.divert(studies, form.images[1], same, "the same file is given as frontal and as lateral")
    studies = studies.with_columns(report_raw=_joined(*_TARGET), sections=_sections(*_TARGET))
    without = pl.col("report_raw").is_null()
    studies = account.divert(studies, form.target, without, "neither findings nor impression")
    studies = studies.with_columns(report=mapped("report_raw", clean))
    silent = ~_says_something("report")
    studies = account.divert(studies, form.target, silent, "the target report is empty after cleaning")

    studies = studies.with_columns(prior_raw=_joined("prior_findings", "prior_impression"))
    studies = studies.with_columns(prior_report=mapped("prior_raw", clean).fill_null(""))
    wants_prior = pl.col("contexts").list.eval(pl.element().str.ends_with("w")).list.any()
    studies = studies.with_columns(empty_prior=wants_prior & ~_says_something("prior_report"))
    empty = pl.col("empty_prior")
    if config.keep_empty_priors:
        instead = pl.when(empty & (pl.col("prior_report") == "")).then(pl.lit(clean(_ABSENT_PRIOR)))
        studies = studies.with_columns(prior_report=instead.otherwise("prior_report"))
    else:
        alone = pl.col("contexts").list.eval(pl.element().filter(~pl.element().str.ends_with("w")))
        studies = studies.with_columns(contexts=pl.when(empty).then(alone).otherwise("contexts"))
        studies = account.divert(studies, form.prior, _NO_CONTEXT, _EMPTY_PRIOR)
    empties = int(studies["empty_prior"].sum())

    followed = pl.lit(None, pl.String)
    if findings_only:  # the weights follow the tokens of the whole report
        whole = pl.when(pl.col("emphasis").is_not_null() & pl.col("impression").is_not_null())
        studies = studies.with_columns(whole=whole.then(_joined("findings", "impression")))
        followed = mapped("whole", clean)
    studies = studies.with_columns(
        emphasis_text=followed, findings_original=mapped("study_id", lambda study: originals.get(bare_id(study)))
    )
    draft = studies.with_row_index("number").explode("contexts").rename({"contexts": "context"})
    if config.limit is not None:
        # the place of a study, from 1, among those of a context and split
        place = pl.col("study_id").is_first_distinct().cum_sum().over("context", "split")
        first = pl.col("_place").first().over("context", "split", "study_id")
        draft = draft.with_columns(_place=place).filter(first <= config.limit)
    beyond = int(studies["rows"].sum()) - int(draft.unique("number")["rows"].sum())
    draft = _without_prior(draft, config).with_columns(
        record_id=pl.format("{}-{}", "context", "id"),
        lateral=pl.when(_HAS_LATERAL).then("lateral"),
        prior_report=pl.when(_HAS_PRIOR).then("prior_report"),
    )
    kept = config.keep_empty_priors
    return Draft(draft, beyond, 0 if kept else empties, empties if kept else 0)


def _without_absent_words(studies: pl.DataFrame, upstream: bool, account: Account) -> pl.DataFrame:
    """The studies with null for each text that is a word for no text, which is counted.

    Args:
        upstream: of MIMIC-RG4, text of marks alone is cleaned as upstream cleans it, and ``new_scores`` follow the
            outcome.
    """
    for column, name in _SECTIONS.items():
        absent = mapped(column, lambda text: is_absent(text) and (not upstream or says_something(text)), pl.Boolean)
        studies = studies.with_columns(_absent=absent.fill_null(False))
        account.count("absent_words", "texts", name, int(studies["_absent"].sum()))
        studies = studies.with_columns(pl.when(~pl.col("_absent")).then(column).alias(column)).drop("_absent")
    return studies


def _joined(findings: str, impression: str) -> pl.Expr:
    """The text of the sections that are there; null of none."""
    both = pl.concat_str(findings, impression, separator=" ", ignore_nulls=True)
    return pl.when(pl.col(findings).is_not_null() | pl.col(impression).is_not_null()).then(both)


def _sections(findings: str, impression: str) -> pl.Expr:
    """The name of the sections that are there; null of none."""
    has_findings, has_impression = pl.col(findings).is_not_null(), pl.col(impression).is_not_null()
    both = pl.when(has_findings & has_impression).then(pl.lit("findings+impression"))
    return both.when(has_findings).then(pl.lit("findings")).when(has_impression).then(pl.lit("impression"))


def _says_something(column: str) -> pl.Expr:
    return mapped(column, says_something, pl.Boolean)


def _without_prior(draft: pl.DataFrame, config: Corpus) -> pl.DataFrame:
    """The draft with the targets of the contexts without a previous report, as ``corpus.unseen_comparisons`` says."""
    alone = draft.filter(~_HAS_PRIOR).unique("number", keep="first", maintain_order=True)
    compares = mapped("report_raw", compares_with_prior, pl.Boolean)
    alone = alone.select("number", *_TARGET, compares=compares)
    draft = draft.join(alone.select("number", "compares"), on="number", how="left", maintain_order="left")
    draft = draft.with_columns(compares=pl.when(~_HAS_PRIOR).then("compares"))
    if config.unseen_comparisons == "keep":
        return draft.with_columns(nothing_left=pl.lit(False))
    stripped = alone.filter("compares").with_columns(
        mapped(column, lambda text: without_sentences(text, compares_with_prior)) for column in _TARGET
    )
    stripped = stripped.select("number", _raw=_joined(*_TARGET), _sections=_sections(*_TARGET))
    stripped = stripped.with_columns(_report=mapped("_raw", CLEANERS[config.cleaner]))
    stripped = stripped.with_columns(_said=_says_something("_report").fill_null(False))
    draft = draft.join(stripped, on="number", how="left", maintain_order="left")
    compares = pl.col("compares").fill_null(False)
    changed = compares & pl.col("_said")
    return draft.with_columns(
        report=pl.when(changed).then("_report").otherwise("report"),
        report_raw=pl.when(changed).then("_raw").otherwise("report_raw"),
        sections=pl.when(changed).then("_sections").otherwise("sections"),
        # the list of weights follows the tokens of the whole report
        emphasis=pl.when(~changed).then("emphasis"),
        emphasis_text=pl.when(~changed).then("emphasis_text"),
        nothing_left=compares & ~pl.col("_said"),
    )


def keep_sound(
    draft: pl.DataFrame, unusable: pl.DataFrame, folder: Path, fields: tuple[str, str], account: Account
) -> tuple[pl.DataFrame, Wording]:
    """The sound records of a draft, and how many targets without a previous report presuppose one.

    A study can give records in several contexts. Its rows count as bad or left out when its last record falls, and it
    is listed once per reason. Of targets without a previous report those that are left out or stripped count too.

    Args:
        unusable: ``image_id`` and ``problem`` of images that cannot be used. folder: where they were looked for.
        fields: names of the two image fields, for messages.
    """
    draft = draft.with_columns(
        _fault=pl.lit(None, pl.String), field=pl.lit(""), kind=pl.lit(BAD), value=pl.lit(None, pl.String)
    )

    def mark(frame: pl.DataFrame, reason: pl.Expr, field: str, kind: str, value: pl.Expr) -> pl.DataFrame:
        new = pl.col("_fault").is_null() & reason.is_not_null()
        changes = {"_fault": reason, "field": pl.lit(field), "kind": pl.lit(kind), "value": value}
        return frame.with_columns(
            pl.when(new).then(change).otherwise(name).alias(name) for name, change in changes.items()
        )

    first = pl.format("{} of {} {}", mapped("record_id", quoted), "file", "row").first().over("record_id")
    repeated = pl.when(~pl.col("record_id").is_first_distinct()).then(pl.lit("the record id occurs more than once"))
    draft = mark(draft, repeated, "id", BAD, first)
    for field, view in zip(fields, ("frontal", "lateral"), strict=True):
        problem = unusable.select(pl.col("image_id").alias(view), _problem="problem")
        draft = draft.join(problem, on=view, how="left", maintain_order="left")
        path = mapped(view, lambda path: quoted(path, 200, 1))
        place = pl.format("{} below {}", path, pl.lit(str(folder)))
        draft = mark(draft, pl.col("_problem"), field, BAD, place).drop("_problem")
    draft = mark(draft, pl.when("nothing_left").then(pl.lit(_ALL_COMPARES)), "", LEFT_OUT, pl.lit(None, pl.String))

    fallen = pl.col("_fault").is_not_null()
    all_fallen = fallen.all().over("number")
    faults = draft.with_columns(_lost=all_fallen).filter(fallen).rename({"_fault": "reason"})
    faults = faults.unique(["number", "value", "reason"], keep="first", maintain_order=True)
    counted = pl.col("_lost") & pl.col("number").is_first_distinct()
    account.list_rows(faults.with_columns(rows=pl.when(counted).then("rows").otherwise(0)))

    judged = draft.filter(pl.col("compares").is_not_null() & (~fallen | (pl.col("kind") == LEFT_OUT)))
    judged = judged.group_by("context", "split").agg(records=pl.len(), comparing=pl.col("compares").sum())
    wording: Wording = {}
    for context, split, records, comparing in judged.sort("context", "split").iter_rows():
        wording.setdefault(context, {})[split] = {"records": records, "comparing": comparing}
    return draft.filter(~fallen), wording
