"""A journal: lines appended one by one, whole again after a kill at any moment."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.journal import Journal, read_journal


def test_lines_are_there_as_soon_as_they_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rows.jsonl"
    assert list(read_journal(path)) == []
    with Journal(path) as journal, ThreadPoolExecutor(8) as pool:
        for number in range(3):
            journal.append({"row": "\ud800"})
            assert len(list(read_journal(path))) == number + 1
        list(pool.map(lambda row: journal.append({"row": row}), range(100)))
    rows = [row["row"] for _, row in read_journal(path)]
    assert rows[:3] == 3 * ["\ud800"] and sorted(rows[3:]) == list(range(100))


@given(contents=st.lists(st.text(max_size=5), min_size=1, max_size=4), data=st.data())
def test_cut_anywhere(tmp_path_factory: pytest.TempPathFactory, contents: list[str], data: st.DataObject) -> None:
    """Whole lines stay; lines written afterwards are read as well."""
    path = tmp_path_factory.mktemp("cut") / "rows.jsonl"
    with Journal(path) as journal:
        for number, content in enumerate(contents):
            journal.append({"number": number, "content": content})
    whole = path.read_bytes()
    ends = [n for n, byte in enumerate(whole) if byte == ord("\n")]
    cut = data.draw(st.integers(0, len(whole)) | st.sampled_from(ends))
    path.write_bytes(whole[:cut] + data.draw(st.sampled_from([b"", b"\0\0\0"])))
    kept = [{"number": n, "content": contents[n]} for n, end in enumerate(ends) if end < cut]
    assert [row for _, row in read_journal(path)] == kept
    with Journal(path) as journal:
        journal.append({"number": 99})
    assert [row for _, row in read_journal(path)] == [*kept, {"number": 99}]
