"""`pacer audit`, `pacer decode` and `pacer score` outside the pipeline."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from PIL import Image

from pacer.config.profiles import load_profile
from pacer.metrics.score import decoded_records
from pacer.phantom.generate import generate_phantom


@pytest.fixture
def corpus(repository: Path) -> Path:
    """A small corpus in MIMIC-RG4's layout, and a profile that names its files."""
    world = load_profile("configs/micro.yaml").corpus.phantom.model_copy(update={"patients": 10})
    generate_phantom(world, 3, repository / "mine")
    profile = (repository / "configs" / "phantom.yaml").read_text()
    profile = profile.replace("source: phantom ", "source: files ").replace("root: null ", "root: mine ")
    names = "{sn: sn.json, sw: sw.json, mn: mn.json, mw: mw.json}"
    profile = profile.replace("{sn: null, sw: null, mn: null, mw: null}", names).replace(
        "images: . ", "images: images "
    )
    (repository / "mine.yaml").write_text(profile)
    return repository / "mine"


def test_audit_without_out_leaves_nothing_behind(pacer, corpus: Path, repository: Path):
    before = sorted(path for path in repository.rglob("*"))
    assert pacer("audit", "--params", "mine.yaml").code == 0
    assert sorted(path for path in repository.rglob("*")) == before


def test_predictions_that_do_not_exist_are_one_clear_line(pacer, corpus: Path):
    assert pacer("audit", "--params", "mine.yaml", "--out", "read").code == 0
    outcome = pacer("score", "--records", "read/records.parquet", "--predictions", "nowhere", "--out", "metrics")
    assert outcome.code == 1 and "nowhere" in outcome.error and "Traceback" not in outcome.error


def test_a_model_that_does_not_exist_is_one_clear_line(pacer, corpus: Path):
    assert pacer("audit", "--params", "mine.yaml", "--out", "read").code == 0
    outcome = pacer("decode", "--records", "read/records.parquet", "--out", "predictions", "--model", "nowhere")
    assert outcome.code == 1 and "nowhere" in outcome.error and "Traceback" not in outcome.error


def test_weights_that_are_not_llm_rg4s_are_one_clear_line(pacer, repository: Path):
    outcome = pacer("import-llm-rg4", "nowhere.pth", "--out", "llm")
    assert outcome.code == 1 and "nowhere.pth does not exist; download LLM-RG4" in outcome.error
    (repository / "page.pth").write_text("<html>quota</html>")
    outcome = pacer("import-llm-rg4", "page.pth", "--out", "llm")
    assert outcome.code == 1 and "page.pth is not a complete PyTorch file" in outcome.error
    assert not (repository / "llm").exists()
    outcome = pacer("import-llm-rg4", "page.pth", "--out", "configs")
    assert outcome.code == 1 and "which would be lost" in outcome.error


def test_a_split_that_is_never_decoded_is_refused(pacer, repository: Path):
    outcome = pacer("decode", "--records", "r.parquet", "--out", "predictions", "--split", "train")
    assert outcome.code == 1 and "pacer decode: split = 'train': must be 'test', 'val' or 'all'" in outcome.error


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


def write_studies(repository: Path, date: str) -> None:
    """Twenty studies of ten patients in a table with the profile's names of columns, and ``mine.yaml`` for it."""
    (repository / "studies" / "radiographs").mkdir(parents=True)
    rows = ["patient_id,exam_id,date,view,file,findings"]
    for number in range(20):
        Image.new("L", (16, 16)).save(repository / "studies" / "radiographs" / f"{number}.png")
        rows.append(f"p{number % 10},e{number},{date},PA,{number}.png,No acute disease.")
    (repository / "studies" / "studies.csv").write_text("\n".join(rows))
    (repository / "mine.yaml").write_text("extends: table\ncorpus: {root: studies}\n")


def test_the_profile_table_needs_its_own_keys_alone(pacer, repository: Path):
    """A table with the profile's names of columns, and `corpus.root`, are all that it takes."""
    write_studies(repository, "2180-05-06")
    outcome = pacer("audit", "--params", "mine.yaml", "--out", "read")
    assert outcome.code == 0, outcome.error
    assert pl.read_parquet(repository / "read" / "records.parquet")["context"].to_list() == ["sn"] * 20
    printed = " ".join(outcome.out.split())  # a narrow terminal breaks the line
    assert "no record has a previous report" in printed and "have no date" not in printed


def test_the_audit_says_that_studies_without_dates_have_no_previous_reports(pacer, repository: Path):
    write_studies(repository, "")
    outcome = pacer("audit", "--params", "mine.yaml")
    assert outcome.code == 0, outcome.error
    assert "no record has a previous report; 20 studies have no date" in " ".join(outcome.out.split())
