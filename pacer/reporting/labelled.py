"""Tables of what the rules read in reports: a row a report and a column a finding, or a row a
mention."""

import polars as pl

from pacer.core.attributes import KINDS, Attributes, words
from pacer.core.findings import FINDINGS
from pacer.metrics.ledger import mentions
from pacer.text.rules import Lexicon, extract_anchor, read_attributes, read_more
from pacer.text.rules.more import further_names

#: The number that stands for each state, as in the tables of CheXpert's labelers; a finding that
#: the report does not state is null.
NUMBERS = {"positive": 1, "negative": 0, "uncertain": -1}


def label_table(
    reports: pl.DataFrame, more: Lexicon | None = None, *, attributes: bool = False
) -> pl.DataFrame:
    """Return a row for each report (columns ``id`` and ``text``): its id, and one of
    :data:`NUMBERS` or null in a column for each of the 13 findings and of those that ``more`` adds.
    With ``attributes``, each of the 13 also has columns of words for its side, severity and
    course."""
    texts = [text or "" for text in reports["text"]]
    anchors = [extract_anchor(text) for text in texts]
    described = [read_attributes(text) for text in texts] if attributes else []
    columns = [reports["id"]]
    for finding in FINDINGS:
        columns.append(_numbers(finding, [anchor.polarity(finding) for anchor in anchors]))
        for kind in KINDS if attributes else ():
            stated = [one.get(finding, Attributes()).only([kind]) for one in described]
            values = [" ".join(words(one)) or None for one in stated]
            columns.append(pl.Series(f"{finding} {kind}", values, pl.String))
    if more is not None:
        further = [read_more(text, more) for text in texts]
        columns += [_numbers(one, [of.get(one) for of in further]) for one in further_names(more)]
    return pl.DataFrame(columns)


def _numbers(finding: str, states: list[str | None]) -> pl.Series:
    return pl.Series(finding, [state and NUMBERS[state] for state in states], pl.Int8)


def mention_table(reports: pl.DataFrame, more: Lexicon | None = None) -> pl.DataFrame:
    """Return the mentions of findings in the column ``text``, of the 13 and of those that ``more``
    adds: the report's ``id``, the polarity (null: not stated), the place in characters, the words
    there, and those of the cue that decided (null: none)."""
    found = mentions(reports["text"], more).rename({"state": "polarity"})
    ids = reports["id"].gather(found["row"])
    return found.drop("row").insert_column(0, ids)
