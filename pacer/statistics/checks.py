"""What to check before trusting the scores of a system."""

from collections.abc import Callable

import polars as pl

from pacer.core.exchange import exchange
from pacer.display.numbers import number
from pacer.metrics.cases import MEAN, by_context
from pacer.statistics.halves import Difference, gains

#: Warnings about a share of the cases, each with the columns of reports and of references, the
#: share, and its condition on both.
_SHARES: dict[
    str, tuple[tuple[str, str], Callable[[pl.Expr], pl.Expr], Callable[[float, float], bool]]
] = {
    "Many reports are identical": (
        ("hypothesis", "reference"),
        lambda text: text == text.mode().first(),  # the most frequent one, any one of several
        lambda share, expected: share - expected >= 0.25,
    ),
    "Many words repeat the words just before them, or an earlier sentence": (
        ("hypothesis_repetition", "reference_repetition"),
        lambda share: share,
        lambda share, expected: share - expected >= 0.05,
    ),
    "Commitments affirm nothing far more or less often than references; see decode.list_bias "
    "and decode.threshold": (
        ("anchor_positive", "reference_positive"),
        lambda findings: findings.list.len() == 0,
        lambda share, expected: abs(share - expected) > max(expected / 2, 0.05),
    ),
}
#: Share of reports that may stay the same when given another patient's sources.
_UNCHANGED = 0.5


def warnings(cases: pl.DataFrame, convention: str) -> list[str]:
    """Return a sentence for each reason not to trust the scores."""
    contexts = by_context(cases)
    sentences = []
    for words, (columns, share_of, is_off) in _SHARES.items():
        if not {*columns} <= {*cases.columns}:
            continue  # scored by an earlier version
        beyond = []
        for context, part in contexts.items():
            share, expected = part.select(share_of(pl.col(name)).mean() for name in columns).row(0)
            if None not in (share, expected) and is_off(share, expected):
                beyond.append(f"{context.upper()} {share:.0%} (references {expected:.0%})")
        if beyond:
            sentences.append(f"{words}: {', '.join(beyond)}.")
    if unmoved := [
        f"{context.upper()} {share:.0%}"
        for context, share in unchanged_shares(cases, "another_patient").items()
        if share >= _UNCHANGED
    ]:
        sentences.append(
            f"Reports stay the same with another patient's sources: {', '.join(unmoved)}."
        )
    sentences += [
        f"F1 of {name.lower()} is not shown to be above F1 with other patients' references: "
        + ", ".join(f"{context} {own} ({other})" for context, (own, other) in at.items())
        + "."
        for name, at in at_chance(cases, convention).items()
    ]
    return sentences


def unchanged_shares(cases: pl.DataFrame, control: str) -> dict[str, float]:
    """Return the share of the reports of a control that equal those from the case's own sources, by
    the contexts in which it was run."""
    column = f"{control}_unchanged"
    if column not in cases.columns:
        return {}
    shares = {name: part[column].mean() for name, part in by_context(cases).items()}
    return {name: share for name, share in shares.items() if isinstance(share, float)}


def at_chance(cases: pl.DataFrame, convention: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Return the contexts in which commitments, or reports, agree with their own references no
    better than with those of other patients, each with F1 against its own and against the
    others."""
    at = {
        name: {
            context.upper(): (number(one.second), number(one.first))
            for context, one in contexts.items()
            if context != MEAN and (one.low or 0) <= 0
        }
        for name, contexts in above_chance(cases, convention).items()
    }
    return {name: contexts for name, contexts in at.items() if contexts}


def above_chance(cases: pl.DataFrame, convention: str) -> dict[str, dict[str, Difference]]:
    """Return F1 of affirmed findings, by context and for the mean, of commitments and reports:
    against the references of other patients (``first``) and against their own (``second``).
    Contexts whose references affirm nothing are left out; cases without a commitment, or of unknown
    patients, do not count."""
    if "subject_id" not in cases.columns:
        return {}
    found = {}
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
        found[name] = {context: scores[score] for context, scores in compared.items()}
    return found
