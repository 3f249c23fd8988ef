"""What a metric makes of the cards: for each kind of fault whether it sees it, is blind to it or
rewards it, and what other words for the same facts cost.

A text is only compared with texts of the same reference. Intervals are over patients.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from pacer.display.numbers import number
from pacer.display.tables import Table
from pacer.extras.certify.cards import FAULTS, OPPOSITE, UNCHANGED, WORDS
from pacer.metrics.cases import UNKNOWN
from pacer.metrics.options import DEFAULTS
from pacer.reporting.charts import interval_chart
from pacer.statistics.halves import score_intervals

#: What is measured of a kind of text: the share of pairs in which the text with one fault scores
#: below a reworded one, and of references in which it scores below the unchanged text, ties as
#: halves; the mean fall of the score from the unchanged text to the one with a fault or with other
#: words; the mean change of the score with each fault more; the cost of other words in units of the
#: mean cost of one fault.
MEASURES = ("below", "lowered", "cost", "by dose", "in faults")
#: The two tables by title: the measure that is printed with its interval, and what follows it.
TABLES = {
    "Verdict, share of pairs": ("below", {"lowered": "lowered {}"}),
    "Cost of one text": ("cost", {"by dose": "{} per fault", "in faults": "{} faults"}),
}
#: How to read the tables of texts with other words, and those with faults as well.
NOTES_ON_WORDS = """\
Cost: score of the unchanged text minus that of the text with other words. In parentheses: 95%
intervals over patients."""
NOTES = """\
Share of pairs: a text with one fault scores below the same facts in other words; lowered: it scores
below the unchanged text. Ties are halves; 0.5 is chance. Cost: score of the unchanged text minus
that of the text with one fault, or with other words; faults: in units of the mean cost of one
fault. Per fault: change of the score, over references with room for three. In parentheses: 95%
intervals over patients.
sees: both shares are above 0.5 (the whole intervals). rewards: a fault raises the score (share
lowered below 0.5); or it lowers the score, but other words for the same facts lower it more (share
of pairs below 0.5). blind: neither is shown.
Texts in which the rules of this package do not read the planted change of findings are left out.
This favours scores by these rules, such as exact_f1."""
#: What a metric makes of each kind of text: the ``verdict``, and those of :data:`MEASURES` that it
#: has, each an Interval.
Judged = Mapping[str, Mapping[str, Any]]


def judge(cards: pl.DataFrame, scores: np.ndarray) -> Judged:
    """Return what a metric makes of each kind of text. ``scores``: one for each card, of which
    higher ones are better; NaN: undefined."""
    kinds = (UNCHANGED, *FAULTS, *WORDS)
    names = [f"{kind} {dose}" for kind in kinds for dose in range(4)]
    texts = cards.with_columns(name=pl.format("{} {}", "kind", "dose"), score=scores)
    texts = texts.fill_nan(None).pivot(
        "name",
        on_columns=names,
        index=["patient_id", "reference"],
        values="score",
        aggregate_function="first",  # the user's reports can be alike without the signs of a list
    )
    unchanged = pl.col(f"{UNCHANGED} 0")
    values = {f"cost {kind}": unchanged - pl.col(f"{kind} 1") for kind in FAULTS}
    costs = [cost.mean() for cost in values.values()]
    fault = pl.mean_horizontal(costs)
    is_unit = (pl.min_horizontal(costs) >= 0) & (fault > 0)  # no fault is rewarded
    is_natural = pl.col(f"{OPPOSITE} 1").is_null()  # the references of opposites are lists
    for kind in WORDS:
        values[f"cost {kind}"] = pl.when(is_natural).then(unchanged - pl.col(f"{kind} 0"))
        values[f"in faults {kind}"] = values[f"cost {kind}"] / pl.when(is_unit).then(fault)
    for kind in FAULTS:
        one, two, three = (pl.col(f"{kind} {dose}") for dose in (1, 2, 3))
        # scores that are equal to nine decimals are equal: rounding errors must not decide
        above = [(pl.col(f"{of} 0") - one).round(9).sign() / 2 + 0.5 for of in (UNCHANGED, *WORDS)]
        values[f"lowered {kind}"] = above[0]
        values[f"below {kind}"] = pl.mean_horizontal(*above[1:])
        values[f"by dose {kind}"] = 0.3 * (three - unchanged) + 0.1 * (two - one)
    cases = texts.select(**values, subject_id="patient_id", context=pl.lit(UNKNOWN))
    found = score_intervals(cases, DEFAULTS.convention, columns=[*values]).scores[UNKNOWN]
    judged = {}
    for kind in kinds[1:]:
        if kind in cards["kind"]:
            known = {of: found[f"{of} {kind}"] for of in MEASURES if f"{of} {kind}" in found}
            judged[kind] = {"verdict": verdict(known), **known}
    return judged


def verdict(known: Mapping[str, Any]) -> str:
    """Return what both shares of a kind of fault show; empty for other words, and without
    intervals."""
    lowered, below = known.get("lowered"), known.get("below")
    if not lowered or not below or None in (lowered.low, below.low):
        return ""
    if lowered.low > 0.5 and below.low > 0.5:
        return "sees"
    if lowered.high < 0.5 or (lowered.low > 0.5 and below.high < 0.5):
        return "rewards"
    return "blind"


def tables(judged: Mapping[str, Judged]) -> list[Table]:
    """Return those of the :data:`TABLES` for which there are texts: a line for each kind, a column
    for each metric."""
    found = []
    for title, (measure, others) in TABLES.items():
        lines = [
            (kind, *(_cell(of[kind], measure, others) for of in judged.values()))
            for kind, known in next(iter(judged.values())).items()
            if measure in known
        ]
        if lines:
            found.append(Table((title, *judged), tuple(lines)))
    return found


def notes(judged: Mapping[str, Judged]) -> str:
    """Return how to read the tables. References of a user have no texts with faults."""
    has_faults = any(kind in FAULTS for of in judged.values() for kind in of)
    return NOTES if has_faults else NOTES_ON_WORDS


def _cell(known: Mapping[str, Any], measure: str, others: Mapping[str, str]) -> str:
    """Format a measure with its interval, and others without; the share of pairs after the
    verdict."""
    one = known[measure]
    text = f"{known['verdict']} {number(one.value)}" if measure == "below" else number(one.value)
    if one.low is not None:
        text += f" ({number(one.low)}…{number(one.high)})"
    further = (
        form.format(number(known[name].value))
        for name, form in others.items()
        if name in known and known[name].value is not None
    )
    return ", ".join((text, *further))


def chart(judged: Mapping[str, Judged]) -> str:
    """Draw the share of pairs in which a text with one fault scores below a reworded one, with its
    interval, a colour for each metric."""
    points = {
        name: {kind: of[kind]["below"] for kind in FAULTS if kind in of}
        for name, of in judged.items()
    }
    label = "share of texts with one fault that score below other words for the same facts"
    return interval_chart([*FAULTS], points, label, 2.0 + len(points), line=0.5)
