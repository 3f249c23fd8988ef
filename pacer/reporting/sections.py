"""The sections of the report, in order: each a function of a run's results; ``None``: there is nothing to show."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pacer.core.contexts import CONTEXTS
from pacer.metrics.columns import columns_in
from pacer.metrics.statistics import sources as source_sensitivity
from pacer.metrics.statistics.groups import LEAST_UNITS, group_scores
from pacer.metrics.statistics.intervals import label_intervals
from pacer.reporting import charts, score_tables
from pacer.reporting.anchor_audit import agreement_table, anchor_checks, origin_table, strata_table
from pacer.reporting.cases import example_cases
from pacer.reporting.corpus_audit import corpus_checks, corpus_table, emphasis_checks
from pacer.reporting.published import published_beside
from pacer.reporting.results import Results
from pacer.reporting.section import Checks, ExampleCases, Figure, Part, Section, TableBlock, Text, shown
from pacer.reporting.signature import entries, manifest
from pacer.reporting.tables import number, percent, reading_audit


def scores(results: Results) -> Section:
    """Scores with their intervals, beside published rows where these may stand there."""
    found, signature = results.scores, results.signature
    published, beside = published_beside(results.params.corpus.model_dump(mode="json"), signature, found)
    caption = (
        "Precision (P), recall (R) and F1 of the labeller's findings, over all records of a context together; the mean "
        f"is the plain mean of the contexts. {results.resampling} CIDEr has none: its word "
        "weights depend on all reports of a context. "
        f"{beside}"
    )
    table = score_tables.score_table(found, caption=caption, found=results.intervals, published=published)
    language = signature.get("language") or {}
    originals = score_tables.original_table(
        found,
        language.get("target"),
        f"Scores against the original findings of the source: {language.get('original_references', 'not recorded')}.",
    )
    columns = score_tables.column_table(
        found,
        columns_in(signature, "scores"),
        "Means of the numbers in the file of score.columns, over the records that have one.",
        results.intervals,
    )
    conventions = score_tables.convention_table(
        found,
        "The same labels, counted as other research groups do: which classes are present, over which observations, "
        "averaged how; mean of the contexts. Numbers of two conventions cannot be compared.",
    )
    contents = score_tables.score_table(
        found,
        score_tables.CONTENTS,
        "F1 of findings affirmed, denied and left uncertain, read by the rules in reports and references; share of "
        "reports that compare with an earlier examination, and the same in contexts without a previous report, where "
        "nothing in the input supports it.",
    )
    commitments = score_tables.score_table(
        found,
        score_tables.COMMITMENTS,
        "Agreement of the generated with the reference commitment, over all findings and over those that either "
        "states, and by polarity; how often the report has the polarity that its own commitment states; mean gate of "
        "Calibrate; shares of generations without an extractable report, and of empty reports. 0 to 1 throughout.",
    )
    chart = charts.efficacy_chart(found, results.intervals.scores)
    records = number(results.cases.height)
    figure = Figure(
        "scores", chart, f"Precision, recall and F1 by context ({records} records), with the interval of F1"
    )
    parts: list[Part] = [
        *([Text(f"Read with care. {results.note}", "note")] if results.note else []),
        TableBlock("scores", table),
        Text(_fallbacks(results.predictions)),
        *shown("originals", originals, title="Against the original findings"),
        *shown("columns", columns, title="Further scores"),
        figure,
        *shown("conventions", conventions, title="By label convention"),
        *shown("contents", contents, title="What the reports say"),
        *shown("commitments", commitments, title="Commitments, gate and extraction"),
        Checks(entries(signature), "The whole signature"),
    ]
    return Section("scores", "Scores", parts)


def sources(results: Results) -> Section:
    """Whether the reports vary with the case, what the scores become with other sources, and against the truth of a
    generated world."""
    truth = results.scores.get("truth")
    variety = score_tables.score_table(
        results.scores,
        score_tables.VARIETY,
        "Shares of distinct reports, of the most frequent one, and of those copied from the training "
        "split, each beside the same of the references; words per word of the references.",
    )
    warnings = source_sensitivity.warnings(results.scores, results.cases, results.convention)
    controls = score_tables.control_table(
        results.scores,
        "Micro-F1 of the labeller's observations against the references, by sources: the same cases decoded with "
        "others, and the share of reports that stay the same. A model that ignores what it is given loses nothing.",
    )
    latent = truth and score_tables.truth_table(
        truth,
        "Micro-F1 (or recall) of the 13 findings in the report against the true findings of the synthetic study. A "
        "model that ignores its sources does no better with the case's own than with another patient's.",
    )
    parts: list[Part] = [
        *(Text(line, "note") for line in warnings),
        *([] if controls else [Text("No control was decoded, so nothing here says whether the sources matter.")]),
        *shown("truth", latent or None),
        *shown("controls", controls),
        *shown("variety", variety),
    ]
    return Section("sources", "Use of the sources", parts)


def observations(results: Results) -> Section:
    """Each observation of the labeller."""
    labels = label_intervals(results.cases, results.convention)
    records = number(results.cases.height)
    caption = (
        f"F1 of each observation with its interval over all contexts together, most frequent first ({records} "
        "records); small marks: F1 in each context"
    )
    table = score_tables.label_table(
        labels,
        results.intervals.level,
        "Clinical efficacy by observation over the records of all contexts together, and F1 in each. Many more records "
        f"in reports than in references is over-reporting, many fewer omission. {results.resampling}",
    )
    figure = Figure("observations", charts.label_chart(labels), caption)
    return Section("findings", "By observation", [figure, TableBlock("observations", table)])


def groups(results: Results) -> Section | None:
    """Whether some records are reported worse than others."""
    found = group_scores(results.cases, results.convention, columns_in(results.signature, "groups"))
    table = score_tables.group_table(
        found,
        results.intervals.level,
        f"F1 by group over the records of all contexts together. {results.resampling} Groups of fewer than "
        f"{LEAST_UNITS} of these have no interval. Groups differ in what there is to find.",
    )
    return Section("groups", "By group", [TableBlock("groups", table)]) if found else None


def cases(results: Results) -> Section | None:
    """Studies in every context that they were decoded in."""
    found = example_cases(results)
    return Section("cases", "Example cases", [ExampleCases(found)]) if found else None


def gate(results: Results) -> Section | None:
    """The gate by context; None for a model without Calibrate."""
    values: dict[str, list[float]] = {context: [] for context in CONTEXTS}
    for record, context in results.decoded.select("record_id", "context").iter_rows():
        if (value := results.predictions[record].get("gate")) is not None:
            values[context].append(value)
    if not any(values.values()):
        return None
    caption = (
        f"Gate of the decoded records ({number(sum(map(len, values.values())))}) by context: points are records (at "
        "most 160 shown, at even steps of rank), the bar is the middle half, the mark the median, the line covers the "
        "middle 90 %"
    )
    parts: list[Part] = [
        Text(
            "How strongly each record's prefix is adapted, by what is available to it. The gate is a number between 0 "
            "and 1, computed before a word is generated."
        ),
        Figure("gates", charts.gate_chart(values), caption),
    ]
    return Section("gates", "Gate of Calibrate", parts)


def corpus(results: Results) -> Section:
    """The audits of the corpus and of the emphasis."""
    audit = results.corpus_audit
    checks = [*corpus_checks(audit), *emphasis_checks(results.emphasis_audit)]
    return Section("corpus", "Corpus", [TableBlock("corpus", corpus_table(audit)), Checks(checks)])


def commitments(results: Results) -> Section:
    """The audit of the commitment targets."""
    audit = results.anchors_audit
    text = (
        "What the training targets commit to: for a sample of the training records by a labelling model's answer, for "
        "the others by rules."
    )
    caption = "Commitment targets by finding and polarity, as a share of the records of each context"
    with reading_audit("anchors"):
        parts = [
            Text(text),
            *shown("origins", origin_table(audit)),
            *shown("strata", strata_table(audit), "How the sample to be labelled was drawn"),
            Figure("commitments", charts.polarity_chart(audit["polarities_by_context"], audit["origins"]), caption),
            *shown("agreement", agreement_table(audit), "Labels against rules, by finding"),
            Checks(anchor_checks(audit)),
        ]
    return Section("commitments", "Commitment targets", parts)


def made_of(results: Results) -> Section:
    """Parameters, versions and hashes."""
    found = manifest(results.params.model_dump(mode="json"), results.signature, results.decoding)
    lists = [Checks(listed, f"{title} ({len(listed)})", title != "Parameters") for title, listed in found.items()]
    text = Text("What this run was made of. The signature of the scores says what each number means.")
    return Section("manifest", "Manifest", [text, *lists])


SECTIONS: tuple[Callable[[Results], Section | None], ...] = (
    scores,
    sources,
    observations,
    groups,
    cases,
    gate,
    corpus,
    commitments,
    made_of,
)


def _fallbacks(predictions: Mapping[str, dict]) -> str:
    """How often no report could be extracted from the generated text, in words."""
    count = sum(bool(row["fallback"]) for row in predictions.values())
    if count == 0:
        return "A report could be extracted from every output."
    share = percent(count, len(predictions))
    of = f"{number(count)} of {number(len(predictions))} generations ({share})"
    return f"{of} held no extractable report; their raw text was scored."
