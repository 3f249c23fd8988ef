"""Scoring of a set of reports: makes a :class:`~pacer.metrics.signature.ScoreResult`.

Used by the stage `score` and for any other corpus. Reference labels and anchors are computed on the
spot if they are not given. The scores of a context stand in the registry,
:mod:`pacer.metrics.scores`. Scores against the latent truth of a generated corpus are left out for
corpora without it: a finding counts as present in a report if CheXbert labels it positive or
uncertain, and micro-F1 is over records and the 13 findings. Compare each of these numbers with that
of the same model given another patient's images.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from pacer.backbones.observations import OBSERVATION_OF, OBSERVATIONS, POSITIVE, UNCERTAIN
from pacer.config.decode import Score
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.io import read_json
from pacer.core.machine import core_count
from pacer.core.progress import Ticker
from pacer.data.cleaning import CLEANERS
from pacer.data.findings import FINDINGS
from pacer.data.schemas import TRUTH_SCHEMA, of_split, read_about, read_records, read_table
from pacer.data.values import mapped
from pacer.metrics.cases import (
    ALL_COLUMNS,
    LABELS,
    by_context,
    case_table,
    controls_of,
    labels_of,
    named,
    read_cases,
)
from pacer.metrics.clinical import CONVENTIONS, RATIOS, case_efficacy, plain_mean, ratios
from pacer.metrics.columns import (
    check_names,
    column_scores,
    count_of,
    metric_columns,
    metrics_of,
    read_score_columns,
)
from pacer.metrics.commitments import KINDS, anchor_columns, attribute_share, true_attribute_counts
from pacer.metrics.nlg import MeteorError, meteor_beside, single_line, with_overlap
from pacer.metrics.score_kinds import Context, Numbers
from pacer.metrics.scores import (
    CASE_COLUMNS,
    SCORE_OF,
    SCORES,
    check_keys,
    context_scores,
    with_case_columns,
)
from pacer.metrics.signature import (
    EXCLUDED,
    Decoding,
    Origin,
    ScoreInputs,
    ScoreResult,
    build_signature,
    write_result,
)

_log = logging.getLogger(__name__)

#: Rows that a process reads at a time; fewer reports are read sooner than processes start.
_ROWS = 2_000
#: The form of original findings by ``score.originals``, with its name. The paper does not say which
#: it used.
ORIGINALS: Mapping[str, tuple[Callable[[str], str], str]] = {
    **{name: (clean, f"cleaned by {name}") for name, clean in CLEANERS.items()},
    "as_is": (lambda text: " ".join(text.split()), "spaces collapsed, case and punctuation kept"),
    "lowercase": (
        lambda text: " ".join(text.lower().split()),
        "spaces collapsed, lower-cased, punctuation kept",
    ),
}


def decoded_records(
    records: pl.DataFrame,
    predictions_dir: str | Path,
    split: str | None = None,
    contexts: Sequence[str] = (),
) -> tuple[pl.DataFrame, str | None]:
    """Return the records that predictions should cover, and a note if they are not the whole split.
    ``split`` and ``contexts`` default to those of the manifest, else to test and all; its limit
    applies to each context."""
    manifest = _manifest(Path(predictions_dir))
    settings = Decoding.of(manifest)
    split, limit = split or settings.split or "test", settings.limit
    contexts = contexts or (manifest or {}).get("contexts") or ()
    of_the_split = of_split(records, split)
    decoded = (
        of_the_split.filter(pl.col("context").is_in(list(contexts))) if contexts else of_the_split
    )
    if limit is not None:
        decoded = decoded.group_by("context", maintain_order=True).head(limit)
    why = [f"contexts {', '.join(contexts)}"] * bool(contexts) + [f"decode.limit {limit}"] * (
        limit is not None
    )
    cut = f"{len(decoded)} of {len(of_the_split)} records of split {split}: {', '.join(why)}"
    return decoded, cut if len(decoded) < len(of_the_split) else None


def _manifest(predictions: Path) -> dict[str, Any] | None:
    path = predictions / "manifest.json"
    return read_json(path) if path.is_file() else None


def score_decoded(
    records: Path,
    predictions: Path,
    out: Path,
    inputs: ScoreInputs,
    settings: Score,
    *,
    split: str | None = None,
    contexts: Sequence[str] = (),
    without: Iterable[str] = (),
) -> ScoreResult:
    """Score the decoded reports of a corpus, as :func:`score_cases` does. ``split`` and
    ``contexts`` are as in :func:`decoded_records`; a message is logged if these are not the whole
    split. Raises a DataError if ids do not pair one to one, or an input is malformed."""
    table = read_records(records)
    wanted, note = decoded_records(table, predictions, split, contexts)
    if note:
        _log.info(note)
    frontal_only = table.filter(pl.col("lateral").is_null()).unique(
        ["study_id", "context"], keep="first"
    )
    frontal = frontal_only.select(
        "study_id", pl.col("context").str.replace("s", "m"), frontal_report="report_raw"
    )
    wanted = wanted.join(frontal, on=["study_id", "context"], how="left", maintain_order="left")
    cases = read_cases(wanted, predictions, inputs.anchors)
    files = {f"predictions/{name}": predictions / f"{name}.jsonl" for name in by_context(cases)}
    origin = Origin(
        {"anchors": inputs.anchors} | files, read_about(records), manifest=_manifest(predictions)
    )
    return score_cases(cases, out, inputs, settings, origin, without)


def score_cases(
    cases: pl.DataFrame,
    out: Path | None,
    inputs: ScoreInputs,
    settings: Score,
    origin: Origin,
    without: Iterable[str] = (),
    metrics: Mapping[str, Callable[..., Iterable[float]]] = MappingProxyType({}),
) -> ScoreResult:
    """Score paired reports, with the columns of :func:`~pacer.metrics.cases.read_cases` (``report``
    is the reference), and write the result into the folder ``out`` if one is given. METEOR's
    program runs beside the other steps; if it fails, the signature says why (``left_out``).
    ``without``: keys of scores to leave out, each with the same score against the original
    findings. ``metrics``: further scores, beside those of ``settings.metrics``.

    The result's scores are ``{context: {score: number}, "mean": {...}}``, ``"conventions"``
    (convention -> context -> averages), and ``"controls"`` and ``"truth"`` if available. A score
    without a denominator is ``None``. A context other than the four has no mean. Without a labeller
    scores of labels are left out.
    """
    left_out = dict.fromkeys([without] if isinstance(without, str) else without, EXCLUDED)
    check_keys(left_out)
    cases = _with_single_line_texts(cases)
    originals = _against_originals(cases, settings)
    with nullcontext() if "meteor" in left_out else meteor_beside(cases) as finish_meteor:
        columns, meanings = _with_metrics(
            cases, settings, {**metrics_of(settings.metrics), **metrics}
        )
        if settings.columns is not None:
            origin = replace(origin, files={**origin.files, "columns": Path(settings.columns)})
        threshold = Decoding.of(origin.manifest).threshold
        cases = _with_labels(cases, inputs).with_columns(
            pl.lit(threshold, pl.Float64).alias("threshold")
        )
        cases = _with_pair_features(cases).hstack(columns)
        if inputs.truth is not None:
            cases = with_truth(cases, inputs.truth)
        if finish_meteor is not None:
            try:
                cases = cases.with_columns(finish_meteor())
            except MeteorError as error:
                left_out["meteor"] = str(error)
    contexts = by_context(cases)
    against = {
        name: Context(part, settings.convention) for name, part in by_context(originals).items()
    }
    scores = {
        name: context_scores(Context(part, settings.convention, against.get(name)), left_out)
        | column_scores(part.select(columns.columns))
        for name, part in contexts.items()
    }
    further = _further_scores(contexts, cases, inputs, settings)
    keys = dict.fromkeys(key for values in scores.values() for key in values)
    defined = {key: score.meaning for key in keys if (score := SCORE_OF.get(key))} | meanings
    signature = build_signature(
        cases, columns, inputs, settings, origin, ORIGINALS[settings.originals][1]
    )
    signature = replace(signature, scores=defined, left_out=left_out)
    rows = case_table(cases, (*CASE_COLUMNS, *columns.columns))
    result = ScoreResult.signed(_with_mean(scores, columns.columns) | further, rows, signature)
    if out is not None:
        write_result(out, result)
    return result


def _with_metrics(
    cases: pl.DataFrame, settings: Score, metrics: Mapping[str, Callable[..., Iterable[float]]]
) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return the user's columns of the cases, those of the file and of the functions, and what the
    functions' mean."""
    ids = cases["record_id"].to_list()
    read = pl.DataFrame() if settings.columns is None else read_score_columns(settings.columns, ids)
    computed = {"threshold", "states", "bleu_statistics"}
    computed |= {
        "id",
        "ids",
        "image_id",
        "case",
        "index",
        "level_0",
        "rownames",
        "row_nr",
    }  # ids, and row numbers
    taken = computed | {
        *ALL_COLUMNS,
        *CASE_COLUMNS,
        *cases.columns,
        *(score.key for score in SCORES),
    }
    check_names([*read.columns, *metrics], taken)
    numbers, meanings = metric_columns(metrics, cases)
    return pl.DataFrame([*read, *numbers]), meanings


