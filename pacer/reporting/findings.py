"""The ledger of findings in tables: verdicts counted by finding, single findings, and the reports
with the worst verdicts."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from pacer.commitments.anchor import Attributes, words
from pacer.data.findings import FINDINGS
from pacer.display.numbers import number
from pacer.display.tables import Table, first_cell_changes
from pacer.metrics.ledger import VERDICTS

#: The name of the row of sums.
ALL = "all findings"
_NOTES = (
    "correct: the same state, and each side, severity and course that the reference names; partly: "
    "one of these is contradicted or left out, or only one text is uncertain; opposite: one text "
    "affirms what the other denies; missed, invented: only the reference, or only the report, "
    "affirms it or leaves it uncertain. 'In references' and 'In reports' count affirmed findings; "
    "the verdicts count denied ones, too.",
)


def of_systems(ledgers: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the ledgers of several systems as one, with the ``system`` of each row."""
    named = [ledger.with_columns(system=pl.lit(name)) for name, ledger in ledgers.items()]
    return pl.concat(named).with_columns(pl.col("system").cast(pl.Enum(list(ledgers))))


def other_records(cases: Mapping[str, pl.DataFrame]) -> str:
    """Return a sentence if not all systems have the same records; else nothing."""
    records = {name: {*table["record_id"]} for name, table in cases.items()}
    shared = set.intersection(*records.values())
    if all(of == shared for of in records.values()):
        return ""
    numbers = ", ".join(f"{name} {number(len(of))}" for name, of in records.items())
    return (
        f"the systems have different records: {numbers}, and {number(len(shared))} in all of them"
    )


def verdict_counts(rows: pl.DataFrame) -> pl.DataFrame:
    """Return by ``finding`` and ``system`` how often the references and the reports affirm it, and
    the number of each verdict; last the sums over all findings."""
    counts = [
        (pl.col(f"{side}_state") == "positive").sum().alias(side)
        for side in ("reference", "report")
    ]
    counts += [(pl.col("verdict") == verdict).sum().alias(verdict) for verdict in VERDICTS]
    key, order = ["finding", "system"], pl.col("finding").cast(pl.Enum([*FINDINGS, ALL]))
    of_all = rows.with_columns(finding=pl.lit(ALL)).group_by(key).agg(counts)
    counted = pl.concat([rows.group_by(key).agg(counts), of_all])
    every = counted.select("finding").unique().join(rows.select("system").unique(), how="cross")
    return every.join(counted, on=key, how="left").fill_null(0).sort(order, "system")


def verdict_table(rows: pl.DataFrame, caption: str = "") -> Table:
    """Return the counts as a table, several systems below each other."""
    counts, several = verdict_counts(rows), rows["system"].n_unique() > 1
    cells = [
        (finding, *[system] * several, *map(number, numbers))
        for finding, system, *numbers in counts.iter_rows()
    ]
    return Table(
        ("Finding", *["System"] * several, "In references", "In reports", *VERDICTS),
        tuple(cells),
        caption,
        text_columns=1 + several,
        rules=first_cell_changes(cells) if several else frozenset({len(cells) - 1}),
        notes=_NOTES,
    )


def finding_table(rows: pl.DataFrame) -> Table:
    """Return single findings, one per row, with what both texts say of them."""
    several = rows["system"].n_unique() > 1
    rows = rows.sort("record_id", pl.col("finding").cast(pl.Enum(FINDINGS)), "system")
    cells = tuple(
        (
            row["record_id"],
            *[row["system"]] * several,
            row["finding"],
            ", ".join([row["verdict"] or "", *row["wrong"]]),
            _said(row, "reference"),
            _said(row, "report"),
        )
        for row in rows.iter_rows(named=True)
    )
    heads = ("Record", *["System"] * several, "Finding", "Verdict", "Reference", "Report")
    return Table(heads, cells, text_columns=len(heads))


def _said(row: Mapping[str, Any], side: str) -> str:
    """Return what a text says of a finding, and its words there."""
    if row[f"{side}_state"] is None:
        return "–"
    kinds = (frozenset(row[f"{side}_{kind}"]) for kind in Attributes._fields)
    described = ", ".join([row[f"{side}_state"], *words(Attributes(*kinds))])
    places = "; ".join(place["words"] for place in row[f"{side}_places"])
    return f"{described}: {places}" if places else described


def worst_reports(rows: pl.DataFrame, most: int) -> pl.DataFrame:
    """Return of each system the reports with the most opposite findings, then the most that are
    missed or invented, then by id: at most ``most``, with the number of each verdict but
    ``correct``."""
    counts = [(pl.col("verdict") == verdict).sum().alias(verdict) for verdict in VERDICTS[1:]]
    reports = rows.group_by("system", "record_id", "context").agg(counts)
    wrong = pl.col("missed") + pl.col("invented")
    ranked = reports.filter((pl.col("opposite") + wrong) > 0).sort(
        "system", pl.col("opposite"), wrong, "record_id", descending=[False, True, True, False]
    )
    return ranked.group_by("system", maintain_order=True).head(most)


def worst_table(rows: pl.DataFrame, most: int) -> Table:
    """Return :func:`worst_reports` as a table."""
    worst = worst_reports(rows, most)
    several = rows["system"].n_unique() > 1
    cells = [
        (*[system] * several, record, *map(number, numbers))
        for system, record, _, *numbers in worst.iter_rows()
    ]
    heads = (*["System"] * several, "Record", *VERDICTS[1:])
    rules = first_cell_changes(cells) if several else frozenset()
    return Table(heads, tuple(cells), text_columns=1 + several, rules=rules)
