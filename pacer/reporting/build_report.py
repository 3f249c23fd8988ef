"""The report stage: reads what a run left, writes the page, the tables and the figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from pacer.comparison.case_statistics import UNITS, Intervals, label_intervals, score_intervals
from pacer.comparison.groups import compare_groups
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.io import atomic_path, read_json, whole_directory, write_text
from pacer.params import Params
from pacer.records.schemas import read_images, read_records
from pacer.reporting import audits, figures, result_figures, result_tables, tables
from pacer.reporting.cases import Case, example_cases, finding_rates, predictions_by_id
from pacer.reporting.comparisons import convention_table
from pacer.reporting.corpus_audit import corpus_checks, corpus_table
from pacer.reporting.corpus_figures import corpus_charts
from pacer.reporting.html import render_page
from pacer.reporting.manifest import manifest
from pacer.reporting.routing import average_routing, read_routing
from pacer.reporting.routing_figures import finding_maps
from pacer.reporting.tables import Table
from pacer.reporting.training_figures import curve_chart, schedule_chart
from pacer.reporting.training_logs import Curve, counted, file_name, panels, read_curves
from pacer.rules.version import VERSIONS, Version

#: What the phases train, for the headings of their curves.
PHASE_TITLES = {
    "warmup": "Warm-up: Refine on frontal views",
    "parent": "Parent: Refine + Commit on all contexts",
    "calibrate": "Calibrate on the frozen parent",
}
#: What the resampled units are called.
_UNITS = dict(zip(UNITS, ("patients", "examinations", "records"), strict=True))


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
    params: Params,
    examples: int | None = None,
) -> None:
    """Write ``out/index.html`` (self-contained), ``out/tables/`` (Markdown, LaTeX) and ``out/figures/`` (SVG, and PNG
    where a radiograph is drawn).

    Args:
        records, images: the corpus tables. corpus_audit, anchors_audit: the audits of those stages.
        training: DVCLive directory of each phase; a phase whose directory does not exist was not trained.
        predictions: folder of ``{context}.jsonl``, ``manifest.json`` and, for a model with a router,
            ``routing.safetensors``.
        metrics: folder of ``scores.json``, ``signature.json`` and ``cases.parquet``.
        out: replaced as a whole. params: of the run. examples: studies shown; None: those that decoding marked.

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
    decoding = read_json(predictions / "manifest.json")
    # without a router the weights are all on the endpoint, and there is nothing to draw
    routing = read_routing(predictions) if params.refine.variant != "endpoint" else {}
    depths = params.features.depths
    note, settings = audits.standin_note(signature), params.model_dump(mode="json")
    charts: dict[str, str] = {}
    written: dict[str, Table | None] = {}

    results = _results(scores, signature, scored, settings["corpus"], note, charts, written)
    written["controls"] = tables.control_table(
        scores, _caption("Micro-F1 of the labeller's observations against the references, by sources.", note)
    )
    if scores.get("truth"):
        written["truth"] = tables.truth_table(
            scores["truth"],
            _caption("Micro-F1 of the findings in the report against the latent state of the generated world.", note),
        )
        charts["truth"] = figures.truth_chart(tables.truth_groups(scores["truth"]))
    gates = _gates(predicted, table, charts, written)

    logs = {phase: read_curves(Path(folder)) for phase, folder in training.items() if Path(folder).is_dir()}
    phases = _phases(logs, depths, charts)
    corpus = read_json(corpus_audit)
    pictures = corpus_charts(corpus)
    charts |= {picture.name: picture.svg for picture in pictures}
    anchors = audits.anchor_summary(read_json(anchors_audit))
    charts["commitments"] = figures.polarity_chart(anchors.polarities)
    charts["commitments-contexts"] = figures.context_chart(anchors.by_context, anchors.records)

    # only patchwise weights depend on what an image shows
    views = average_routing(routing, scored) if params.refine.variant == "patchwise" else []
    if views:
        charts["routing-findings"] = finding_maps(views, depths)
    paths = dict(read_images(images).select("image_id", "path").iter_rows())
    shown = example_cases(
        table, predicted, routing, paths, scored, decoding.get("examples", []), examples, _rules(signature), depths
    )

    line = audits.signature_line(signature)
    written["conventions"] = convention_table(
        scores, _caption("The same labels by label convention, mean of the contexts.", note)
    )
    contents = tables.report_content_table(scores, "Polarity of the findings, and wording of comparison.")
    written["contents"] = contents
    page = render_page(
        overview=_overview(table, predicted),
        signature=line,
        signature_entries=audits.signature_entries(signature),
        note=note,
        results=results,
        fallbacks=_fallbacks(predicted),
        commitments=tables.commitment_table(scores),
        tables=written,
        gates=gates,
        phases=phases,
        routed=views,
        corpus=corpus_table(corpus),
        corpus_checks=corpus_checks(corpus),
        corpus_panels=[{"title": picture.title, "figure": picture.name} for picture in pictures],
        anchors=anchors,
        cases=shown,
        manifest=manifest(settings, signature, decoding),
        charts={name: figures.for_page(svg, name) for name, svg in charts.items()},
    )
    with whole_directory(out) as directory:
        write_text(directory / "index.html", page)
        for name, result in written.items():
            if result is not None:
                write_text(directory / "tables" / f"{name}.md", f"{result.markdown()}\n`{line}`\n")
                write_text(directory / "tables" / f"{name}.tex", f"% {line}\n{result.latex()}")
        for name, svg in charts.items():
            write_text(directory / "figures" / f"{name}.svg", svg)
        _write_case_figures(shown, directory / "figures")


