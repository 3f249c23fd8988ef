"""A system's use of each source, from its reports on a probe: records as they are given against their twins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from pacer.commitments.anchor import POLARITIES
from pacer.core.errors import DataError
from pacer.core.hygiene import EMPTY_CELL
from pacer.core.io import read_json
from pacer.data.twins import exchange
from pacer.metrics.attributes import KINDS
from pacer.metrics.cases import UNKNOWN
from pacer.metrics.commitments import anchor_columns
from pacer.metrics.predictions import check_pairs
from pacer.metrics.probe.make import GIVEN, KEY, MANIFEST, TITLES
from pacer.metrics.probe.verdicts import FindingUse, finding_uses
from pacer.metrics.report_files import reports_of
from pacer.metrics.scores import CASE_COLUMNS
from pacer.metrics.statistics.bootstrap import Difference
from pacer.metrics.statistics.sources import gains

#: The score of the reports: F1 of positive findings, read by the rules in report and reference.
_F1 = "report_positive_f1"
#: The comparison with another patient's reference: what a report that fits any patient would reach.
CHANCE = "chance"
_CONVENTION = "llm-rg4"
#: Resamples of an interval; a probe has one for each kind of twin and score.
_RESAMPLES = 2_000


@dataclass(frozen=True)
class Use:
    """What one kind of twin shows.

    Attributes:
        records: number of pairs. score: of twins (``first``), of the records as given (``second``) and their
            difference: F1 (the mean over contexts), or the share of an attribute that agrees (over all of them).
            unchanged: share of identical reports; None for :data:`CHANCE` and attributes.
    """

    records: int
    score: Difference
    unchanged: float | None

    @property
    def verdict(self) -> str:
        """Whether the twin shows that the system uses the source."""
        low, high = self.score.low, self.score.high
        if self.unchanged is None:  # chance: the reports are the same, and the references are others'
            return "above chance" if low is not None and low > 0 else "not above chance"
        if self.unchanged == 1:
            return "ignored"
        if low is None or high is None or low <= 0 <= high:
            return "no gain shown"
        return "used" if low > 0 else "misled"


class SystemUse(NamedTuple):
    """The use of sources by one system. ``uses``: kind of twin, :data:`CHANCE` or kind of attribute -> what it shows.
    ``findings``: the verdict of each finding. ``empty``: number of reports without a text."""

    name: str
    uses: dict[str, Use]
    findings: list[FindingUse]
    empty: int


def read_probe(folder: Path) -> tuple[pl.DataFrame, dict[str, str], dict[str, Any]]:
    """Return the key of a probe, its kinds of twins with their titles, and its manifest.

    Raises:
        DataError: the folder holds no whole probe.
    """
    if not (folder / KEY).is_file():
        raise DataError(f"{folder} has no {KEY}; create it with `pacer probe make`")
    key, manifest = pl.read_parquet(folder / KEY), read_json(folder / MANIFEST)
    present = set(key["twin"])
    return key, {name: title for name, title in TITLES.items() if name in present}, manifest


def system_use(name: str, key: pl.DataFrame, reports: Path, columns: tuple[str | None, ...] = ()) -> SystemUse:
    """Score the reports of one system.

    Args:
        reports: a file with the columns ``probe_id`` (or ``case``) and ``report``, one row for each row of the key.
        columns: of ids and of reports, to use instead; None: these.

    Raises:
        DataError: the file is unreadable, or ids do not pair one to one.
    """
    cases = _cases(key, reports, columns)
    groups = {twin: part for (twin,), part in cases.group_by("twin", maintain_order=True)}
    given = groups.pop(GIVEN)
    others = exchange(given, ["reference", *(f"reference_{polarity}" for polarity in POLARITIES)], ["context"])
    uses = {}
    if len(others):  # else one patient has more than half of the records
        uses[CHANCE] = replace(_use(given, others), unchanged=None)
        # in one context, since references without a previous report have no course
        column, kind, counts = CASE_COLUMNS["attributes"]
        pooled = pl.lit(UNKNOWN).alias("context")
        both = [part.with_columns(pl.Series(column, counts(part), kind), pooled) for part in (given, others)]
        uses |= {kind: replace(_use(*both, f"attributes_{kind}"), unchanged=None) for kind in KINDS}
    uses |= {twin: _use(given, part) for twin, part in groups.items()}
    empty = int((cases["hypothesis"].str.strip_chars() == "").sum())
    return SystemUse(name, uses, finding_uses(cases), empty)


def _cases(key: pl.DataFrame, path: Path, columns: tuple[str | None, ...]) -> pl.DataFrame:
    """Return the key with the reports and what was read in them."""
    read = reports_of(path, ("report", "hypothesis", "text"), *columns)
    texts = pl.when(~pl.col("text").str.contains(EMPTY_CELL)).then("text").fill_null("")  # nan and the like say nothing
    rows = read.rows.select(pl.col("id").alias("probe_id"), texts.alias("hypothesis"))
    check_pairs(key["probe_id"].to_list(), rows["probe_id"].to_list(), "the probe", str(path))
    cases = key.join(rows, on="probe_id", how="left", maintain_order="left")
    expected, stated = anchor_columns(cases["reference"], "reference"), anchor_columns(cases["hypothesis"], "report")
    return cases.with_columns(expected + stated)


def _use(given: pl.DataFrame, twins: pl.DataFrame, score: str = _F1) -> Use:
    """Compare the twins with the same records as they are given."""
    given = twins.select("record_id").join(given, on="record_id", how="left", maintain_order="left")
    *_, last = gains(given, twins, _CONVENTION, [score], _RESAMPLES).values()  # the mean, if there are several contexts
    return Use(len(twins), last[score], int((given["hypothesis"] == twins["hypothesis"]).sum()) / len(twins))
