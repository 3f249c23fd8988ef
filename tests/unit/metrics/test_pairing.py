"""Lines of predictions, of whatever program: what does not fit is named, never guessed at."""

from __future__ import annotations

import json

import pytest

from pacer.core.errors import DataError
from pacer.metrics.pairing import read_predictions

SECRET = "zephyrine effusion"
LISTS = {"positive": ["edema"], "negative": [], "uncertain": []}
LINE = {
    "record_id": "sn-1",
    "generated": SECRET,
    "anchor": LISTS,
    "report": SECRET,
    "fallback": False,
    "gate": 0.5,
    "tokens": 7,
}


def test_a_line_needs_no_more_than_id_and_report(tmp_path):
    path = tmp_path / "sn.jsonl"
    path.write_text(json.dumps({"record_id": "sn-2", "report": "x"}) + "\n" + json.dumps(LINE) + "\n")
    whole, bare = read_predictions(path, ["sn-1", "sn-2"])
    assert (whole.anchor, whole.fallback, whole.gate, whole.tokens) == (LISTS, False, 0.5, 7)
    assert (bare.anchor, bare.fallback, bare.gate, bare.unclosed, bare.tokens) == (None, False, None, None, None)


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"gate": "0.5"}, "gate must be a finite number"),
        ({"gate": True}, "gate must be a finite number"),
        ({"gate": float("nan")}, "gate must be a finite number"),
        ({"gate": 10**400}, "gate must be a finite number"),
        ({"tokens": True}, "tokens must be a whole number"),
        ({"tokens": -1}, "tokens must be a whole number"),
        ({"fallback": "false"}, "fallback must be true or false"),
        ({"generated": 3}, "generated must be text"),
        ({"anchor": LISTS | {"positive": "edema"}}, "anchor: positive must be a list of findings"),
        ({"anchor": LISTS | {"uncertain": [["edema"]]}}, "anchor: uncertain must be a list of findings"),
        ({"anchor": LISTS | {"uncertain": [SECRET]}}, "anchor: uncertain must be a list of findings"),
    ],
)
def test_columns_of_the_wrong_kind_are_named_with_line_and_record(tmp_path, change, problem):
    path = tmp_path / "sn.jsonl"
    path.write_text("\n" + json.dumps(LINE | change) + "\n")
    with pytest.raises(DataError, match=rf"sn.jsonl, line 2 \(sn-1\).*{problem}") as error:
        read_predictions(path, ["sn-1"])
    assert SECRET not in str(error.value)
