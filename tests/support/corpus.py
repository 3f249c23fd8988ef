"""Small corpora in MIMIC-RG4's layout that a test may change before they are read."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from PIL import Image

from pacer.config import Corpus
from pacer.core.schemas import read_records
from pacer.corpus.account import Notes, Rows
from pacer.corpus.build_corpus import build_corpus
from pacer.corpus.records import study_frame
from pacer.corpus.source import Source, point_to_files
from tests.support.profiles import profile

CONTEXTS = ("sn", "sw", "mn", "mw")
BASE = profile("phantom").corpus.model_dump()


def built(config: Corpus, folder: Path) -> dict[str, Any]:
    """The audit of the corpus in ``folder / "corpus"``, whose account has every row that was
    read."""
    point_to_files(config, folder / "source")
    audit = build_corpus(config, folder / "source", folder / "corpus")
    rows = audit["rows"]
    assert sum(rows["read"].values()) == sum(
        rows[name] for name in ("used", "bad", "left_out", "previous_only", "beyond_limit")
    )
    return audit


def files_config(root: Path, **settings: Any) -> Corpus:
    """The settings of the default profile for a corpus of files below ``root``."""
    return Corpus.model_validate(BASE | {"source": "files", "root": str(root)} | settings)


def record(context: str, subject: int, study: int) -> dict[str, Any]:
    folder = f"p{subject // 1_000_000}/p{subject}/s{study}"
    content: dict[str, Any] = {
        "id": str(study),
        "finding": "No effusion. 2. Heart: normal.",
        "impression": "No acute process.",
        "APPA_flag": "PA",
        "APPA_imagepath": f"{folder}/frontal.jpg",
        "history": 0,
        "indication": "Cough.",
        "new_scores": [0, "1", 0.0],
    }
    if context[0] == "m":
        content["lateral_imagepath"] = f"{folder}/lateral.jpg"
    if context[1] == "w":
        content |= {
            "last_finding": "Small effusion.",
            "last_impression": "s",
            "last_APPA_imagepath": "unused.jpg",
        }
    return content


@dataclass
class TinyCorpus:
    """Two studies in train and one each in val and test, in all four contexts."""

    root: Path
    out: Path
    files: dict[str, dict[str, list]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def config(self) -> Corpus:
        annotations = {
            "contexts": list(self.files),
            "annotations": {c: f"{c}.json" for c in self.files},
        }
        return files_config(**{"root": self.root, "images": "files"} | annotations | self.settings)

    def write(self) -> None:
        for context, content in self.files.items():
            (self.root / f"{context}.json").write_text(json.dumps(content))

    def build(self) -> dict[str, Any]:
        self.write()
        return built(self.config(), self.out)

    @property
    def records(self) -> pl.DataFrame:
        return read_records(self.out / "corpus" / "records.parquet")


@pytest.fixture
def tiny(tmp_path: Path) -> TinyCorpus:
    studies = {
        "train": [(10_000_001, 50_000_001), (10_000_001, 50_000_002)],
        "val": [(10_000_002, 50_000_003)],
        "test": [(10_000_003, 50_000_004)],
    }
    corpus = TinyCorpus(tmp_path / "raw", tmp_path / "out")
    corpus.files = {
        c: {s: [record(c, *ids) for ids in rows] for s, rows in studies.items()} for c in CONTEXTS
    }
    for row in (row for rows in corpus.files["mn"].values() for row in rows):
        for name in ("APPA_imagepath", "lateral_imagepath"):
            path = corpus.root / "files" / row[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (20, 30)).save(path)
    return corpus


def read_rows(
    read: Callable[[Source, Corpus, Notes], Rows], source: Source, config: Corpus
) -> tuple[list[dict[str, Any]], Notes]:
    """What a reader gives for its input: the values of each study, then those of each row that it
    does not use."""
    notes = Notes()
    studies = read(source, config, notes)
    rows = [*study_frame(studies.used, config).to_dicts(), *studies.listed.to_dicts()]
    return [
        {name: value for name, value in row.items() if value is not None} for row in rows
    ], notes


def lines_of(audit: dict[str, Any]) -> dict[str, str]:
    """The lines of an audit: what was found, by what was checked."""
    return {line["name"]: line["detail"] for line in audit["checks"]}


def looks_of(audit: dict[str, Any]) -> set[str]:
    """The lines of an audit that deserve a look."""
    return {line["name"] for line in audit["checks"] if not line["good"]}
