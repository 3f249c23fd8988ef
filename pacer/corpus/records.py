"""Conversion of examinations to records: joins, cleans and checks targets and previous reports; one
row per context.

``build_corpus.py`` calls :func:`draft_records`, looks at the images of the draft, and then calls
:func:`drop_invalid`. Reports of the corpus are cleaned only here. All contexts of an examination
share the same text, except that ``corpus.unseen_comparisons: strip`` removes sentences in the
contexts without a previous report.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from pacer.config import Corpus
from pacer.core.contexts import CONTEXTS, availability
from pacer.core.schemas import PRIOR_SCHEMA
from pacer.corpus.account import BAD, LEFT_OUT, Notes, Rows, fault_where
from pacer.corpus.checks import note_texts
from pacer.tables.hygiene import (
    CONTROL,
    ENGLISH,
    LINE_ENDS,
    fault_of,
    id_fault,
    is_absent,
)
from pacer.tables.values import bare_id, mapped, quoted
from pacer.text.cleaning.cleaners import CLEANERS, changed_number, has_content, without_sentences
from pacer.text.cleaning.wording import compares_with_prior

#: Columns of the frame that every reader returns. A row is one examination, also called a study
#: here. Several rows may have one ``study_id``: in MIMIC-RG4 each context of a study has a row and
#: a text of its own. Texts are unchanged, and may be blank; any other absent value is null.
STUDY_SCHEMA: dict[str, pl.DataType] = {
    "file": pl.String(),
    "row": pl.String(),  # as in problems.csv
    "rows": pl.Int64(),  # number of input rows behind the examination
    "id": pl.String(),  # may occur once in each context; `drop_invalid` refuses repeats
    # contexts in which the examination has a record; null: all that the lateral view and the texts
    # of the previous report allow
    "contexts": pl.List(pl.String()),
    "split": pl.String(),  # train | val | test; null: drawn by subject
    "study_id": pl.String(),  # never null
    "subject_id": pl.String(),  # never null
    "day": pl.Date(),  # null if the input has no dates
    "view": pl.String(),  # AP | PA | other
    "frontal": pl.String(),  # path relative to the image folder
    "lateral": pl.String(),
    "findings": pl.String(),
    "impression": pl.String(),
    "prior_findings": pl.String(),
    "prior_impression": pl.String(),
    "indication": pl.String(),
    "history": pl.String(),
    # per token of the cleaned findings and impression, BOS first
    "emphasis": pl.List(pl.Float32()),
    **PRIOR_SCHEMA,  # null if the input has only the text
}

#: Text sections of an examination.
_TEXTS = ("findings", "impression", "indication", "history", "prior_findings", "prior_impression")
#: The sections that are joined to form a target.
_TARGET = ("findings", "target_impression")
#: The names of the sections that are present, joined; null if there are none.
_SECTIONS = pl.concat_str(
    pl.when(pl.col("findings").is_not_null()).then(pl.lit("findings")),
    pl.when(pl.col("target_impression").is_not_null()).then(pl.lit("impression")),
    separator="+",
    ignore_nulls=True,
).replace("", None)
#: In MIMIC-RG4, a previous report without any section is this letter; cleaned, it is "s .".
_ABSENT_PRIOR = "s"
_EMPTY_PRIOR = "the context needs a previous report, but it is empty (see corpus.keep_empty_priors)"
_ALL_COMPARES = "every sentence presupposes a previous report (corpus.unseen_comparisons: strip)"

#: Matches every text in which a cleaner can change a number. Examples, one for each alternative:
#: ``2.5 cm``, ``.5 cm``, ``in 2021. New``, ``rib 2. No``.
_MAY_CHANGE = r"\d[.,/]\d|(?:^|[^\w.])\.\d|\d1\. |[^.!?:;\s]\s[1-5]\. "

#: Whether a context (sn, sw, mn, mw) includes the lateral view, and the previous report.
_HAS_LATERAL = pl.col("context").str.starts_with("m")
_HAS_PRIOR = pl.col("context").str.ends_with("w")
_NO_CONTEXT = pl.col("contexts").list.len() == 0


def draft_records(
    studies: Rows,
    config: Corpus,
    names: Mapping[str, str],
    originals: pl.DataFrame,
    notes: Notes,
) -> Rows:
    """Create the records of the examinations; list every examination without one, or count it as
    beyond the limit. Count empty previous reports.

    Args:
        studies: the rows that a reader returns, one per examination.
        names: the input's names for the columns of examinations, for messages.
        originals: ``study_id`` without MIMIC's "s" before it, and ``findings_original``, the
            findings section of MIMIC-CXR as it was before anything was cleaned.

    Returns:
        Records, whose ``record_id`` may repeat and whose images are unchecked, with the columns of
        ``records.parquet``, those of the examinations, and ``examination`` (the number of the
        examination's row), ``compares`` (whether the target presupposes a previous report; null if
        the context has one) and ``nothing_left`` (whether no sentence of the target remains without
        comparisons).
    """
    rows = studies._replace(used=study_frame(studies.used, config))
    rows = _checked(rows, config, names, notes)
    rows = _with_target(rows, config, names, notes)
    rows = _with_prior(rows, config, names, notes)
    studies_in_use = rows.used.with_columns(bare=bare_id("study_id"))
    studies_in_use = studies_in_use.join(
        originals, left_on="bare", right_on="study_id", how="left", maintain_order="left"
    )
    draft = studies_in_use.with_row_index("examination").explode("contexts")
    draft = draft.rename({"contexts": "context"})
    if config.limit is not None:
        # the rank of a study_id within its context and split, from 1; all rows with one study_id
        # take the rank of the first
        rank = pl.col("study_id").is_first_distinct().cum_sum().over("context", "split")
        draft = draft.with_columns(rank=rank).filter(
            pl.col("rank").first().over("context", "split", "study_id") <= config.limit
        )
        draft = draft.drop("rank")
    notes.empty_priors = int(studies_in_use["is_prior_empty"].sum())
    num_drafted = int(draft.unique("examination")["rows"].sum())
    notes.beyond_limit = int(studies_in_use["rows"].sum()) - num_drafted
    rows = rows._replace(used=_without_comparisons(draft, config))
    return rows.with_columns(
        record_id=pl.format("{}-{}", "context", "id"),
        lateral=pl.when(_HAS_LATERAL).then("lateral"),
        prior_report=pl.when(_HAS_PRIOR).then("prior_report"),
    )


def study_frame(studies: pl.DataFrame, config: Corpus) -> pl.DataFrame:
    """Complete a reader's frame to :data:`STUDY_SCHEMA`: missing columns become null and ``rows``
    1, and missing contexts and splits are filled in."""
    absent = {
        name: pl.lit(None, kind)
        for name, kind in STUDY_SCHEMA.items()
        if name not in studies.columns
    }
    studies = studies.with_columns(**absent).with_columns(pl.col("rows").fill_null(1))
    shares = config.split
    drawn = mapped(
        "subject_id", lambda subject: seeded_split(subject, config.seed, shares.val, shares.test)
    )
    contexts = []
    for context in CONTEXTS:
        needs_lateral, needs_prior = availability(context)
        # always true; a literal would make a row in an empty table (polars before 2)
        is_possible = pl.col("rows").is_not_null()
        if needs_lateral:
            is_possible &= pl.col("lateral").is_not_null()
        if needs_prior:
            is_possible &= pl.coalesce("prior_findings", "prior_impression").is_not_null()
        contexts.append(pl.when(is_possible).then(pl.lit(context)))
    return studies.with_columns(
        split=pl.coalesce("split", drawn) if studies["split"].null_count() else pl.col("split"),
        contexts=pl.coalesce("contexts", pl.concat_list(contexts).list.drop_nulls()),
    ).select(pl.col(name).cast(kind) for name, kind in STUDY_SCHEMA.items())


def seeded_split(subject_id: str, seed: int, val: float, test: float) -> str:
    """Return the split of a subject: ``train``, ``val`` or ``test``.

    A keyed hash maps the id to [0, 1); test is the lower end and val the upper end. So adding or
    removing subjects does not move others, and a larger share of val or test takes subjects only
    from train. Shares hold in expectation.
    """
    key = hashlib.blake2b(str(seed).encode()).digest()
    digest = hashlib.blake2b(
        subject_id.encode("utf-8", "surrogatepass"), digest_size=8, key=key
    ).digest()
    # a float holds 53 bits exactly, so the value stays below 1
    place = (int.from_bytes(digest, "big") >> 11) / 2**53
    if place < test:
        return "test"
    return "val" if place >= 1 - val else "train"


def _checked(studies: Rows, config: Corpus, names: Mapping[str, str], notes: Notes) -> Rows:
    """Keep the examinations with valid ids and texts and at least one enabled context. Texts such
    as ``N/A``, and blank sections of the examination itself, become null."""
    for name in ("id", "study_id", "subject_id"):  # no reader gives these another name
        fault = mapped(name, id_fault)
        studies = studies.exclude(name, fault.is_not_null(), fault)

    def stands_for_no_text(text: str) -> bool:
        # a text without letters and digits stays in MIMIC-RG4: LLM-RG4 cleans it like any other,
        # and the released emphasis (`new_scores`) belongs to the cleaned text
        stays = config.format == "rg4" and not has_content(text)
        return is_absent(text) and not stays

    # of the cleaners, only `decimals` takes the ends of lines for ends of sentences
    line_end = "\n" if config.cleaner == "decimals" else " "
    studies = studies.with_columns(pl.col(_TEXTS).str.replace_all(LINE_ENDS, line_end))
    for name in _TEXTS:
        own = pl.col("prior_study_id").is_null() | pl.lit(not name.startswith("prior"))
        texts = studies.used.filter(own).select("row", pl.col(name).alias(names.get(name, name)))
        note_texts(texts, [names.get(name, name)], notes)
        field = names.get(name, name)  # the input's name for the column
        has_control = pl.col(name).str.contains(CONTROL)
        studies = studies.exclude(field, has_control, mapped(name, fault_of))
        studies = studies._replace(
            used=notes.null_if_absent(studies.used, name, stands_for_no_text)
        )
    # blank sections of previous reports stay, because they are joined as LLM-RG4 joins them
    studies = studies.with_columns(
        pl.when(pl.col(name).str.contains(r"\S")).then(name).alias(name)
        for name in _TEXTS
        if not name.startswith("prior")
    )
    studies = studies.with_columns(_contexts_where(pl.element().is_in(config.contexts)))
    return studies.exclude(
        "", _NO_CONTEXT, "its sources match no context in corpus.contexts", LEFT_OUT
    )


def _with_target(studies: Rows, config: Corpus, names: Mapping[str, str], notes: Notes) -> Rows:
    """Keep the examinations that have a target and do not give one file as both views; add
    ``target_impression``, ``report_raw``, ``sections``, ``report``, and ``emphasis_text`` if the
    emphasis covers more text than the target."""
    findings_only = config.target == "findings"
    clean = CLEANERS[config.cleaner]
    field = names.get("findings", "findings")
    has_both = pl.col("findings").is_not_null() & pl.col("impression").is_not_null()
    covers_more = has_both & pl.col("emphasis").is_not_null() & pl.lit(findings_only)
    studies = studies.with_columns(
        target_impression=pl.lit(None, pl.String) if findings_only else pl.col("impression"),
        emphasis_text=pl.when(covers_more).then(_joined("findings", "impression", config)),
    )
    if findings_only:
        has_only_impression = pl.col("findings").is_null() & pl.col("impression").is_not_null()
        studies = studies.exclude(
            "", has_only_impression, "no findings section (corpus.target: findings)", LEFT_OUT
        )
    is_same = pl.col("lateral") == pl.col("frontal")
    reason = "the same file is given as both frontal and lateral"
    studies = studies.exclude(names.get("lateral", "lateral"), is_same, reason)
    studies = studies.with_columns(report_raw=_joined(*_TARGET, config), sections=_SECTIONS)
    # the released files of MIMIC-RG4 should have a text for every record
    kind = BAD if config.format == "rg4" else LEFT_OUT
    has_no_target = pl.col("report_raw").is_null()
    studies = studies.exclude(
        field if kind == BAD else "", has_no_target, "neither findings nor impression", kind
    )
    studies = studies.with_columns(
        report=mapped("report_raw", clean), emphasis_text=mapped("emphasis_text", clean)
    )
    may_change = studies.used.filter(pl.col("report_raw").str.contains(_MAY_CHANGE)).select(
        "report_raw", "report", "id"
    )
    numbers = [(changed_number(raw, cleaned), id) for raw, cleaned, id in may_change.iter_rows()]
    changed = [f"for example {number} in {id}" for number, id in numbers if number]
    if changed:
        notes.count("changed_numbers", "targets", changed[0], len(changed))
    foreign = studies.used.filter(~pl.col("report").str.contains(ENGLISH))["id"]
    notes.count_first("not_english", "targets", (("targets", id) for id in foreign))
    is_empty = ~_has_content("report")
    # bad, because the input has a text for the target; a row without any (above) may be valid
    return studies.exclude(field, is_empty, "the target report is empty after cleaning", BAD)


def _with_prior(studies: Rows, config: Corpus, names: Mapping[str, str], notes: Notes) -> Rows:
    """Add ``prior_report``, and ``is_prior_empty``, which is true if a context needs a previous
    report that has no text. In such an examination, remove the contexts that need one; or, with
    ``corpus.keep_empty_priors``, keep them and give the previous report MIMIC-RG4's letter."""
    clean = CLEANERS[config.cleaner]
    studies = studies.with_columns(prior_raw=_joined("prior_findings", "prior_impression", config))
    studies = studies.with_columns(prior_report=mapped("prior_raw", clean).fill_null(""))
    wants_prior = pl.col("contexts").list.eval(pl.element().str.ends_with("w")).list.any()
    studies = studies.with_columns(is_prior_empty=wants_prior & ~_has_content("prior_report"))
    is_empty = pl.col("is_prior_empty")
    if config.keep_empty_priors:
        # without any section, the cleaned text is empty, and gets the letter; a section that is
        # blank or has only punctuation is " ." once it is cleaned, and stays so
        has_no_section = is_empty & (pl.col("prior_report") == "")
        letter = pl.lit(clean(_ABSENT_PRIOR))
        return studies.with_columns(
            prior_report=pl.when(has_no_section).then(letter).otherwise("prior_report")
        )
    without_prior = _contexts_where(~pl.element().str.ends_with("w"))
    studies = studies.with_columns(
        contexts=pl.when(is_empty).then(without_prior).otherwise("contexts")
    )
    # without a column of its own, the previous report is that of another row
    field = names.get("prior_findings", "")
    # `_checked` has excluded the examinations without any context, so only these have none now.
    # They are bad, because the input has a text of a previous report, or a context that needs one
    return studies.exclude(field, _NO_CONTEXT, _EMPTY_PRIOR, BAD)


