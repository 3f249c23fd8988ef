"""A system's use of each source, from its reports on a probe: unchanged records are compared with
their twins.

The verdict on a finding says whether the system looks at the right place. It follows from the rates
at which reports affirm the finding, over records whose reference affirms it. Intervals and p values
come from random halves of the patients; all versions of a patient's records are in the same half.
The p values of an effect, and of no effect, are corrected for the number of findings (Holm).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import sqrt
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import polars as pl

from pacer.config.corpus import Delimiter
from pacer.core.anchor import FINDINGS, POLARITIES
from pacer.core.errors import DataError
from pacer.core.exchange import exchange
from pacer.extras.probe.make import COVERED, ELSEWHERE, GIVEN, KEY, TITLES
from pacer.metrics.cases import UNKNOWN
from pacer.metrics.ledger import lists_by_row, read_findings
from pacer.metrics.score_kinds import mean, mean_rows
from pacer.statistics.halves import (
    Difference,
    Key,
    Summed,
    Units,
    by_unit,
    differences,
    gains,
    holm,
    units_of,
)
from pacer.tables.generated import without_thoughts
from pacer.tables.hygiene import EMPTY_CELL
from pacer.tables.ids import check_pairs
from pacer.tables.reports import Reports, Side, reports_of
from pacer.tables.values import mapped

#: Another patient's radiographs, of those whose reference does not affirm the finding.
LACKING = "another_without_finding"
MEAN_PICTURE = "mean_radiograph"
#: Effects by name: rate with the first change minus rate with the second.
EFFECTS = {
    "place": (ELSEWHERE, COVERED),
    "picture": (GIVEN, LACKING),
    "any picture": (GIVEN, MEAN_PICTURE),
}
#: Level of the tests.
_LEVEL = 0.05
#: Number of patients that a test needs.
LEAST = 20
#: Effects smaller than this count as no effect.
_NO_EFFECT = 0.1
#: A finding counts as mentioned with the mean radiograph if more than this share of reports do.
_MENTIONED = 0.1
_RESAMPLES = 5_000
#: The score of the reports: F1 of positive findings, read by the rules in report and reference.
_F1 = "report_positive_f1"
#: The comparison with another patient's reference; its score is what a report that fits any patient
#: reaches.
CHANCE = "chance"
#: The texts of each side.
_SIDES = {"reference": "reference", "report": "hypothesis"}
#: Number of splits for the interval of a gain; a probe has one for each kind of twin.
_FEWER_RESAMPLES = 2_000
_REPORTS = Side("hypothesis", ("report", "hypothesis", "text"), "hypothesis_id (--hypothesis-id)")


class Verdict(StrEnum):
    """Whether a system reads a finding from the image."""

    THERE = "looks at the right place"
    NOT_THERE = "looks elsewhere in the image"
    WITHOUT = "reports it regardless of the image"
    UNCLEAR = "cannot tell"


@dataclass(frozen=True)
class FindingUse:
    """Results of the twins for one finding."""

    finding: str
    #: Number of records whose reference affirms the finding.
    records: int
    #: Share of reports that affirm it, by change, over all records that have this change.
    rates: dict[str, float]
    #: The effects by :data:`EFFECTS`, over the records that have both changes, which ``counts`` has
    #: the number of; p after Holm's correction.
    effects: dict[str, Difference]
    verdict: Verdict


def finding_uses(cases: pl.DataFrame) -> list[FindingUse]:
    """Return the verdict of each affirmed finding from the key with ``reference_positive`` and
    ``report_positive``."""
    given = cases.filter(twin=GIVEN)
    units = units_of(given)
    unit = given.select("record_id", pl.Series("unit", units.codes))
    tables = {}
    for finding in FINDINGS:
        table = _table(cases, given, finding).join(unit, on="record_id")
        if len(table):
            tables[finding] = table
    pairs = {
        (finding, effect): table.drop_nulls(list(changes))
        for finding, table in tables.items()
        for effect, changes in EFFECTS.items()
    }
    pairs = {key: part for key, part in pairs.items() if part["unit"].n_unique() >= LEAST}
    effects = _differences(pairs, units)
    shown: set[tuple[str, str]] = set()
    absent: set[tuple[str, str]] = set()
    for effect, (first, second) in EFFECTS.items():
        keys = [key for key in pairs if key[1] == effect]
        p_of_effect = holm([effects[key].p for key in keys])
        p_of_none = holm([_no_effect(pairs[key], first, second) for key in keys])
        for key, p, p_none in zip(keys, p_of_effect, p_of_none, strict=True):
            effects[key] = replace(effects[key], p=p)
            if p is not None and p < _LEVEL and (effects[key].difference or 0) > 0:
                shown.add(key)
            if p_none is not None and p_none <= _LEVEL / 2:
                absent.add(key)
    uses = []
    for finding, table in tables.items():
        means = table.select(pl.exclude("record_id", "unit").mean()).row(0, named=True)
        rates = {change: rate for change, rate in means.items() if rate is not None}
        own = {name: effects[finding, name] for name in EFFECTS if (finding, name) in effects}
        verdict = _verdict(finding, shown, absent, rates.get(MEAN_PICTURE, 0))
        uses.append(FindingUse(finding, len(table), rates, own, verdict))
    return uses


def _verdict(
    finding: str,
    shown: Collection[tuple[str, str]],
    absent: Collection[tuple[str, str]],
    mentioned: float,
) -> Verdict:
    """Return the verdict, from the effects that are shown, and those that are shown to be absent.
    ``mentioned``: rate with the mean radiograph."""
    if (finding, "place") in shown:
        return Verdict.THERE
    if (finding, "picture") in shown and (finding, "place") in absent:
        return Verdict.NOT_THERE
    if (finding, "any picture") in absent and mentioned > _MENTIONED:
        return Verdict.WITHOUT
    return Verdict.UNCLEAR


def _no_effect(part: pl.DataFrame, first: str, second: str) -> float:
    """Return p of an effect of at least :data:`_NO_EFFECT`, from the score test of paired
    proportions (Tango, Stat. Med. 17, 1998: 891). As records of a patient are similar, their number
    is reduced by the design effect, at most to the number of patients."""
    gaps = (part[first] - part[second]).to_numpy()
    units = part["unit"].to_numpy()
    spread = _NO_EFFECT * (1 - _NO_EFFECT)
    rows = (gaps - gaps.mean())[:, None]
    variance_of_patients = (by_unit(rows, units, units.max() + 1) ** 2).sum()
    reduced = len(part) * (rows**2).sum() / max(variance_of_patients, 1e-9)
    count = min(len(part), max(part["unit"].n_unique(), reduced))
    fewer, more = sorted([float((gaps > 0).mean()), float((gaps < 0).mean())])
    b = (2 - more + fewer) * _NO_EFFECT - more - fewer
    deviation = sqrt((sqrt(b * b + 8 * fewer * spread) - b) / 2 + spread)
    return NormalDist().cdf((more - fewer - _NO_EFFECT) * sqrt(count) / deviation)


def _table(cases: pl.DataFrame, given: pl.DataFrame, finding: str) -> pl.DataFrame:
    """Return a row for each record whose reference affirms the finding: whether the report does, by
    change."""
    has = pl.col("reference_positive").list.contains(finding)
    lacking = given.filter(~has, ~pl.col("reference_uncertain").list.contains(finding)).select(
        "context", "frontal"
    )
    affirms = pl.col("report_positive").list.contains(finding).cast(pl.Float64)

    def rates(part: pl.DataFrame, change: str) -> pl.DataFrame:
        return part.filter(has).select("record_id", affirms.alias(change)).unique("record_id")

    table = rates(given, GIVEN)
    another = cases.filter(twin="another_radiograph").join(
        lacking, on=["context", "frontal"], how="semi"
    )
    of_finding = {
        change: cases.filter(twin=change, finding=finding) for change in (ELSEWHERE, COVERED)
    }
    parts = {LACKING: another, **of_finding, MEAN_PICTURE: cases.filter(twin=MEAN_PICTURE)}
    for change, part in parts.items():
        table = table.join(rates(part, change), on="record_id", how="left", maintain_order="left")
    return table


def _differences(
    pairs: Mapping[tuple[str, str], pl.DataFrame], units: Units
) -> dict[tuple[str, str], Difference]:
    """Compare the two changes of each effect, on the same halves of the patients."""
    sides: tuple[dict[Key, Summed], ...] = ({}, {})
    for (finding, effect), part in pairs.items():
        for side, change in zip(sides, reversed(EFFECTS[effect]), strict=True):
            rows = by_unit(mean_rows(part[change].to_numpy()), part["unit"].to_numpy(), units.count)
            side[UNKNOWN, f"{finding}/{effect}"] = Summed(rows, mean, (1,))
    compared = differences(*sides, _RESAMPLES)[UNKNOWN] if pairs else {}
    return {(finding, effect): compared[f"{finding}/{effect}"] for finding, effect in pairs}


@dataclass(frozen=True)
class Use:
    """Results of one kind of twin."""

    #: Number of pairs of a record and its twin.
    records: int
    #: Score of the twins (``first``), of the records as given (``second``) and their difference:
    #: mean over contexts.
    score: Difference
    #: Share of identical reports; None for :data:`CHANCE`.
    unchanged: float | None

    @property
    def verdict(self) -> str:
        """Whether the twin shows that the system uses the source."""
        low = self.score.low
        high = self.score.high
        if self.unchanged is None:  # the same reports, with the references of other patients
            return "above chance" if low is not None and low > 0 else "not above chance"
        if self.unchanged == 1:
            return "ignored"
        if low is None or high is None or low <= 0 <= high:
            return "no gain shown"
        return "used" if low > 0 else "misled"


class SystemUse(NamedTuple):
    """The use of sources by one system."""

    name: str
    #: By kind of twin, or :data:`CHANCE`.
    uses: dict[str, Use]
    #: The verdict of each finding.
    findings: list[FindingUse]
    #: Number of reports without a text.
    empty: int


def read_probe(folder: Path) -> pl.DataFrame:
    """Return a probe's key. Raises a DataError if there is none."""
    if not (folder / KEY).is_file():
        raise DataError(f"{folder} has no {KEY}; create it with `pacer probe make`")
    return pl.read_parquet(folder / KEY, glob=False)


