"""Checks of whether a model uses its sources, from a run's scores."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from pacer.metrics.cases import by_context, contexts_of
from pacer.metrics.scores import score_of
from pacer.metrics.source_use import REPORTS
from pacer.metrics.statistics.bootstrap import Difference, differences
from pacer.metrics.statistics.intervals import context_sums, resampled_units

#: What is said of a share, and when, given it and that of the references.
_BESIDE_REFERENCES: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    "most_frequent_share": ("Many reports are identical", lambda share, expected: share - expected >= 0.25),
    "repetition": (
        "Many words repeat the words just before them, or an earlier sentence",
        lambda share, expected: share - expected >= 0.05,
    ),
    "affirms_nothing": (
        "Commitments affirm nothing far more or less often than references; see decode.list_bias and decode.threshold",
        lambda share, expected: abs(share - expected) > max(expected / 2, 0.05),
    ),
}
#: Share of reports that may stay the same when given another patient's sources.
UNCHANGED = 0.5
#: The control that gives each case another patient's sources.
_CONTROL = "another_patient"


def warnings(scores: Mapping[str, Any], cases: pl.DataFrame, convention: str) -> list[str]:
    """Return warnings to read before trusting any score, one sentence each; none for a model that uses its sources.

    Args:
        scores: ``scores.json``. cases: ``cases.parquet``. convention: of the F1.
    """
    sentences = []
    for key, (words, is_off) in _BESIDE_REFERENCES.items():
        shares = {c: (scores[c].get(key), scores[c].get(f"reference_{key}")) for c in contexts_of(cases)}
        beyond = [
            f"{context.upper()} {share:.0%} (references {expected:.0%})"
            for context, (share, expected) in shares.items()
            if share is not None and expected is not None and is_off(share, expected)
        ]
        if beyond:
            sentences.append(f"{words}: {', '.join(beyond)}.")
    below = []
    for context in contexts_of(cases):
        f1 = scores[context].get("prior_f1") or 0.0
        known = {end: scores[context].get(f"prior_f1{end}") or 0.0 for end in ("_itself", "_united")}
        above = [f"{REPORTS[end]} {floor:.3f}" for end, floor in known.items() if floor > f1]
        below += [f"{context.upper()} {f1:.3f} ({', '.join(above)})"] if above else []
    if below:
        sentences.append(f"F1 of affirmed findings is below that of baselines without training: {'; '.join(below)}.")
    control = scores.get("controls", {}).get(_CONTROL, {})
    same = {context: values["unchanged_share"] for context, values in control.items()}
    if unmoved := [f"{context.upper()} {share:.0%}" for context, share in same.items() if share >= UNCHANGED]:
        sentences.append(f"Reports stay the same with another patient's sources: {', '.join(unmoved)}.")
    blind = [context.upper() for context, gain in source_gains(cases, convention).items() if (gain.low or 0) <= 0]
    if blind:
        sentences.append(
            "F1 with the case's own sources is not shown to be above F1 with another patient's (the 95 % interval of "
            f"the difference includes 0): {', '.join(blind)}."
        )
    return sentences


def source_gains(cases: pl.DataFrame, convention: str) -> dict[str, Difference]:
    """Return F1 with another patient's sources, F1 with the case's own, and their difference, by context; empty if the
    control was not run."""
    column = f"{_CONTROL}_labels"
    if column not in cases.columns:
        return {}
    cases = cases.filter(pl.col(column).is_not_null())
    compared = gains(cases, cases.with_columns(hypothesis_labels=column), convention, ["f1"])
    return {context: compared[context]["f1"] for context in by_context(cases)}


def gains(
    given: pl.DataFrame, twins: pl.DataFrame, convention: str, scores: Sequence[str], resamples: int = 10_000
) -> dict[str, dict[str, Difference]]:
    """Return scores of twins (``first``), of the same records in the same order as they are given (``second``), and
    their differences, by context and for the mean."""
    chosen, units = list(map(score_of, scores)), resampled_units(given)
    first, second = (context_sums(cases, convention, chosen, units) for cases in (twins, given))
    return differences(first, second, resamples)
