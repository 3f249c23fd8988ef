"""Scores of a set of predictions: ``scores.json``, ``signature.json`` and ``cases.parquet``.

Serves the stage `score` and any other corpus: what is not given (reference labels, anchors) is computed on the
spot, and what the corpus does not have (latent truth) is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pacer.anchors.build import rules_of
from pacer.anchors.rules import Version, extract_anchor
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.io import atomic_path, read_json, write_json
from pacer.metrics.chexbert import CheXbert
from pacer.metrics.clinical import clinical_efficacy
from pacer.metrics.labels import read_labels
from pacer.metrics.meteor import Meteor
from pacer.metrics.nlg import nlg_scores, rouge_rows
from pacer.metrics.pairing import Prediction, check_pairs, read_predictions
from pacer.metrics.polarity import STATES, polarity_agreement
from pacer.metrics.signature import build_signature
from pacer.metrics.truth import truth_scores

_POLARITIES = STATES[:3]


@dataclass
class Scored:
    """One context, all lists row by row the same records."""

    records: pl.DataFrame
    predictions: list[Prediction]
    controls: dict[str, list[Prediction]]
    anchors: list[dict[str, list[str]]]
    reference_labels: np.ndarray = field(default_factory=lambda: np.empty(0))
    labels: np.ndarray = field(default_factory=lambda: np.empty(0))
    control_labels: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def ids(self) -> list[str]:
        return self.records["record_id"].to_list()

    @property
    def references(self) -> list[str]:
        return self.records["report"].to_list()

    @property
    def originals(self) -> list[str | None]:
        """Untouched findings sections; None where there is none."""
        return self.records["findings_original"].to_list()

    @property
    def hypotheses(self) -> list[str]:
        return [prediction.report for prediction in self.predictions]


def decoded_records(records: pl.DataFrame, predictions_dir: str | Path, split: str | None = None) -> pl.DataFrame:
    """The records that a folder of predictions should cover: ``split`` (default: what its manifest says, else test),
    cut at the manifest's limit."""
    manifest = Path(predictions_dir) / "manifest.json"
    settings = read_json(manifest)["settings"] if manifest.is_file() else {}
    wanted = records.filter(pl.col("split") == (split or settings.get("split", "test")))
    limit = settings.get("limit")
    return wanted if limit is None else wanted.group_by("context", maintain_order=True).head(limit)


def score_predictions(
    records: pl.DataFrame,
    predictions_dir: str | Path,
    labels_path: str | Path | None,
    anchors_path: str | Path | None,
    chexbert_dir: str | Path,
    truth_path: str | Path | None,
    out_dir: str | Path,
    *,
    train_records: pl.DataFrame | None = None,
    convention: str = "llm-rg4",
    batch_size: int = 64,
    about: Mapping[str, Any] | None = None,
    rules: Version = "paper",
) -> dict[str, Any]:
    """Score ``predictions_dir`` against ``records`` and write the three files into ``out_dir``.

    Args:
        records: exactly the records that must have a prediction (columns of ``records.parquet``). Contexts
            without records are skipped.
        predictions_dir: ``{context}.jsonl``, and ``controls/{control}/{context}.jsonl`` where a control was run.
        labels_path: CheXbert labels of the references; ``None``: labelled now.
        anchors_path: reference anchors; ``None``: the rules read ``report_raw``. The rules that made them also read the
            generated reports.
        chexbert_dir: directory of the labeller.
        truth_path: latent findings of every study, ``None`` for corpora without.
        out_dir: where the files go; other files there stay.
        train_records: training records for the constant-report yardstick (used with ``truth_path``).
        convention: how CheXbert classes become present or absent.
        batch_size: reports of one labeller pass.
        about: how the references were made (:func:`~pacer.corpus.records.read_about`), for the signature.
        rules: version of the rules, where no table of anchors says which one made it.

    Returns:
        The content of ``scores.json``: ``{context: {score: number}, "mean": {...}}``, with ``"controls"`` and
        ``"truth"`` where there are such. A score without a denominator is left out and named in the signature.

    Raises:
        DataError: ids that do not pair one to one, or a malformed input.
    """
    predictions_dir, out_dir = Path(predictions_dir), Path(out_dir)
    version = (None if anchors_path is None else rules_of(anchors_path)) or rules
    with Meteor() as meteor:
        contexts = _read(records, predictions_dir, anchors_path, version)
        constant = train_records if truth_path is not None else None
        train_labels = _label(contexts, labels_path, constant, CheXbert(chexbert_dir, batch_size))
        undefined: list[str] = []
        scores: dict[str, Any] = {
            name: _numbers(_context_scores(scored, convention, meteor, version), name, undefined)
            for name, scored in contexts.items()
        }
    scores["mean"] = _mean(scores)
    controls = _control_scores(contexts, convention, undefined)
    if controls:
        scores["controls"] = controls
    truths = None
    if truth_path is not None:
        values, truths = truth_scores(contexts, truth_path, constant, train_labels)
        scores["truth"] = _numbers(values, "truth", undefined)
    with atomic_path(out_dir / "cases.parquet") as temporary:
        _cases(contexts, truths).write_parquet(temporary)
    manifest = predictions_dir / "manifest.json"
    inputs: dict[str, Path | None] = {
        "reference_labels": None if labels_path is None else Path(labels_path),
        "anchors": None if anchors_path is None else Path(anchors_path),
        "truth": None if truth_path is None else Path(truth_path),
    }
    inputs |= {f"predictions/{name}": predictions_dir / f"{name}.jsonl" for name in contexts}
    signature = build_signature(records, convention, chexbert_dir, inputs, _counts(contexts), undefined,
                                read_json(manifest) if manifest.is_file() else None, about or {}, version)
    write_json(out_dir / "signature.json", signature)
    write_json(out_dir / "scores.json", scores)
    return scores


