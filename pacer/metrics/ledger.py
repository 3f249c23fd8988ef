"""The ledger of findings: how the two texts of a case state each finding, and the verdict on the
report.

A mention is a place in a text that names a finding. The mentions of a text are grouped to one row
for each finding that it states (:func:`read_findings`), and the rows of a reference and of a report
are compared finding by finding (:func:`compared`). Everything about single findings comes from
these rows: scores, the table *By finding*, marks on pages, and the probe.

The verdict on a finding:

- ``correct``: both texts have the same state. If both affirm it, or leave it uncertain, the report
  also has the sides that the reference names and, where it names severities or courses, one or more
  of them and no other.
- ``partly``: the state is the same, but one of these is contradicted or left out; or both texts
  state the finding, and only one leaves it uncertain. ``wrong`` names what is wrong.
- ``opposite``: one text affirms what the other denies.
- ``missed``: the reference affirms it or leaves it uncertain, and the report does not state it.
- ``invented``: the report affirms it or leaves it uncertain, and the reference does not state it.
- null: one text denies it, and the other does not state it.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter

import numpy as np
import polars as pl

from pacer.core.anchor import POLARITIES, Anchor
from pacer.core.attributes import KINDS, VALUES, Attributes
from pacer.core.findings import FINDINGS
from pacer.metrics.cases import WORDS
from pacer.text.rules import (
    Lexicon,
    Mention,
    extract_anchor,
    find_mentions,
    find_more,
    read_attributes,
    read_more,
)

PLACES = pl.List(pl.Struct({"start": pl.Int32, "end": pl.Int32, "words": pl.String}))
#: The verdicts, from right to wrong.
VERDICTS = ("correct", "partly", "opposite", "missed", "invented")
#: The rows of :func:`read_findings`: ``row`` is the index of the text.
READ = pl.Schema(
    {"row": pl.UInt32(), "finding": pl.String(), "state": pl.String()}
    | dict.fromkeys(KINDS, WORDS)
    | {"places": PLACES}
)
#: The rows of :func:`mentions`.
MENTIONS = pl.Schema(
    {"row": pl.UInt32(), "finding": pl.String(), "state": pl.String()}
    | {"start": pl.Int32(), "end": pl.Int32(), "words": pl.String(), "cue": pl.String()}
)
#: The columns of ``findings.parquet``.
FINDINGS_SCHEMA = pl.Schema(
    dict.fromkeys(("record_id", "context", "finding"), pl.String())
    | dict.fromkeys(("reference_state", "report_state", "verdict"), pl.String())
    | {"wrong": WORDS}
    | {f"{side}_{kind}": WORDS for side in ("reference", "report") for kind in KINDS}
    | {f"{side}_places": PLACES for side in ("reference", "report")}
    | {"committed_state": pl.String()}
)
_KEY = ["row", "finding"]
_PLACE = itemgetter(0, 1)
_REFERENCE, _REPORT = pl.col("reference_state"), pl.col("report_state")
_BOTH_AFFIRM = (_REFERENCE == "positive") & (_REPORT == "positive")
#: Findings that both texts affirm, and the report describes as the reference does.
IS_EXACT = _BOTH_AFFIRM & (pl.col("verdict") == "correct")
_COMMITTED = pl.col("committed_state")
#: Findings of which a report and its commitment state the opposite.
CONTRADICTS = ((_COMMITTED == "positive") & (_REPORT == "negative")) | (
    (_COMMITTED == "negative") & (_REPORT == "positive")
)


def mentions(texts: Iterable[str | None], more: Lexicon | None = None) -> pl.DataFrame:
    """Return the mentions of findings: the ``row`` of the text, the ``finding``, its ``state``
    (null: not stated), the place in characters, the words there, and those of the ``cue`` that
    decided the state (null: none). ``more``: also of its further findings."""
    rows = [
        (
            row,
            m.finding,
            m.polarity,
            m.start,
            m.end,
            text[m.start : m.end],
            m.cue and text[slice(*m.cue)],
        )
        for row, text in enumerate(texts)
        if text is not None
        for m in _mentions(text, more)
    ]
    return pl.DataFrame(rows, MENTIONS, orient="row")


def _mentions(text: str, more: Lexicon | None) -> Sequence[Mention]:
    found = find_mentions(text)
    return found if more is None else sorted([*found, *find_more(text, more)], key=_PLACE)


def read_findings(texts: Iterable[str | None]) -> pl.DataFrame:
    """Return a row for each finding that a text states, in the vocabulary's order, as in
    :data:`READ`: its state, the side, severity and course over all its mentions, and the places of
    these. A text that is None has no rows."""
    texts = list(texts)
    stated = _stated(
        (row, extract_anchor(text), read_attributes(text))
        for row, text in enumerate(texts)
        if text is not None
    )
    places = mentions(texts).drop_nulls("state")
    places = places.group_by(_KEY).agg(places=pl.struct("start", "end", "words"))
    return stated.join(places, on=_KEY, how="left", maintain_order="left").cast(READ)


def listed_findings(commitments: Iterable[Anchor]) -> pl.DataFrame:
    """Return the rows of commitments, which have no places."""
    stated = _stated((row, one, one.attributes) for row, one in enumerate(commitments))
    return stated.with_columns(places=pl.lit([], PLACES)).cast(READ)


def _stated(
    texts: Iterable[tuple[int, Anchor, Mapping[str, Attributes]]],
) -> pl.DataFrame:
    """Return a row for each finding of a text that has a state; each text with its index and the
    attributes of its findings."""
    rows = [
        (row, finding, state, *_words(attributes.get(finding, Attributes())))
        for row, anchor, attributes in texts
        for finding, state in _states(anchor)
    ]
    schema = {name: pl.String() if name in KINDS else READ[name] for name in READ}
    del schema["places"]
    table = pl.DataFrame(rows, schema, orient="row")
    return table.with_columns(pl.col(KINDS).str.extract_all(r"\w+"))  # faster than lists in rows


@lru_cache(maxsize=1 << 12)
def _words(attributes: Attributes) -> list[str]:
    """Return the words of each kind as one text, in the order of :data:`VALUES`."""
    return [
        " ".join(value for value in VALUES[kind] if value in of_kind)
        for kind, of_kind in zip(KINDS, attributes, strict=True)
    ]


@lru_cache(maxsize=1 << 14)
def _states(anchor: Anchor) -> list[tuple[str, str]]:
    return [(one, state) for one in FINDINGS if (state := anchor.polarity(one))]


def compared(reference: pl.DataFrame, report: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each finding that either side states, in the order of the texts and of
    :func:`in_order`: the columns of :data:`READ` of both, as ``reference_…`` and ``report_…``, the
    ``verdict``, and what is ``wrong``."""
    first, second = (
        side.rename({name: f"{prefix}_{name}" for name in side.columns if name not in _KEY})
        for prefix, side in (("reference", reference), ("report", report))
    )
    rows = first.join(second, on=_KEY, how="full", coalesce=True)
    lists = [pl.col(name).fill_null([]) for name, kind in rows.schema.items() if kind == pl.List]
    rows = rows.with_columns(lists).sort("row", in_order(rows))
    same, in_both = _REFERENCE == _REPORT, _REFERENCE.is_not_null() & _REPORT.is_not_null()
    one_unsure = in_both & ~same & ((_REFERENCE == "uncertain") | (_REPORT == "uncertain"))
    none_denies = same & (_REFERENCE != "negative")
    wrong = [pl.when(none_denies & _is_wrong(kind)).then(pl.lit(kind)) for kind in KINDS]
    wrong.append(pl.when(one_unsure).then(pl.lit("state")))
    rows = rows.with_columns(wrong=pl.concat_list(wrong).list.drop_nulls())
    verdict = (
        pl.when(pl.col("wrong").list.len() > 0)
        .then(pl.lit("partly"))
        .when(same)
        .then(pl.lit("correct"))
        .when(in_both)
        .then(pl.lit("opposite"))
        .when(_REFERENCE != "negative")
        .then(pl.lit("missed"))
        .when(_REPORT != "negative")
        .then(pl.lit("invented"))
    )
    return rows.with_columns(verdict=verdict)


