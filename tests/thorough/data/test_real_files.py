"""The reader on real annotation files (Open-I and a COVID collection), where they lie beside the repository."""

from pathlib import Path

import pytest

from pacer.config import Corpus
from pacer.data.schemas import read_records
from tests.support.corpus import BASE, built
from tests.support.real import DATA, real

COUNTS = {
    "openi": {"sn": (2061, 294, 590), "mn": (2057, 294, 590)},
    "covid": {"sn": (0, 0, 102), "sw": (0, 0, 55), "mn": (0, 0, 27), "mw": (0, 0, 7)},
}


@pytest.mark.parametrize("name", list(COUNTS))
def test_real_corpus(name: str, tmp_path: Path) -> None:
    real(f"rg4/{name}")
    contexts = list(COUNTS[name])
    annotations = {context: f"rg4/{name}/{context}.json" for context in contexts}
    files = {"source": "files", "root": str(DATA), "images": ".", "contexts": contexts, "annotations": annotations}
    audit = built(Corpus.model_validate(BASE | files), tmp_path)
    for context, counts in COUNTS[name].items():
        assert tuple(audit["contexts"][context][split]["records"] for split in ("train", "val", "test")) == counts
    assert audit["excluded"]["count"] == 0
    assert all(pair["count"] == 0 for kind in audit["overlap"].values() for pair in kind.values())
    records = read_records(tmp_path / "corpus" / "records.parquet")
    assert records["report"].str.ends_with(" .").all()
    assert records.filter(context="mw")["prior_report"].null_count() == 0
