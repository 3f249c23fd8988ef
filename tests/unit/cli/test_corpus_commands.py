"""`pacer audit`, `pacer decode` and `pacer score` outside the pipeline."""

import json
from pathlib import Path

import polars as pl

from pacer.metrics.score import decoded_records


def test_weights_that_are_not_llm_rg4s_are_one_clear_line(pacer, repository: Path):
    (repository / "page.pth").write_text("<html>quota</html>")
    outcome = pacer("import-llm-rg4", "page.pth", "--out", "llm")
    assert outcome.code == 1 and "page.pth is not a complete PyTorch file" in outcome.error
    assert not (repository / "llm").exists()


def test_scored_records_are_those_that_were_decoded(tmp_path: Path):
    records = pl.DataFrame(
        {
            "record_id": ["sn-1", "sn-2", "mn-1", "mn-2", "sn-3"],
            "context": ["sn", "sn", "mn", "mn", "sn"],
            "split": ["val", "val", "val", "val", "test"],
        }
    )
    assert decoded_records(records, tmp_path, None)[0]["record_id"].to_list() == ["sn-3"]
    assert decoded_records(records, tmp_path, "val")[0].height == 4
    (tmp_path / "manifest.json").write_text(json.dumps({"settings": {"split": "val", "limit": 1}}))
    kept, note = decoded_records(records, tmp_path)
    assert kept["record_id"].to_list() == ["sn-1", "mn-1"]
    assert note == "2 of 4 records of split val: decode.limit 1"
    assert decoded_records(records, tmp_path, "test")[1] is None
