"""The whole Open-I collection and real annotation files, where they lie beside the repository."""

import csv
import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pacer.config import Corpus
from pacer.core.schemas import read_records
from pacer.corpus.account import LEFT_OUT, Notes
from pacer.corpus.readers import openi
from pacer.corpus.readers.files import read_files
from pacer.text.cleaning.cleaners import clean_report, clean_report_iu_xray
from tests.integration.corpus.test_labs import OpenI
from tests.support.corpus import BASE, built, lines_of
from tests.support.real import DATA, real

ARCHIVE = "openi/NLMCXR_reports.tgz"


def distributed(folder: Path) -> tuple[list[dict[str, Any]], Notes]:
    """The distributed archive with views from the table beside it."""
    archive = real(ARCHIVE)
    with (
        gzip.open(DATA / "openi" / "reports.jsonl.gz", "rt") as lines,
        open(folder / "v.csv", "w", newline="") as file,
    ):
        table = csv.writer(file)
        table.writerow(("image", "view", "projection"))
        for line in lines:
            for image in json.loads(line)["images"]:
                table.writerow((image["id"], image["view"], image["dicom_view"]))
    made = OpenI(folder, {"reports": archive, "projections": folder / "v.csv"})
    made.config["split"] = "r2gen"
    (folder / "images").symlink_to(DATA)
    return made.rows(), made.notes


def test_the_cleaner_for_this_corpus_differs_in_few_whole_reports() -> None:
    """The figure of docs/data.md."""
    found = [openi.parse_report(content)[2] for _, content in read_files(real(ARCHIVE), ".xml")]
    whole = [
        text
        for texts in found
        if (text := " ".join(filter(None, (texts["findings"], texts["impression"]))))
    ]
    differ = sum(clean_report(text) != clean_report_iu_xray(text) for text in whole)
    assert (len(found), len(whole), differ) == (3955, 3927, 17)


def test_real_reports_and_split(tmp_path: Path) -> None:
    rows, notes = distributed(tmp_path)
    assert notes.read == {"reports": 3955}
    left_out = [row for row in rows if row.get("kind") == LEFT_OUT]
    assert Counter(row["reason"] for row in left_out) == {
        "not in the split": 1000,
        "no frontal image": 8,
    }
    exams = {row["id"]: row for row in rows if "kind" not in row}
    assert len(exams) + len(left_out) == 3955
    # six of train and two of val have no frontal image: 2,069/296/590 are in the split
    assert Counter(row["split"] for row in exams.values()) == {
        "train": 2063,
        "val": 294,
        "test": 590,
    }
    assert all(
        (DATA / image).is_file()
        for row in exams.values()
        for image in (row["frontal"], row.get("lateral"))
        if image
    )


COUNTS = {
    "openi": {"sn": (2061, 294, 590), "mn": (2057, 294, 590)},
    "covid": {"sn": (0, 0, 102), "sw": (0, 0, 55), "mn": (0, 0, 27), "mw": (0, 0, 7)},
}


@pytest.mark.parametrize("name", list(COUNTS))
def test_real_corpus(name: str, tmp_path: Path) -> None:
    real(f"rg4/{name}")
    contexts = list(COUNTS[name])
    annotations = {context: f"rg4/{name}/{context}.json" for context in contexts}
    files = {
        "source": "files",
        "root": str(DATA),
        "images": ".",
        "contexts": contexts,
        "annotations": annotations,
    }
    audit = built(Corpus.model_validate(BASE | files), tmp_path)
    for context, counts in COUNTS[name].items():
        assert (
            tuple(
                audit["contexts"][context][split]["records"] for split in ("train", "val", "test")
            )
            == counts
        )
    assert audit["excluded"]["count"] == 0
    lines = lines_of(audit)
    assert lines["Studies in two splits"] == lines["Patients in two splits"] == "none"
    records = read_records(tmp_path / "corpus" / "records.parquet")
    assert records["report"].str.ends_with(" .").all()
    assert records.filter(context="mw")["prior_report"].null_count() == 0
