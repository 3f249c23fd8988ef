"""The use of sources by one or several systems as a table, a chart and a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pacer.core.io import atomic_directory, write_json, write_text
from pacer.metrics.probe.use import CHANCE, CHEXBERT, RULES, SystemUse, Use
from pacer.metrics.statistics.bootstrap import Interval
from pacer.reporting.charts import interval_chart
from pacer.reporting.figures import for_page
from pacer.reporting.html import render
from pacer.reporting.tables import Heading, Table, number, signed

_F1 = {RULES: "F1 by rules", CHEXBERT: "CheXbert F1"}
_NOTES = (
    "Gain: F1 with the record as given minus F1 with the changed source, over the same records, with its 95 % interval "
    "over patients (means over contexts). used: the interval lies above 0. ignored: every report stays the same, so "
    "the gain is exactly 0. no gain shown: reports change, but the interval holds 0. misled: it lies below 0. Verdicts "
    "can be wrong by chance: intervals are not corrected for the number of rows, and with n below 20 they are too "
    "narrow.",
    "Only another patient's source tests whether its content is read; without a source, a system may also react to its "
    "absence. Radiographs are exchanged together, frontal and lateral.",
    "F1 counts positive findings; a report that affirms none scores 0.",
    "Not backed: reports with a finding of the previous report that the reference lacks, as given and as changed.",
    "Chance: the same reports against the references of other patients. A system whose gain over chance is not above 0 "
    "writes reports that fit any patient.",
)


def write_probe(systems: Sequence[SystemUse], kinds: Mapping[str, str], manifest: Mapping[str, Any], out: Path) -> str:
    """Write ``index.html``, ``table.md``, ``use.svg`` and ``use.json`` into the folder ``out``, which is replaced, and
    return the table as Markdown."""
    titles = {CHANCE: "another patient's reference (chance)"} | dict(kinds)
    table, chart = use_table(systems, titles), use_chart(systems, titles)
    record = {
        "probe": {"key": manifest["key"], "seed": manifest["seed"]},
        "systems": {
            system.name: {
                "uses": {twin: asdict(use) | {"verdict": use.verdict} for twin, use in system.uses.items()},
                "refers_to_absent": system.absent,
                "contradicts_commitment": system.contradicts,
                "signature": system.signature,
            }
            for system in systems
        },
    }
    with atomic_directory(out) as folder:
        inline = for_page(chart, "use")
        page = render("tables.html", kicker="probe", title=table.caption, tables=[table], chart=inline)
        write_text(folder / "index.html", page)
        write_text(folder / "table.md", table.markdown())
        write_text(folder / "use.svg", chart)
        write_json(folder / "use.json", record)
    return table.markdown()


def use_table(systems: Sequence[SystemUse], titles: Mapping[str, str]) -> Table:
    """Return a row for each kind of twin, the systems below each other."""
    rows: list[tuple[str, ...]] = []
    headings = {}
    for system in systems:
        headings[len(rows)] = Heading(system.name, _about(system))
        rows += [(title, *_cells(use)) for twin, title in titles.items() if (use := system.uses.get(twin)) is not None]
    scores = next(iter(systems[0].uses.values())).f1
    heads = tuple(part for score in scores for part in (_F1[score], "changed", "gain"))
    columns = ("Changed source", "n", *heads, "Reports that change", "Not backed", "Verdict")
    numeric = (False, *[True] * (len(columns) - 2), False)
    return Table(columns, tuple(rows), "Use of sources", numeric, headings=headings, notes=_NOTES)


def _cells(use: Use) -> tuple[str, ...]:
    f1 = []
    for gain in use.f1.values():
        interval = f"({signed(gain.low)}…{signed(gain.high)})"
        f1 += [number(gain.second), number(gain.first), f"{signed(gain.difference)} {interval}"]
    changed = "" if use.unchanged is None else number(1 - use.unchanged)
    unbacked = " → ".join(number(share) for share in use.unbacked if share is not None)
    return (str(use.records), *f1, changed, unbacked, use.verdict)


def _about(system: SystemUse) -> str:
    parts = [
        f"{share:.0%} of reports without a {source} refer to one"
        for source, share in system.absent.items()
        if share is not None
    ]
    if system.empty:
        parts.append(f"{number(system.empty)} reports are empty")
    if system.contradicts is not None:
        parts.append(f"{system.contradicts:.0%} contradict their commitment")
    return "; ".join(parts)


def use_chart(systems: Sequence[SystemUse], titles: Mapping[str, str]) -> str:
    """Draw the gain of each kind of twin with its interval, a colour for each system. At 0 the source makes no
    difference."""
    rows = [title for twin, title in titles.items() if any(twin in system.uses for system in systems)]
    points = {system.name: {titles[twin]: _gain(use) for twin, use in system.uses.items()} for system in systems}
    label = "F1 by rules as given, minus F1 with the changed source"
    return interval_chart(rows, points, label, 0.9 + 0.2 * len(rows) * (1 + len(systems) / 2))


def _gain(use: Use) -> Interval:
    gain = use.f1[RULES]
    return Interval(gain.difference, gain.low, gain.high, gain.undefined)
