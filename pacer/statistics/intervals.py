"""Scores of ``cases.parquet`` as sums over its rows, by context and patient, their intervals, and
what to check before trusting them."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pacer.core.exchange import exchange
from pacer.metrics.cases import MEAN, UNKNOWN, by_context, contexts_of
from pacer.metrics.conventions import CONVENTIONS
from pacer.metrics.score_kinds import Score
from pacer.metrics.scores import score_of, scores_with_intervals
from pacer.statistics.halves import (
    Difference,
    Interval,
    Key,
    Summed,
    by_unit,
    differences,
    intervals,
)

#: Units that may be split into halves, the coarsest first, with their names in tables.
UNITS = {"subject": "patients", "study": "examinations", "record": "records"}
#: Share of reports that may stay the same when given another patient's sources.
UNCHANGED = 0.5
#: The control that gives each case another patient's sources.
_CONTROL = "another_patient"


def _most_frequent_share(texts: pl.Series) -> Any:
    return texts.value_counts()["count"].to_numpy().max() / len(texts)


def _mean_share(shares: pl.Series) -> Any:
    return shares.mean()


def _empty_share(lists: pl.Series) -> Any:
    return (lists.list.len() == 0).mean()


class _Beside(NamedTuple):
    """A warning about a ``share`` of two columns, that of the reports or commitments and that of
    the references; ``is_off``: the condition on both shares."""

    words: str
    columns: tuple[str, str]
    share: Callable[[pl.Series], Any]
    is_off: Callable[[float, float], bool]


_BESIDE_REFERENCES = (
    _Beside(
        "Many reports are identical",
        ("hypothesis", "reference"),
        _most_frequent_share,
        lambda share, expected: share - expected >= 0.25,
    ),
    _Beside(
        "Many words repeat the words just before them, or an earlier sentence",
        ("hypothesis_repetition", "reference_repetition"),
        _mean_share,
        lambda share, expected: share - expected >= 0.05,
    ),
    _Beside(
        "Commitments affirm nothing far more or less often than references; see decode.list_bias "
        "and decode.threshold",
        ("anchor_positive", "reference_positive"),
        _empty_share,
        lambda share, expected: abs(share - expected) > max(expected / 2, 0.05),
    ),
)


@dataclass(frozen=True)
class Intervals:
    """``scores``: context (and ``mean``) -> score -> interval. ``unit``: what was split into
    halves; ``units``: how many. ``note``: see :class:`Units`."""

    scores: dict[str, dict[str, Interval]]
    unit: str
    units: int
    resamples: int
    note: str = ""


def score_intervals(
    cases: pl.DataFrame,
    convention: str,
    resamples: int = 10_000,
    columns: Sequence[str] = (),
    without: Collection[str] = (),
) -> Intervals:
    """Return the intervals of scores by context, and for the mean of the contexts. ``columns`` and
    ``without``: as for :func:`~pacer.metrics.scores.scores_with_intervals`."""
    units = units_of(cases)
    summed = context_sums(cases, convention, scores_with_intervals(cases, columns, without), units)
    scores = intervals(summed, resamples)
    # with one of the four contexts, its intervals are also those of the mean; `all` has no mean
    if len(scores) == 1 and UNKNOWN not in scores:
        scores[MEAN] = next(iter(scores.values()))
    return Intervals(scores, units.name, units.count, resamples, units.note)


class Units(NamedTuple):
    """The unit that is split into halves, one of :data:`UNITS`; ``codes``: its index in each row
    ``[n]``; ``count``: how many; ``without_id``: rows whose id is blank."""

    name: str
    codes: np.ndarray
    count: int
    without_id: int

    @property
    def note(self) -> str:
        """A sentence on the records whose id is blank; empty if there are none."""
        units = UNITS[self.name]
        return (
            f"{self.without_id:,} of {len(self.codes):,} records have no {units[:-1]} id and count "
            f"as {units} of their own"
            if self.without_id
            else ""
        )


def units_of(cases: pl.DataFrame) -> Units:
    """Return the coarsest unit that is known for any record. A record without its id is grouped by
    study or, without a study id, is a unit of its own."""
    ids = {
        unit: pl.when(_id(unit).str.strip_chars() != "").then(_id(unit))
        for unit in UNITS
        if f"{unit}_id" in cases.columns
    }
    known = cases.select(**ids)
    names = [unit for unit in ids if known[unit].count()]
    named = known.select(pl.coalesce(pl.format(f"{unit} {{}}", unit) for unit in names))
    codes = named.to_series().rank("dense").to_numpy().astype(int) - 1
    return Units(names[0], codes, int(codes.max()) + 1, known[names[0]].null_count())


def _id(unit: str) -> pl.Expr:
    return pl.col(f"{unit}_id").cast(pl.String)  # a column of nulls has no texts


def context_sums(
    cases: pl.DataFrame, convention: str, scores: Iterable[Score], units: Units
) -> dict[Key, Summed]:
    """Return the ``scores`` that have sums, by context and over units."""
    rule = CONVENTIONS[convention]
    chosen = [(score, score.sums) for score in scores if score.sums is not None]
    found: dict[Key, Summed] = {}
    functions = {sums.per_case: score.needs for score, sums in chosen}  # scores share them
    for context, part in by_context(cases).items():
        codes = units.codes[(cases["context"] == context).to_numpy()]
        records = np.bincount(codes, minlength=units.count)
        tables = {
            per_case: by_unit(per_case(part.select(needs), rule), codes, units.count)
            for per_case, needs in functions.items()
        }
        for score, sums in chosen:
            found[context, score.key] = Summed(
                tables[sums.per_case],
                lambda total, score=sums.score: score(total, rule),
                sums.counted,
                records,
            )
    return found


def warnings(cases: pl.DataFrame, convention: str) -> list[str]:
    """Return a sentence for each reason not to trust the scores."""
    sentences = []
    contexts = by_context(cases)
    for one in _BESIDE_REFERENCES:
        beyond = []
        for context, part in contexts.items():
            if {*one.columns} <= {*part.columns}:
                share, expected = (one.share(part[column]) for column in one.columns)
                if share is not None and expected is not None and one.is_off(share, expected):
                    beyond.append(f"{context.upper()} {share:.0%} (references {expected:.0%})")
        if beyond:
            sentences.append(f"{one.words}: {', '.join(beyond)}.")
    control = f"{_CONTROL}_labels" in cases.columns
    if unmoved := [
        f"{context.upper()} {share:.0%}"
        for context, share in unchanged_shares(cases, _CONTROL).items()
        if share >= UNCHANGED
    ]:
        sentences.append(
            f"Reports stay the same with another patient's sources: {', '.join(unmoved)}."
        )
    blind = [
        context.upper()
        for context, gain in source_gains(cases, convention).items()
        if (gain.low or 0) <= 0
    ]
    if blind:
        sentences.append(
            "F1 with the case's own sources is not shown to be above F1 with another patient's "
            f"(the 95% interval of the difference includes 0): {', '.join(blind)}."
        )
    for name, contexts in at_chance(cases, convention).items():
        if name == "Reports" and control:  # the sentences above cover it
            continue
        sentences.append(
            f"F1 of {name.lower()} is not shown to be above F1 with other patients' references: "
            f"{', '.join(contexts)}."
        )
    return sentences


def unchanged_shares(cases: pl.DataFrame, control: str) -> dict[str, float]:
    """Return the share of the reports of a control that equal those from the case's own sources, by
    the contexts in which it was run."""
    column = f"{control}_unchanged"
    if column not in cases.columns:
        return {}
    shares = {name: part[column].mean() for name, part in by_context(cases).items()}
    return {name: share for name, share in shares.items() if isinstance(share, float)}


def at_chance(cases: pl.DataFrame, convention: str) -> dict[str, list[str]]:
    """Return the contexts in which commitments, or reports, agree with their own references no
    better than with those of other patients. Contexts whose references affirm nothing are left out;
    cases without a commitment, or of unknown patients, do not count."""
    if "subject_id" not in cases.columns:
        return {}
    without_gain = {}
    for name, side in (("Commitments", "anchor"), ("Reports", "report")):
        stated = f"{side}_positive"
        ids = [name for name in cases.columns if name in ("record_id", "study_id", "subject_id")]
        known = cases.select(*ids, "context", "reference_positive", stated).drop_nulls(stated)
        others = exchange(known, ["reference_positive"], ["context"])
        others = others.filter(pl.col("reference_positive").list.len().sum().over("context") > 0)
        if others.is_empty():  # also where one patient has more than half of the records
            continue
        given = others.select("record_id").join(
            known, on="record_id", how="left", maintain_order="left"
        )
        score = f"{stated}_f1"
        compared = gains(given, others, convention, [score])
        if contexts := [
            context.upper()
            for context in contexts_of(given)
            if (compared[context][score].low or 0) <= 0
        ]:
            without_gain[name] = contexts
    return without_gain


def source_gains(cases: pl.DataFrame, convention: str) -> dict[str, Difference]:
    """Return F1 with another patient's and with the case's own sources, by context; empty without
    the control."""
    column = f"{_CONTROL}_labels"
    if column not in cases.columns:
        return {}
    cases = cases.filter(pl.col(column).is_not_null())
    compared = gains(cases, cases.with_columns(hypothesis_labels=column), convention, ["f1"])
    return {context: compared[context]["f1"] for context in by_context(cases)}


def gains(
    given: pl.DataFrame,
    twins: pl.DataFrame,
    convention: str,
    scores: Sequence[str],
    resamples: int = 10_000,
) -> dict[str, dict[str, Difference]]:
    """Return the scores of ``twins`` (``first``) and of ``given`` (``second``), which have the same
    records in the same order, and their differences, by context and for the mean."""
    chosen, units = list(map(score_of, scores)), units_of(given)
    first, second = (context_sums(cases, convention, chosen, units) for cases in (twins, given))
    return differences(first, second, resamples)
