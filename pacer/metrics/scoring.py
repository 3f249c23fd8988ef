"""Scores of a set of predictions: ``scores.json``, ``details.json``, ``signature.json`` and ``cases.parquet``.

Serves the stage `score` and any other corpus: what is not given (reference labels, anchors) is computed on the
spot, and what the corpus does not have (latent truth) is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.io import atomic_path, read_json, write_json
from pacer.corpus.text.cleaning import CLEANERS
from pacer.metrics.cases import POLARITIES, Scored, case_table
from pacer.metrics.chexbert.labeller import CheXbert
from pacer.metrics.chexbert.reference_labels import KnownLabels
from pacer.metrics.clinical import RATIOS, clinical_efficacy, label_confusion
from pacer.metrics.commitments import commitment_scores
from pacer.metrics.conventions import CONVENTIONS
from pacer.metrics.extraction import extraction_counts
from pacer.metrics.meteor import Meteor
from pacer.metrics.nlg import language_scores
from pacer.metrics.pairing import check_pairs, read_predictions
from pacer.metrics.signature import build_signature
from pacer.metrics.truth import truth_scores
from pacer.metrics.wording_scores import report_wording, wording_counts, wording_scores
from pacer.rules.extract import extract_anchor
from pacer.rules.version import Version, rules_of

#: What a folder of scores consists of.
OUTPUTS = ("scores.json", "details.json", "signature.json", "cases.parquet")
#: Entries of a context that are counts: they have no mean.
_COUNTS = ("n", "original_n")

#: What is done to original references before they are compared with. The paper does not say what it did
#: (``docs/scoring.md``).
ORIGINALS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {**CLEANERS, "lowercase": lambda text: " ".join(text.lower().split()), "as_is": lambda text: " ".join(text.split())}
)


def decoded_records(records: pl.DataFrame, predictions_dir: str | Path, split: str | None = None) -> pl.DataFrame:
    """The records that a folder of predictions should cover: ``split`` (default: what its manifest says, else test),
    cut at the manifest's limit."""
    chosen, limit = _decoded(predictions_dir)
    wanted = records.filter(pl.col("split") == (split or chosen))
    return wanted if limit is None else wanted.group_by("context", maintain_order=True).head(limit)


def limit_note(records: pl.DataFrame, predictions_dir: str | Path, split: str | None = None) -> str | None:
    """How many of the records :func:`decoded_records` leaves, in words; ``None`` where these are all of the split."""
    chosen, limit = _decoded(predictions_dir)
    whole = records.filter(pl.col("split") == (split or chosen)).height
    kept = decoded_records(records, predictions_dir, split).height
    return None if kept == whole else f"{kept} of {whole} records of split {split or chosen}: decode.limit {limit}"


def _decoded(predictions_dir: str | Path) -> tuple[str, int | None]:
    """Split and limit of a folder of predictions."""
    manifest = Path(predictions_dir) / "manifest.json"
    settings = read_json(manifest)["settings"] if manifest.is_file() else {}
    return settings.get("split", "test"), settings.get("limit")


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
    originals: str = "upstream",
    batch_size: int = 64,
    about: Mapping[str, Any] | None = None,
    rules: Version = "paper",
) -> dict[str, Any]:
    """Score ``predictions_dir`` against ``records`` and write the files of :data:`OUTPUTS` into ``out_dir``.

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
        originals: key of :data:`ORIGINALS`.
        batch_size: reports of one labeller pass.
        about: how the references were made (:func:`~pacer.records.schemas.read_about`), for the signature.
        rules: version of the rules, where no table of anchors says which one made it.

    Returns:
        The content of ``scores.json``; see :func:`score_contexts`.

    Raises:
        DataError: ids that do not pair one to one, or a malformed input.
    """
    predictions_dir = Path(predictions_dir)
    manifest = predictions_dir / "manifest.json"
    made = read_json(manifest) if manifest.is_file() else None
    version = (None if anchors_path is None else rules_of(anchors_path)) or rules
    with Meteor() as meteor:
        contexts = _read(records, predictions_dir, anchors_path, version)
        return score_contexts(
            contexts,
            labels_path,
            chexbert_dir,
            truth_path,
            out_dir,
            meteor,
            train_records=train_records if truth_path is not None else None,
            convention=convention,
            originals=originals,
            batch_size=batch_size,
            about=about,
            rules=version,
            inputs={"anchors": None if anchors_path is None else Path(anchors_path)}
            | {f"predictions/{name}": predictions_dir / f"{name}.jsonl" for name in contexts},
            made=made,
        )


