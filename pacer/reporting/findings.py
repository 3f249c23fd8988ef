"""Tables from the ledger of findings: counts of verdicts by finding, single findings, and the
reports with the worst verdicts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from pacer.core.anchor import normalize_finding
from pacer.core.attributes import Attributes, words
from pacer.core.errors import ConfigError
from pacer.core.findings import FINDINGS
from pacer.display.numbers import number
from pacer.display.tables import Table, first_cell_changes
from pacer.metrics.cases import WORDS
from pacer.metrics.ledger import PLACES, VERDICTS, further_findings, in_order
from pacer.metrics.result import Result
from pacer.text.rules import Lexicon
from pacer.text.rules.more import further_names

#: The name of the row of sums.
ALL = "all findings"
_VERDICT = pl.col("verdict")
_AFFIRMED, _IS_AFFIRMED, _DENIED, _IS_DENIED = (
    pl.col(f"{side}_state").eq_missing(pl.lit(state))
    for state in ("positive", "negative")
    for side in ("reference", "report")
)
#: The counts of a finding, and the columns of their table.
COUNTS: dict[str, tuple[str, pl.Expr]] = {
    "in_references": ("In references", _AFFIRMED),
    "in_reports": ("In reports", _IS_AFFIRMED),
    "hit": ("hit", _AFFIRMED & _IS_AFFIRMED),
    "missed": ("missed", _AFFIRMED & ~_IS_AFFIRMED),
    "invented": ("invented", _IS_AFFIRMED & ~_AFFIRMED),
    "partly": ("partly", _VERDICT == "partly"),
    "opposite": ("opposite", _VERDICT == "opposite"),
    "denied_in_references": ("Denied in references", _DENIED),
    "denied_in_reports": ("Denied in reports", _IS_DENIED),
    "denied_in_both": ("Denied in both", _DENIED & _IS_DENIED),
}
_NOTES = (
    "'In references' and 'In reports' count affirmed findings. hit: both texts affirm the finding; "
    "missed, invented: only the reference, or only the report, affirms it. partly: the report "
    "contradicts or leaves out a side, severity or course, or only one text is uncertain; "
    "opposite: one text affirms the finding and the other denies it.",
)
_FURTHER = f"Findings beyond the 13 are below '{ALL}', which does not count them."


def ledger_of(results: Mapping[str, Result], lexicon: Lexicon | None) -> pl.DataFrame:
    """Return the ledgers of several systems as one, as :func:`of_systems`, with the further
    findings of a lexicon. Without a lexicon, those that the systems were scored with are kept if
    all were scored with the same table."""
    ledgers = {name: result.findings for name, result in results.items()}
    if lexicon is not None or not _have_one_table(results):
        is_own = pl.col("finding").is_in(FINDINGS)
        ledgers = {name: ledger.filter(is_own) for name, ledger in ledgers.items()}
    if lexicon is not None:
        for name, result in results.items():
            further = further_findings(result.cases, lexicon).drop("row")
            ledgers[name] = pl.concat([ledgers[name], further])
    return of_systems(ledgers)


def _have_one_table(results: Mapping[str, Result]) -> bool:
    """Return whether all systems were scored with the same further findings, or with none."""
    return len({one.signature.data.get("more_findings") for one in results.values()}) == 1


def known_finding(name: str, rows: pl.DataFrame, lexicon: Lexicon | None) -> str:
    """Return the name of a finding as the ``rows`` have it; raises a ConfigError if it is neither
    one of the 13 nor a further finding of a lexicon or of the rows."""
    further = further_names(lexicon) if lexicon else sorted({*rows["finding"]} - {*FINDINGS})
    known = normalize_finding(name) or next((one for one in further if one == name.lower()), None)
    if known is None:
        hint = "" if further else "; others need --more-findings"
        names = ", ".join([*FINDINGS, *further])
        raise ConfigError(f"--finding {name}: expected one of {names}{hint}")
    return known


def of_systems(ledgers: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the ledgers of several systems as one, with the ``system`` of each row."""
    named = [
        ledger.select(pl.lit(name, pl.Enum(list(ledgers))).alias("system"), pl.all())
        for name, ledger in ledgers.items()
    ]
    return pl.concat(named)


