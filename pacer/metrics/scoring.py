"""Scores of a set of predictions: ``scores.json``, ``details.json``, ``signature.json`` and ``cases.parquet``.

Serves the stage `score` and any other corpus: what is not given (reference labels, anchors) is computed on the
spot, and what the corpus does not have (latent truth) is left out.

A further score of a context is one more entry of :func:`_context_scores`; it needs a column in
:mod:`pacer.reporting.score_tables` to be shown, and no change elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from pacer.commitments.anchor import ANCHOR_SCHEMA, POLARITIES
from pacer.commitments.rules.extract import extract_anchor
from pacer.config.decode import Score
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.io import atomic_path, read_json, write_json
from pacer.data.cleaning import CLEANERS
from pacer.data.schemas import of_split, read_about, read_records, read_table
from pacer.data.wording import prior_wording
from pacer.metrics.cases import Lists, Scored, case_table, own_columns
from pacer.metrics.chexbert.labeller import CheXbert
from pacer.metrics.chexbert.reference_labels import KnownLabels, label_references
from pacer.metrics.clinical import RATIOS, clinical_efficacy, label_confusion, plain_mean
from pacer.metrics.columns import column_scores, read_score_columns
from pacer.metrics.commitments import commitment_scores
from pacer.metrics.conventions import CONVENTIONS
from pacer.metrics.extraction import extraction_counts
from pacer.metrics.inputs import DEFAULTS, Origin, ScoreInputs
from pacer.metrics.lines import single_line
from pacer.metrics.meteor import Meteor
from pacer.metrics.nlg import language_scores
from pacer.metrics.pairing import check_pairs, named, read_predictions
from pacer.metrics.signature import build_signature, flat
from pacer.metrics.truth import truth_scores
from pacer.metrics.variety import variety_scores
from pacer.metrics.wording_scores import wording_counts, wording_scores

#: What a folder of scores consists of.
OUTPUTS = ("scores.json", "details.json", "signature.json", "cases.parquet")
#: What is done to original references before they are compared with. The paper does not say what it did
#: (``docs/evaluation.md``).
ORIGINALS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {**CLEANERS, "lowercase": lambda text: " ".join(text.lower().split()), "as_is": lambda text: " ".join(text.split())}
)

#: Scores by name; ``None``: undefined.
Numbers = dict[str, float | None]


def decoded_records(
    records: pl.DataFrame, predictions_dir: str | Path, split: str | None = None, contexts: Sequence[str] = ()
) -> tuple[pl.DataFrame, str | None]:
    """The records that a folder of predictions should cover: ``split`` and ``contexts`` (default: what its manifest
    says, else test and all), cut at the manifest's limit; and where these are not all of the split how many they are,
    in words."""
    path = Path(predictions_dir) / "manifest.json"
    manifest = read_json(path) if path.is_file() else {}
    settings = manifest.get("settings", {})
    split, limit = split or settings.get("split", "test"), settings.get("limit")
    contexts = contexts or manifest.get("contexts") or ()
    whole = of_split(records, split)
    kept = whole.filter(pl.col("context").is_in(list(contexts))) if contexts else whole
    if limit is not None:
        kept = kept.group_by("context", maintain_order=True).head(limit)
    why = [f"contexts {', '.join(contexts)}"] * bool(contexts) + [f"decode.limit {limit}"] * (limit is not None)
    cut = f"{len(kept)} of {len(whole)} records of split {split}: {', '.join(why)}"
    return kept, cut if len(kept) < len(whole) else None


def score_decoded(
    records: Path,
    predictions: Path,
    out: Path,
    inputs: ScoreInputs,
    settings: Score,
    *,
    split: str | None = None,
    contexts: Sequence[str] = (),
    say: Callable[[str], object] = print,
) -> dict[str, dict]:
    """Score what was decoded of a corpus; ``say`` gets a line where that is not the whole split.

    Args:
        records: ``records.parquet``. predictions, out, inputs, settings: as in :func:`score_predictions`; the labels of
            the references are made where their file does not exist. split, contexts: as in :func:`decoded_records`.
    """
    table = read_records(records)
    wanted, note = decoded_records(table, predictions, split, contexts)
    if note:
        say(note)
    if inputs.chexbert is not None and inputs.labels is not None and not inputs.labels.is_file():
        label_references(wanted, inputs.chexbert, inputs.labels, settings.batch_size, settings.precision)
    train = table.filter(split="train")
    return score_predictions(
        with_prior_days(wanted, records.parent / "priors.parquet"),
        predictions,
        out,
        inputs,
        settings,
        train_records=None if train.is_empty() or "train" in set(wanted["split"]) else train,
        about=read_about(records),
    )


def score_predictions(
    records: pl.DataFrame,
    predictions_dir: Path,
    out_dir: Path,
    inputs: ScoreInputs,
    settings: Score = DEFAULTS,
    *,
    train_records: pl.DataFrame | None = None,
    about: Mapping[str, Any] | None = None,
) -> dict[str, dict]:
    """Score ``predictions_dir`` against ``records`` and write the files of :data:`OUTPUTS` into ``out_dir``.

    Args:
        records: exactly the records that must have a prediction (columns of ``records.parquet``). Contexts
            without records are skipped.
        predictions_dir: ``{context}.jsonl``, and ``controls/{control}/{context}.jsonl`` where a control was run.
        out_dir: where the files go; other files there stay.
        train_records: training records, of which it is said how many reports are copied.
        about: how the references were made (:func:`~pacer.data.schemas.read_about`), for the signature.

    Returns:
        The content of ``scores.json``; see :func:`score_contexts`.

    Raises:
        DataError: ids that do not pair one to one, or a malformed input.
    """
    manifest = predictions_dir / "manifest.json"
    with Meteor() as meteor:
        contexts = _read(records, predictions_dir, inputs.anchors)
        files = {"anchors": inputs.anchors} | {
            f"predictions/{name}": predictions_dir / f"{name}.jsonl" for name in contexts
        }
        origin = Origin(files, about or {}, made=read_json(manifest) if manifest.is_file() else None)
        return score_contexts(contexts, out_dir, inputs, settings, origin, meteor, train_records=train_records)


def score_contexts(
    contexts: dict[str, Scored],
    out_dir: Path,
    inputs: ScoreInputs,
    settings: Score,
    origin: Origin,
    meteor: Meteor,
    *,
    train_records: pl.DataFrame | None = None,
) -> dict[str, dict]:
    """Score paired reports and write the files of :data:`OUTPUTS` into ``out_dir``.

    Args:
        contexts: context -> records with their predictions and reference anchors.
        Others: as in :func:`score_predictions`.

    Returns:
        The content of ``scores.json``: ``{context: {score: number}, "mean": {...}}``, ``"conventions"`` (convention ->
        context -> averages), and ``"controls"`` and ``"truth"`` where there are such. A score without a denominator is
        ``None``, and named in the signature. A single context that is none of the four has no mean. Without a labeller
        the scores of labels are left out: precision, recall, F1, conventions, controls.
    """
    if settings.columns is not None:
        origin = replace(origin, files={**origin.files, "columns": Path(settings.columns)})
        _add_columns(contexts, settings.columns)
    if inputs.chexbert is not None:
        labeller = CheXbert(inputs.chexbert, settings.batch_size, precision=settings.precision)
        known = None if inputs.labels is None else KnownLabels(inputs.labels, inputs.chexbert, labeller.precision)
        _label(contexts, known, labeller)
    train_reports = None if train_records is None else frozenset(map(single_line, train_records["report"]))
    for scored in contexts.values():
        scored.train = train_reports
    limit = origin.max_new_tokens
    scores: dict[str, dict] = {}
    comparisons, wording = {}, {}
    for name, scored in contexts.items():
        scores[name], comparisons[name] = _context_scores(name, scored, settings, limit, meteor)
        scores[name] |= column_scores(scored.columns, scores[name])
        wording[name] = wording_counts(scored.reference_wording, scored.wording)
    averaged = set(contexts) <= set(CONTEXTS)
    if averaged:
        scores["mean"] = _mean(scores)
    details: dict[str, Any] = {"commitments": comparisons, "wording": wording}
    if inputs.chexbert is not None:
        scores["conventions"], details["labels"] = _conventions(contexts, averaged)
        details["confusion"] = {name: label_confusion(s.reference_labels, s.labels) for name, s in contexts.items()}
        if controls := _control_scores(contexts, settings.convention):
            scores["controls"] = controls
    truths = None
    if inputs.truth is not None:
        scores["truth"], truths = truth_scores(contexts, inputs.truth)
    counts = {name: _counts(scored, limit) for name, scored in contexts.items()}
    undefined = [name for name, value in flat(scores).items() if value is None]
    signature = build_signature(contexts, inputs, settings, origin, counts, undefined)
    with atomic_path(out_dir / "cases.parquet") as temporary:
        case_table(contexts, truths).write_parquet(temporary)
    write_json(out_dir / "details.json", details)
    write_json(out_dir / "scores.json", scores)
    write_json(out_dir / "signature.json", signature)
    return scores


def with_prior_days(records: pl.DataFrame, priors: Path) -> pl.DataFrame:
    """The records with ``prior_days``, the days since the previous report of those that have one; ``priors``: the
    corpus's ``priors.parquet``, which need not be there."""
    if not priors.is_file():
        return records
    days = pl.read_parquet(priors, columns=["study_id", "gap_days"]).rename({"gap_days": "prior_days"})
    found = records.join(days, on="study_id", how="left", maintain_order="left")
    return found.with_columns(pl.when(pl.col("prior_report").is_not_null()).then("prior_days"))