def system_use(
    name: str,
    key: pl.DataFrame,
    reports: Path,
    columns: tuple[str | None, str | None] = (None, None),
    delimiter: Delimiter | None = None,
) -> SystemUse:
    """Score the reports of one system, a file with ``probe_id`` (or ``case``) and ``report``, or
    the ``columns`` of ids and reports, for each row of the key. ``delimiter``: that of a CSV file.
    Raises a DataError if it is unreadable, or ids do not pair one to one."""
    cases = _cases(key, reports_of(reports, _REPORTS, *columns, delimiter))
    groups = {twin: part for (twin,), part in cases.group_by("twin", maintain_order=True)}
    given = groups.pop(GIVEN)
    columns_of_reference = [f"reference_{polarity}" for polarity in POLARITIES]
    others = exchange(given, ["reference", *columns_of_reference], ["context"])
    uses: dict[str, Use] = {}
    if len(others):  # else one patient has more than half of the records
        uses[CHANCE] = replace(_use(given, others), unchanged=None)
    # probes of earlier versions have further kinds of twins
    uses |= {twin: _use(given, groups[twin]) for twin in TITLES if twin in groups}
    empty = int((cases["hypothesis"].str.strip_chars() == "").sum())
    return SystemUse(name, uses, finding_uses(cases), empty)