def _read(records: pl.DataFrame, predictions_dir: Path, anchors_path: str | Path | None, version: Version
          ) -> dict[str, Scored]:
    ids = records["record_id"].to_list()
    if not ids:
        raise DataError("there are no records to score")
    check_pairs(ids, list(dict.fromkeys(ids)), "the records", "the records")
    unknown = set(records["context"].unique()) - set(CONTEXTS)
    if unknown:
        raise DataError(f"records of unknown context {sorted(map(str, unknown))[0]}; known: {', '.join(CONTEXTS)}")
    given = None if anchors_path is None else _read_anchors(anchors_path, ids)
    contexts = {}
    for name in CONTEXTS:
        rows = records.filter(pl.col("context") == name)
        if not len(rows):
            continue
        keys = rows["record_id"].to_list()
        controls = {
            path.parent.name: read_predictions(path, keys)
            for path in sorted(predictions_dir.glob(f"controls/*/{name}.jsonl"))
        }
        anchors = [given[key] for key in keys] if given is not None else [
            _as_lists(extract_anchor(text, version)) for text in rows["report_raw"].to_list()
        ]
        contexts[name] = Scored(rows, read_predictions(predictions_dir / f"{name}.jsonl", keys), controls, anchors)
    return contexts


def _read_anchors(path: str | Path, ids: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    try:
        table = pl.read_parquet(path, columns=["record_id", *_POLARITIES])
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path} is no table of anchors: {type(error).__name__}; repeat the stage `anchors`") from None
    anchors = {row["record_id"]: {name: row[name] or [] for name in _POLARITIES} for row in table.to_dicts()}
    missing = [key for key in ids if key not in anchors]
    if missing:
        raise DataError(f"{path} has no anchor for record {missing[0]}"
                        + (f" and {len(missing) - 1} more" if len(missing) > 1 else ""))
    return anchors


def _as_lists(anchor: Any) -> dict[str, list[str]]:
    return {name: list(getattr(anchor, name)) for name in _POLARITIES}


def _label(contexts: dict[str, Scored], labels_path: str | Path | None, train: pl.DataFrame | None,
           labeller: CheXbert) -> np.ndarray | None:
    """Label every text in one pass and hand the rows back to their contexts; returns the training labels."""
    known = {} if labels_path is None else read_labels(labels_path)
    texts: list[str] = []
    spans: dict[tuple[str, str], slice] = {}

    def request(context: str, what: str, reports: list[str]) -> None:
        spans[context, what] = slice(len(texts), len(texts) + len(reports))
        texts.extend(reports)

    for name, scored in contexts.items():
        request(name, "hypotheses", scored.hypotheses)
        for control, predictions in scored.controls.items():
            request(name, f"control {control}", [prediction.report for prediction in predictions])
        if labels_path is None:
            request(name, "references", scored.references)
        elif any(key not in known for key in scored.ids):
            missing = next(key for key in scored.ids if key not in known)
            raise DataError(f"{labels_path} has no labels for record {missing}; repeat the stage `reference_labels`")
    if train is not None:
        request("train", "references", train["report"].to_list())
    labels = labeller(texts).numpy()
    for name, scored in contexts.items():
        scored.labels = labels[spans[name, "hypotheses"]]
        scored.reference_labels = (labels[spans[name, "references"]] if labels_path is None
                                   else np.array([known[key] for key in scored.ids]))
        scored.control_labels = {control: labels[spans[name, f"control {control}"]] for control in scored.controls}
    return None if train is None else labels[spans["train", "references"]]


def _context_scores(scored: Scored, convention: str, meteor: Meteor, version: Version) -> dict[str, Any]:
    ids, hypotheses = scored.ids, scored.hypotheses
    clinical = clinical_efficacy(scored.reference_labels, scored.labels, convention)
    scores: dict[str, Any] = {"n": len(ids)} | {name: clinical[name] for name in ("precision", "recall", "f1")}
    pairs = dict(zip(ids, hypotheses, strict=True))
    scores |= nlg_scores(dict(zip(ids, scored.references, strict=True)), pairs, meteor)
    originals = {key: " ".join(text.split()) for key, text in zip(ids, scored.originals, strict=True) if text}
    if originals:
        paired = {key: pairs[key] for key in originals}
        scores |= {"original_n": len(originals)}
        scores |= {f"original_{name}": value for name, value in nlg_scores(originals, paired, meteor).items()}
    scores["fallback_rate"] = float(np.mean([prediction.fallback for prediction in scored.predictions]))
    scores["empty_rate"] = float(np.mean([not text.strip(" .") for text in hypotheses]))
    gates = [prediction.gate for prediction in scored.predictions if prediction.gate is not None]
    if gates:
        scores["gate"] = float(np.mean(gates))
    return scores | _anchor_scores(scored, version)


