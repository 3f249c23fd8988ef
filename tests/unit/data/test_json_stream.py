"""Reading annotation files record by record: the same records as the whole file gives, whatever the block size."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.errors import DataError
from pacer.data import json_stream
from pacer.data.json_stream import stream_records

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
CONTENT = st.dictionaries(st.sampled_from(["train", "val", "test"]), st.lists(VALUES, max_size=6), min_size=1)


@given(content=CONTENT, block=st.integers(1, 60), ascii_only=st.booleans(), indent=st.sampled_from([None, 1]))
def test_the_same_records_as_the_whole_file(tmp_path_factory, monkeypatch_block, content, block, ascii_only, indent):
    path = tmp_path_factory.mktemp("json") / "a.json"
    text = json.dumps(content, ensure_ascii=ascii_only, indent=indent)
    path.write_bytes(text.encode("utf-8", "surrogatepass" if ascii_only else "replace"))
    if not ascii_only:
        content = json.loads(path.read_text(encoding="utf-8"))
    monkeypatch_block(block)
    found = list(stream_records(path))
    assert found == [(split, i, record) for split, records in content.items() for i, record in enumerate(records)]


@given(content=CONTENT, cut=st.floats(0, 1), block=st.integers(1, 60))
def test_a_file_that_ends_early_is_refused(tmp_path_factory, monkeypatch_block, content, cut, block) -> None:
    path = tmp_path_factory.mktemp("json") / "a.json"
    text = json.dumps(content)
    path.write_text(text[: int(cut * len(text))])
    monkeypatch_block(block)
    if int(cut * len(text)) < len(text):
        with pytest.raises(DataError, match=r"a\.json"):
            list(stream_records(path))


@given(content=st.binary(max_size=200), name=st.sampled_from(["a.json", "a.json.gz"]))
def test_any_bytes_give_records_or_one_clear_error(tmp_path_factory, content, name) -> None:
    path = tmp_path_factory.mktemp("json") / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.json"):
        list(stream_records(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected an object with the splits"),
        ("[]", "expected an object with the splits"),
        ("{}", "must hold the splits train, val, test; it holds none"),
        ('{"training": []}', "it holds training"),
        ('{"train": [], "train": []}', "it holds train twice"),
        ('{"train": {}}', "train must be a list of records; it is an object"),
        ('{"train": 1}', "train must be a list of records; it is a single value"),
        ('{"train": [1 2]}', "expected a comma or ] at character 13"),
        ('{"train": [1,]}', "expected a JSON value at character 13"),
        ('{"train": []} x', "expected nothing more after the last split"),
        ('{"train": [' + "[" * 100_000, "not nested so deep"),
        ('{"train": [1' + "0" * 5000 + "]}", "expected a JSON value"),
    ],
)
def test_malformed_files(tmp_path, text, message) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        list(stream_records(path))
    assert message in str(error.value)


def test_missing_file_and_folder(tmp_path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        list(stream_records(tmp_path / "none.json"))
    with pytest.raises(DataError, match="cannot be read"):
        list(stream_records(tmp_path))


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "A.JSON.GZ"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_byte_order_mark_and_gzip(tmp_path, name, mark) -> None:
    content = (mark + '{"train": [{"id": "\u00e9\ufeff"}], "test": [2]}').encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.lower().endswith(".gz") else content)
    assert list(stream_records(tmp_path / name)) == [("train", 0, {"id": "\u00e9\ufeff"}), ("test", 0, 2)]


def test_damaged_gzip(tmp_path) -> None:
    path = tmp_path / "a.json.gz"
    sound = gzip.compress(json.dumps({"train": list(range(3000))}).encode())
    for content in (b'{"train": []}', sound[:-4], sound[:-9], sound[:1000], sound[:99] + b"\xff" * 9 + sound[108:]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.json\.gz"):
            list(stream_records(path))


def test_records_before_a_fault_have_been_given(tmp_path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"train": [{"id": 1}, {"id": 2}, oops]}')
    found = []
    with pytest.raises(DataError):
        found.extend(stream_records(path))
    assert [record["id"] for _, _, record in found] == [1, 2]


@pytest.fixture(scope="module")
def monkeypatch_block():
    before = json_stream._CHUNK
    yield lambda block: setattr(json_stream, "_CHUNK", block)
    json_stream._CHUNK = before
