"""Sources of a case, as pandas, Hugging Face and files give them."""

import io
import math
from pathlib import Path
from typing import Any

import pytest

from pacer.core.errors import DataError
from pacer.serving.case import Case


def test_an_empty_cell_is_an_absent_source() -> None:
    nan: Any = math.nan
    case = Case("f.png", lateral=nan, prior=nan, indication=nan, view=nan, sections=None)
    assert case == Case("f.png") and list(case.images()) == ["frontal"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"frontal": None}, "image case, frontal: expected .*, got None"),
        ({"frontal": math.nan}, "image case, frontal: expected .*, got None"),
        (
            {"frontal": io.BytesIO(b"x")},
            "frontal: expected .*, got a BytesIO; pass the bytes that its method `read` returns",
        ),
        (
            {"frontal": {"bytes": b"x", "path": None}},
            'got an object; for an image that Hugging Face has not decoded, pass .* "bytes"',
        ),
        ({"lateral": ["a.png"]}, "lateral: expected .*, got a list of length 1"),
        (
            {"prior": ["Small effusion."]},
            "previous report of case: expected text, got a list of length 1",
        ),
        ({"prior": Path("prior.txt")}, "previous report of case: expected text, got a PosixPath"),
        ({"indication": 3.5}, r"indication of case: expected text, got 3\.5"),
        (
            {"commitment": {"positive": ["edema"]}},
            "commitment of case: expected text, got an object",
        ),
        ({"view": 2, "name": "x"}, "view of x: expected text, got 2"),
    ],
)
def test_a_source_of_another_kind_is_named(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        Case(**{"frontal": "f.png"} | given)