def _contexts_where(wanted: pl.Expr) -> pl.Expr:
    """Return the contexts for which an expression of their element holds."""
    return pl.col("contexts").list.eval(pl.element().filter(wanted))


def _joined(findings: str, impression: str, config: Corpus) -> pl.Expr:
    """Join the texts of the sections that are present; null if there are none. If the findings do
    not end with a sentence, a blank line follows them for the cleaner ``decimals``, which takes it
    for the end of one."""
    is_open = ~pl.col(findings).str.contains(r"[.!?]\s*$") & pl.lit(config.cleaner == "decimals")
    divider = pl.when(is_open).then(pl.lit("\n\n")).otherwise(pl.lit(" "))
    return pl.coalesce(pl.col(findings) + divider + pl.col(impression), findings, impression)


def _has_content(column: str) -> pl.Expr:
    return mapped(column, has_content, pl.Boolean)


def _without_comparisons(draft: pl.DataFrame, config: Corpus) -> pl.DataFrame:
    """Apply ``corpus.unseen_comparisons`` to the targets of the contexts without a previous
    report."""
    unseen = draft.filter(~_HAS_PRIOR).unique("examination", keep="first", maintain_order=True)
    unseen = unseen.select(
        "examination", *_TARGET, compares=mapped("report_raw", compares_with_prior, pl.Boolean)
    )
    draft = draft.join(
        unseen.select("examination", "compares"),
        on="examination",
        how="left",
        maintain_order="left",
    )
    draft = draft.with_columns(compares=pl.when(~_HAS_PRIOR).then("compares"))
    if config.unseen_comparisons == "keep":
        return draft.with_columns(nothing_left=pl.lit(False))
    # a section of which no sentence remains becomes null
    stripped = unseen.filter("compares").with_columns(
        mapped(column, lambda text: without_sentences(text, compares_with_prior))
        for column in _TARGET
    )
    stripped = stripped.select(
        "examination", report_raw=_joined(*_TARGET, config), sections=_SECTIONS
    )
    stripped = stripped.with_columns(report=mapped("report_raw", CLEANERS[config.cleaner]))
    stripped = stripped.filter(_has_content("report"))
    draft = draft.join(
        stripped, on="examination", how="left", maintain_order="left", suffix="_stripped"
    )
    is_stripped = pl.col("compares") & pl.col("report_stripped").is_not_null()
    return draft.with_columns(
        *(
            pl.when(is_stripped).then(f"{name}_stripped").otherwise(name).alias(name)
            for name in ("report", "report_raw", "sections")
        ),
        # stripped reports lose the emphasis, whose weights belong to the tokens of the whole report
        *(
            pl.when(is_stripped).then(None).otherwise(name).alias(name)
            for name in ("emphasis", "emphasis_text")
        ),
        nothing_left=pl.col("compares").fill_null(False) & pl.col("report_stripped").is_null(),
    )


