"""The page of a probe: which sources each system uses."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pacer.core.anchor import KINDS
from pacer.core.io import atomic_directory, write_json, write_text
from pacer.display.numbers import change_cells, number, score_cell
from pacer.display.tables import Heading, Table
from pacer.extras.probe.make import COVERED, ELSEWHERE, GIVEN, MIRRORED, SAME_FINDING
from pacer.extras.probe.use import (
    CHANCE,
    LACKING,
    LEAST,
    MEAN_PICTURE,
    FindingUse,
    SystemUse,
    Use,
    Verdict,
)
from pacer.reporting.charts import for_page, interval_chart
from pacer.reporting.html import render
from pacer.statistics.halves import Interval

_NOTES = (
    "Gain: score with the record as given minus score with the changed source, over the same "
    "records, with its 95% interval over patients (means over contexts). used: the interval lies "
    "above 0. ignored: all reports stay the same, so the gain is 0. no gain shown: reports change, "
    "but the interval includes 0. misled: it lies below 0. Verdicts can be wrong by chance: "
    "intervals are not corrected for the number of rows.",
    "Only another patient's source tests whether its content is read; without a source, a system "
    "may also react to its absence. Frontal and lateral radiographs are exchanged together unless "
    "the row names one.",
    "Score: F1 of positive findings, read by the rules; a report that affirms none scores 0. For "
    "side, severity and course: share of findings that agree, pooled over contexts (number of "
    "findings in brackets).",
    "Mirrored: agreement in side with mirrored references, of reports on mirrored views and "
    "(changed) as given.",
    "Chance: the same reports against the references of other patients. A system whose gain over "
    "chance is not above 0 writes reports that fit any patient.",
)

#: The twins that show whether a source is used, by its name.
_SOURCES = {
    "the radiographs": "another_radiograph",
    "the lateral view": "another_lateral",
    "the previous report": "another_prior",
}
_WORDS = {
    "used": "uses {source}",
    "ignored": "ignores {source}",
    "misled": "is misled by {source}",
    "no gain shown": "changes {changed:.0%} of its reports with {source}, no gain shown",
}
_VERDICT_STYLES = {
    "used": "yes",
    "above chance": "yes",
    "misled": "no",
    "ignored": "no",
    "not above chance": "no",
    "reads the side": "yes",
    "swaps the side": "no",
    "ignores the side": "no",
    Verdict.THERE: "yes",
    Verdict.NOT_THERE: "no",
    Verdict.WITHOUT: "no",
}
#: Headings of the columns of the table of findings, by change. Without boxes, the columns of
#: coverings are left out.
_RATES = {
    GIVEN: "As given",
    SAME_FINDING: "Another's, same finding",
    ELSEWHERE: "Covered elsewhere",
    COVERED: "Covered",
    LACKING: "Another's, without it",
    MEAN_PICTURE: "Mean radiograph",
}
_OF_FINDINGS = (
    "Share of reports that affirm the finding, among records whose reference does; each column is "
    "over the records with this change. Effect of place: covered elsewhere minus covered, over the "
    "records that have both, with its 95% interval over patients.",
    f"{Verdict.THERE}: the effect of place is shown (p below 0.05 after Holm's correction for the "
    f"findings). {Verdict.NOT_THERE}: as given minus another patient's without it is shown, and an "
    "effect of place of 0.1 or more is excluded (p at most 0.025 after Holm's correction). "
    f"{Verdict.WITHOUT}: a difference of 0.1 or more between the columns as given and mean "
    "radiograph is excluded (again with p at most 0.025), and more than 0.1 of the reports with "
    f"the mean radiograph affirm the finding. Each verdict needs {LEAST} patients.",
    f"{Verdict.UNCLEAR}: anything else; a note has the reason, or the number of records needed to "
    "detect an effect of place of 0.2 with 80% power. Without boxes the place cannot be tested.",
)


def write_probe(
    systems: Sequence[SystemUse], kinds: Mapping[str, str], manifest: Mapping[str, Any], out: Path
) -> str:
    """Replace ``out`` by ``index.html``, ``table.md``, ``use.svg`` and ``use.json``; return the
    table as Markdown."""
    titles = {CHANCE: "another patient's reference (chance)"}
    titles |= {kind: f"{kind} (chance)" for kind in KINDS}
    titles |= kinds
    table = use_table(systems, titles)
    chart = use_chart(systems, titles)
    tables = [table]
    if any(system.findings for system in systems):
        tables.insert(0, verdict_table(systems, manifest.get("boxes", True)))
    words = {system.name: f"{verdict_sentence(system)}." for system in systems}
    record = {
        "probe": {"key": manifest["key"], "seed": manifest["seed"]},
        "systems": {
            system.name: {
                "uses": {
                    twin: asdict(use) | {"verdict": use.verdict}
                    for twin, use in system.uses.items()
                },
                "findings": {use.finding: asdict(use) for use in system.findings},
                "verdict": words[system.name],
            }
            for system in systems
        },
    }
    with atomic_directory(out) as folder:
        inline = for_page(chart, "use")
        page = render(
            "tables.html",
            kicker="probe",
            title=table.caption,
            verdicts=words,
            tables=tables,
            chart=inline,
        )
        write_text(folder / "index.html", page)
        paragraphs = [f"**{name}** {sentence}\n" for name, sentence in words.items()]
        text = "\n".join(paragraphs + [table.markdown() for table in tables])
        write_text(folder / "table.md", text)
        write_text(folder / "use.svg", chart)
        write_json(folder / "use.json", record)
    return text


def verdict_sentence(system: SystemUse) -> str:
    """Describe a system's use of each source and the verdicts on the findings in one sentence."""
    parts: list[str] = []
    for source, twin in _SOURCES.items():
        if twin in system.uses:
            use = system.uses[twin]
            changed = 1 - (use.unchanged or 0)
            parts.append(_WORDS[use.verdict].format(source=source, changed=changed))
    if MIRRORED in system.uses:
        parts.append(system.uses[MIRRORED].verdict)
    for verdict in Verdict:
        names = [use.finding for use in system.findings if use.verdict == verdict]
        if names:
            listed = f"{len(names)} findings" if verdict == Verdict.UNCLEAR else ", ".join(names)
            parts.append(f"{verdict}: {listed}")
    for kind in KINDS:
        low = system.uses[kind].score.low if kind in system.uses else None
        if low is not None and low <= 0:
            parts.append(f"{kind} not above chance")
    return "; ".join(parts)


