"""A pipeline in miniature, from annotation files to predictions, and the model that is exported
from it."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from PIL import Image

from pacer.config import Decode
from pacer.core.contexts import CONTEXTS
from pacer.core.io import hash_file, read_json, read_jsonl, write_json
from pacer.core.schemas import read_images, read_records
from pacer.corpus.build_corpus import build_corpus
from pacer.corpus.source import point_to_files
from pacer.decoding.run import decode_records, trained_generator
from pacer.features.encode import build_store
from pacer.serving.case import Case
from pacer.serving.package import MANIFEST
from tests.support.building import CONFIG
from tests.support.corpus import files_config, record
from tests.support.dicom import write_dicom
from tests.support.models import moved_model, save_model, save_reader, specification
from tests.support.searches import settings

ROOT = Path(__file__).resolve().parents[2]
DECODE = settings(max_new_tokens=24, min_new_tokens=4, batch_size=3, examples=1)
FEATURES = CONFIG.model_copy(update={"depths": [1, 2, 3], "batch_size": 5, "shard_size": 7})


@dataclass
class World:
    """Folders of the stages' outs below ``root``; the test split has three studies a context."""

    root: Path
    backbones: Path
    decode: Decode

    @property
    def inputs(self) -> dict[str, Path]:
        """Arguments of :func:`pacer.serving.package.export_model`."""
        return {
            "model": self.root / "calibrate",
            "backbones": self.backbones,
            "features": self.root / "features",
            "records": self.root / "corpus" / "records.parquet",
            "findings": self.root / "lists",
        }

    def predictions(self, context: str) -> list[dict[str, Any]]:
        return read_jsonl(self.root / "predictions" / f"{context}.jsonl")

    def case(self, record_id: str) -> Case:
        """The case of a test record, only from the annotation file: nothing is cleaned or
        prepared."""
        context, _, number = record_id.partition("-")
        [row] = (
            row for row in read_json(self.root / f"{context}.json")["test"] if row["id"] == number
        )
        images = self.root / "files"
        prior = " ".join(
            row[key] for key in ("last_finding", "last_impression") if row.get(key, "s") != "s"
        )
        sections = {"findings": row["finding"], "impression": row["impression"]}
        lateral = row.get("lateral_imagepath")
        return Case(
            frontal=images / row["APPA_imagepath"],
            lateral=None if lateral is None else images / lateral,
            prior=prior or None,
            indication=row["indication"] or None,
            history=row["history"] or None,
            view=row["APPA_flag"] if row["APPA_flag"] in ("AP", "PA") else "other",
            sections="+".join(name for name, text in sections.items() if text != "s"),
            name=record_id,
        )

    def records(self) -> pl.DataFrame:
        return read_records(self.root / "corpus" / "records.parquet")


def rehashed(directory: Path) -> None:
    """The manifest as it would be had the files been so from the start."""
    manifest = read_json(directory / MANIFEST)
    there = [name for name in manifest["files"] if (directory / name).is_file()]
    manifest["files"] = {name: hash_file(directory / name) for name in there}
    write_json(directory / MANIFEST, manifest)


def make_world(root: Path, backbones: Path) -> World:
    _annotate(root)
    annotations = {context: f"{context}.json" for context in CONTEXTS}
    corpus = files_config(root, images="files", contexts=list(CONTEXTS), annotations=annotations)
    point_to_files(corpus, root / "source")
    build_corpus(corpus, root / "source", root / "corpus")
    world = World(root, backbones, DECODE)
    priors = world.records()["prior_report"].drop_nulls().to_list()
    build_store(
        FEATURES,
        read_images(root / "corpus" / "images.parquet"),
        priors,
        backbones,
        root / "features",
    )
    _train(root, backbones)
    save_reader(root / "lists", root / "parent")
    read = partial(trained_generator, findings=root / "lists")
    decode_records(
        root / "calibrate",
        backbones,
        world.records(),
        root / "features",
        DECODE,
        root / "predictions",
        read,
    )
    return world


def _annotate(root: Path) -> None:
    """Two train and three test studies; previous reports of many lengths, some longer than the
    encoder reads."""
    rng = np.random.default_rng(3)
    splits: dict[str, dict[str, list]] = {
        context: {"train": [], "val": [], "test": []} for context in CONTEXTS
    }
    for study in range(5):
        folder = f"p1/p{10_000_000 + study}/s{50_000_000 + study}"
        split = "train" if study < 2 else "test"
        for kind in ("frontal", "lateral"):
            _image(root / "files" / folder, kind, study, rng)
        row: dict[str, Any] = {
            "finding": "No effusion. 2. Heart: normal." if study != 3 else "s",
            "impression": "No acute process." if study != 4 else "s",
            "APPA_flag": ("PA", "AP", "LL")[study % 3],
            "APPA_imagepath": f"{folder}/{_name('frontal', study)}",
            "history": "Smoker. " * 40 if study == 2 else 0,
            "indication": 0 if study == 4 else "Cough, fever.",
            "new_scores": [0.0],
        }
        lateral = {"lateral_imagepath": f"{folder}/{_name('lateral', study)}"}
        prior = {
            "last_finding": "1. Small left effusion. " * study or "Clear.",
            "last_impression": "No change." if study % 2 else "s",
        }
        for context in CONTEXTS:
            more = (lateral if context[0] == "m" else {}) | (prior if context[1] == "w" else {})
            splits[context][split].append(
                record(context, 10_000_000 + study, 50_000_000 + study) | row | more
            )
    for context, rows in splits.items():
        (root / f"{context}.json").write_text(json.dumps(rows))


def _name(kind: str, study: int) -> str:
    return f"{kind}.{('png', 'png', 'jpg', 'dcm', 'png')[study]}"


def _image(folder: Path, kind: str, study: int, rng: np.random.Generator) -> None:
    """Grey and coloured, deep and DICOM, of several sizes."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _name(kind, study)
    if study == 3:
        write_dicom(
            path, rng.integers(0, 4095, (70, 61)), photometric="MONOCHROME1", ViewPosition="PA"
        )
    elif study == 4:
        Image.fromarray(rng.integers(0, 60000, (64, 90)).astype(np.uint16)).save(path)
    else:
        shape = (70, 66, 3) if study == 2 else (60, 64)
        Image.fromarray(rng.integers(0, 255, shape, dtype=np.uint8)).save(path)


def _train(root: Path, backbones: Path) -> None:
    """Random weights in the place of training: a parent, and a calibrate checkpoint that builds on
    it."""
    model = moved_model(backbones, seed=5)
    save_model(root / "parent", model, backbones, specification("parent"))
    save_model(root / "calibrate", model, backbones, specification(), root / "parent")
