"""Lines of predictions, of whatever program: what does not fit is named, never guessed at."""

import json

import pytest

from pacer.core.errors import DataError
from pacer.metrics.cases import read_predictions
from tests.support.cases import listed_cases

SECRET = "zephyrine effusion"
LISTS = {"positive": ["edema"], "negative": [], "uncertain": []}
LINE = {"record_id": "sn-1", "report": SECRET, "anchor": LISTS, "fallback": False, "gate": 0.5, "tokens": 7}


def test_the_described_findings_of_a_commitment_are_kept(tmp_path):
    path, described = tmp_path / "sn.jsonl", ["mild edema"]
    lines = [LINE | {"anchor": LISTS | {"attributes": described}}, LINE | {"record_id": "b"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, LINE | {"record_id": "c", "anchor": None}]))
    assert read_predictions(path, ["sn-1", "b", "c"])["anchor_attributes"].to_list() == [described, None, None]


def test_a_line_needs_no_more_than_id_and_report(tmp_path):
    path = tmp_path / "sn.jsonl"
    path.write_text(json.dumps({"record_id": "sn-2", "report": "x"}) + "\n" + json.dumps(LINE) + "\n")
    whole, bare = read_predictions(path, ["sn-1", "sn-2"]).to_dicts()
    assert {name: whole[f"anchor_{name}"] for name in LISTS} == LISTS
    assert (whole["fallback"], whole["gate"], whole["tokens"]) == (False, 0.5, 7)
    said = ("hypothesis", "anchor_positive", "fallback", "gate", "tokens")
    assert [bare[name] for name in said] == ["x", None, False, None, None]


@pytest.mark.parametrize(("change", "problem"), listed_cases(__file__, "wrong"))
def test_columns_of_the_wrong_kind_are_named_with_line_and_record(tmp_path, change, problem):
    path = tmp_path / "sn.jsonl"
    path.write_text("\n" + json.dumps(LINE | change) + "\n")
    with pytest.raises(DataError, match=rf"sn.jsonl, line 2 \(sn-1\).*{problem}") as error:
        read_predictions(path, ["sn-1"])
    assert SECRET not in str(error.value)
