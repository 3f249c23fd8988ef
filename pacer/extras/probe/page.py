"""The page of a probe: a table of the sources that each system uses, and a chart of the gains."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pacer.core.io import atomic_directory, write_json, write_text
from pacer.display.numbers import change_cells, number, score_cell
from pacer.display.tables import Heading, Table
from pacer.extras.probe.make import TITLES
from pacer.extras.probe.use import CHANCE, LEAST, SystemUse, Verdict
from pacer.reporting.charts import for_page, interval_chart
from pacer.reporting.html import render
from pacer.statistics.halves import Difference, Interval

#: The files of an output.
OUTPUTS = ("index.html", "table.md", "use.svg", "use.json")
_TITLES = {CHANCE: "another patient's reference (chance)"} | TITLES
_NO = ("misled", "ignored", "not above chance", Verdict.NOT_THERE, Verdict.WITHOUT)
_STYLES = dict.fromkeys(("used", "above chance", Verdict.THERE), "yes") | dict.fromkeys(_NO, "no")
_NOTES = (
    "Gain: score with the original source minus score with the changed one, over the same records, "
    "with its 95% interval over patients. used: the interval lies above 0. misled: it lies below "
    "0. ignored: no report changes. no gain shown: all else. The intervals are not corrected for "
    "the number of rows.",
    "Score: F1 of affirmed findings (mean over contexts), with the original source; changed: with "
    "the changed one. Chance: the same reports against the references of other patients.",
    "By finding: share of the reports that affirm the finding, among records whose reference does, "
    "with an equal area covered elsewhere; changed: with the finding covered. Findings without a "
    f"row have no boxes or no control region, or fewer than {LEAST} patients. The verdicts are "
    "corrected for the number of findings; docs/probe.md explains them, and use.json has the other "
    "rates that they need.",
)


def write_probe(systems: Sequence[SystemUse], out: Path) -> str:
    """Replace ``out`` by :data:`OUTPUTS`; return the table as Markdown."""
    table = use_table(systems)
    text = table.markdown()
    chart = use_chart(systems)
    record = {
        system.name: {
            "uses": {
                twin: asdict(use) | {"verdict": use.verdict} for twin, use in system.uses.items()
            },
            "findings": {use.finding: asdict(use) for use in system.findings},
        }
        for system in systems
    }
    page = render("probe.html", table=table, chart=for_page(chart, "use"))
    with atomic_directory(out) as folder:
        write_text(folder / "index.html", page)
        write_text(folder / "table.md", text)
        write_text(folder / "use.svg", chart)
        write_json(folder / "use.json", {"systems": record})
    return text


def use_table(systems: Sequence[SystemUse]) -> Table:
    """Return a row for each kind of twin and each finding, the systems below each other."""
    rows: list[tuple[str, ...]] = []
    headings: dict[int, Heading] = {}
    for system in systems:
        note = f"{number(system.empty)} reports are empty" if system.empty else ""
        headings[len(rows)] = Heading(system.name, note)
        for twin, title in _TITLES.items():
            if use := system.uses.get(twin):
                changed = "" if use.unchanged is None else number(1 - use.unchanged)
                rows.append((title, use.verdict, str(use.records), *_cells(use.score), changed))
        tested = [
            use
            for use in system.findings
            if "place" in use.effects or use.verdict != Verdict.UNCLEAR
        ]
        if tested:
            headings[len(rows)] = Heading(f"{system.name}, by finding")
        for finding in tested:
            cells = ("–",) * 4
            if place := finding.effects.get("place"):
                cells = (str(place.counts[0]), *_cells(place, 2))
            rows.append((finding.finding, finding.verdict, *cells, ""))
    return Table(
        ("Changed source", "Verdict", "n", "Score", "changed", "gain", "Reports that change"),
        tuple(rows),
        "Use of sources",
        text_columns=2,
        headings=headings,
        cell_styles={(row, 1): _STYLES.get(cells[1], "") for row, cells in enumerate(rows)},
        notes=_NOTES,
    )


def _cells(score: Difference, decimals: int = 3) -> tuple[str, ...]:
    """Return the cells for both scores, and the gain with its interval."""
    gain = "{} ({})".format(*change_cells(score, None, decimals)[:2])
    return score_cell(score.second, decimals), score_cell(score.first, decimals), gain


def use_chart(systems: Sequence[SystemUse]) -> str:
    """Draw the gain of each kind of twin with its interval, a colour for each system; 0: no
    gain."""
    points = {
        system.name: {
            title: Interval(use.score.difference, use.score.low, use.score.high)
            for twin, title in _TITLES.items()
            if (use := system.uses.get(twin))
        }
        for system in systems
    }
    rows = [title for title in _TITLES.values() if any(title in of for of in points.values())]
    label = "gain: score on original minus changed inputs"
    return interval_chart(rows, points, label, 0.9 + 0.2 * len(rows) * (1 + len(systems) / 2))
