"""Tables of results with their uncertainty: scores beside published rows, observations, gates by context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pacer.comparison.case_statistics import Intervals, LabelScores
from pacer.comparison.groups import GroupTests
from pacer.comparison.resampling import Interval
from pacer.reporting.comparable import differences_to_published
from pacer.reporting.published import PublishedTable, load_published
from pacer.reporting.tables import SCORE_COLUMNS, Table, contexts_in, number, score_cell

#: Row that holds the intervals of the row above.
INTERVAL_ROW = "{:g} %"


def span(interval: Interval | None, digits: int = 2) -> str:
    """An interval as ``0.69–0.75``, nothing where there is none."""
    if interval is None or interval.low is None or interval.high is None:
        return ""
    return f"{interval.low:.{digits}f}–{interval.high:.{digits}f}"


def published_beside(
    corpus: Mapping[str, Any], signature: Mapping[str, Any], scores: Mapping
) -> tuple[PublishedTable | None, str]:
    """The paper's table that the scores may stand beside, and in words why it does or none does.

    Args:
        corpus: the group of that name of ``params.yaml``.
    """
    decoded = (signature.get("predictions") or {}).get("settings") or {}
    table = load_published()["conventional_sn" if corpus.get("target") == "findings" else "main"]
    run = {"corpus": corpus, "split": decoded.get("split"), "limit": decoded.get("limit", 0)}
    reasons = differences_to_published(table, scores, signature, run)
    if reasons:
        return None, f"The published scores do not stand here, for these differ from them: {'; '.join(reasons)}."
    return table, f"Published rows as printed in {table.where} of the paper. {table.protocol}"


def results_table(scores: Mapping, found: Intervals, published: PublishedTable | None, caption: str = "") -> Table:
    """The contexts' scores and their plain mean, intervals below, the published rows of a context after them; columns
    that no context has are left out."""
    contexts = contexts_in(scores)
    shown = [(key, label) for key, label in SCORE_COLUMNS if any(key in scores[context] for context in contexts)]
    rows: list[tuple[str, ...]] = []
    rules, quiet, summary = set(), set(), None
    for name in [*contexts, "mean"] if "mean" in scores else contexts:
        rules.add(len(rows))
        if name == "mean":
            summary = len(rows)
        cells = [
            score_cell(scores[name][key]) if key in scores[name] else "" if name == "mean" else "–" for key, _ in shown
        ]
        rows.append((name.upper() if name != "mean" else "Mean", *cells))
        own = found.scores.get(name, {})
        if any(span(own.get(key)) for key, _ in shown):
            quiet.add(len(rows))
            rows.append((INTERVAL_ROW.format(100 * found.level), *(span(own.get(key)) for key, _ in shown)))
        for block in published.blocks if published is not None else ():
            for system, values in block.rows.items() if block.context == name else ():
                quiet.add(len(rows))
                texts = (values[key].text if key in values else None for key, _ in shown)
                rows.append((f"{system.removesuffix(' (Ours)')}, paper", *(text or "–" for text in texts)))
    return Table(
        ("Context", *(label for _, label in shown)),
        tuple(rows),
        caption,
        summary=summary,
        rules=frozenset(rules - {0}),
        quiet=frozenset(quiet),
    )


def label_table(labels: Sequence[LabelScores], level: float, caption: str = "") -> Table:
    """One observation a row: over all contexts' records together, and F1 in each context."""
    contexts = list(labels[0].f1) if labels else []
    rows = tuple(
        (
            one.name,
            number(one.present),
            number(one.predicted),
            *(score_cell(one.scores[key].value) for key in ("precision", "recall", "f1")),
            span(one.scores["f1"]),
            *(number(one.f1[context]) for context in contexts),
        )
        for one in labels
    )
    heads = (
        "Observation",
        "In references",
        "In reports",
        "P",
        "R",
        "F1",
        f"{100 * level:g} %",
        *(context.upper() for context in contexts),
    )
    return Table(heads, rows, caption)


def gate_table(tests: GroupTests, caption: str = "") -> Table | None:
    """Every two contexts over the studies that have both; None where no study has."""
    rows = tuple(
        (
            f"{pair.second.upper()}\u00a0−\u00a0{pair.first.upper()}",
            number(pair.n),
            "–" if pair.median is None else f"{pair.median:+.4f}".replace("-", "−"),
            p_value(pair.p),
            p_value(pair.adjusted),
        )
        for pair in tests.pairs
        if pair.n
    )
    return Table(("Contexts", "Studies in both", "Median difference", "p", "p, Holm"), rows, caption) if rows else None


def gate_line(tests: GroupTests) -> str:
    """The test of all contexts at once, in a sentence."""
    if tests.h is None or tests.epsilon_squared is None:
        return "With one context, or with the same gate everywhere, there is nothing to test."
    return (
        f"Kruskal-Wallis over all records: H = {tests.h:.1f}, p {_compared(tests.p)}, "
        f"ε² = {tests.epsilon_squared:.2f} (share of the rank variance between contexts)."
    )


def p_value(p: float | None) -> str:
    """A p value with three decimals, never 0."""
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _compared(p: float | None) -> str:
    shown = p_value(p)
    return shown if shown.startswith("<") else f"= {shown}"
