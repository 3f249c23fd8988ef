"""A run's outputs, made up: small tables in the formats that the stages write, with known numbers."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image
from safetensors.numpy import save_file

from pacer.anchors.build import build_anchors
from pacer.corpus.audit import count_records, emphasis_summary, image_summary, split_overlap
from pacer.corpus.findings import FINDINGS
from pacer.corpus.records import IMAGE_SCHEMA, RECORD_SCHEMA
from pacer.metrics.chexbert import OBSERVATIONS

SENTENCES = (
    "there is a small left pleural effusion , unchanged since the previous study .",
    "the cardiac silhouette is mildly enlarged .",
    "no pneumothorax is seen .",
    "patchy opacity at the right lung base may represent atelectasis or early pneumonia .",
    "a right internal jugular catheter ends in the superior vena cava .",
    "mild interstitial edema has improved .",
)
DEPTHS = (4, 8, 12)


@dataclass
class Run:
    """Where the made-up outputs lie; ``arguments`` are those of ``build_report`` without ``out``."""

    root: Path

    @property
    def arguments(self) -> dict:
        return {
            "records": self.root / "corpus" / "records.parquet",
            "corpus_audit": self.root / "corpus" / "audit.json",
            "anchors_audit": self.root / "anchors" / "audit.json",
            "training": {phase: self.root / "metrics" / phase for phase in ("warmup", "parent", "calibrate")},
            "predictions": self.root / "predictions",
            "metrics": self.root / "metrics",
            "images": self.root / "corpus" / "images.parquet",
            "depths": DEPTHS,
        }


def _make_run(root: Path, contexts: tuple[str, ...] = ("sn", "sw", "mn", "mw"), truth: bool = True,
             gate: bool = True, routed: bool = True, standin: bool = True) -> Run:  # fmt: skip
    random = np.random.default_rng(0)
    run = Run(root)
    for folder in ("corpus/images", "anchors", "predictions", "metrics"):
        (root / folder).mkdir(parents=True)
    records = _records(contexts, random)
    images = _images(root / "corpus" / "images", records, random)
    records.write_parquet(root / "corpus" / "records.parquet")
    images.write_parquet(root / "corpus" / "images.parquet")
    _write(root / "corpus" / "audit.json", {
        "cleaner": "upstream-1", "contexts": count_records(records, list(contexts)), "overlap": split_overlap(records),
        "emphasis": emphasis_summary(records), "images": image_summary(images, 0, 0),
        "excluded": {"count": 2, "reasons": {"finding: both sections are absent": 2}, "rows": []},
    })  # fmt: skip
    _write_anchor_audit(root / "anchors" / "audit.json", records)
    test = records.filter(pl.col("split") == "test")
    cases = _predictions(root / "predictions", test, random, gate, routed)
    cases.write_parquet(root / "metrics" / "cases.parquet")
    _write_scores(root / "metrics", contexts, truth, standin)
    _write_curves(root / "metrics", contexts)
    return run


@pytest.fixture
def make_run():
    """``make_run(folder, contexts=..., truth=..., gate=..., routed=..., standin=...)`` -> :class:`Run`."""
    return _make_run


@pytest.fixture
def full_run(tmp_path: Path) -> Run:
    return _make_run(tmp_path / "run")


def _records(contexts: tuple[str, ...], random: np.random.Generator) -> pl.DataFrame:
    rows = []
    for number in range(40):
        split = "train" if number < 28 else "val" if number < 32 else "test"
        study, subject = f"5{number:07d}", f"1{number // 2:07d}"
        for context in contexts:
            if context[0] == "m" and number % 3 == 0:
                continue
            chosen = random.choice(len(SENTENCES), size=4, replace=False)
            text = " ".join(SENTENCES[i] for i in chosen)
            rows.append({
                "record_id": f"{context}-{study}", "context": context, "split": split, "study_id": study,
                "subject_id": subject, "view": ("AP", "PA", "other")[number % 3], "frontal": f"{study}/f.jpg",
                "lateral": f"{study}/l.jpg" if context[0] == "m" else None, "report": text, "report_raw": text,
                "sections": "findings+impression",
                "prior_report": SENTENCES[number % 6] if context[1] == "w" else None,
            })  # fmt: skip
    return pl.DataFrame(rows, schema=RECORD_SCHEMA)


def _images(folder: Path, records: pl.DataFrame, random: np.random.Generator) -> pl.DataFrame:
    rows = []
    for image_id in sorted(set(records["frontal"]) | set(records["lateral"].drop_nulls())):
        path = folder / image_id.replace("/", "-")
        y, x = np.mgrid[-1:1:112j, -1:1:112j]
        lungs = np.exp(-(((np.abs(x) - 0.45) / 0.28) ** 2) - ((y / 0.75) ** 2))
        pixels = 190 - 140 * lungs + random.normal(0, 6, lungs.shape)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)
        rows.append(
            {"image_id": image_id, "path": str(path), "bytes": path.stat().st_size, "width": 112, "height": 112}
        )
    return pl.DataFrame(rows, schema=IMAGE_SCHEMA)


def _predictions(folder: Path, test: pl.DataFrame, random: np.random.Generator, gate: bool,
                 routed: bool) -> pl.DataFrame:  # fmt: skip
    cases, lines, routing = [], {}, {}
    for position, row in enumerate(test.iter_rows(named=True)):
        names = list(random.permutation(FINDINGS)[:5])
        anchor = {"positive": names[:2], "negative": names[2:4], "uncertain": names[4:]}
        report = " ".join(SENTENCES[i] for i in random.choice(len(SENTENCES), size=3, replace=False))
        fallback = position == 1
        lines.setdefault(row["context"], []).append({
            "record_id": row["record_id"], "generated": report, "anchor": None if fallback else anchor,
            "report": report, "fallback": fallback, "gate": 0.1 + 0.01 * position if gate else None, "tokens": 90,
        })  # fmt: skip
        cases.append({
            "record_id": row["record_id"], "context": row["context"], "reference": row["report"], "hypothesis": report,
            "reference_labels": [int(v) for v in random.integers(0, 4, 14)],
            "hypothesis_labels": [int(v) for v in random.integers(0, 4, 14)], "rougeL": float(random.uniform(0.1, 0.6)),
            "gate": None, "fallback": fallback,
        })  # fmt: skip
        if routed and row["context"][0] == "m" and len(routing) < 4:
            for view, tilt in (("frontal", 0.3), ("lateral", -0.2)):
                side = np.linspace(-1, 1, 8, dtype=np.float32)
                logits = np.stack([tilt * np.add.outer(side, side).ravel(), np.zeros(64), -np.tile(side, 8) * tilt], 1)
                routing[f"{row['record_id']}/{view}"] = (np.exp(logits) / np.exp(logits).sum(1, keepdims=True)).astype(
                    np.float32
                )
    for context, rows in lines.items():
        (folder / f"{context}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shown = list(dict.fromkeys(key.partition("-")[2].partition("/")[0] for key in routing)) or [test["study_id"][0]]
    _write(folder / "manifest.json", {"split": "test", "examples": shown})
    if routing:
        save_file(routing, folder / "routing.safetensors")
    return pl.DataFrame(cases)


def _write_scores(folder: Path, contexts: tuple[str, ...], truth: bool, standin: bool) -> None:
    keys = ("precision", "recall", "f1", "bleu1", "bleu2", "bleu3", "bleu4", "rougeL", "meteor")
    scores: dict = {}
    for shift, context in enumerate(contexts):
        values = (0.612, 0.587, 0.599, 0.401, 0.288, 0.213, 0.166, 0.342, 0.171)
        scores[context] = {key: value + 0.013 * shift for key, value in zip(keys, values, strict=True)} | {
            "n": 228, "fallback_rate": 0.004, "empty_rate": 0.0, "anchor_agreement": 0.81, "anchor_positive_f1": 0.55,
            "report_follows_anchor": 0.93,
        }  # fmt: skip
    scores["mean"] = {key: sum(scores[c][key] for c in contexts) / len(contexts) for key in keys}
    scores["controls"] = {"another_patient": {c: {"n": 228, "f1": 0.31} for c in contexts}}
    if truth:
        scores["truth"] = {
            "mean_f1": 0.668, "another_patient_f1": 0.241, "constant_f1": 0.383, "mn_with_lateral_f1": 0.713,
            "mn_without_lateral_f1": 0.671, "lateral_only_recall": 0.5,
            **{f"{c}_f1": 0.64 + 0.01 * i for i, c in enumerate(contexts)},
        }  # fmt: skip
    _write(folder / "scores.json", scores)
    _write_signature(folder / "signature.json", standin)


def _write_signature(path: Path, standin: bool) -> None:
    _write(path, {
        "standin_labeller": standin,
        "clinical": {"convention": "llm-rg4", "present_classes": [1, 3], "observations": list(OBSERVATIONS),
                     "labeller": {"standin": standin, "provenance": None, "files": {"chexbert.pth": "ab12cd34" * 8}}},
        "language": {"cleaner": "llm-rg4-mimic-1"},
        "counts": {"sn": {"n": 228}, "mn": {"n": 228}},
        "versions": {"pacer": "0.1.0"},
        "data": {"records": "0123456789abcdef", "truth": None},
        "predictions": {"stand_ins": ["vision", "language"] if standin else []},
    })  # fmt: skip


def _write_anchor_audit(path: Path, records: pl.DataFrame) -> None:
    texts = dict(records.filter(split="train").select("record_id", "report_raw").head(10).iter_rows())
    answer = json.dumps({"positive": ["edema"], "negative": ["pneumothorax"], "uncertain": []})
    cache = path.with_name("llm_cache.jsonl")
    cache.write_text("".join(json.dumps({"record_id": name, "raw": answer}) + "\n" for name in texts))
    _write(path, build_anchors(records, cache)[1])


def _write_curves(folder: Path, contexts: tuple[str, ...]) -> None:
    for phase in ("warmup", "parent", "calibrate"):
        steps = range(10, 451, 10)
        curves = {
            "loss": [1.2 + 3 * math.exp(-s / 90) for s in steps],
            "loss_trajectory": [1 + 2 * math.exp(-s / 90) for s in steps],
            "loss_tlw": [0.4 + math.exp(-s / 70) for s in steps],
            "learning_rate": [3e-3 * (1 - s / 460) for s in steps],
            "rho": [min(0.5, 0.1 + s / 400) for s in steps], "alpha": [0.1 + s / 9000 for s in steps],
            "gradient_norm": [1 + 1 / s for s in steps], "validation/mean": [2 + math.exp(-s / 90) for s in steps],
            **{f"depth_weight/{k}": [1 / 3 + (k - 1) * s / 9000 for s in steps] for k in range(3)},
            **{f"validation/{c}": [2 + 0.1 * i + math.exp(-s / 90) for s in steps] for i, c in enumerate(contexts)},
        }  # fmt: skip
        if phase == "calibrate":
            curves |= {f"gate/{c}": [0.1 + 0.02 * i + s / 9000 for s in steps] for i, c in enumerate(contexts)}
            curves |= {
                "loss_consistency": [0.02 * math.exp(-s / 200) for s in steps],
                "loss_drift": [1e-4 * s / 400 for s in steps],
            }
        for name, values in curves.items():
            path = folder / phase / "plots" / "metrics" / f"{name}.tsv"
            path.parent.mkdir(parents=True, exist_ok=True)
            column = name.rpartition("/")[2]
            rows = "".join(f"{step}\t{value}\n" for step, value in zip(steps, values, strict=True))
            path.write_text(f"step\t{column}\n{rows}")


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))
