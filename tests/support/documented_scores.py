"""Two tables of the docs: that of scores in docs/scores.md, made from the registry, and that of
their verdicts in docs/certificate.md, made from the committed certificate.

``python -m tests.support.documented_scores`` writes them.
"""

import re
from itertools import groupby
from pathlib import Path

from pacer.metrics.score_kinds import Score
from pacer.metrics.scores import SCORES
from tests.support.repository import ROOT

SCORES_PAGE, CERTIFICATE_PAGE = ROOT / "docs" / "scores.md", ROOT / "docs" / "certificate.md"
START, END = "<!-- scores -->\n", "<!-- end of scores -->\n"
CERTIFICATE = ROOT / "bench" / "results" / "certificate.md"
#: Faults that the table leaves out: opposites, and those that are no wrong findings.
OTHER_FAULTS = ("opposite stated", "comparison invented", "sentence repeated")
VERDICTS = re.compile(r"(?<=<!-- certificate -->\n).*?(?=<!-- end of certificate -->)", re.DOTALL)


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


def verdict_table() -> str:
    """The certificate's verdicts on wrong findings, a line for each score, without intervals."""
    lines = CERTIFICATE.read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| Verdict"))
    last = lines.index("", first)
    rows = [
        [cell.strip().partition(" (")[0] for cell in line.strip("|").split("|")]
        for line in (lines[first], *lines[first + 2 : last])
    ]
    rows = [row for row in rows if row[0] not in OTHER_FAULTS]
    scores = [
        " | ".join((f"`{name}`", *verdicts))
        for name, *verdicts in list(zip(*rows))[1:]
        if name != "repetition"
    ]
    head = " | ".join(("Score", *(row[0] for row in rows[1:])))
    rule = "|".join(["---"] * len(rows))
    return "".join(f"| {line} |\n" for line in (head, *scores)).replace("\n", f"\n|{rule}|\n", 1)


def written_pages() -> dict[Path, str]:
    """The text of both pages with their tables."""
    scores = SCORES_PAGE.read_text(encoding="utf-8")
    before, after = scores.partition(START)[0], scores.partition(END)[2]
    certificate = CERTIFICATE_PAGE.read_text(encoding="utf-8")
    return {
        SCORES_PAGE: before + START + score_table() + END + after,
        CERTIFICATE_PAGE: VERDICTS.sub(lambda _: verdict_table(), certificate),
    }


if __name__ == "__main__":
    for path, text in written_pages().items():
        path.write_text(text, encoding="utf-8")
