"""The rules of the anchors: agreement with labels of real reports, speed beside a plain loop, time and memory at size.

    python bench/anchors.py [--data ../shared/data] [--records 424411] [--out bench/results/anchors.md]

Agreement: Open-I's train and val reports, `bench/openi_labels.py`. Speed: one core and its own time, all memory of
earlier sentences cleared before every turn, in turns with `bench/plain_rules.py` (the plain loop, and a loop that reads
a sentence once for all findings); that both give the same anchors is asserted first. Size: the stage's own function on
tables of invented records, each in a process of its own, whose peak memory is the operating system's figure; its bar is
on the CPU seconds of all its threads, since waiting for a core that other work holds is no part of it. Where a bar is
missed, the exit code is 1. Without the real reports the parts that need them are left out.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from anchor_size import invented, write_records
from measuring import Unequal, hardware, in_turns, ratio, table
from openi_labels import DENIED, GOLD, chexpert_anchor, counts, f1, interval, present, read_openi, whole
from plain_rules import plain_anchor, shared_pass

from pacer.anchors.anchor import Anchor
from pacer.anchors.vocabulary import FINDINGS
from pacer.labelling.targets.build_anchors import agreement as agreed
from pacer.rules import extract as rules
from pacer.rules.extract import extract_anchor

ROOT = Path(__file__).resolve().parents[1]
RECORDS = 424_411

#: Micro-F1 of positives against the gold and of denials against CheXpert, reports a second and
#: core, times faster than the plain loop, seconds for the paper's records, megabytes of ten times the records over one.
BARS = {"positives": 0.80, "denials": 0.92, "rate": 5000.0, "faster": 8.0, "seconds": 60.0, "growth": 60.0}

# --- agreement ------------------------------------------------------------------------------------------------------


def agreement(rows: list[dict[str, Any]]) -> tuple[list[str], dict[str, float]]:
    """Tables in Markdown, and the figures by the name of their bar."""
    gold = [present(row) for row in rows]
    labels = [chexpert_anchor(row) for row in rows]
    texts = {"both": [whole(row) for row in rows], "findings": [row["findings"] or "" for row in rows]}
    read = {part: [extract_anchor(text) for text in texts[part]] for part in texts}
    positives = _positives(gold, read["both"])
    columns = {
        "rules": positives,
        "rules, findings alone": _positives(gold, read["findings"]),
        "CheXpert, findings": _positives(gold, labels),
    }
    lines = ["## Positives against human MeSH labels", "", *_f1_table(list(GOLD), columns)]
    denied = _denials(rows, labels, read["findings"])
    lines += ["## Denials against CheXpert, findings", "", *_f1_table(list(DENIED), {"rules": denied})]
    lines += ["Share of CheXpert's denials that the rules deny as well:", "", *_recall_table(denied)]
    lines += ["## The same polarity as CheXpert, findings", "", *_states(rows, labels, read["findings"])]
    return lines, {"positives": f1(positives), "denials": f1(denied)}


def _positives(gold: list[set[str]], anchors: list[Anchor]) -> Any:
    return counts(gold, [set(anchor.positive) for anchor in anchors], list(GOLD))


def _denials(rows: list[dict[str, Any]], labels: list[Anchor], anchors: list[Anchor]) -> Any:
    pairs = [(a, b) for row, a, b in zip(rows, labels, anchors, strict=True) if row["findings"]]
    return counts([set(a.negative) for a, _ in pairs], [set(b.negative) for _, b in pairs], DENIED)


def _f1_table(findings: Sequence[str], columns: dict[str, Any]) -> list[str]:
    first = next(iter(columns.values()))
    labels = first[:, :, [0, 2]].sum(axis=(0, 2))
    rows = [
        [finding, str(labels[place]), *(f"{f1(found[:, place]):.3f}" for found in columns.values())]
        for place, finding in enumerate(findings)
    ]
    cells = []
    for found in columns.values():
        low, high = interval(found)
        cells.append(f"**{f1(found):.3f}** ({low:.3f} to {high:.3f})")
    return table(["F1", "labels", *columns], [*rows, ["micro (95 %)", str(labels.sum()), *cells]])


def _recall_table(denied: Any) -> list[str]:
    both, missed = denied[:, :, 0].sum(axis=0), denied[:, :, 2].sum(axis=0)
    shares = zip([*both, both.sum()], [*missed, missed.sum()], strict=True)
    return table([*DENIED, "all"], [[f"{b / (b + m):.3f}" if b + m else "–" for b, m in shares]])


def _states(rows: list[dict[str, Any]], labels: list[Anchor], anchors: list[Anchor]) -> list[str]:
    found = agreed([(anchors[place], labels[place]) for place, row in enumerate(rows) if row["findings"]])["findings"]
    return table(["", "share of reports"], [[finding, f"{found[finding]['agreement']:.3f}"] for finding in FINDINGS])


# --- speed ----------------------------------------------------------------------------------------------------------


def speed(named: dict[str, list[str]], repeats: int) -> tuple[list[str], dict[str, float]]:
    """Reports a second of one core, and how much faster than the plain loop; the least of all texts."""
    rows, rates, gains = [], [], []
    for name, texts in named.items():
        if any(plain_anchor(text) != extract_anchor(text) for text in texts):
            raise Unequal(f"{name}: the plain loop gives other anchors")
        sides = [partial(_seconds, read) for read in (extract_anchor, plain_anchor, shared_pass)]
        own, plain, shared = in_turns(sides, [[texts] * 3], repeats)
        faster, told = ratio(plain, own)
        rate = len(texts) / sorted(own)[len(own) // 2]
        rates.append(rate)
        gains.append(faster)
        rows.append(
            [
                name,
                f"{len(texts):,}",
                f"{sum(map(len, texts)) / len(texts):.0f}",
                f"{rate:,.0f}",
                f"{rate / faster:,.0f}",
                told,
                ratio(shared, own)[1],
            ]
        )
    header = [
        "",
        "reports",
        "characters",
        "reports/s",
        "plain loop, reports/s",
        "times faster",
        "than one pass a sentence",
    ]
    return table(header, rows), {"rate": min(rates), "faster": min(gains)}


def _seconds(read: Callable[[str], Any], texts: list[str]) -> float:
    rules._read.cache_clear()
    rules._anchor_of.cache_clear()
    started = time.thread_time()
    for text in texts:
        read(text)
    return time.thread_time() - started


# --- size -----------------------------------------------------------------------------------------------------------


def size(records: int) -> tuple[list[str], dict[str, float]]:
    """Seconds and peak memory of the stage for ``records`` and for a tenth of them."""
    rows, peaks = [], []
    for count in (records // 10, records):
        with tempfile.TemporaryDirectory() as folder:
            write_records(Path(folder, "records.parquet"), count)
            run = [sys.executable, Path(__file__).with_name("anchor_size.py"), folder]
            told = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
        peaks.append(told["megabytes"])
        rows.append(
            [
                f"{told['records']:,}",
                f"{told['seconds']:.1f}",
                f"{told['own_seconds']:.1f}",
                f"{told['start_megabytes']:.0f}",
                f"{told['megabytes']:.0f}",
            ]
        )
    found = {"growth": peaks[1] - peaks[0], "seconds": told["own_seconds"] * RECORDS / records}
    return table(["records", "seconds", "CPU seconds", "MB at the start", "peak, MB"], rows), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    lines = [
        "# The rules of the anchors",
        "",
        f"`python bench/anchors.py`, {datetime.date.today()}. {hardware(torch.device('cpu'))}.",
        "",
    ]
    named, found = {"invented": list(invented(4000))}, {}
    if (arguments.data / "openi").is_dir():
        rows = read_openi(arguments.data)
        named["Open-I train and val"] = [whole(row) for row in rows]
        told, found = agreement(rows)
        lines += told
    else:
        print(f"left out: Open-I, which is not at {arguments.data}", file=sys.stderr)
    told, more = speed(named, arguments.repeats)
    lines += ["## One core", "", *told]
    found |= more
    told, more = size(arguments.records)
    lines += ["## The stage, one process", "", *told]
    found |= more
    judged = [
        [name, f"{bar:g}", f"{found[name]:.4g}", "met" if _met(name, found[name]) else "**missed**"]
        for name, bar in BARS.items()
        if name in found
    ]
    lines += ["## Bars", "", *table(["", "bar", "found", ""], judged)]
    text = "\n".join(lines)
    print(text)
    if arguments.out:
        arguments.out.write_text(text)
    missed = [name for name in found if not _met(name, found[name])]
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


def _met(name: str, value: float) -> bool:
    return value <= BARS[name] if name in ("seconds", "growth") else value >= BARS[name]


if __name__ == "__main__":
    main()