def _is_wrong(kind: str) -> pl.Expr:
    """Return whether the report contradicts or leaves out what the reference names: the sides must
    be the same, and severities and courses must be among those of the reference."""
    reference, report = pl.col(f"reference_{kind}"), pl.col(f"report_{kind}")
    if kind == "side":
        return (reference.list.len() > 0) & (reference != report)
    further = (report.list.contains(v) & ~reference.list.contains(v) for v in VALUES[kind])
    is_other = (report.list.len() == 0) | pl.any_horizontal(further)
    return (reference.list.len() > 0) & is_other


def _listed(cases: pl.DataFrame, side: str) -> pl.DataFrame:
    """Return a row for each finding that the cases list in ``{side}_positive`` and so on, with this
    state."""
    lists = cases.select(f"{side}_{state}" for state in POLARITIES).with_row_index("row")
    return pl.concat(
        lists.select("row", pl.col(f"{side}_{state}").alias("finding"), state=pl.lit(state))
        .explode("finding")
        .drop_nulls("finding")
        for state in POLARITIES
    )


def with_states_of(cases: pl.DataFrame, reference: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each finding that the cases list for the reference (``reference_positive``
    and so on), with that state, and with the attributes and places of the reference's text, null if
    this does not name the finding."""
    listed = _listed(cases, "reference")
    return listed.join(reference.drop("state"), on=_KEY, how="left").select(reference.columns)


def findings_of(cases: pl.DataFrame, reference: pl.DataFrame, report: pl.DataFrame) -> pl.DataFrame:
    """Return the ledger of cases, with the ``row`` of the case, from what was read in both texts.
    A reference has the states that the cases list for it; its attributes and places are those of
    its text."""
    rows = compared(with_states_of(cases, reference), report)
    committed = _listed(cases, "anchor").rename({"state": "committed_state"})
    ids = cases.select("record_id", "context").with_row_index("row")
    for further, on in ((committed, _KEY), (ids, ["row"])):
        rows = rows.join(further, on=on, how="left", maintain_order="left")
    return rows.select("row", *FINDINGS_SCHEMA)


def further_findings(cases: pl.DataFrame, lexicon: Lexicon) -> pl.DataFrame:
    """Return rows as those of :func:`findings_of` for the further findings of a lexicon, as both
    texts of each case state them. Only their states are read, no side, severity or course."""
    sides = (_read_further(cases[text], lexicon) for text in ("reference", "hypothesis"))
    ids = cases.select("record_id", "context").with_row_index("row")
    rows = compared(*sides).join(ids, on="row", how="left", maintain_order="left")
    empty = pl.DataFrame(schema={"row": pl.UInt32(), **FINDINGS_SCHEMA})
    return pl.concat([empty, rows], how="diagonal").select(empty.columns)


def _read_further(texts: Iterable[str], lexicon: Lexicon) -> pl.DataFrame:
    """Return the rows of :data:`READ` for the further findings of a lexicon."""
    rows = [
        {
            "row": row,
            "finding": finding,
            "state": state,
            "places": [
                {"start": m.start, "end": m.end, "words": text[m.start : m.end]}
                for m in found
                if m.finding == finding and m.polarity is not None
            ],
        }
        for row, text in enumerate(texts)
        if (found := find_more(text, lexicon))
        for finding, state in read_more(text, lexicon).items()
    ]
    return pl.DataFrame(rows, READ).with_columns(pl.col(KINDS).fill_null([]))


def in_order(rows: pl.DataFrame) -> pl.Expr:
    """Return what sorts the column ``finding`` of ``rows``: the 13 as in the vocabulary, then
    further findings by name."""
    further = sorted({*rows["finding"].unique()} - {*FINDINGS})
    return pl.col("finding").cast(pl.Enum([*FINDINGS, *further]))


def lists_by_row(rows: pl.DataFrame, chosen: pl.Expr, count: int) -> pl.Series:
    """Return the findings of the ``chosen`` rows for each of ``count`` texts."""
    lists = rows.filter(chosen).group_by("row", maintain_order=True).agg("finding")
    every = pl.DataFrame({"row": range(count)}, {"row": pl.UInt32})
    joined = every.join(lists, on="row", how="left", maintain_order="left")["finding"]
    # in one chunk: `list.set_intersection` fails on two columns with different chunk boundaries
    return joined.fill_null([]).rechunk()


def attribute_counts(rows: pl.DataFrame, count: int) -> np.ndarray:
    """Return for each of ``count`` texts, over the findings that both sides affirm, how often they
    agree in each of :data:`KINDS` that the reference names, then how often it names one, ``[n,
    6]``."""
    named = [pl.col(f"reference_{kind}").list.len() > 0 for kind in KINDS]
    agreed = [
        one & ~pl.col("wrong").list.contains(kind) for kind, one in zip(KINDS, named, strict=True)
    ]
    both = rows.filter(_BOTH_AFFIRM)
    counts = np.zeros((count, 2 * len(KINDS)), dtype=int)
    flags = both.select(one.alias(str(index)) for index, one in enumerate([*agreed, *named]))
    np.add.at(counts, both["row"].to_numpy(), flags.to_numpy().astype(int))
    return counts
