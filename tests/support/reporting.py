"""A run's outputs, made up: small tables in the formats that the stages write, with known
numbers."""

import copy
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image
from safetensors.numpy import save_file

from pacer.backbones.observations import OBSERVATIONS
from pacer.config import Params
from pacer.core.anchor import POLARITIES
from pacer.core.findings import FINDINGS
from pacer.core.io import yaml_beside
from pacer.core.schemas import read_records
from pacer.corpus.build_corpus import build_corpus
from pacer.corpus.source import point_to_files
from pacer.metrics.ledger import findings_of, read_findings
from tests.support.corpus import files_config, record
from tests.support.profiles import profile

GIVEN = yaml_beside(__file__, "reporting.yaml")
SENTENCES = tuple(GIVEN["sentences"])


@dataclass
class Run:
    """Where the made-up outputs lie; ``arguments`` are those of ``build_report`` without
    ``out``."""

    root: Path
    params: Params

    @property
    def arguments(self) -> dict:
        return {
            **{
                name: self.root / name
                for name in ("corpus", "anchors", "emphasis", "pictures", "predictions", "metrics")
            },
            "params": self.params,
        }


def _make_run(
    root: Path, contexts: tuple[str, ...] = ("sn", "sw", "mn", "mw"), bare: bool = False
) -> Run:
    random = np.random.default_rng(0)
    run = Run(root, profile("phantom"))  # whose `features.depths` are 4, 8 and 12
    for folder in ("raw/images", "anchors", "emphasis", "pictures", "predictions", "metrics"):
        (root / folder).mkdir(parents=True)
    records = _corpus(root, contexts, random)
    for name, lines in GIVEN["audits"].items():
        _write(root / name / "audit.json", {"checks": lines})
    test = records.filter(pl.col("split") == "test").sort("study_id", maintain_order=True)
    cases = _predictions(root / "predictions", test, random, bare)
    cases.write_parquet(root / "metrics" / "cases.parquet")
    read = (read_findings(cases[side]) for side in ("reference", "hypothesis"))
    findings_of(cases, *read).drop("row").write_parquet(root / "metrics" / "findings.parquet")
    _write_scores(root / "metrics", contexts, bare)
    return run


@pytest.fixture(scope="session")
def make_run():
    """``make_run(folder, contexts=..., bare=...)`` -> :class:`Run`; ``bare``: without gate, router
    and stand-ins."""
    return _make_run


@pytest.fixture
def full_run(tmp_path: Path) -> Run:
    return _make_run(tmp_path / "run")


def _corpus(root: Path, contexts: tuple[str, ...], random: np.random.Generator) -> pl.DataFrame:
    """Annotation files in MIMIC-RG4's layout, read by the corpus stage: two bad rows, one field
    that is not known."""
    files: dict[str, dict[str, list[dict]]] = {
        c: {s: [] for s in ("train", "val", "test")} for c in contexts
    }
    for number in range(40):
        split = "train" if number < 28 else "val" if number < 32 else "test"
        study, subject = 50_000_000 + number, 10_000_000 + number // 2
        for context in contexts:
            if context[0] == "m" and number % 3 == 0:
                continue
            chosen = random.choice(len(SENTENCES), size=4, replace=False)
            flag = ("AP", "PA", "lordotic")[number % 3]
            scores = [0, *(int(i % 7 == 0) for i in range(20 + 3 * number))]
            row = record(context, subject, study) | {
                "impression": "s",
                "indication": 0,
                "new_scores": scores,
            }
            row |= {"finding": " ".join(SENTENCES[i] for i in chosen), "APPA_flag": flag}
            if context[1] == "w":
                row["last_finding"] = SENTENCES[number % 6]
            files[context][split].append(row)
    first = files[contexts[0]]
    first["train"][0]["colour"] = "grey"
    first["train"] += [first["train"][0] | {"id": f"bad-{n}", "finding": "s"} for n in range(2)]
    for context, rows in files.items():
        _write(root / "raw" / f"{context}.json", rows)
        for row in (row for part in rows.values() for row in part):
            for name in ("APPA_imagepath", "lateral_imagepath")[: 1 + ("lateral_imagepath" in row)]:
                path = root / "raw" / "images" / row[name]
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(random.integers(0, 255, (112, 112), dtype=np.uint8)).save(path)
    config = files_config(
        root / "raw",
        images="images",
        contexts=list(contexts),
        max_bad_rows=2,
        annotations={context: f"{context}.json" for context in contexts},
    )
    point_to_files(config, root / "source")
    build_corpus(config, root / "source", root / "corpus")
    return read_records(root / "corpus" / "records.parquet")