def _further_scores(
    contexts: Mapping[str, pl.DataFrame], cases: pl.DataFrame, inputs: ScoreInputs, settings: Score
) -> dict[str, dict]:
    """Return what stands in ``scores.json`` beside the contexts and their mean."""
    further: dict[str, dict] = {}
    if inputs.chexbert is not None:
        further["conventions"] = {
            convention: _with_mean(
                {name: case_efficacy(part, convention) for name, part in contexts.items()}
            )
            for convention in CONVENTIONS
        }
        if controls := _control_scores(contexts, settings.convention):
            further["controls"] = controls
    if inputs.truth is not None:
        further["truth"] = truth_scores(cases)
    return further


def _with_single_line_texts(cases: pl.DataFrame) -> pl.DataFrame:
    """Put every text on one line, the reference as ``reference``, and say which controls gave the
    same report."""
    sources = {"reference": "report"} | {name: name for name in _hypotheses(cases)}
    cases = cases.with_columns(
        mapped(source, single_line).alias(name) for name, source in sources.items()
    )
    same = {
        f"{name}_unchanged": pl.col(f"{name}_hypothesis") == pl.col("hypothesis")
        for name in controls_of(cases)
    }
    return cases.with_columns(**same)


def _with_pair_features(cases: pl.DataFrame) -> pl.DataFrame:
    """Add the columns of :func:`_pair_features`, which do not depend on the number of cores that
    make them."""
    if len(cases) <= _ROWS:
        return cases.hstack(_pair_features(cases))
    # small tables need no processes, which do not run the main module
    from joblib import Parallel, delayed
    from joblib.externals.loky import get_reusable_executor

    parts, slices = [], (delayed(_pair_features)(part) for part in cases.iter_slices(_ROWS))
    with Ticker("reading reports", len(cases)) as ticker:
        for part in Parallel(core_count(), return_as="generator")(slices):
            parts.append(part)
            ticker.advance(len(part))
    get_reusable_executor().shutdown()  # the idle processes would keep their memory for minutes
    return cases.hstack(pl.concat(parts, rechunk=True))


