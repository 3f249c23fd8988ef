"""The promise on what reports state: a sentence and a table."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from pacer.core.audits import number
from pacer.metrics.cases import by_context
from pacer.metrics.display import Table
from pacer.metrics.score_kinds import is_empty, mean
from pacer.metrics.statistics.bootstrap import Summed, by_unit, intervals
from pacer.metrics.statistics.intervals import resampled_units

#: By kind of promise the columns of the cases whose findings are counted, and of those among which each is sought.
_SIDES = {
    "false_present": ("report_positive", "reference_positive"),
    "missed": ("reference_positive", "report_positive"),
}

#: What each kind promises.
_TITLES = {
    "false_present": "of the findings stated as present, at most {limit:.0%} are expected to be absent from the "
    "radiologist's report",
    "missed": "of the findings present in the radiologist's report, at most {limit:.0%} are expected not to be stated",
}


def promise_table(promise: Mapping[str, Any], cases: pl.DataFrame, threshold: float, caption: str) -> Table:
    """Return what was promised in each context and what the reports achieve, with intervals over patients.

    Args:
        promise: content of ``promise.json``. threshold: ``decode.threshold``; findings that reach it and not the
            promise's threshold are withheld.
    """
    rows = []
    for context, part in by_context(cases).items():
        chosen = promise["contexts"][context]
        chances, units = np.array(part["present"].to_list()), resampled_units(part)
        withheld = int(((chances >= threshold) & (chances < chosen["threshold"])).sum())
        for kind, tests in chosen["tests"].items():
            stated, known = (pl.col(side) for side in _SIDES[kind])
            counted = part.select(stated.list.set_difference(known).list.len(), of=stated.list.len()).to_numpy()
            share = Summed(by_unit(counted, units.codes, units.count), mean)
            achieved = intervals({("", kind): share})[""][kind]
            at = next(test for test in tests if test["threshold"] == chosen["threshold"])
            errors, findings = counted.sum(axis=0).tolist()
            rows.append(
                (
                    context.upper(),
                    f"{kind.replace('_', ' ')} at most {promise['risk'][kind]:.0%}",
                    str(chosen["threshold"]),
                    f"{number(at['errors'])} of {number(at['findings'])}, {at['patients']} patients",
                    f"{number(achieved.value)} ({number(achieved.low)} to {number(achieved.high)})",
                    number(findings),
                    number(findings - errors),
                    number(withheld),
                    number(part.filter(is_empty("hypothesis")).height),
                )
            )
    heads = ("", "Promise", "Threshold", "On val", "Achieved", "Findings", "Right", "Withheld", "Empty")
    return Table(heads, tuple(rows), caption)


def promise_text(risk: Mapping[str, float | None]) -> str:
    """Return what a promise says, with its condition."""
    shares = [title.format(limit=limit) for kind, title in _TITLES.items() if (limit := risk[kind]) is not None]
    text = f"{'; '.join(shares)}, on patients like those of val ({risk['confidence']:.0%} confidence)"
    return text[0].upper() + text[1:]
