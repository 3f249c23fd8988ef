"""A scored system as users see it: its result with a table, notes and intervals."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

from pacer.display.numbers import IN_BRACKETS, score_cell
from pacer.display.tables import Displayed, Table
from pacer.metrics.cases import MEAN, contexts_of
from pacer.metrics.result import Result
from pacer.metrics.scores import SCORES, score_of
from pacer.metrics.signature import reading_notes
from pacer.statistics.checks import warnings
from pacer.statistics.halves import Intervals, score_intervals, units_of


@dataclass(frozen=True, repr=False)
class Scores(Result, Displayed):
    """The scores of one system, with tables, notes and intervals; the fields are those of a
    result."""

    @classmethod
    def of(cls, result: Result) -> Self:
        """Return a result as it is shown."""
        return cls(result.scores, result.cases, result.signature, result.ledger)

    def table(self) -> Table:
        """Return the scores by context."""
        contexts = {
            name: self.scores[name]
            for name in (*contexts_of(self.cases), MEAN)
            if name in self.scores
        }
        known = [score for score in SCORES if score.place in ("scores", "contents")]

        def cell(name: str, key: str) -> str:
            counted = self.signature.counted.get(name, {})
            return (
                score_cell(contexts[name][key], count=counted.get(key))
                if key in contexts[name]
                else "–"
            )

        rows = [
            (score.heading, *(cell(name, score.key) for name in contexts))
            for score in [*known, *map(score_of, self.signature.score_columns)]
            if any(values.get(score.key) is not None for values in contexts.values())
        ]
        notes = (f"{IN_BRACKETS}; more in .scores, .intervals, .findings, .cases and .notes",)
        return Table(("score", *contexts), tuple(rows), notes=notes)

    @property
    def notes(self) -> list[str]:
        """How the reports were read, and what to check before trusting a score."""
        unit = units_of(self.cases).note
        notes = reading_notes(self.signature)
        if unit:
            notes.append(unit)
        return [*notes, *self.warnings]

    @property
    def warnings(self) -> list[str]:
        """What to check before trusting a score."""
        return warnings(self.cases, self.convention)

    @cached_property
    def intervals(self) -> Intervals:
        """Intervals (95%) of the scores that have them; computed when first asked for."""
        return score_intervals(
            self.cases,
            self.convention,
            columns=self.signature.score_columns,
            without=self.signature.left_out,
        )