def notes_on(results: Mapping[str, Result], lexicon: Lexicon | None) -> list[str]:
    """Return a sentence each if the systems have different records, or further findings that
    cannot be shown."""
    notes = []
    records = {name: set(result.cases["record_id"]) for name, result in results.items()}
    shared = set.intersection(*records.values())
    if any(ids != shared for ids in records.values()):
        numbers = ", ".join(f"{name} {number(len(ids))}" for name, ids in records.items())
        notes.append(
            f"the systems have different records: {numbers}, and {number(len(shared))} in all of "
            "them"
        )
    if lexicon is None and not _have_one_table(results):
        notes.append(
            "not all systems were scored with the same further findings, so these are left out; "
            "choose them with --more-findings"
        )
    return notes


def verdict_counts(rows: pl.DataFrame) -> pl.DataFrame:
    """Return :data:`COUNTS` by ``finding`` and ``system``: of each of the 13, of all of these
    together, and of each further finding."""
    counts = [condition.sum().alias(name) for name, (_, condition) in COUNTS.items()]
    key = ["finding", "system"]
    of_13 = rows.filter(pl.col("finding").is_in(FINDINGS))
    of_all = of_13.with_columns(finding=pl.lit(ALL)).group_by(key).agg(counts)
    counted = pl.concat([rows.group_by(key).agg(counts), of_all])
    every = counted.select("finding").unique().join(rows.select("system").unique(), how="cross")
    place = (
        pl.when(pl.col("finding").is_in(FINDINGS)).then(0).when(finding=ALL).then(1).otherwise(2)
    )
    table = every.join(counted, on=key, how="left").fill_null(0)
    return table.sort(place, in_order(table), "system")


def verdict_table(rows: pl.DataFrame, caption: str = "") -> Table:
    """Return the counts as a table, several systems below each other."""
    cells = [
        (finding, system, *map(number, numbers))
        for finding, system, *numbers in verdict_counts(rows).iter_rows()
    ]
    heads = ("Finding", "System", *(heading for heading, _ in COUNTS.values()))
    has_further = not {finding for finding, *_ in cells} <= {*FINDINGS, ALL}
    table = Table(
        heads,
        tuple(cells),
        caption,
        text_columns=2,
        rules=first_cell_changes(cells),
        notes=(*_NOTES, _FURTHER) if has_further else _NOTES,
    )
    if rows["system"].n_unique() > 1:
        return table
    sums = next(row for row, (finding, *_) in enumerate(cells) if finding == ALL)
    around = {sums, sums + 1} if has_further else {sums}
    return replace(table.without("System"), rules=frozenset(around))


def finding_table(rows: pl.DataFrame) -> Table:
    """Return single findings, one per row, with the statements of both texts."""
    rows = rows.sort("record_id", in_order(rows), "system")
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
    return table if rows["system"].n_unique() > 1 else table.without("System")


def flat(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows without lists, for CSV: sides and other words joined by blanks, and the words of
    the mentions in place of their places; without commitments, if there are none."""
    of_words = [name for name, kind in rows.schema.items() if kind == WORDS]
    of_places = {name: name.replace("_places", "_words") for name in rows.columns}
    said = pl.element().struct.field("words")
    columns = [
        pl.col(name).list.eval(said).list.join("; ")
        for name, kind in rows.schema.items()
        if kind == PLACES
    ]
    texts = pl.col(of_words).list.join(" ").replace("left right", "bilateral")
    rows = rows.with_columns(*columns, texts).rename(of_places)
    return rows.drop(
        one.name for one in rows if one.name.startswith("committed_") and not one.count()
    )


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
    return table if rows["system"].n_unique() > 1 else table.without("System")