def score_contexts(
    contexts: dict[str, Scored],
    labels_path: str | Path | None,
    chexbert_dir: str | Path,
    truth_path: str | Path | None,
    out_dir: str | Path,
    meteor: Meteor,
    *,
    inputs: Mapping[str, Path | None],
    made: Mapping[str, Any] | None = None,
    train_records: pl.DataFrame | None = None,
    convention: str = "llm-rg4",
    originals: str = "upstream",
    batch_size: int = 64,
    about: Mapping[str, Any] | None = None,
    protocol: Mapping[str, Any] | None = None,
    rules: Version,
) -> dict[str, Any]:
    """Score paired reports and write the files of :data:`OUTPUTS` into ``out_dir``.

    Args:
        contexts: context -> records with their predictions and reference anchors.
        inputs: name -> file that was read, for the signature. made: the manifest beside the predictions.
        protocol: what was done to other systems' reports before scoring. rules: version that reads the reports.
        Others: as in :func:`score_predictions`.

    Returns:
        The content of ``scores.json``: ``{context: {score: number}, "mean": {...}}``, ``"conventions"`` (convention ->
        context -> averages), and ``"controls"`` and ``"truth"`` where there are such. A score without a denominator is
        ``None``, and named in the signature. A single context that is none of the four has no mean.
    """
    out_dir = Path(out_dir)
    labeller = CheXbert(chexbert_dir, batch_size)
    known = None if labels_path is None else KnownLabels(labels_path, chexbert_dir, labeller.arithmetic)
    train_labels = _label(contexts, known, train_records, labeller)
    limit = ((made or {}).get("settings") or {}).get("max_new_tokens")
    scores: dict[str, Any] = {}
    details: dict[str, Any] = {"commitments": {}, "wording": {}}
    for name, scored in contexts.items():
        scores[name], comparisons = _context_scores(name, scored, convention, originals, limit, meteor, rules)
        details["commitments"][name] = comparisons
        details["wording"][name] = wording_counts(scored.reference_wording, scored.wording)
    averaged = set(contexts) <= set(CONTEXTS)
    if averaged:
        scores["mean"] = _mean(scores)
    scores["conventions"], details["labels"] = _conventions(contexts, averaged)
    details["confusion"] = {name: label_confusion(s.reference_labels, s.labels) for name, s in contexts.items()}
    controls = _control_scores(contexts, convention)
    if controls:
        scores["controls"] = controls
    truths = None
    if truth_path is not None:
        scores["truth"], truths = truth_scores(contexts, truth_path, train_records, train_labels)
    scores = _without_nan(scores)
    with atomic_path(out_dir / "cases.parquet") as temporary:
        case_table(contexts, truths).write_parquet(temporary)
    files = {"reference_labels": labels_path, "truth": truth_path}
    signature = build_signature(
        pl.concat(
            [pl.DataFrame({"record_id": scored.ids, "report": scored.references}) for scored in contexts.values()]
        ),
        convention,
        chexbert_dir,
        {name: None if path is None else Path(path) for name, path in files.items()} | dict(inputs),
        _counts(contexts, limit),
        _undefined(scores),
        made,
        about or {},
        arithmetic=labeller.arithmetic,
        protocol=protocol,
        rules=rules,
        originals=originals,
    )
    write_json(out_dir / "details.json", _without_nan(details))
    write_json(out_dir / "signature.json", signature)
    write_json(out_dir / "scores.json", scores)
    return scores


