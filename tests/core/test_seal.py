"""Files that say themselves whether they are as they were written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.errors import DataError
from pacer.core.io import CHECK, checked, read_jsonl, write_jsonl
from pacer.core.journal import Journal, read_journal
from pacer.core.seal import FILES, SEAL, read_sealed, write_sealed

KEYS = st.text(max_size=8).filter(lambda key: key not in (SEAL, FILES, CHECK))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sealed")


def without(content: object) -> object:
    """What JSON makes of a value."""
    return json.loads(json.dumps(content))


@given(content=OBJECTS, place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found_or_does_no_harm(folder: Path, content: dict, place: int, bit: int) -> None:
    path, beside = folder / "about.json", folder / "weights"
    beside.write_bytes(bytes(range(64)))
    write_sealed(path, content, ["weights"])
    assert read_sealed(path) == without(content)
    for damaged in (path, beside):
        whole = damaged.read_bytes()
        changed = bytearray(whole)
        changed[place % len(whole)] ^= 1 << bit
        damaged.write_bytes(changed)
        try:
            found = read_sealed(path)
        except DataError:
            damaged.write_bytes(whole)
            continue
        assert damaged == path  # in a key of the seal's own, or in white space
        assert {key: found.get(key) for key in content} == without(content)
        damaged.write_bytes(whole)


@given(rows=st.lists(OBJECTS, min_size=1, max_size=3), place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_in_lines(folder: Path, rows: list[dict], place: int, bit: int) -> None:
    plain, kept = folder / "lines.jsonl", folder / "journal.jsonl"
    write_jsonl(plain, list(map(checked, rows)))
    kept.unlink(missing_ok=True)
    with Journal(kept) as journal:
        for row in rows:
            journal.append(row)
    for path, read in ((plain, read_jsonl), (kept, lambda path: [row for _, row in read_journal(path)])):
        assert read(path) == without(rows)
        content = bytearray(path.read_bytes())
        content[place % len(content)] ^= 1 << bit
        path.write_bytes(content)
        try:
            found = read(path)
        except DataError:
            continue
        if len(found) == len(rows):  # a line that lost its end was cut off as a kill leaves one
            for one, row in zip(found, rows, strict=True):
                assert {key: one.get(key) for key in row} == without(row)
        else:
            assert found == without(rows)[: len(found)]


def test_what_has_no_seal_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": 1, "files": 3}')
    assert read_sealed(tmp_path / "a.json") == {"a": 1}
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(DataError, match="must hold an object"):
        read_sealed(tmp_path / "a.json")