def _add_columns(contexts: dict[str, Scored], path: str) -> None:
    """Give each context its rows of the file ``score.columns``."""
    ids = [record for scored in contexts.values() for record in scored.ids]
    columns, start = read_score_columns(path, ids, own_columns(contexts)), 0
    for scored in contexts.values():
        scored.columns = columns.slice(start, len(scored.ids))
        start += len(scored.ids)


def _read(records: pl.DataFrame, predictions_dir: Path, anchors_path: Path | None) -> dict[str, Scored]:
    ids = records["record_id"].to_list()
    if not ids:
        raise DataError("there are no records to score in this split; choose another with --split, or all")
    check_pairs(ids, list(dict.fromkeys(ids)), "the records", "the records")
    unknown = set(records["context"].unique()) - set(CONTEXTS)
    if unknown:
        raise DataError(f"records of unknown context {sorted(map(str, unknown))[0]}; known: {', '.join(CONTEXTS)}")
    there = [name for name in CONTEXTS if (predictions_dir / f"{name}.jsonl").is_file()]
    missing = [name for name in CONTEXTS if name in set(records["context"]) and name not in there]
    if missing and there:
        raise DataError(
            f"{predictions_dir} holds no {missing[0]}.jsonl, and there are records of {', '.join(missing)}; to score "
            f"the others alone, add {' '.join(f'--context {name}' for name in there)}"
        )
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
        anchors = anchors_of(rows["report_raw"]) if given is None else [given[key] for key in keys]
        contexts[name] = Scored(rows, read_predictions(predictions_dir / f"{name}.jsonl", keys), controls, anchors)
    return contexts