def _predictions(
    folder: Path, test: pl.DataFrame, random: np.random.Generator, bare: bool
) -> pl.DataFrame:
    cases, lines, routing = [], {}, {}
    for position, row in enumerate(test.iter_rows(named=True)):
        names = list(random.permutation(FINDINGS)[:5])
        anchor = {"positive": names[:2], "negative": names[2:4], "uncertain": names[4:]}
        report = " ".join(
            SENTENCES[i] for i in random.choice(len(SENTENCES), size=3, replace=False)
        )
        fallback = position == 1
        lines.setdefault(row["context"], []).append(
            {
                "record_id": row["record_id"],
                "generated": report,
                "anchor": None if fallback else anchor,
                "report": report,
                "fallback": fallback,
                "gate": None if bare else 0.1 + 0.01 * position,
                "tokens": 90,
            }
        )
        cases.append(
            {
                **{
                    name: row[name]
                    for name in ("record_id", "context", "study_id", "subject_id", "view")
                },
                "reference": row["report"],
                "hypothesis": report,
                "reference_labels": [int(v) for v in random.integers(0, 4, 14)],
                "hypothesis_labels": [int(v) for v in random.integers(0, 4, 14)],
                "rougeL": float(random.uniform(0.1, 0.6)),
                "meteor_statistics": [1.0] * 23,
                **{f"reference_{name}": ["edema"] for name in POLARITIES},
                **{
                    f"report_{name}": ["edema"] if position % 3 else anchor[name]
                    for name in POLARITIES
                },
                **{f"anchor_{name}": None if fallback else anchor[name] for name in POLARITIES},
                "contradictions": None
                if fallback
                else ["edema"]
                if "edema" in anchor["negative"]
                else [],
                "prior_positive": ["edema", "fracture"] if row["prior_report"] else None,
                "no_prior_positive": ["edema"] if row["prior_report"] else None,
                "hypothesis_wording": ["unchanged"],
                "gate": None,
                "fallback": fallback,
            }
        )
        if not bare and row["context"] == "mw":
            for view, tilt in (("frontal", 0.3), ("lateral", -0.2)):
                side = np.linspace(-1, 1, 8, dtype=np.float32)
                logits = np.stack(
                    [
                        tilt * np.add.outer(side, side).ravel(),
                        np.zeros(64),
                        -np.tile(side, 8) * tilt,
                    ],
                    1,
                )
                routing[f"{row['record_id']}/{view}"] = (
                    np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
                ).astype(np.float32)
    for context, rows in lines.items():
        (folder / f"{context}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shown = list(dict.fromkeys(key.partition("-")[2].partition("/")[0] for key in routing)) or [
        test["study_id"][0]
    ]
    manifest = GIVEN["manifest"] | {
        "stand_ins": [] if bare else ["vision", "language"],
        "examples": shown[:2],
    }
    _write(folder / "manifest.json", manifest)
    if routing:
        save_file(routing, folder / "routing.safetensors")
    return pl.DataFrame(cases)


def _write_scores(folder: Path, contexts: tuple[str, ...], bare: bool) -> None:
    base = GIVEN["scores"]
    scores: dict = {}
    for shift, context in enumerate(contexts):
        scores[context] = GIVEN["rates"] | {
            key: value + 0.013 * shift for key, value in base.items()
        }
    scores["mean"] = {key: sum(scores[c][key] for c in contexts) / len(contexts) for key in base}
    scores["controls"] = {"another_patient": {c: {"f1": 0.31} for c in contexts}}
    _write(folder / "scores.json", scores)
    signature = copy.deepcopy(GIVEN["signature"])
    signature["standin_labeller"] = signature["clinical"]["labeller"]["standin"] = not bare
    if bare:
        del signature["parameters"]
    signature["clinical"]["observations"] = list(OBSERVATIONS)
    manifest = json.loads((folder.parent / "predictions" / "manifest.json").read_text())
    _write(folder / "signature.json", signature | {"predictions": manifest})


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))
