"""What reports affirm, and what the next report of the patient names again: the phantom, beside
real reports.

    python bench/rates.py                                  # writes bench/results/rates.json
    python bench/rates.py --openi corpus/records.parquet   # also Open-I, from `pacer audit --out`

``bench/results/rates.yaml`` has the rates of MIMIC and PadChest. All other findings are by the
rules. Of an examination, the phantom's report is that with all its sources, which the next
examination has as its previous report.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from measuring import options_of, table
from ruamel.yaml import YAML

from pacer.core.findings import FINDINGS
from pacer.core.io import read_json, write_json
from pacer.phantom.language import fullest_report_of
from pacer.phantom.world import make_world
from pacer.text.rules import extract_anchor

#: Rates of real reports, and ours.
SOURCES = Path("bench/results/rates.yaml")
MEASURED = SOURCES.with_suffix(".json")
#: Seed of a world that no corpus and no stand-in uses, and its patients.
SEED, PATIENTS = 134, 10_000


class Rates(NamedTuple):
    """Rates of the reports of some patients."""

    reports: int
    none: float  # share of reports that affirm nothing
    affirmed: dict[str, float]  # share of reports that affirm each finding
    again: dict[str, float]  # of those that do, share of next reports that do
    pairs: dict[str, int]  # the reports that affirm it and have a next one
    copied_f1: float  # micro-F1 of the previous report, taken as the report


def sources() -> dict[str, Any]:
    """Return ``rates.yaml``."""
    return YAML(typ="safe").load(SOURCES)


def rates(patients: Sequence[Sequence[frozenset[str]]]) -> Rates:
    """Return the rates of reports, given as the findings that they affirm, in the order in which
    each patient's were written."""
    reports = [report for one in patients for report in one]
    affirmed = Counter(name for report in reports for name in report)
    pairs = [pair for one in patients for pair in pairwise(one)]
    first = Counter(name for before, _ in pairs for name in before)
    both = Counter(name for before, now in pairs for name in before & now)
    differ = sum(len(before ^ now) for before, now in pairs)
    copied = 2 * both.total() / max(2 * both.total() + differ, 1)
    return Rates(
        len(reports),
        sum(not report for report in reports) / len(reports),
        {name: affirmed[name] / len(reports) for name in FINDINGS},
        {name: both[name] / max(first[name], 1) for name in FINDINGS},
        dict(first),
        copied,
    )


def affirmed_in(text: str) -> frozenset[str]:
    return frozenset(extract_anchor(text).positive)


def phantom_rates(seed: int = SEED, patients: int = PATIENTS) -> Rates:
    """Return the rates of a generated world; nothing is drawn."""
    world = make_world(seed, patients)
    return rates(
        [
            [affirmed_in(fullest_report_of(study).text) for study in patient.studies]
            for patient in world
        ]
    )


def beside(measured: Mapping[str, Any]) -> list[str]:
    """Return the table of the phantom's rates beside those of real reports, from what
    :data:`MEASURED` holds."""
    known, ours, openi = sources(), measured["phantom"], measured["openi"]
    lines = []
    for finding in FINDINGS:
        rates = known["findings"][finding]
        affirmed = ours["affirmed"][finding], openi["affirmed"][finding]
        again = rates["again"], rates["target"], ours["again"][finding]
        shares = *affirmed, rates["padchest"], rates["mimic"], *again
        lines.append([finding, *(f"{share:.2f}" for share in shares)])
    none = ours["none"], openi["none"], *(known["none"][name] for name in ("padchest", "mimic"))
    lines.append(["none of them", *(f"{share:.2f}" for share in none), "", "", ""])
    copied = f"{known['copied_f1']['padchest']:.2f}", "", f"{ours['copied_f1']:.2f}"
    lines.append(["F1 of the previous report", "", "", "", "", *copied])
    heads = "Phantom", "Open-I", "PadChest", "MIMIC-CXR"
    return table(["", *heads, "Repeated: PadChest", "target", "phantom"], lines)


def measure(openi: Path | None = None) -> None:
    """Write :data:`MEASURED`: the rates of the phantom and, from the records of its reports, of
    Open-I, which are kept otherwise."""
    measured = read_json(MEASURED) if MEASURED.exists() else {}
    measured["phantom"] = phantom_rates()._asdict()
    if openi is not None:
        records = pl.read_parquet(openi).unique("study_id", maintain_order=True)
        measured["openi"] = rates([[affirmed_in(text)] for text in records["report_raw"]])._asdict()
    write_json(MEASURED, measured)


if __name__ == "__main__":
    about = {"type": Path, "default": None, "help": "records.parquet of Open-I's whole reports"}
    measure(options_of(__doc__, openi=about).openi)