def drop_invalid(
    rows: Rows,
    unusable: pl.DataFrame,
    folder: Path,
    names: Mapping[str, str],
    notes: Notes,
) -> Rows:
    """Keep the valid records of a draft; ``notes`` gets the number of targets that presuppose a
    previous report but have none.

    An examination can have records in several contexts. Its rows count as excluded only if all its
    records are excluded. Of each record, only the first fault is listed: a repeated id, the
    frontal image, the lateral image, or nothing left. A bad image is listed once per examination,
    and so is an examination of which nothing is left. The targets that are counted
    (``notes.wording``) include those that are stripped, or of which nothing is left.

    Args:
        unusable: ``image_id`` and ``problem`` of images that cannot be used.
        folder: the folder of the images.
    """
    draft = rows.used
    path = mapped("image_id", lambda path: quoted(path, longest=200, words=1))
    unusable = unusable.select(
        "image_id", "problem", image_place=pl.format("{} below {}", path, pl.lit(str(folder)))
    )
    for view in ("frontal", "lateral"):
        draft = draft.join(
            unusable, left_on=view, right_on="image_id", how="left", maintain_order="left"
        )
        draft = draft.rename({"problem": f"{view}_problem", "image_place": f"{view}_place"})

    row_place = pl.format("{} of {} {}", mapped("record_id", quoted), "file", "row")
    is_repeated = ~pl.col("record_id").is_first_distinct()
    first_place = row_place.first().over("record_id")
    faults = [
        fault_where(is_repeated, "id", "the record id occurs more than once", first_place),
        *(
            fault_where(
                pl.col(f"{view}_problem").is_not_null(),
                names.get(view, view),
                pl.col(f"{view}_problem"),
                pl.col(f"{view}_place"),
            )
            for view in ("frontal", "lateral")
        ),
        fault_where(pl.col("nothing_left"), "", _ALL_COMPARES),
    ]
    is_excluded = pl.col("fault").is_not_null()
    draft = draft.with_columns(fault=pl.coalesce(faults)).with_columns(
        is_lost=is_excluded.all().over("examination")
    )
    is_left_out = pl.col("reason") == _ALL_COMPARES
    listed = (
        draft.filter(is_excluded)
        .unnest("fault")
        .with_columns(kind=pl.when(is_left_out).then(pl.lit(LEFT_OUT)).otherwise(pl.lit(BAD)))
    )
    # one bad image, or nothing left, is listed once for all records of an examination; repeated ids
    # stay apart, because their `value` holds the record id
    listed = listed.unique(["examination", "value", "reason"], keep="first", maintain_order=True)
    is_counted = pl.col("is_lost") & pl.col("examination").is_first_distinct()
    listed = listed.with_columns(rows=pl.when(is_counted).then("rows").otherwise(0))

    counts_for_wording = ~is_excluded | (pl.col("fault").struct.field("reason") == _ALL_COMPARES)
    judged = draft.filter(pl.col("compares").is_not_null() & counts_for_wording).group_by("context")
    counts = judged.agg(pl.col("compares").sum(), records=pl.len())
    notes.wording = {
        context: (num_comparing, num_all) for context, num_comparing, num_all in counts.iter_rows()
    }
    return rows.with_lines(listed)._replace(used=draft.filter(~is_excluded))
