"""Several systems compared with the first of them: one table, one correction of p, and the losses that are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pacer.core.display import IN_BRACKETS, Displayed, Shown, three_decimals, with_count
from pacer.core.errors import ConfigError, DataError
from pacer.metrics.scores import score_of
from pacer.metrics.statistics.bootstrap import Difference, holm

if TYPE_CHECKING:
    from pacer.metrics.statistics.comparison import Comparison


@dataclass(frozen=True)
class SystemDifference:
    """A difference in the mean over contexts, or in the only one; ``p_holm``: corrected for all systems and scores."""

    score: str
    system: str
    difference: Difference
    p_holm: float | None


@dataclass(frozen=True, repr=False)
class Comparisons(Displayed):
    """Systems compared with the ``first``; ``others``: the comparison of each by name, with all contexts."""

    first: str
    tested: list[SystemDifference]
    others: dict[str, Comparison]

    @classmethod
    def of(cls, first: str, others: dict[str, Comparison]) -> Comparisons:
        """Apply Holm's correction to comparisons with the ``first``."""
        found = {name: list(one.scores.values())[-1] for name, one in others.items()}
        keys = dict.fromkeys(key for scores in found.values() for key in scores)
        rows = [(key, name, scores[key]) for key in keys for name, scores in found.items() if key in scores]
        corrected = holm([difference.p for *_, difference in rows])
        return cls(first, [SystemDifference(*row, p) for row, p in zip(rows, corrected, strict=True)], others)

    def losses(self, max_loss: Mapping[str, float]) -> list[str]:
        """Return a sentence for each system that is shown to be worse than the first: the whole interval of its
        difference is beyond the loss that is allowed. Where lower values are better, a loss is an increase.

        Args:
            max_loss: score -> the largest loss that is allowed, from 0 on.

        Raises:
            ConfigError: a system is not compared by the score, or a loss is negative. DataError: a difference has no
                interval.
        """
        counts, losses = Counter(row.score for row in self.tested), []
        known = [key for key, count in counts.items() if count == len(self.others)]
        for key, most in max_loss.items():
            if key not in known:
                raise ConfigError(f"--max-loss={key}: not compared for all systems; choose from {', '.join(known)}")
            if not most >= 0:
                raise ConfigError(f"--max-loss={key}: expected a loss from 0 on, got {most:g}")
            for system, found in ((row.system, row.difference) for row in self.tested if row.score == key):
                if found.low is None or found.high is None:
                    raise DataError(f"--max-loss={key}: {system} has no interval: undefined, or too few patients")
                if (found.low if score_of(key).better == "lower" else -found.high) > most:
                    interval = f"{found.low:+.4f} to {found.high:+.4f}"
                    losses.append(f"{system} loses more than {most:g} in {key} against {self.first}: {interval}")
        return losses

    def table(self) -> Shown:
        """Return headings, a row for each score and system, and notes."""
        rows = []
        for row in self.tested:
            found = row.difference
            values = map(with_count, map(three_decimals, (found.first, found.second)), found.counts)
            ends = (found.difference, found.low, found.high)
            apart = ("–" if value is None else f"{value:+.3f}".replace("-", "−") for value in ends)
            p = "< 0.001" if row.p_holm is not None and row.p_holm < 0.001 else three_decimals(row.p_holm)
            rows.append((score_of(row.score).heading, row.system, *values, *apart, p))
        one = next(iter(self.others.values()))
        tests = sum(row.p_holm is not None for row in self.tested)
        notes = [
            f"{one.records:,} records, resampled by {one.unit} ({one.units:,}); context {list(one.scores)[-1]}; p is "
            f"corrected for all {tests} differences from {self.first} (Holm)"
        ]
        further = ((name, note) for name, other in self.others.items() for note in other.notes)
        notes += dict.fromkeys(note if note.startswith(IN_BRACKETS) else f"{name}: {note}" for name, note in further)
        return ("Score", "System", self.first, "Value", "Change", "from", "to (95 %)", "p (Holm)"), rows, notes

    _shown = table
