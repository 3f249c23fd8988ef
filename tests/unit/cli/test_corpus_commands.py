"""`pacer audit`, `pacer decode` and `pacer score` outside the pipeline."""

import json
from pathlib import Path

import polars as pl

from pacer.cli.reporting import _shared_texts
from pacer.data.schemas import RECORD_SCHEMA, write_table
from pacer.metrics.score import decoded_records
from tests.support.made_records import few_records


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


def test_long_findings_that_two_patients_share_are_counted(tmp_path: Path):
    """Of the same length, one affirms nothing, one is of one patient, and one is short."""
    filler = "the heart and the mediastinum are normal in size and shape and the bones are as usual for the age ."
    texts = [f"large pleural effusion . {filler}"] * 2 + [f"no pleural effusion . {filler}"] * 2
    texts += [f"large pneumothorax . {filler}"] * 2 + ["large pneumothorax ."] * 2
    records = few_records(".png").head(8).with_columns(report=pl.Series(texts))
    owners = ["p0", "p1", "p2", "p3", "p4", "p4", "p6", "p7"]
    write_table(tmp_path / "r.parquet", records.with_columns(subject_id=pl.Series(owners)), RECORD_SCHEMA)
    line = _shared_texts(tmp_path / "r.parquet")
    assert (line.detail, line.good) == ("1 targets", False)
