"""Tables from the ledger of findings: counts of verdicts by finding, single findings, and the
reports with the worst verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from pacer.core.anchor import Attributes, words
from pacer.core.findings import FINDINGS
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
    records = {name: set(table["record_id"]) for name, table in cases.items()}
    shared = set.intersection(*records.values())
    if all(ids == shared for ids in records.values()):
        return ""
    numbers = ", ".join(f"{name} {number(len(ids))}" for name, ids in records.items())
    return (
        f"the systems have different records: {numbers}, and {number(len(shared))} in all of them"
    )


def verdict_counts(rows: pl.DataFrame) -> pl.DataFrame:
    """Return by ``finding`` and ``system`` how often the references and the reports affirm it, and
    the number of each verdict; the sums over all findings are last."""
    counts = [
        (pl.col(f"{side}_state") == "positive").sum().alias(side)
        for side in ("reference", "report")
    ]
    counts += [(pl.col("verdict") == verdict).sum().alias(verdict) for verdict in VERDICTS]
    key = ["finding", "system"]
    order = pl.col("finding").cast(pl.Enum([*FINDINGS, ALL]))
    of_all = rows.with_columns(finding=pl.lit(ALL)).group_by(key).agg(counts)
    counted = pl.concat([rows.group_by(key).agg(counts), of_all])
    every = counted.select("finding").unique().join(rows.select("system").unique(), how="cross")
    return every.join(counted, on=key, how="left").fill_null(0).sort(order, "system")


def verdict_table(rows: pl.DataFrame, caption: str = "") -> Table:
    """Return the counts as a table, several systems below each other."""
    cells = [
        (finding, system, *map(number, numbers))
        for finding, system, *numbers in verdict_counts(rows).iter_rows()
    ]
    heads = ("Finding", "System", "In references", "In reports", *VERDICTS)
    table = Table(
        heads,
        tuple(cells),
        caption,
        text_columns=2,
        rules=first_cell_changes(cells),
        notes=_NOTES,
    )
    if rows["system"].n_unique() > 1:
        return table
    return replace(_without_system(table), rules=frozenset({len(cells) - 1}))


def _without_system(table: Table) -> Table:
    """Return a table without the column of systems, if there is only one system."""
    place = table.columns.index("System")
    return replace(
        table,
        columns=_without_item(table.columns, place),
        rows=tuple(_without_item(row, place) for row in table.rows),
        text_columns=table.text_columns - 1,
        rules=frozenset(),
    )


def _without_item(items: Sequence[str], place: int) -> tuple[str, ...]:
    return (*items[:place], *items[place + 1 :])


def finding_table(rows: pl.DataFrame) -> Table:
    """Return single findings, one per row, with the statements of both texts."""
    rows = rows.sort("record_id", pl.col("finding").cast(pl.Enum(FINDINGS)), "system")
    cells = tuple(
        (
            row["record_id"],
            row["system"],
            row["finding"],
            ", ".join([row["verdict"] or "", *row["wrong"]]),
            _statement(row, "reference"),
            _statement(row, "report"),
        )
        for row in rows.iter_rows(named=True)
    )
    heads = ("Record", "System", "Finding", "Verdict", "Reference", "Report")
    table = Table(heads, cells, text_columns=len(heads))
    return table if rows["system"].n_unique() > 1 else _without_system(table)


def _statement(row: Mapping[str, Any], side: str) -> str:
    """Return the statement of a text on a finding, and the words that make it."""
    if row[f"{side}_state"] is None:
        return "–"
    kinds = (frozenset(row[f"{side}_{kind}"]) for kind in Attributes._fields)
    described = ", ".join([row[f"{side}_state"], *words(Attributes(*kinds))])
    places = "; ".join(place["words"] for place in row[f"{side}_places"])
    return f"{described}: {places}" if places else described


def worst_reports(rows: pl.DataFrame, most: int) -> pl.DataFrame:
    """Return at most ``most`` reports of each system, with the number of each verdict except
    ``correct``. They are sorted by the number of opposite findings, then by that of missed and
    invented findings, then by that of partly right ones (the largest first), then by id."""
    counts = [(pl.col("verdict") == verdict).sum().alias(verdict) for verdict in VERDICTS[1:]]
    reports = rows.group_by("system", "record_id", "context").agg(counts)
    keys = ("opposite", pl.col("missed") + pl.col("invented"), "partly")
    ranked = reports.filter(pl.sum_horizontal(VERDICTS[1:]) > 0).sort(
        "system", *keys, "record_id", descending=[False, True, True, True, False]
    )
    return ranked.group_by("system", maintain_order=True).head(most)


def worst_table(rows: pl.DataFrame, most: int) -> Table:
    """Return :func:`worst_reports` as a table."""
    cells = [
        (system, record, *map(number, numbers))
        for system, record, _, *numbers in worst_reports(rows, most).iter_rows()
    ]
    heads = ("System", "Record", *VERDICTS[1:])
    table = Table(heads, tuple(cells), text_columns=2, rules=first_cell_changes(cells))
    return table if rows["system"].n_unique() > 1 else _without_system(table)
