"""The report stage: reads what a run left, writes the page, the tables and the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.io import read_json, whole_directory, write_text
from pacer.corpus.records import read_images, read_records
from pacer.reporting import audits, figures, tables
from pacer.reporting.cases import example_cases, finding_rates, predictions_by_id, read_routing
from pacer.reporting.comparisons import convention_table
from pacer.reporting.corpus_audit import corpus_checks, corpus_table
from pacer.reporting.corpus_figures import corpus_charts
from pacer.reporting.html import render_page
from pacer.reporting.training_logs import counted, panels, read_curves

#: What the phases train, for the headings of their curves.
PHASE_TITLES = {
    "warmup": "Warm-up: Refine on frontal views",
    "parent": "Parent: Refine + Commit on all contexts",
    "calibrate": "Calibrate on the frozen parent",
}


def build_report(
    *,
    records: Path,
    corpus_audit: Path,
    anchors_audit: Path,
    training: Mapping[str, Path],
    predictions: Path,
    metrics: Path,
    images: Path,
    out: Path,
    examples: int | None = None,
    depths: Sequence[int] | None = None,
) -> None:
    """Write ``out/index.html`` (self-contained), ``out/tables/`` (Markdown, LaTeX) and ``out/figures/`` (SVG).

    Args:
        records, images: the corpus tables. corpus_audit, anchors_audit: the audits of those stages.
        training: DVCLive directory of each phase; a phase whose directory does not exist was not trained.
        predictions: folder of ``{context}.jsonl``, ``manifest.json`` and, for a model with a router,
            ``routing.safetensors``.
        metrics: folder of ``scores.json``, ``signature.json`` and ``cases.parquet``.
        out: replaced as a whole. examples: studies shown; None: those that decoding marked.
        depths: the encoder blocks of the depths, for their names on the page; numbered when None.

    Raises:
        DataError: an input is missing or malformed.
    """
    table = read_records(records)
    scores = read_json(metrics / "scores.json")
    signature = read_json(metrics / "signature.json")
    cases_path = metrics / "cases.parquet"
    if not cases_path.is_file():
        raise DataError(f"{cases_path} does not exist; the score stage makes it")
    scored = pl.read_parquet(cases_path)
    predicted = predictions_by_id(predictions)
    marked = read_json(predictions / "manifest.json").get("examples", [])
    charts: dict[str, str] = {}
    note = audits.standin_note(signature)

    score_table = tables.score_table(scores, _caption("Scores by context and their plain mean.", note))
    original_table = tables.original_table(
        scores, (signature.get("language") or {}).get("target"), "Scores against the untouched findings of the source."
    )
    charts["scores"] = figures.efficacy_chart(scores)
    charts["findings"] = figures.finding_chart(finding_rates(scored))
    control_table = tables.control_table(
        scores, _caption("Micro-F1 of the labeller's observations against the references, by sources.", note)
    )
    truth_table = None
    if scores.get("truth"):
        truth_table = tables.truth_table(
            scores["truth"],
            _caption("Micro-F1 of the findings in the report against the latent state of the generated world.", note),
        )
        charts["truth"] = figures.truth_chart(tables.truth_groups(scores["truth"]))

    phases = []
    for phase, directory in training.items():
        if not Path(directory).is_dir():
            continue
        drawn, curves = [], read_curves(Path(directory))
        for index, panel in enumerate(panels(curves, depths)):
            name = f"training-{phase}-{index + 1}"
            charts[name] = figures.curve_chart(panel)
            drawn.append({"title": panel.title, "figure": name})
        if drawn:
            phases.append({"title": PHASE_TITLES.get(phase, phase), "panels": drawn, "counted": counted(curves)})

    corpus = read_json(corpus_audit)
    pictures = corpus_charts(corpus)
    charts |= {picture.name: picture.svg for picture in pictures}

    anchors = audits.anchor_summary(read_json(anchors_audit))
    charts["commitments"] = figures.polarity_chart(anchors.polarities)
    charts["commitments-contexts"] = figures.context_chart(anchors.by_context, anchors.records)
    paths = dict(read_images(images).select("image_id", "path").iter_rows())
    labels = tuple(f"block {depth}" for depth in depths) if depths is not None else None
    shown = example_cases(table, predicted, read_routing(predictions), paths, scored, marked, examples, labels)

    line = audits.signature_line(signature)
    conventions = convention_table(scores, _caption("The same labels by label convention, mean of the contexts.", note))
    contents = tables.report_content_table(scores, "Polarity of the findings, and wording of comparison.")
    page = render_page(
        overview=_overview(table, predicted),
        signature=line,
        signature_entries=audits.signature_entries(signature),
        note=note,
        scores=score_table,
        originals=original_table,
        fallbacks=_fallbacks(predicted),
        commitments=tables.commitment_table(scores),
        contents=contents,
        conventions=conventions,
        truth=truth_table,
        controls=control_table,
        phases=phases,
        corpus=corpus_table(corpus),
        corpus_checks=corpus_checks(corpus),
        corpus_panels=[{"title": picture.title, "figure": picture.name} for picture in pictures],
        anchors=anchors,
        cases=shown,
        charts={name: figures.for_page(svg, name) for name, svg in charts.items()},
    )
    with whole_directory(out) as directory:
        write_text(directory / "index.html", page)
        written = {"scores": score_table, "originals": original_table, "truth": truth_table, "controls": control_table,
                   "conventions": conventions, "contents": contents}  # fmt: skip
        for name, result in written.items():
            if result is not None:
                write_text(directory / "tables" / f"{name}.md", f"{result.markdown()}\n`{line}`\n")
                write_text(directory / "tables" / f"{name}.tex", f"% {line}\n{result.latex()}")
        for name, svg in charts.items():
            write_text(directory / "figures" / f"{name}.svg", svg)


def _caption(text: str, note: str | None) -> str:
    return f"{text} {note}" if note else text


def _overview(records: pl.DataFrame, predicted: Mapping[str, dict]) -> dict[str, Any]:
    """What was decoded, for the head of the page."""
    decoded = records.filter(pl.col("record_id").is_in(list(predicted)))
    if decoded.is_empty():
        raise DataError("no prediction belongs to a record of the corpus; decode again with this corpus")
    present = set(decoded["context"])
    return {
        "contexts": [
            {"name": context.upper(), "sources": tables.CONTEXT_SOURCES[context]}
            for context in CONTEXTS
            if context in present
        ],
        "splits": ", ".join(sorted(set(decoded["split"]))),
        "records": tables.number(decoded.height),
        "studies": tables.number(decoded["study_id"].n_unique()),
        "patients": tables.number(decoded["subject_id"].n_unique()),
    }


def _fallbacks(predicted: Mapping[str, dict]) -> str:
    """How often no report could be extracted from the generated text, in words."""
    count = sum(bool(row["fallback"]) for row in predicted.values())
    if count == 0:
        return "Every generation held an extractable report."
    share = tables.percent(count, len(predicted))
    of = f"{tables.number(count)} of {tables.number(len(predicted))} generations ({share})"
    return f"{of} held no extractable report; their raw text was scored."