def _anchor_scores(scored: Scored, version: Version) -> dict[str, float | None]:
    rows = [row for row, prediction in enumerate(scored.predictions) if prediction.anchor is not None]
    if not rows:
        return {}
    generated = [scored.predictions[row].anchor for row in rows]
    against = polarity_agreement([scored.anchors[row] for row in rows], generated)
    reports = [extract_anchor(scored.predictions[row].report, version) for row in rows]
    scores = {f"anchor_{name}": against[name] for name in
              ("agreement", "stated_agreement", *(f"{polarity}_f1" for polarity in _POLARITIES))}
    return scores | {"report_follows_anchor": polarity_agreement(generated, reports)["stated_agreement"]}


def _control_scores(contexts: dict[str, Scored], convention: str, undefined: list[str]) -> dict[str, Any]:
    scores: dict[str, Any] = {}
    for name, scored in contexts.items():
        for control, labels in scored.control_labels.items():
            values = clinical_efficacy(scored.reference_labels, labels, convention)
            kept = {"n": len(labels)} | {key: values[key] for key in ("precision", "recall", "f1")}
            scores.setdefault(control, {})[name] = _numbers(kept, f"controls.{control}.{name}", undefined)
    return scores


def _numbers(scores: dict[str, Any], where: str, undefined: list[str]) -> dict[str, Any]:
    """The defined scores; the names of the others go to ``undefined``."""
    undefined += [f"{where}.{name}" for name, value in scores.items() if value is None or value != value]
    return {name: value for name, value in scores.items() if value is not None and value == value}


def _mean(scores: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Plain mean over contexts of every score that all contexts have."""
    contexts = list(scores.values())
    counts = ("n", "original_n")
    shared = [name for name in contexts[0] if name not in counts and all(name in context for context in contexts)]
    return {name: float(np.mean([context[name] for context in contexts])) for name in shared}


def _counts(contexts: dict[str, Scored]) -> dict[str, Any]:
    return {
        name: {
            "n": len(scored.ids),
            "original_references": sum(bool(text) for text in scored.originals),
            "empty_references": sum(not text.strip(" .") for text in scored.references),
            "empty_hypotheses": sum(not text.strip(" .") for text in scored.hypotheses),
            "without_anchor": sum(prediction.anchor is None for prediction in scored.predictions),
            "fallbacks": sum(prediction.fallback for prediction in scored.predictions),
        }
        for name, scored in contexts.items()
    }


def _cases(contexts: dict[str, Scored], truths: dict[str, list[list[str]]] | None) -> pl.DataFrame:
    """One row a record: texts, labels, row ROUGE-L, both commitments, gate, fallback, latent findings."""
    tables = []
    texts = pl.List(pl.String)
    for name, scored in contexts.items():
        generated = [prediction.anchor or {} for prediction in scored.predictions]
        absent = [prediction.anchor is None for prediction in scored.predictions]
        columns: dict[str, pl.Series] = {
            "record_id": pl.Series(scored.ids, dtype=pl.String),
            "context": pl.Series([name] * len(scored.ids), dtype=pl.String),
            "reference": pl.Series(scored.references, dtype=pl.String),
            "hypothesis": pl.Series(scored.hypotheses, dtype=pl.String),
            "reference_labels": pl.Series(scored.reference_labels.tolist(), dtype=pl.List(pl.Int64)),
            "hypothesis_labels": pl.Series(scored.labels.tolist(), dtype=pl.List(pl.Int64)),
            "rougeL": pl.Series(rouge_rows(scored.references, scored.hypotheses), dtype=pl.Float64),
        }
        for polarity in _POLARITIES:
            lists = [None if gone else anchor[polarity] for anchor, gone in zip(generated, absent, strict=True)]
            columns[f"anchor_{polarity}"] = pl.Series(lists, dtype=texts)
        for polarity in _POLARITIES:
            columns[f"reference_{polarity}"] = pl.Series([anchor[polarity] for anchor in scored.anchors], dtype=texts)
        columns["gate"] = pl.Series([prediction.gate for prediction in scored.predictions], dtype=pl.Float64)
        columns["fallback"] = pl.Series([prediction.fallback for prediction in scored.predictions], dtype=pl.Boolean)
        if truths is not None:
            columns["truth"] = pl.Series(truths[name], dtype=texts)
        tables.append(pl.DataFrame(columns))
    return pl.concat(tables)