def _pair_features(cases: pl.DataFrame) -> pl.DataFrame:
    """Return what each pair gives by itself: what the rules read, and words in common."""
    columns = anchor_columns(cases["hypothesis"], "report")
    if "reference_positive" not in cases.columns:
        columns += anchor_columns(cases["report_raw"], "reference")
    return with_overlap(with_case_columns(cases.with_columns(columns))).drop(cases.columns)


def _hypotheses(cases: pl.DataFrame) -> list[str]:
    return ["hypothesis", *(f"{control}_hypothesis" for control in controls_of(cases))]


def _with_labels(cases: pl.DataFrame, inputs: ScoreInputs) -> pl.DataFrame:
    """Add CheXbert's labels of every text; null columns without a labeller. Labels of the
    references come from the file ``inputs.labels`` if given; it is created if it does not exist."""
    if inputs.chexbert is None:
        return cases.with_columns(
            pl.lit(None, LABELS).alias(f"{side}_labels") for side in ("reference", "hypothesis")
        )
    # imports torch, which no other score needs
    from pacer.backbones.chexbert import CheXbert, known_labels, label_references

    sides = _hypotheses(cases)
    if inputs.labels is None:
        sides.append("reference")
    else:
        if not inputs.labels.is_file():
            label_references(cases, inputs.chexbert, inputs.labels)
        known = known_labels(inputs.labels, cases, inputs.chexbert)
        cases = cases.with_columns(pl.Series("reference_labels", known, dtype=LABELS))
    return cases.with_columns(CheXbert(inputs.chexbert).columns(cases, sides))


