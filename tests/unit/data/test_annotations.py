"""Annotation files: an object of splits with lists of records, or one clear error."""

from __future__ import annotations

import gzip
import json

import pytest

from pacer.core.errors import DataError
from pacer.data.readers.annotations import read_annotations


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value: line 1"),
        *(
            (text, "must be an object of the splits train, val, test, each with a list of records")
            for text in ("[]", "{}", '{"training": []}', '{"train": {}}')
        ),
        ('{"train": [1 2]}', "Expecting ',' delimiter: line 1 column 14"),
        ('{"train": [' + "[" * 100_000, "cannot be read as JSON"),
        ('{"train": [1' + "0" * 5000 + "]}", "cannot be read as JSON"),
    ],
)
def test_malformed_files(tmp_path, text, message) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        read_annotations(path)
    assert message in str(error.value) and str(path) in str(error.value)


def test_missing_file_and_folder(tmp_path) -> None:
    for path, reason in ((tmp_path / "none.json", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(DataError, match=rf"cannot be read as JSON: {reason}"):
            read_annotations(path)


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "A.JSON.GZ"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_byte_order_mark_and_gzip(tmp_path, name, mark) -> None:
    content = (mark + '{"train": [{"id": "\u00e9\ufeff"}], "test": [2]}').encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.lower().endswith(".gz") else content)
    assert read_annotations(tmp_path / name) == {"train": [{"id": "\u00e9\ufeff"}], "test": [2]}


def test_damaged_gzip(tmp_path) -> None:
    path = tmp_path / "a.json.gz"
    sound = gzip.compress(json.dumps({"train": list(range(3000))}).encode())
    for content in (sound[:-4], sound[:-9], sound[:1000], sound[:99] + b"\xff" * 9 + sound[108:]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.json\.gz"):
            read_annotations(path)
