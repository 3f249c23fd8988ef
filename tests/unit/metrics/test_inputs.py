"""References and reports as files and objects hold them: how they are read, paired and changed; cases: inputs.yaml."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.errors import DataError
from pacer.metrics.pairing import Protocol, pair_reports, without_repeats
from pacer.metrics.report_files import HYPOTHESIS_COLUMNS, REFERENCE_COLUMNS, Source, reports_of
from tests.support.cases import listed_cases


def paired(
    references: Source, hypotheses: Source, **protocol: Any
) -> tuple[dict[str, tuple[str, str]], dict[str, Any]]:
    """Reference and report of each case, and the counts of what was done."""
    chosen = Protocol(**protocol)
    expected = reports_of(references, REFERENCE_COLUMNS, chosen.reference_id, chosen.reference_text)
    given = reports_of(hypotheses, HYPOTHESIS_COLUMNS, chosen.hypothesis_id, chosen.hypothesis_text)
    cases, counts = pair_reports(expected, given, chosen)
    rows = cases.select("record_id", "report", "hypothesis").iter_rows()
    return {key: (reference, report) for key, reference, report in rows}, counts


THREE = {"101": "no effusion .", "102": "the heart is large .", "103": "a tube ."}


class Index(list):
    names: list[str | None]


class Frame:
    """What is read of a frame of pandas, or of a series, which has no columns."""

    def __init__(self, index: list[Any], names: Sequence[str | None] = (None,), **content: Any):
        self.index = Index(map(tuple, index) if isinstance(index[0], list) else index)
        self.index.names = list(names)
        self.values = content.get("values")
        if "columns" in content:
            self.content = content["columns"]
            self.columns = [*self.content, *content.get("repeated", [])]

    def to_frame(self, name: str) -> "Frame":
        return Frame(self.index, self.index.names, columns={name: self.values})

    def __getitem__(self, name: str) -> list[Any]:
        return self.content[name]


class Data:
    """What is read of a data set of Hugging Face."""

    def __init__(self, content: dict[str, list[Any]]):
        self.content = content

    def __len__(self) -> int:
        return len(self.content)

    def with_format(self, kind: str) -> pa.Table:
        assert kind == "arrow"
        return pa.table(self.content)


class Splits(dict):
    """What is read of a dictionary of data sets by split."""

    with_format = Data.with_format


OBJECTS = {
    "frame": lambda content: Frame(**content),
    "series": lambda content: Frame(**content),
    "polars": pl.DataFrame,
    "lazy": pl.LazyFrame,
    "arrow": pa.table,
    "data set": Data,
    "splits": lambda content: Splits(test=Data(content)),
    "series of polars": lambda content: {name: pl.Series(values) for name, values in content.items()},
    "stream": lambda _: SimpleNamespace(with_format=None),
    "array": np.array,
    "polars series": pl.Series,
    "numbers": lambda texts: {np.int64(number): text for number, text in enumerate(texts)},
}


def source(spec: Any, folder: Path) -> Any:
    """The object or the file that a case describes."""
    name = next(iter(spec)) if isinstance(spec, Mapping) else ""
    if name in OBJECTS:
        return OBJECTS[name](spec[name])
    if name == "path" or "." not in name:
        return folder / spec[name] if name == "path" else spec
    path, content = folder / name, spec[name]
    if "round" in spec:
        content = content.replace(dict(id="a", study_id="s", subject_id="p")[spec["round"]] + ",", "1.23457E+12,")
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif path.suffix == ".parquet":
        pl.DataFrame(content).write_parquet(path)
    elif path.suffix == ".jsonl" and isinstance(content, dict):
        rows = content if "report" in content else {"id": list(content), "report": list(content.values())}
        path.write_text("".join(json.dumps(dict(zip(rows, row))) + "\n" for row in zip(*rows.values(), strict=True)))
    else:
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def filled(part: Any, value: str) -> Any:
    """A part of a case with a value in the place of EACH."""
    if isinstance(part, str):
        return value if part == "EACH" else part.replace("EACH", str(value))
    if isinstance(part, dict):
        return {filled(key, value): filled(item, value) for key, item in part.items()}
    return [filled(item, value) for item in part] if isinstance(part, list) else part


@pytest.mark.parametrize("described", listed_cases(__file__, "inputs"))
def test_inputs(described: dict[str, Any], tmp_path: Path) -> None:
    for value in described.get("each", [""]):
        case = filled(described, value)
        sides = (source(case.get(side, case.get("both", THREE)), tmp_path) for side in ("references", "hypotheses"))
        references, hypotheses = sides
        if "error" in case:
            with pytest.raises(DataError, match=case["error"]) as error:
                paired(references, hypotheses, **case.get("options", {}))
            assert "zephyrine" not in str(error.value), value
            continue
        pairs, counts = paired(references, hypotheses, **case.get("options", {}))
        if "pairs" in case:
            assert {key: [text.strip() for text in pair] for key, pair in pairs.items()} == case["pairs"], value
        for name, count in case.get("counts", {}).items():
            assert counts.get(name) == count, (value, name)
        for name, values in case.get("cells", {}).items():
            assert reports_of(references, REFERENCE_COLUMNS).rows[name].to_list() == values, value


@given(st.lists(st.sampled_from(["a b .", "c .", "d?", "no e ."]), max_size=12))
def test_sentences_stand_once(sentences):
    once = without_repeats(" ".join(sentences))
    assert once == without_repeats(once) == " ".join(dict.fromkeys(sentences))
    assert without_repeats("No effusion. no  effusion . Size 1.2 cm") == "No effusion. Size 1.2 cm"