def _cases(key: pl.DataFrame, reports: Reports) -> pl.DataFrame:
    """Return the key with the reports and the findings that reports and references state."""
    # texts such as nan count as missing
    text = pl.when(~pl.col("text").str.contains(EMPTY_CELL))
    text = text.then(mapped("text", without_thoughts)).fill_null("")
    rows = reports.rows.select(pl.col("id").alias("probe_id"), text.alias("hypothesis"))
    ids = key["probe_id"].to_list(), rows["probe_id"].to_list()
    check_pairs(*ids, "the probe", str(reports.path))
    cases = key.join(rows, on="probe_id", how="left", maintain_order="left")
    findings = {side: read_findings(cases[column]) for side, column in _SIDES.items()}
    return cases.with_columns(
        lists_by_row(of_side, pl.col("state") == polarity, len(cases)).alias(f"{side}_{polarity}")
        for side, of_side in findings.items()
        for polarity in POLARITIES
    )


def _use(given: pl.DataFrame, twins: pl.DataFrame) -> Use:
    """Compare the twins with the same records as they are given."""
    given = twins.select("record_id").join(given, on="record_id", how="left", maintain_order="left")
    # the mean, if there are several contexts
    *_, last = gains(given, twins, "llm-rg4", [_F1], _FEWER_RESAMPLES).values()
    num_unchanged = int((given["hypothesis"] == twins["hypothesis"]).sum())
    return Use(len(twins), last[_F1], num_unchanged / len(twins))