def _read_anchors(path: Path, ids: Sequence[str]) -> dict[str, Lists]:
    rows = read_table(path, ANCHOR_SCHEMA).to_dicts()
    anchors = {row["record_id"]: {name: row[name] for name in POLARITIES} for row in rows}
    missing = [key for key in ids if key not in anchors]
    if missing:
        raise DataError(f"{path} has no anchor for record {named(missing, 1)}")
    return anchors


def anchors_of(texts: Iterable[str]) -> list[Lists]:
    """What the rules read in each text, as three lists by polarity."""
    read = map(extract_anchor, texts)
    return [{name: list(getattr(anchor, name)) for name in POLARITIES} for anchor in read]


def _label(contexts: dict[str, Scored], known: KnownLabels | None, labeller: CheXbert) -> None:
    """Label every text in one pass and hand the rows to their contexts; references whose labels are known are not
    labelled again."""
    texts: dict[tuple[str, str], list[str]] = {}
    for name, scored in contexts.items():
        texts[name, "hypotheses"] = scored.hypotheses
        for control, predictions in scored.controls.items():
            texts[name, f"control {control}"] = [prediction.report for prediction in predictions]
        if known is None:
            texts[name, "references"] = scored.references
        else:
            scored.reference_labels = np.array(known(scored.records))
    every = [text for side in texts.values() for text in side]
    by_text = dict(zip(every, labeller(every).numpy(), strict=True))  # the labeller gives equal texts equal labels
    labels = {side: np.stack([by_text[text] for text in own]) for side, own in texts.items()}
    for name, scored in contexts.items():
        scored.labels = labels[name, "hypotheses"]
        scored.reference_labels = labels.get((name, "references"), scored.reference_labels)
        for control, predictions in scored.controls.items():
            scored.control_labels[control] = labels[name, f"control {control}"]
            reports = (single_line(prediction.report) for prediction in predictions)
            scored.unchanged[control] = [one == own for one, own in zip(reports, scored.hypotheses, strict=True)]


