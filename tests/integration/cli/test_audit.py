"""`pacer audit`: what it prints about a corpus, what it leaves behind, and how it refuses."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from tests.support.corpus import record

SECRET = "zephyrine opacity in the left lung base ."


@pytest.fixture
def corpus(repository: Path) -> dict[str, list[dict]]:
    """Six examinations of a frontal view in MIMIC-RG4's layout, and ``mine.yaml`` that names them."""
    folder = repository / "mine"
    folder.mkdir()
    Image.new("L", (16, 16)).save(folder / "f.png")
    rows = {
        split: [
            record("sn", 0, 0)
            | {"id": f"{split}{n}", "study_id": f"{split}{n}", "subject_id": f"{split}{n}", "indication": 0}
            | {"finding": f"{SECRET} {n}{split}", "impression": "s", "APPA_imagepath": "f.png"}
            for n in range(2)
        ]
        for split in ("train", "val", "test")
    }
    write(folder, rows)
    named = "{source: files, root: mine, annotations: {sn: sn.json}, contexts: [sn]}"
    (repository / "mine.yaml").write_text(f"extends: phantom\ncorpus: {named}\n")
    return rows


def write(folder: Path, rows: dict[str, list[dict]]) -> None:
    (folder / "sn.json").write_text(json.dumps(rows))


def test_a_sound_corpus(pacer, corpus):
    outcome = pacer("audit", "--params", "mine.yaml", "--out", "read")
    assert outcome.code == 0, outcome.error
    words = " ".join(outcome.out.split())
    assert "Context train paper val paper test paper studies patients" in words
    assert "SN 2 172,608 2 1,391 2 2,357 6 6" in words
    assert "ok Rows read 6: 6 used" in words and "ok Bad rows or records none" in words
    assert words.endswith("written to read; read/problems.csv lists what was rejected or left out (0)")
    assert {path.name for path in Path("read").iterdir()} == {
        "records.parquet",
        "images.parquet",
        "priors.parquet",
        "problems.csv",
        "audit.json",
    }
    assert "zephyrine" not in outcome.out + outcome.error


def test_targets_that_the_token_limit_cuts_are_counted_once_the_language_model_is_here(
    pacer, corpus, backbones: Path, repository: Path
):
    words = " ".join(pacer("audit", "--params", "mine.yaml").out.split())
    assert "look Training targets over 100 tokens unknown until you run `dvc repro backbones`" in words
    corpus["train"][0]["finding"] = "The heart is enlarged. " * 40
    write(repository / "mine", corpus)
    language = repository / "models" / "backbones" / "language"
    shutil.copytree(backbones / "language", language)
    (language / "provenance.json").write_text('{"provider": "bundled"}')
    words = " ".join(pacer("audit", "--params", "mine.yaml").out.split())
    assert "look Training targets over 100 tokens 1 of 2 (50.0 %): truncated, without an end token" in words


def test_the_phantom_is_generated_first(pacer):
    refused = pacer("audit")
    assert refused.code == 1 and "run `dvc repro source` first" in refused.error


def test_what_deserves_a_look_is_marked_and_without_out_nothing_is_written(pacer, corpus, repository: Path):
    corpus["train"].clear()
    corpus["val"][0]["[red]colour[/nonsense]"] = "grey"  # names of fields are no markup
    write(Path("mine"), corpus)
    before = sorted(repository.rglob("*"))
    outcome = pacer("audit", "--params", "mine.yaml")
    assert outcome.code == 0, outcome.error
    words = " ".join(outcome.out.split())
    assert "look Fields that are not used sn: 1 × [red]colour[/nonsense]" in words
    assert "Context val paper test paper" in words and "train" not in words.lower()  # it is only evaluated
    assert sorted(repository.rglob("*")) == before


def test_a_refused_corpus_leaves_the_table_of_problems_here(pacer, corpus):
    for row in corpus["train"]:
        row["APPA_imagepath"] = "absent.png"
    write(Path("mine"), corpus)
    outcome = pacer("audit", "--params", "mine.yaml")
    assert outcome.code == 1 and outcome.out == ""
    assert "all are listed in audit.problems.csv" in outcome.error and "Traceback" not in outcome.error
    with open("audit.problems.csv", newline="") as file:
        problems = list(csv.DictReader(file))
    assert [(row["kind"], row["row"], row["id"]) for row in problems] == [
        ("bad", "train[0]", "train0"),
        ("bad", "train[1]", "train1"),
    ]
    assert "zephyrine" not in outcome.error + Path("audit.problems.csv").read_text()
    for row in corpus["train"]:
        row["APPA_imagepath"] = "f.png"
    write(Path("mine"), corpus)
    assert pacer("audit", "--params", "mine.yaml").code == 0
    assert not Path("audit.problems.csv").exists()  # nothing is wrong any more


def test_a_refused_corpus_leaves_the_earlier_one_and_says_so(pacer, corpus, repository: Path):
    assert pacer("audit", "--params", "mine.yaml", "--out", "read").code == 0
    before = (repository / "read" / "records.parquet").read_bytes()
    corpus["train"][0]["APPA_imagepath"] = "gone.png"
    write(repository / "mine", corpus)
    outcome = pacer("audit", "--params", "mine.yaml", "--out", "read")
    assert outcome.code == 1 and "read still contains the earlier corpus" in outcome.error
    assert (repository / "read" / "records.parquet").read_bytes() == before
    assert "read.problems.csv" in outcome.error and (repository / "read.problems.csv").exists()
    assert not (repository / "audit.problems.csv").exists() and not (repository / "read.scratch").exists()