def _results(
    scores: Mapping,
    signature: Mapping,
    scored: pl.DataFrame,
    corpus: Mapping[str, Any],
    note: str | None,
    charts: dict[str, str],
    written: dict[str, Table | None],
) -> dict[str, Any]:
    """Scores with their intervals and what may stand beside them; adds tables and charts."""
    convention = signature["clinical"]["convention"]
    found = score_intervals(scored, convention)
    labels = label_intervals(scored, convention)
    published, beside = result_tables.published_beside(corpus, signature, scores)
    how = _resampling(found)
    written["scores"] = result_tables.results_table(
        scores, found, published, _caption(f"Scores by context and their plain mean. {how} {beside}", note)
    )
    language = signature.get("language") or {}
    written["originals"] = tables.original_table(
        scores,
        language.get("target"),
        f"Scores against the original findings of the source: {language.get('original_references', 'not recorded')}.",
    )
    written["observations"] = result_tables.label_table(
        labels,
        found.level,
        _caption(
            f"Clinical efficacy by observation over the records of all contexts together, and F1 in each. {how}", note
        ),
    )
    charts["scores"] = result_figures.efficacy_chart(scores, found.scores)
    charts["observations"] = result_figures.label_chart(labels)
    charts["findings"] = figures.finding_chart(finding_rates(scored))
    return {"how": how, "beside": beside, "records": tables.number(scored.height)}


def _resampling(found: Intervals) -> str:
    return (
        f"Intervals: {100 * found.level:g} %, percentiles of {tables.number(found.resamples)} bootstrap samples of "
        f"the {tables.number(found.units)} {_UNITS[found.unit]}."
    )


def _gates(
    predicted: Mapping[str, dict], records: pl.DataFrame, charts: dict[str, str], written: dict[str, Table | None]
) -> dict[str, Any] | None:
    """The gate by context and whether it differs; None for a model without Calibrate."""
    rows = records.filter(pl.col("record_id").is_in(list(predicted))).select("record_id", "context", "study_id")
    gates: dict[str, dict[str, float]] = {context: {} for context in CONTEXTS}
    values: dict[str, list[float]] = {context: [] for context in CONTEXTS}
    for record, context, study in rows.iter_rows():
        if (gate := predicted[record].get("gate")) is not None:
            gates[context][study] = gate
            values[context].append(gate)
    if not any(values.values()):
        return None
    tests = compare_groups(gates)
    charts["gates"] = result_figures.gate_chart(values)
    written["gates"] = result_tables.gate_table(
        tests, "Gate of Calibrate within studies: Wilcoxon's signed-rank test, p also after Holm's correction."
    )
    return {"line": result_tables.gate_line(tests), "records": tables.number(sum(map(len, values.values())))}


def _phases(logs: Mapping[str, Mapping[str, Curve]], depths: list[int], charts: dict[str, str]) -> list[dict[str, Any]]:
    """Panels of each phase's curves; adds their charts, and that of what runs through all phases."""
    phases = []
    for phase, curves in logs.items():
        drawn = []
        for panel in panels(curves, depths):
            name = f"training-{phase}-{file_name(panel)}"
            charts[name] = curve_chart(panel)
            drawn.append({"title": panel.title, "figure": name})
        if drawn:
            phases.append({"title": PHASE_TITLES.get(phase, phase), "panels": drawn, "counted": counted(curves)})
    if (schedule := schedule_chart(logs)) is not None:
        charts["schedule"] = schedule
    return phases


def _write_case_figures(cases: list[Case], folder: Path) -> None:
    for case in cases:
        for view in case.views:
            for ending, content in view.files.items():
                with atomic_path(folder / f"case-{case.study_id}-{view.name}.{ending}") as path:
                    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def _rules(signature: Mapping[str, Any]) -> Version:
    """The version of the rules that read the reports for the scores."""
    named = (signature.get("anchors") or {}).get("rules")
    for version in VERSIONS:
        if version == named:
            return version
    raise DataError(
        f"the signature of the scores names the rules {named!r}; known are {', '.join(VERSIONS)}: score again"
    )


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