def _context_scores(
    name: str, scored: Scored, settings: Score, limit: int | None, meteor: Meteor
) -> tuple[Numbers, dict]:
    """Scores of one context, and the comparisons of polarity behind those of the commitments."""
    scores: Numbers = {"n": len(scored.predictions)}
    if scored.labels is not None:
        clinical = clinical_efficacy(scored.reference_labels, scored.labels, settings.convention, scored.studies)
        scores |= {ratio: clinical[ratio] for ratio in RATIOS}
    scores |= _text_scores(scored, settings, meteor)
    counts = extraction_counts(scored.predictions, limit)
    scores |= {f"{what}_rate": count / len(scored.predictions) for what, count in counts.items()}
    scores["empty_rate"] = sum(map(_is_empty, scored.hypotheses)) / len(scored.predictions)
    scores |= variety_scores(scored.references, scored.hypotheses, scored.train)
    scored.read = anchors_of(scored.hypotheses)
    scored.reference_wording = list(map(prior_wording, scored.references))
    scored.wording = list(map(prior_wording, scored.hypotheses))
    gates = [prediction.gate for prediction in scored.predictions if prediction.gate is not None]
    if gates:
        scores["gate"] = float(np.mean(gates))
    generated = [prediction.anchor for prediction in scored.predictions]
    commitments, comparisons = commitment_scores(scored.anchors, generated, scored.read)
    return scores | commitments | wording_scores(name, scored.reference_wording, scored.wording), comparisons


def _text_scores(scored: Scored, settings: Score, meteor: Meteor) -> Numbers:
    """Language scores, against the originals too where there are such."""
    scored.language = language_scores(scored.references, scored.hypotheses, meteor)
    form = ORIGINALS[settings.originals]
    pairs = zip(scored.originals, scored.hypotheses, strict=True)
    written = [(single_line(form(text)), found) for text, found in pairs if text]
    if not written:
        return dict(scored.language.scores)
    found = language_scores([text for text, _ in written], [text for _, text in written], meteor)
    own = {f"original_{key}": value for key, value in found.scores.items()}
    return scored.language.scores | {"original_n": len(written)} | own


def _conventions(contexts: dict[str, Scored], averaged: bool) -> tuple[dict[str, dict], dict[str, dict]]:
    """All conventions side by side: their averages (with the mean of the contexts), and the observations behind."""
    scores: dict[str, dict] = {}
    details: dict[str, dict] = {}
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


def _control_scores(contexts: dict[str, Scored], convention: str) -> dict[str, dict[str, Numbers]]:
    scores: dict[str, dict[str, Numbers]] = {}
    for name, scored in contexts.items():
        for control, labels in scored.control_labels.items():
            values = clinical_efficacy(scored.reference_labels, labels, convention, scored.studies)
            share = sum(scored.unchanged[control]) / len(labels)
            ratios = {key: values[key] for key in RATIOS}
            scores.setdefault(control, {})[name] = {"n": len(labels), **ratios, "unchanged_share": share}
    return scores


def _mean(scores: Mapping[str, Mapping[str, Any]]) -> Numbers:
    """Plain mean over contexts of every score that all contexts have."""
    contexts = list(scores.values())
    shared = [name for name in contexts[0] if all(name in context for context in contexts)]
    return {
        name: plain_mean([context[name] for context in contexts])
        for name in shared
        if name != "n" and not name.endswith("_n")  # a count has no mean
    }


def _counts(scored: Scored, limit: int | None) -> dict[str, Any]:
    return {
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


def _is_empty(report: str) -> bool:
    return not report.strip(" .")