def verdict_table(systems: Sequence[SystemUse], boxes: bool) -> Table:
    """Return a row for each finding with a verdict, the systems below each other, and a note on the
    others; without ``boxes`` nothing was covered."""
    rows: list[tuple[str, ...]] = []
    headings: dict[int, Heading] = {}
    cell_styles: dict[tuple[int, int], str] = {}
    notes: list[str] = []
    rates = {
        change: title
        for change, title in _RATES.items()
        if boxes or change not in (COVERED, ELSEWHERE)
    }
    columns = ["Finding", "Verdict", "n", *rates.values()]
    if boxes:
        columns.append("Effect of place")
    for system in systems:
        headings[len(rows)] = Heading(system.name)
        unclear = [use for use in system.findings if use.verdict == Verdict.UNCLEAR]
        for use in system.findings:
            if use not in unclear:
                cell_styles[len(rows), 1] = _VERDICT_STYLES.get(use.verdict, "")
                rows.append(_finding_cells(use, tuple(rates), boxes))
        if unclear:
            empty = ("" for _ in columns[2:])
            rows.append((f"{len(unclear)} findings", Verdict.UNCLEAR, *empty))
            reasons = ", ".join(f"{use.finding} ({_reason(use, boxes)})" for use in unclear)
            notes.append(f"{system.name}: {Verdict.UNCLEAR}: {reasons}.")
    return Table(
        tuple(columns),
        tuple(rows),
        "Findings",
        text_columns=2,
        headings=headings,
        cell_styles=cell_styles,
        notes=(*notes, *_OF_FINDINGS),
    )


def _finding_cells(use: FindingUse, changes: Sequence[str], boxes: bool) -> tuple[str, ...]:
    cells = [use.finding, use.verdict, str(use.records)]
    cells += [number(use.rates.get(change), 2) for change in changes]
    if boxes:
        effect = use.effects.get("place")
        cells.append(
            "–" if effect is None else "{} ({})".format(*change_cells(effect, None, 2)[:2])
        )
    return tuple(cells)


def _reason(use: FindingUse, boxes: bool) -> str:
    """Return the reason why a finding has no verdict."""
    if COVERED not in use.rates:
        return "no control region" if boxes else "no boxes given"
    if use.effects.get("place") is None:
        return f"fewer than {LEAST} patients"
    return f"{number(use.needed)} records needed, {use.pairs['place']} there"


def use_table(systems: Sequence[SystemUse], titles: Mapping[str, str]) -> Table:
    """Return a row for each kind of twin, the systems below each other."""
    rows: list[tuple[str, ...]] = []
    headings: dict[int, Heading] = {}
    cell_styles: dict[tuple[int, int], str] = {}
    for system in systems:
        note = f"{number(system.empty)} reports are empty" if system.empty else ""
        headings[len(rows)] = Heading(system.name, note)
        for twin, title in titles.items():
            use = system.uses.get(twin)
            if use is not None:
                cell_styles[len(rows), 1] = _VERDICT_STYLES.get(use.verdict, "")
                rows.append((title, use.verdict, *_cells(use)))
    columns = ("Changed source", "Verdict", "n", "Score", "changed", "gain", "Reports that change")
    return Table(
        columns,
        tuple(rows),
        "Use of sources",
        text_columns=2,
        headings=headings,
        cell_styles=cell_styles,
        notes=_NOTES,
    )


def _cells(use: Use) -> tuple[str, ...]:
    counts = use.score.counts
    first = score_cell(use.score.first, count=counts[0])
    second = score_cell(use.score.second, count=counts[1])
    gain = "{} ({})".format(*change_cells(use.score, None)[:2])
    changed = "" if use.unchanged is None else number(1 - use.unchanged)
    return (str(use.records), second, first, gain, changed)


def use_chart(systems: Sequence[SystemUse], titles: Mapping[str, str]) -> str:
    """Draw the gain of each kind of twin with its interval, a colour for each system; 0: no
    gain."""
    rows = [
        title for twin, title in titles.items() if any(twin in system.uses for system in systems)
    ]
    points: dict[str, dict[str, Interval]] = {}
    for system in systems:
        scores = {twin: use.score for twin, use in system.uses.items()}
        points[system.name] = {
            title: Interval(scores[twin].difference, scores[twin].low, scores[twin].high)
            for twin, title in titles.items()
            if twin in scores
        }
    label = "gain: score on original minus changed inputs"
    return interval_chart(rows, points, label, 0.9 + 0.2 * len(rows) * (1 + len(systems) / 2))
