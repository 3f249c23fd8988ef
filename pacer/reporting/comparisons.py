"""Tables that set things side by side: the label conventions of one run, and two runs."""

from __future__ import annotations

from collections.abc import Mapping

from pacer.comparison.compare import Comparison
from pacer.comparison.resampling import MEAN
from pacer.metrics.conventions import CONVENTIONS
from pacer.reporting.tables import Table, contexts_in, score_cell

_SCORES = {"f1": "CE F1", "bleu4": "BLEU-4", "rougeL": "ROUGE-L", "meteor": "METEOR"}


def convention_table(scores: Mapping, caption: str = "") -> Table | None:
    """Precision, recall and F1 of the same labels under every convention and average: the mean of the contexts, or the
    one context; None for scores of an earlier version, which have no conventions."""
    conventions = scores.get("conventions")
    if not conventions:
        return None
    shown = MEAN if MEAN in scores else contexts_in(scores)[0]
    rows: list[tuple[str, ...]] = []
    rules = set()
    for name, rule in CONVENTIONS.items():
        if name not in conventions:
            continue
        values = conventions[name][shown]
        rules.add(len(rows))
        for average in rule.averages:
            for suffix, words in (("", ""), ("_zero_filled", ", undefined as 0")):
                keys = [f"{ratio}_{average}{suffix}" for ratio in ("precision", "recall", "f1")]
                if all(key in values for key in keys):
                    rows.append((name, average + words, *(score_cell(values[key]) for key in keys)))
    numeric = (False, False, True, True, True)
    return Table(("Convention", "Average", "P", "R", "F1"), tuple(rows), caption, numeric, rules=frozenset(rules - {0}))


def comparison_table(comparison: Comparison, first: str = "A", second: str = "B") -> Table:
    """Both scores, their difference with its interval, and the p value, by context and score."""
    rows: list[tuple[str, ...]] = []
    rules = set()
    for context, scores in comparison.scores.items():
        rules.add(len(rows))
        for name, found in scores.items():
            gap, interval, p = "undefined", "undefined", "undefined"
            if found.difference is not None and found.low is not None and found.high is not None:
                gap, interval = _signed(found.difference), f"{_signed(found.low)} to {_signed(found.high)}"
                p = f"{found.p:.4f}" if found.p is not None else p
            label = "Mean" if context == MEAN else context.upper()
            rows.append((label, _SCORES[name], score_cell(found.first), score_cell(found.second), gap, interval, p))
    columns = ("Context", "Score", first, second, "Difference", f"{100 * comparison.level:g} % interval", "p")
    return Table(columns, tuple(rows), "", (False, False, True, True, True, True, True), rules=frozenset(rules - {0}))


def comparison_notes(comparison: Comparison) -> list[str]:
    """How the table was made, what was left out, and in what the two runs differ besides their reports, one a line."""
    lines = [
        f"{comparison.records:,} records, resampled by {comparison.unit} ({comparison.units:,}); "
        f"{comparison.resamples:,} bootstrap and as many randomisation samples, seed {comparison.seed}; "
        f"F1 by {comparison.convention}; p values are not corrected for the number of rows"
    ]
    lines += [f"{_SCORES.get(name, name)} is left out: {why}" for name, why in comparison.left_out.items()]
    if comparison.differing:
        lines.append(f"the signatures also differ in {', '.join(comparison.differing)}")
    return lines


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")
