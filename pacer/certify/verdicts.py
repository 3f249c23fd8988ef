"""What a metric makes of the cards: for each kind of fault whether it sees it, is blind to it or
rewards it, and what other words for the same facts cost.

A text is only compared with texts of the same reference. Intervals are over patients.
"""

from collections.abc import Mapping

import numpy as np
import polars as pl

from pacer.certify.cards import FAULTS, UNCHANGED, WORDS
from pacer.display.numbers import number
from pacer.display.tables import Table
from pacer.metrics.cases import UNKNOWN
from pacer.metrics.options import DEFAULTS
from pacer.metrics.score_kinds import mean, mean_rows
from pacer.metrics.statistics.halves import Interval
from pacer.metrics.statistics.intervals import score_intervals
from pacer.reporting.charts import interval_chart

#: What is measured of a kind of text, with the title of its table: the share of pairs in which the
#: text with one fault scores below a reworded one, ties as halves; the mean fall of the score from
#: the unchanged text to the one with a fault or with other words; the mean change of the score with
#: each fault more; the cost of other words in units of the mean cost of one fault.
MEASURES = {
    "below": "Verdict, share of pairs",
    "cost": "Cost of one text",
    "by dose": "Change with each fault",
    "in faults": "Cost in faults",
}
#: How to read the tables.
NOTES = (
    "Share of pairs: a text with one fault scores below the same facts in other words (ties are "
    "halves; 0.5 is chance). Cost: score of the unchanged text minus that of the text with one "
    "fault, or with other words; in faults: in units of the mean cost of one fault. Change with "
    "each fault: over references with room for three. In brackets: 95 % intervals over patients.",
    "sees: the cost of a fault is above 0, and the share above 0.5 (the whole intervals). rewards: "
    "the cost is below 0; or it is above 0 and the share below 0.5, so that other words for the "
    "same facts cost more. blind: neither is shown.",
)
#: Scores that are equal to so many decimals are equal: rounding errors must not decide.
_DECIMALS = 9
#: Weights of the scores at doses 0 to 3 in the slope of a straight line.
_SLOPE = np.array([-0.3, -0.1, 0.1, 0.3])
#: What a metric makes of each kind of text: those of :data:`MEASURES` that it has.
Judged = Mapping[str, Mapping[str, Interval]]


def judge(cards: pl.DataFrame, scores: np.ndarray) -> Judged:
    """Return what a metric makes of each kind of text. ``scores``: one for each card, of which
    higher ones are better; NaN: undefined."""
    keys = cards.select("patient_id", "reference", "kind", "dose").rows()
    known, references = dict(zip(keys, scores)), list(dict.fromkeys(key[:2] for key in keys))

    def score(kind: str, dose: int = 0) -> np.ndarray:
        return np.array([known.get((*one, kind, dose), np.nan) for one in references])

    unchanged, reworded = score(UNCHANGED), np.stack([score(kind) for kind in WORDS])
    values: dict[str, np.ndarray] = {}
    for kind in FAULTS:
        doses = np.stack([unchanged, *(score(kind, dose) for dose in (1, 2, 3))])
        better = np.sign(np.round(reworded - doses[1], _DECIMALS)) / 2 + 0.5
        values[f"below {kind}"] = mean(mean_rows(better).sum(axis=1))
        values[f"cost {kind}"] = unchanged - doses[1]
        values[f"by dose {kind}"] = _SLOPE @ doses
    costs = np.concatenate([values[f"cost {kind}"] for kind in FAULTS])
    fault = mean(mean_rows(costs).sum(axis=0))
    for kind, cost in zip(WORDS, unchanged - reworded):
        values[f"cost {kind}"] = cost
        values[f"in faults {kind}"] = cost / fault if fault > 0 else cost * np.nan
    patients = pl.Series([patient for patient, _ in references])
    cases = pl.DataFrame(values).fill_nan(None)
    cases = cases.with_columns(subject_id=patients, context=pl.lit(UNKNOWN))
    found = score_intervals(cases, DEFAULTS.convention, columns=[*values]).scores[UNKNOWN]
    return {
        kind: {of: found[f"{of} {kind}"] for of in MEASURES if f"{of} {kind}" in found}
        for kind in (*FAULTS, *WORDS)
        if kind in cards["kind"]
    }


def verdict(below: Interval, cost: Interval) -> str:
    """Return what the intervals of a kind of fault show; empty without intervals."""
    if below.low is None:
        return ""
    falls, is_below = _side(cost, 0.0), _side(below, 0.5)
    if falls > 0 and is_below > 0:
        return "sees"
    return "rewards" if falls < 0 or is_below < 0 < falls else "blind"


def _side(one: Interval, value: float) -> int:
    """Return 1 if a whole interval is above a value, −1 if it is below, else 0."""
    return 0 if one.low is None or one.high is None else (one.low > value) - (one.high < value)


def tables(judged: Mapping[str, Judged]) -> list[Table]:
    """Return a table for each of the :data:`MEASURES`: a line for each kind, a column for each
    metric."""
    first = next(iter(judged.values()))
    return [
        Table(
            (title, *judged),
            tuple((kind, *(_cell(of[kind], measure) for of in judged.values())) for kind in kinds),
        )
        for measure, title in MEASURES.items()
        if (kinds := [kind for kind, known in first.items() if measure in known])
    ]


def _cell(known: Mapping[str, Interval], measure: str) -> str:
    """Format a measure with its interval; the share of pairs after the verdict."""
    one = known[measure]
    text = number(one.value)
    if one.low is not None:
        text += f" ({number(one.low)}…{number(one.high)})"
    return f"{verdict(one, known['cost'])} {text}" if measure == "below" else text


def chart(judged: Mapping[str, Judged]) -> str:
    """Draw the share of pairs in which a text with one fault scores below a reworded one, with its
    interval, a colour for each metric."""
    points = {
        name: {kind: known["below"] for kind, known in of.items() if "below" in known}
        for name, of in judged.items()
    }
    label = "share of texts with one fault that score below other words for the same facts"
    return interval_chart([*FAULTS], points, label, 2.5 + 1.5 * len(points), line=0.5)