def _against_originals(cases: pl.DataFrame, settings: Score) -> pl.DataFrame:
    """Return the cases that have original findings, with these as references in the form that the
    settings name."""
    form, _ = ORIGINALS[settings.originals]
    written = cases.filter(pl.col("findings_original").fill_null("") != "")
    originals = mapped("findings_original", lambda text: single_line(form(text)))
    return with_overlap(written.with_columns(reference=originals))


def _control_scores(
    contexts: Mapping[str, pl.DataFrame], convention: str
) -> dict[str, dict[str, Numbers]]:
    """Return the scores of each control in the contexts in which it was run."""
    scores: dict[str, dict[str, Numbers]] = {}
    for name, cases in contexts.items():
        for control in controls_of(cases):
            if not cases[f"{control}_labels"].null_count():
                values = case_efficacy(cases, convention, control)
                unchanged = int(cases[f"{control}_unchanged"].sum()) / len(cases)
                ratios = {
                    ratio: values[f"{ratio}_{CONVENTIONS[convention].averages[0]}"]
                    for ratio in RATIOS
                }
                scores.setdefault(control, {})[name] = {
                    "n": len(cases),
                    **ratios,
                    "unchanged_share": unchanged,
                }
    return scores


def _with_mean(scores: dict[str, Numbers], columns: Sequence[str] = ()) -> dict[str, Numbers]:
    return (
        scores | {"mean": mean_of_contexts(scores, columns)}
        if set(scores) <= set(CONTEXTS)
        else scores
    )


def mean_of_contexts(
    scores: Mapping[str, Mapping[str, Any]], columns: Sequence[str] = ()
) -> Numbers:
    """Return the plain mean over contexts of scores that all have, without counts of records (also
    of ``columns``)."""
    counts = {score.key for score in SCORES if score.decimals == 0} | {
        count_of(name) for name in columns
    }
    contexts = list(scores.values())
    shared = [name for name in contexts[0] if all(name in context for context in contexts)]
    return {
        name: plain_mean([context[name] for context in contexts])
        for name in shared
        if name not in counts
    }


def with_truth(cases: pl.DataFrame, path: str | Path) -> pl.DataFrame:
    """Add the latent findings of each case's study, ``truth``, and their ``states``. Raises a
    DataError, as :func:`~pacer.data.schemas.read_table`; or a study is missing."""
    table = read_table(path, TRUTH_SCHEMA)
    if missing := cases.join(table, on="study_id", how="anti")["study_id"].to_list():
        raise DataError(f"{path} does not contain study {named(missing, 1)}")
    stated = pl.concat_list(
        pl.when(pl.col(finding)).then(pl.lit(finding)) for finding in FINDINGS
    ).list.drop_nulls()
    latent = table.select("study_id", stated.alias("truth"), "states")
    return cases.join(latent, on="study_id", how="left", maintain_order="left")


def truth_scores(cases: pl.DataFrame) -> dict[str, float | None]:
    """Return all scores against the latent truth, for labelled cases from :func:`with_truth`:
    ``{context}_f1`` and their ``mean_f1``; the mean ``{control}_f1`` of each control that covers
    all contexts. ``attributes_side`` and so on: share that is true of the attributes that reports
    name of present findings."""
    contexts = by_context(cases)
    scores = {f"{name}_f1": _f1(part, "hypothesis") for name, part in contexts.items()}
    scores["mean_f1"] = plain_mean(list(scores.values()))
    attributes = true_attribute_counts(cases)
    for kind in KINDS:
        value = float(attribute_share(attributes, kind))
        scores[f"attributes_{kind}"] = None if np.isnan(value) else value
    labelled = {
        column.removesuffix("_labels") for column in cases.columns if column.endswith("_labels")
    }
    for control in sorted(labelled - {"hypothesis", "reference"}):
        if not cases[f"{control}_labels"].null_count():
            scores[f"{control}_f1"] = plain_mean([_f1(part, control) for part in contexts.values()])
    return scores


def _f1(cases: pl.DataFrame, reports: str) -> float | None:
    """Return micro-F1 over records x findings: labels of some reports against the latent
    findings."""
    latent = cases.select(
        pl.col("truth").list.contains(finding).alias(finding) for finding in FINDINGS
    ).to_numpy()
    columns = [OBSERVATIONS.index(OBSERVATION_OF[finding]) for finding in FINDINGS]
    return ratios(latent, np.isin(labels_of(cases, reports)[:, columns], (POSITIVE, UNCERTAIN)))[
        "f1"
    ]
