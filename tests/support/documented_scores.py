"""The table of scores in docs/evaluation.md, made from the registry.

``python -m tests.support.documented_scores`` writes it.
"""

from itertools import groupby

from pacer.metrics.score_kinds import Score
from pacer.metrics.scores import SCORES
from tests.support.repository import ROOT

PAGE = ROOT / "docs" / "evaluation.md"
START, END = "<!-- scores -->\n", "<!-- end of scores -->\n"


def cells(score: Score) -> tuple[str, str, str]:
    sums = score.sums if score.interval else None
    kinds = {"interval": sums, "test": score.tested, "count": sums and sums.counted}
    return (
        score.meaning,
        score.better or "–",
        ", ".join(name for name, applies in kinds.items() if applies),
    )


def score_table() -> str:
    """Neighbours in the registry that mean the same share a line; a score of a table has its
    heading beside its key."""
    lines = ["| Score | What it is | Better | |", "|---|---|---|---|"]
    for shared, scores in groupby(SCORES, cells):
        keys = ", ".join(
            f"`{score.key}`" + f" ({score.heading})" * bool(score.place) for score in scores
        )
        lines.append(f"| {' | '.join((keys, *shared))} |")
    return "\n".join(lines) + "\n"


def with_table(page: str) -> str:
    before, after = page.partition(START)[0], page.partition(END)[2]
    return before + START + score_table() + END + after


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
