"""Annotation files, read strictly."""

import gzip
import json

import pytest

from pacer.core.errors import DataError
from pacer.corpus.readers.files import read_annotations
from tests.support.cases import listed_cases


def damaged(content: str) -> list[bytes]:
    """A compressed file that lacks its length, its checksum too, or half of it, or that has
    changed."""
    sound = gzip.compress(content.encode())
    return [sound[:-4], sound[:-9], sound[: len(sound) // 2], sound[:20] + b"\xff" * 9 + sound[29:]]


LONG = '{"train": [' + "[" * 100_000, '{"train": [1' + "0" * 5000 + "]}"
DAMAGED = [*map(str.encode, LONG), *damaged(json.dumps({"train": list(range(3000))}))]


@pytest.mark.parametrize(
    ("text", "message"),
    listed_cases(__file__, "malformed") + [(one, "cannot be read as JSON") for one in DAMAGED],
)
def test_malformed_annotations(tmp_path, text: str | bytes, message: str) -> None:
    path = tmp_path / ("a.json.gz" if text in DAMAGED[2:] else "a.json")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError) as error:
        read_annotations(path)
    assert message in str(error.value) and str(path) in str(error.value)
    for missing, reason in (
        (tmp_path / "none.json", "No such file or directory"),
        (tmp_path, "Is a directory"),
    ):
        with pytest.raises(DataError, match=rf"cannot be read as JSON: {reason}"):
            read_annotations(missing)


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "A.JSON.GZ"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_byte_order_mark_and_gzip(tmp_path, name, mark) -> None:
    content = (mark + '{"train": [{"id": "\u00e9\ufeff"}], "test": [2]}').encode()
    (tmp_path / name).write_bytes(
        gzip.compress(content) if name.lower().endswith(".gz") else content
    )
    assert read_annotations(tmp_path / name) == {"train": [{"id": "\u00e9\ufeff"}], "test": [2]}
