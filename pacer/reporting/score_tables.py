"""Tables of a run's corpus and of the scores in the registry, the signature in one line, and
warnings."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import polars as pl

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.schemas import SPLITS
from pacer.display.numbers import IN_BRACKETS, number, score_cell
from pacer.display.tables import Table, first_cell_changes
from pacer.metrics.cases import MEAN, UNKNOWN, row_name
from pacer.metrics.conventions import CONVENTIONS
from pacer.metrics.score_kinds import Score
from pacer.metrics.scores import scores_at
from pacer.metrics.signature import Decoding, Signature
from pacer.reporting.breakdowns import GroupScore, LabelScores
from pacer.statistics.checks import unchanged_shares
from pacer.statistics.halves import PERCENT, Interval, Intervals

CONTROLS = {
    "another_patient": "Another patient's sources",
    "no_lateral": "Without the lateral view",
    "no_prior": "Without the previous report",
    "gold_list": "Given the reference's commitment",
}


def corpus_table(audit: Mapping[str, Any]) -> Table:
    """Return records by context and split, with the paper's for MIMIC-RG4, and examinations and
    patients by context."""
    contexts = {
        context: audit["contexts"][context] for context in CONTEXTS if context in audit["contexts"]
    }
    # the heading of each column, and its split and count
    columns: list[tuple[str, str, str]] = []
    for split in audit["splits"]:
        columns.append((split, split, "records"))
        if audit["format"] == "rg4":
            columns.append(("paper", split, "paper"))
    rows = []
    for context, splits in contexts.items():
        counts = [number(splits[split][name]) for _, split, name in columns]
        for name in ("studies", "subjects"):
            counts.append(number(sum(splits[split][name] for split in SPLITS)))
        rows.append((context.upper(), *counts))
    totals = [
        number(sum(splits[split][name] for splits in contexts.values()))
        for _, split, name in columns
    ]
    headings = [heading for heading, _, _ in columns]
    # no sum of examinations and patients, because an examination with records in several contexts
    # would count more than once
    rows.append(("All", *totals, "", ""))
    return Table(("Context", *headings, "studies", "patients"), tuple(rows), summary=len(rows) - 1)


def contexts_in(scores: Mapping) -> Sequence[str]:
    """Return the contexts in ``scores``, in the paper's order, or ``all``. Raises a DataError if
    there are none."""
    present = [context for context in (*CONTEXTS, UNKNOWN) if context in scores]
    if not present:
        raise DataError(
            f"the scores have no known context; expected {', '.join(CONTEXTS)}, got "
            f"{', '.join(scores)}"
        )
    return present


def context_mean(scores: Mapping[str, Any], metric: str, context: str = MEAN) -> float | None:
    """Return a score in a context, or the plain mean over all contexts; None if one of them lacks
    the score."""
    names = contexts_in(scores) if context == MEAN else [context]
    values = [scores[name].get(metric) for name in names]
    return fmean(values) if all(value is not None for value in values) else None


def rows_in(scores: Mapping) -> Sequence[str]:
    """Return the contexts, and ``mean`` if there is one."""
    return [*contexts_in(scores), MEAN] if MEAN in scores else contexts_in(scores)


def score_table(
    scores: Mapping,
    columns: Sequence[Score] | None = None,
    caption: str = "",
    *,
    counted: Mapping[str, Mapping[str, int]] | None = None,
    intervals: Intervals | None = None,
    notes: tuple[str, ...] = (),
) -> Table:
    """Return the contexts' scores and their plain mean, a column for each score that a context has.

    Args:
        columns: None: those of the main table.
        counted: numbers of findings or records by context and score, as in the signature; they are
            shown beside the scores.
        intervals: shown below the scores.
    """
    contexts = contexts_in(scores)
    columns = scores_at("scores") if columns is None else columns
    shown = [
        score for score in columns if any(score.key in scores[context] for context in contexts)
    ]
    counted = counted or {}
    if any(score.key in counts for counts in counted.values() for score in shown):
        notes = (*notes, f"{IN_BRACKETS}.")
    rows: list[tuple[str, ...]] = []
    rules: set[int] = set()
    dim_rows: set[int] = set()
    summary = None
    for name in rows_in(scores):
        if name == MEAN:
            summary = len(rows)
        if intervals is not None:
            rules.add(len(rows))
        values = scores[name]
        counts = counted.get(name, {})
        cells = ["" if name == MEAN else "–" for _ in shown]
        for place, score in enumerate(shown):
            if score.key in values:
                count = counts.get(score.key)
                cells[place] = score_cell(values[score.key], score.decimals, count)
        rows.append((row_name(name), *cells))
        if intervals is not None:
            spans = [span(intervals.scores.get(name, {}).get(score.key)) for score in shown]
            if any(spans):
                dim_rows.add(len(rows))
                rows.append((PERCENT, *spans))
    return Table(
        ("Context", *(score.title for score in shown)),
        tuple(rows),
        caption,
        summary=summary,
        rules=frozenset(rules - {0}),
        dim_rows=frozenset(dim_rows),
        notes=notes,
    )


def convention_table(
    conventions: Mapping[str, Mapping[str, Mapping[str, float | None]]], caption: str = ""
) -> Table | None:
    """Return every average of the same labels, over contexts or for the only context; None without
    a labeller."""
    if not conventions:
        return None
    rows: list[tuple[str, ...]] = []
    for name, contexts in conventions.items():
        values = contexts[rows_in(contexts)[-1]]
        for average in CONVENTIONS[name].averages:
            keys = [f"{ratio}_{average}" for ratio in ("precision", "recall", "f1")]
            rows.append((name, average, *(score_cell(values[key]) for key in keys)))
    heads = ("Convention", "Average", "P", "R", "F1")
    return Table(heads, tuple(rows), caption, text_columns=2, rules=first_cell_changes(rows))


def control_table(scores: Mapping, cases: pl.DataFrame, caption: str = "") -> Table | None:
    """Return F1 against the references as decoded and with the sources of each control. For each
    control, the share of unchanged reports is shown too. None if no control was run."""
    controls = scores.get("controls")
    if not controls:
        return None
    unchanged = {control: unchanged_shares(cases, control) for control in controls}
    rows = []
    for context in contexts_in(scores):
        values = [scores[context].get("f1")]
        for control, of_control in controls.items():
            values += [of_control.get(context, {}).get("f1"), unchanged[control].get(context)]
        rows.append((context.upper(), *map(number, values)))
    heads = ["Context", "As decoded"]
    for name in controls:
        heads += [CONTROLS[name], "same report"]
    return Table(tuple(heads), tuple(rows), caption)


def label_table(labels: Sequence[LabelScores], caption: str = "") -> Table:
    """Return one observation per row: scores over all contexts' records together, and F1 in each
    context."""
    contexts = list(labels[0].f1) if labels else []
    rows = tuple(
        (
            label.name,
            number(label.present),
            number(label.predicted),
            *(score_cell(label.scores[key].value) for key in ("precision", "recall", "f1")),
            span(label.scores["f1"]),
            *(number(label.f1[context]) for context in contexts),
        )
        for label in labels
    )
    heads = ("Observation", "In references", "In reports", "P", "R", "F1", PERCENT)
    return Table((*heads, *map(str.upper, contexts)), rows, caption)


def group_table(groups: Sequence[GroupScore], caption: str = "") -> Table:
    """Return F1 by group, one group per row, with its interval."""
    rows = tuple(
        (group.column, group.value, number(group.n), score_cell(group.f1.value), span(group.f1))
        for group in groups
    )
    heads = ("Group", "Value", "Records", "F1", PERCENT)
    return Table(heads, rows, caption, text_columns=2, rules=first_cell_changes(rows))


def span(interval: Interval | None) -> str:
    """Return an interval as ``0.69–0.75``, or an empty text without one."""
    if interval is None or interval.low is None or interval.high is None:
        return ""
    return f"{interval.low:.2f}–{interval.high:.2f}"


def signature_line(signature: Signature) -> str:
    """Return the settings and inputs that determine the numbers, in one line: ``name:value`` joined
    by bars."""
    counts = signature.counts.values()
    limit = Decoding.of(signature.predictions).limit
    protocol = signature.protocol or {}
    parts = _clinical(signature)
    parts |= {"clean": signature.language["cleaner"], "tok": "space", "bleu": "corpus"}
    if "meteor" not in signature.left_out:
        parts["meteor"] = "1.5"
    parts["mean"] = "contexts"
    parts["n"] = "+".join(str(context["n"]) for context in counts)
    if limit:
        parts["n"] += f" (decode.limit {limit})"
    parts["empty"] = sum(context.get("empty_hypotheses", 0) for context in counts)
    if protocol.get("missing_hypotheses"):
        parts["missing"] = f"{protocol['missing']}-{protocol['missing_hypotheses']}"
    for name in ("extract", "clean_hypotheses", "clean_references"):
        change = protocol.get(name, "none")
        if change != "none":
            parts[name.replace("_", "-")] = change
    if protocol.get("deduplicate"):
        parts["deduplicated"] = "sentences"
    parts["data"] = (signature.data["records"] or "")[:8]
    parts["version"] = signature.versions["pacer"]
    return " | ".join(f"{name}:{value}" for name, value in parts.items())


def _clinical(signature: Signature) -> dict[str, Any]:
    """Return the settings that determine precision, recall and F1."""
    clinical = signature.clinical
    if clinical is None:
        return {"labeller": "none"}
    labeller = {True: "stand-in", False: "published", None: "unknown"}[signature.standin_labeller]
    return {
        "ce": clinical["convention"],
        "obs": len(clinical["observations"]),
        "present": "+".join(map(str, clinical["present_classes"])),
        "avg": clinical.get("average", "micro"),
        "labeller": f"{labeller}-{next(iter(clinical['labeller']['files'].values()), '')[:8]}",
    }


def caution(signature: Signature) -> str | None:
    """Return a warning if the corpus is generated, or models are stand-ins or of unknown origin;
    else None."""
    notes: list[str] = []
    if signature.data.get("truth"):
        notes.append("The corpus is generated: scores say nothing about radiology.")
    labeller = signature.standin_labeller
    if signature.clinical is None:
        notes.append("CheXbert's precision, recall and F1 need its weights; pass --chexbert DIR.")
    elif labeller is None:
        notes.append("The origin of the labeller is not recorded.")
    elif labeller:
        notes.append(
            "The findings were labelled by a stand-in for CheXbert, made by this pipeline: compare "
            "precision, recall and F1 only with runs scored by the same stand-in, never with "
            "published numbers."
        )
    frozen = (signature.predictions or {}).get("stand_ins") or []
    if frozen:
        notes.append(
            f"Frozen models that are stand-ins, made by this pipeline: {', '.join(frozen)}."
        )
    return " ".join(notes) or None
