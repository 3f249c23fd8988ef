"""Frames, series, data sets and mappings pair as their files would, or are refused with the call that helps."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from pacer.core.errors import DataError
from tests.support.metrics import paired

KEYS, TEXTS = ["a", "b", "c"], ["no effusion .", "the heart is large .", "a tube ."]
NAN = float("nan")


class Index(list):
    def __init__(self, keys: Sequence[Any], names: Sequence[str | None] = (None,)):
        super().__init__(keys)
        self.names = list(names)


class Frame:
    """What is read of a frame of pandas."""

    def __init__(self, index: Index, **columns: list[Any]):
        self.index, self.columns, self.values = index, list(columns), columns

    def __getitem__(self, name: str) -> list[Any]:
        return self.values[name]


class Series:
    def __init__(self, index: Index):
        self.index = index

    def to_frame(self, name: str) -> Frame:
        return Frame(self.index, **{name: TEXTS})


class Data:
    """What is read of a data set of Hugging Face."""

    def __init__(self, **columns: list[Any]):
        self.table = pa.table(columns)

    def __len__(self) -> int:
        return len(self.table)

    def with_format(self, kind: str) -> Data:
        assert kind == "arrow"
        return self

    def __getitem__(self, rows: slice) -> pa.Table:
        return self.table


class Stream:
    def with_format(self, kind: str) -> Stream:
        return self


def whole(**columns: list[Any]) -> dict[str, Any]:
    """The default form of pandas' ``to_json``."""
    return {name: {str(row): value for row, value in enumerate(values)} for name, values in columns.items()}


#: References whose ids are :data:`KEYS`; they pair with the reports by id, in any order.
WITH_IDS = {
    "unnamed index of ids": Frame(Index(KEYS), report=TEXTS),
    "named index": Frame(Index(KEYS, ["study_id"]), report=TEXTS),
    "index beside its column": Frame(Index(KEYS, ["id"]), id=KEYS, report=TEXTS),
    "rows' numbers beside ids": Frame(Index([2, 0, 1]), id=KEYS, report=TEXTS),
    "index of two named levels": Frame(Index([(key, "PA") for key in KEYS], ["id", "view"]), report=TEXTS),
    "series": Series(Index(KEYS)),
    "lazy frame": pl.LazyFrame({"id": KEYS, "report": TEXTS}),
    "table of pyarrow": pa.table({"id": KEYS, "report": TEXTS}),
    "data set": Data(id=KEYS, report=TEXTS),
    "df.to_json()": whole(id=KEYS, report=TEXTS),
    "df.to_json() with ids as index": {"report": dict(zip(KEYS, TEXTS, strict=True))},
    "COCO's captions": [{"image_id": key, "caption": text} for key, text in zip(KEYS, TEXTS, strict=True)],
    "COCO's file": {
        "images": [],
        "annotations": [{"id": 7, "image_id": key, "caption": text} for key, text in zip(KEYS, TEXTS, strict=True)],
    },
}
#: References without ids: paired by position.
IN_ORDER = {
    "rows' numbers": Frame(Index(range(3)), report=TEXTS),
    "series of polars": pl.Series(TEXTS),
    "array": np.array(TEXTS),
    "df.to_json() without ids": whole(report=TEXTS),
}
#: References that are refused, and what the sentence says.
REFUSED = {
    "levels without names": (Frame(Index([("a", 1)], [None, None]), report=["x"]), r"frame\.index\.names = "),
    "level and column": (Frame(Index(["a"], ["id"]), id=["b"], report=["x"]), r"frame\.reset_index\(drop=True\)"),
    "splits": ({"test": Data(id=KEYS, report=TEXTS)}, "several splits; give one of them, such as test"),
    "stream": (Stream(), r"give list\(data_set\)"),
    "NaN": ({"a": "x", "b": NAN, "c": "y"}, "the reference is missing for b"),
    "several references": ({key: ["x", "y"] for key in KEYS}, "a list of 2; score one text of each id"),
    "several systems": (
        Frame(Index(range(6)), id=KEYS * 2, system=["A"] * 3 + ["B"] * 3, report=TEXTS * 2),
        "one file for each system or further set of references",
    ),
}


@pytest.mark.parametrize("form", WITH_IDS)
def test_ids_pair(form: str) -> None:
    pairs, _ = paired(WITH_IDS[form], dict(zip(KEYS[::-1], TEXTS[::-1], strict=True)))
    assert pairs == {key: (text, text) for key, text in zip(KEYS, TEXTS, strict=True)}


@pytest.mark.parametrize("form", IN_ORDER)
def test_without_ids_the_order_pairs(form: str) -> None:
    assert [*paired(IN_ORDER[form], TEXTS)[0].values()] == [(text, text) for text in TEXTS]


@pytest.mark.parametrize("form", REFUSED)
def test_what_cannot_be_read_is_refused_with_the_way(form: str) -> None:
    content, words = REFUSED[form]
    with pytest.raises(DataError, match=words):
        paired(content, dict(zip(KEYS, TEXTS, strict=True)))


def test_numbers_of_numpy_are_ids_and_nan_is_a_missing_report(tmp_path: Path) -> None:
    numbered = {np.int64(place): text for place, text in enumerate(TEXTS)}
    assert paired(numbered, dict(enumerate(TEXTS)))[0]["1"] == (TEXTS[1], TEXTS[1])
    lines = "".join(json.dumps({"id": key, "report": NAN if key == 1 else "x"}) + "\n" for key in range(3))
    (tmp_path / "h.jsonl").write_text(lines)
    with gzip.open(tmp_path / "h.json.gz", "wt") as file:
        json.dump({str(key): NAN if key == 1 else "x" for key in range(3)}, file)
    for reports in (tmp_path / "h.jsonl", tmp_path / "h.json.gz", {0: "x", 1: NAN, 2: "x"}):
        with pytest.raises(DataError, match=r"missing in .*: 1;"):
            paired(numbered, reports)
        assert paired(numbered, reports, missing="empty")[0]["1"] == (TEXTS[1], "")