def _read(
    records: pl.DataFrame, predictions_dir: Path, anchors_path: str | Path | None, rules: Version
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
        anchors = (
            [given[key] for key in keys]
            if given is not None
            else [as_lists(extract_anchor(text, rules)) for text in rows["report_raw"].to_list()]
        )
        contexts[name] = Scored(rows, read_predictions(predictions_dir / f"{name}.jsonl", keys), controls, anchors)
    return contexts


def _read_anchors(path: str | Path, ids: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    try:
        table = pl.read_parquet(path, columns=["record_id", *POLARITIES])
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path} is no table of anchors: {type(error).__name__}; repeat the stage `anchors`") from None
    anchors = {row["record_id"]: {name: row[name] or [] for name in POLARITIES} for row in table.to_dicts()}
    missing = [key for key in ids if key not in anchors]
    if missing:
        raise DataError(
            f"{path} has no anchor for record {missing[0]}"
            + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
        )
    return anchors


def as_lists(anchor: Any) -> dict[str, list[str]]:
    """An anchor as three lists by polarity."""
    return {name: list(getattr(anchor, name)) for name in POLARITIES}


def _label(
    contexts: dict[str, Scored], known: KnownLabels | None, train: pl.DataFrame | None, labeller: CheXbert
) -> np.ndarray | None:
    """Label every text in one pass and hand the rows back to their contexts; returns the training labels.

    References whose labels are known are not labelled again; the training reports are, where the file leaves them out.
    """
    texts: list[str] = []
    spans: dict[tuple[str, str], slice] = {}

    def request(context: str, what: str, reports: list[str]) -> None:
        spans[context, what] = slice(len(texts), len(texts) + len(reports))
        texts.extend(reports)

    for name, scored in contexts.items():
        request(name, "hypotheses", scored.hypotheses)
        for control, predictions in scored.controls.items():
            request(name, f"control {control}", [prediction.report for prediction in predictions])
        if known is None:
            request(name, "references", scored.references)
        else:
            scored.reference_labels = np.array(known(scored.records))
    given = known is not None and train is not None and known.covers(train)
    if train is not None and not given:
        request("train", "references", train["report"].to_list())
    labels = labeller(texts).numpy()
    for name, scored in contexts.items():
        scored.labels = labels[spans[name, "hypotheses"]]
        if known is None:
            scored.reference_labels = labels[spans[name, "references"]]
        scored.control_labels = {control: labels[spans[name, f"control {control}"]] for control in scored.controls}
    if train is None:
        return None
    return np.array(known(train)) if known is not None and given else labels[spans["train", "references"]]


def _context_scores(
    name: str, scored: Scored, convention: str, originals: str, limit: int | None, meteor: Meteor, rules: Version
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Scores of one context, and the comparisons of polarity behind those of the commitments."""
    hypotheses = scored.hypotheses
    clinical = clinical_efficacy(scored.reference_labels, scored.labels, convention, scored.studies)
    scores: dict[str, Any] = {"n": len(hypotheses)} | {ratio: clinical[ratio] for ratio in RATIOS}
    scored.language = language_scores(scored.references, hypotheses, meteor)
    scores |= scored.language.scores
    written = [
        (ORIGINALS[originals](text), hypothesis)
        for text, hypothesis in zip(scored.originals, hypotheses, strict=True)
        if text
    ]
    if written:
        found = language_scores([text for text, _ in written], [text for _, text in written], meteor)
        scores |= {"original_n": len(written)} | {f"original_{key}": value for key, value in found.scores.items()}
    counts = extraction_counts(scored.predictions, limit)
    scores |= {f"{what}_rate": count / len(hypotheses) for what, count in counts.items()}
    scores["empty_rate"] = sum(map(_is_empty, hypotheses)) / len(hypotheses)
    gates = [prediction.gate for prediction in scored.predictions if prediction.gate is not None]
    if gates:
        scores["gate"] = float(np.mean(gates))
    scored.read = [as_lists(extract_anchor(text, rules)) for text in hypotheses]
    generated = [prediction.anchor for prediction in scored.predictions]
    commitments, comparisons = commitment_scores(scored.anchors, generated, scored.read)
    scored.reference_wording, scored.wording = report_wording(scored.references), report_wording(hypotheses)
    return scores | commitments | wording_scores(name, scored.reference_wording, scored.wording), comparisons


def _conventions(contexts: dict[str, Scored], averaged: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """All conventions side by side: their averages (with the mean of the contexts), and the observations behind."""
    scores: dict[str, Any] = {}
    details: dict[str, Any] = {}
    for convention in CONVENTIONS:
        found = {
            name: clinical_efficacy(scored.reference_labels, scored.labels, convention, scored.studies)
            for name, scored in contexts.items()
        }
        scores[convention] = {name: {"n": values["n"]} | values["averages"] for name, values in found.items()}
        if averaged:
            scores[convention]["mean"] = _mean(scores[convention])
        details[convention] = {
            name: {key: values[key] for key in ("n", "undefined_parts", "per_label")} for name, values in found.items()
        }
    return scores, details


def _control_scores(contexts: dict[str, Scored], convention: str) -> dict[str, Any]:
    scores: dict[str, Any] = {}
    for name, scored in contexts.items():
        for control, labels in scored.control_labels.items():
            values = clinical_efficacy(scored.reference_labels, labels, convention, scored.studies)
            kept = {"n": len(labels)} | {key: values[key] for key in RATIOS}
            scores.setdefault(control, {})[name] = kept
    return scores


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    return None if isinstance(value, float) and value != value else value


def _undefined(scores: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Dotted names of the scores without a value."""
    names: list[str] = []
    for name, value in scores.items():
        if isinstance(value, dict):
            names += _undefined(value, f"{prefix}{name}.")
        elif value is None:
            names.append(prefix + name)
    return names


def _mean(scores: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    """Plain mean over contexts of every score that all contexts have; undefined as soon as one of them is."""
    contexts = list(scores.values())
    shared = [name for name in contexts[0] if name not in _COUNTS and all(name in context for context in contexts)]
    values = {name: [context[name] for context in contexts] for name in shared}
    return {name: None if None in found else float(np.mean(found)) for name, found in values.items()}


def _counts(contexts: dict[str, Scored], limit: int | None) -> dict[str, Any]:
    return {
        name: {
            "n": len(scored.ids),
            "studies": None if None in scored.studies else len(set(scored.studies)),
            "original_references": sum(bool(text) for text in scored.originals),
            "empty_references": sum(map(_is_empty, scored.references)),
            "empty_hypotheses": sum(map(_is_empty, scored.hypotheses)),
            "distinct_hypotheses": len(set(scored.hypotheses)),
            "without_anchor": sum(prediction.anchor is None for prediction in scored.predictions),
            **extraction_counts(scored.predictions, limit),
            **({"texts_with_line_breaks": scored.line_breaks} if scored.line_breaks else {}),
        }
        for name, scored in contexts.items()
    }


def _is_empty(report: str) -> bool:
    return not report.strip(" .")
