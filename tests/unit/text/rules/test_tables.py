"""Every row of the tables, by its own example, and the form of the tables."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pacer.core.anchor import POLARITIES
from pacer.core.errors import DataError
from pacer.text.rules import Lexicon, extract_anchor, read_attributes, tables
from pacer.text.rules.tables import OWN, Row, longest, own_table, read_table, wordings, words_of

TABLES = Path(tables.__file__).parent
NAMES, CUES = own_table("names", "name"), own_table("cues")
FORMS, ATTRIBUTES = own_table("forms"), own_table("attributes")
#: The state that a cue of each kind gives to every finding of its example. A row of another kind is
#: passed over, and its example has a finding that it does not deny.
STATES = {
    "no": "negative",
    "maybe": "uncertain",
    "between": "uncertain",
    "link": "uncertain",
    "keep": "positive",
    "silent": None,
}


def states(text: str) -> dict[str, str]:
    anchor = extract_anchor(text)
    return {finding: name for name in POLARITIES for finding in getattr(anchor, name)}


def matched(phrases: dict, text: str) -> Iterator[object]:
    """The meanings of the phrases in a text, as the rules find them."""
    words, place = words_of(text.lower(), OWN.forms), 0
    while place < len(words):
        end, meaning = longest(phrases, words, place)
        yield meaning
        place = max(end, place + 1)


def phrases_found(text: str) -> list[str]:
    return [row.phrase for row in matched(OWN.phrases, text) if isinstance(row, Row)]


@pytest.mark.parametrize("row", NAMES, ids=lambda row: row.phrase)
def test_names(row: Row) -> None:
    assert row.phrase in phrases_found(row.example)
    read = states(row.example)
    if row.kind == "name":
        assert {finding: read.get(finding) for finding in row.findings} == dict.fromkeys(
            row.findings, row.base
        )
        assert row.findings or states(wordings(row.phrase)[0]) == {}
    elif row.detail != "width":
        state = "negative" if "normal" in row.example else "positive"
        assert read == dict.fromkeys(row.findings, state)


@pytest.mark.parametrize("row", CUES, ids=lambda row: row.phrase)
def test_cues(row: Row) -> None:
    assert row.phrase in phrases_found(row.example)
    read = states(row.example)
    if row.kind in STATES:
        state = STATES[row.kind]
        if row.detail == "than":  # "more likely A than B": A is uncertain
            state = "uncertain"
        assert set(read.values()) == ({state} if state else set())
    elif row.kind == "state":
        organs = {
            "heart": "cardiomegaly",
            "mediastinum": "enlarged mediastinum",
            "vessels": "edema",
        }
        named = {organs[organ]: state for organ, state in row.values.items()}
        assert set(read.items()) <= set(named.items()) and bool(read) == bool(named)
    else:
        assert "positive" in read.values()


@pytest.mark.parametrize("row", FORMS, ids=lambda row: row.example)
def test_forms(row: Row) -> None:
    read = states(row.example)
    if row.kind == "value":
        state = None if row.detail == "unknown" else row.detail
        assert read.get("pleural effusion") == state
    elif row.kind == "section":
        assert read == ({"pleural effusion": "positive"} if row.detail == "read" else {})
    else:
        assert read == {"pleural effusion": "negative"}


@pytest.mark.parametrize("row", ATTRIBUTES, ids=lambda row: row.phrase)
def test_attributes(row: Row) -> None:
    meaning = frozenset(row.kind.split())
    assert meaning in [*matched(OWN.attributes, row.example)]
    found = set().union(*(set().union(*known) for known in read_attributes(row.example).values()))
    assert found >= meaning - {"nothing", "elsewhere"}


@pytest.mark.parametrize("path", sorted(TABLES.glob("*.tsv")), ids=lambda path: path.name)
def test_rows_are_short_and_plain(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert max(map(len, lines)) <= 100
    phrases = [line.split("\t")[0] for line in lines if line and line[0] != "#"]
    assert not any(set(phrase) & set("\\[]*^$|") for phrase in phrases)
    if path.name != "words.tsv":
        assert len(phrases) == len(set(phrases))
        assert all(len(line.split("\t")) == 4 for line in lines if line and line[0] != "#")


def test_tables_are_small() -> None:
    own = [path for path in TABLES.glob("*.tsv") if path.name != "more_findings.tsv"]
    assert sum(path.stat().st_size for path in own) <= 60_000


def test_a_line_without_a_meaning_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "mine.tsv"
    table.write_text("hernia\thernia\nscoliosis\n")
    with pytest.raises(DataError, match=r"mine\.tsv, line 2: 1 columns; expected a phrase"):
        read_table(table)


def test_an_unknown_group_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "mine.tsv"
    table.write_text("{organ} hernia\thernia\n")
    with pytest.raises(DataError, match=r"unknown group \{organ\}"):
        Lexicon(table)
