"""A tiny corpus in MIMIC-RG4's layout that a test may change before it is read."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pacer.config import Corpus
from pacer.data.build_corpus import build_corpus
from pacer.data.source import point_to_files
from tests.support.profiles import profile

CONTEXTS = ("sn", "sw", "mn", "mw")
ROOT = Path(__file__).resolve().parents[2]


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
        content |= {"last_finding": "Small effusion.", "last_impression": "s", "last_APPA_imagepath": "unused.jpg"}
    return content


@dataclass
class TinyCorpus:
    """Two studies in train and one each in val and test, in all four contexts."""

    root: Path
    out: Path
    files: dict[str, dict[str, list]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def config(self) -> Corpus:
        base = profile("phantom").corpus.model_dump()
        base |= {
            "source": "files",
            "root": str(self.root),
            "images": "files",
            "contexts": list(self.files),
            "annotations": {c: f"{c}.json" for c in self.files},
        }
        return Corpus.model_validate(base | self.settings)

    def write(self) -> None:
        for context, content in self.files.items():
            (self.root / f"{context}.json").write_text(json.dumps(content))

    def build(self) -> dict[str, Any]:
        self.write()
        point_to_files(self.config(), self.out / "source")
        return build_corpus(self.config(), self.out / "source", self.out / "corpus")


@pytest.fixture
def tiny(tmp_path: Path) -> TinyCorpus:
    studies = {
        "train": [(10_000_001, 50_000_001), (10_000_001, 50_000_002)],
        "val": [(10_000_002, 50_000_003)],
        "test": [(10_000_003, 50_000_004)],
    }
    corpus = TinyCorpus(tmp_path / "raw", tmp_path / "out")
    corpus.files = {c: {s: [record(c, *ids) for ids in rows] for s, rows in studies.items()} for c in CONTEXTS}
    for row in copy.deepcopy([r for rows in corpus.files["mn"].values() for r in rows]):
        for name in ("APPA_imagepath", "lateral_imagepath"):
            path = corpus.root / "files" / row[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.linear_gradient("L").resize((20, 30)).save(path, comment=row["id"] + name)
    return corpus


def lines_of(audit: dict[str, Any]) -> dict[str, str]:
    """The lines of an audit: what was found, by what was checked."""
    return {line["name"]: line["detail"] for line in audit["checks"]}


def looks_of(audit: dict[str, Any]) -> set[str]:
    """The lines of an audit that deserve a look."""
    return {line["name"] for line in audit["checks"] if not line["good"]}
