"""Figures in README.md, in pages of docs and in a file of bench/results.

    pacer study run worlds; python bench/evidence.py worlds   # bench/results/studies/worlds.json
    python bench/evidence.py                                  # the blocks, from such files

A page has a table or sentences between ``<!-- table: NAME KIND -->`` and ``<!-- end -->``: NAME is
a table of experiments, or one of ``default_run.RESULTS``; KIND is a function of :data:`KINDS`.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import default_run
import numpy as np
import polars as pl
from measuring import options_of, short, table

from pacer.core.attributes import KINDS as ATTRIBUTES
from pacer.core.exchange import exchange
from pacer.core.io import read_json, write_json
from pacer.extras.studies.repository import Repository
from pacer.extras.studies.run import finished, plan
from pacer.extras.studies.study import load_study
from pacer.extras.studies.table import collect, compare_rows, student
from pacer.metrics.cases import MEAN, by_context
from pacer.metrics.findings import attribute_share
from pacer.metrics.ledger import attribute_counts, compared, read_findings
from pacer.metrics.result import CASES
from pacer.metrics.scores import score_of
from pacer.reporting.score_tables import context_mean, contexts_in
from pacer.statistics.halves import holm

RESULTS = Path("bench/results/studies")
PAGES = [
    Path("README.md"),
    *(Path("docs", f"{name}.md") for name in ("certificate", "evaluation", "evidence", "phantom")),
    Path("bench/results/seeds.md"),
]
#: Scores of the reports on Open-I (bench/openi_scores.py).
OPENI = Path("bench/results/openi/scores.json")
BLOCK = re.compile(r"(<!-- table: (\w+) (\w+) -->\n).*?(<!-- end -->\n)", re.DOTALL)
#: Two F1 that differ by no more than this are called equal (docs/evidence.md).
SMALL = 0.01
#: Columns of the tables; a table without one of these scores leaves it out.
ROWS = ("precision", "recall", "f1", "report_positive_f1", "report_negative_f1")
ROWS += ("bleu4", "rougeL", "contradiction_rate")
DIFFERENCES = ("f1", "report_positive_f1", "report_negative_f1", "bleu4", "contradiction_rate")
SEEDS = ("report_positive_f1", "f1", "bleu4", "report_negative_f1")
#: F1 of affirmed findings without the previous report, and of what takes its place.
PREVIOUS = {
    "without it": "prior_f1_without",
    "the previous report itself": "prior_f1_itself",
    "united with it": "prior_f1_united",
}
#: F1 of reports for the references' own lists; mean F1 against a generated corpus's truth.
GIVEN, TRUTH, UNFOUNDED = "gold_list_f1", "truth", "unfounded_prior_wording_rate"
#: Scores that are stored beside the table's own.
STORED = ("f1", UNFOUNDED, "gate")

#: Results of a table: ``rows`` (row -> context -> score -> replicate -> value), ``differences``.
Stored = Mapping[str, Any]


def stored(name: str) -> dict[str, Any]:
    """Return the results of the finished runs of a table, and the commits they are of."""
    study, repository = load_study(Path("studies"), name), Repository(Path.cwd())
    runs = collect(study, repository)
    rows: Any = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    for run in runs:
        values = {
            (context, key): context_mean(run.scores, key, context)
            for context in (MEAN, *contexts_in(run.scores))
            for key in dict.fromkeys((*study.metrics, *STORED))
        }
        values |= {(MEAN, key): value for key, value in agreement(run.folder).items()}
        of_previous = previous_scores(pl.read_parquet(run.folder / CASES))
        values |= {
            (context, key): value
            for context, scores in of_previous.items()
            for key, value in scores.items()
            if key in ("prior_f1", *PREVIOUS.values())
        }
        if given := run.scores.get("controls", {}).get("gold_list"):
            values[MEAN, GIVEN] = fmean(context["f1"] for context in given.values())
        if truth := run.scores.get("truth"):
            values[MEAN, TRUTH] = truth["mean_f1"]
        for (context, key), value in values.items():
            if value is not None:
                rows[run.row][context][key][run.replicate] = round(value, 6)
    differences = [
        {"label": label, "metric": metric, **asdict(one)}
        | {"over": "replicates" if one.first is None else "patients"}
        for metric, of_metric in compare_rows(study, runs)[0].items()
        for label, one in of_metric.items()
    ]
    made = [*finished(plan(study, repository), repository)]
    commits = {repository.git("rev-parse", "--short=8", f"{run.commit}^").strip() for run in made}
    about = {"study": name, "title": study.title, "commits": sorted(commits)}
    about |= {"runs": [run.name for run in made]}
    return {**about, "rows": rows, "differences": differences}


def previous_scores(cases: pl.DataFrame) -> dict[str, dict[str, float]]:
    """Return by context what the previous report contributes, over the records that have one.

    ``prior_f1`` is F1 of affirmed findings of the reports; ``_without``, of the reports written
    without the previous report; ``_itself``, of the previous report; ``_united``, of the findings
    of the last two together. ``persisting_stated`` is the share of the findings of both the
    previous report and the reference that the reports affirm, ``gone_stated`` that of those of the
    previous report alone; ``_without``, by the reports written without it. Scores without a
    denominator are left out."""
    scores: dict[str, dict[str, float]] = {}
    for context, part in by_context(cases).items():
        rows = part.drop_nulls("prior_positive")
        columns = ("reference", "prior", "report", "no_prior")
        wanted, prior, report, without = (
            [{*findings} for findings in rows[f"{name}_positive"].fill_null([])] for name in columns
        )
        texts = {"": report, "_itself": prior}
        if rows["no_prior_positive"].count():
            united = [one | other for one, other in zip(prior, without)]
            texts |= {"_without": without, "_united": united}
        values: dict[str, float] = {}
        for end, stated in texts.items():
            if total := sum(map(len, [*stated, *wanted])):
                hits = sum(len(one & other) for one, other in zip(stated, wanted))
                values[f"prior_f1{end}"] = 2 * hits / total
            persisting = [one & other for one, other in zip(prior, wanted)]
            gone = [one - other for one, other in zip(prior, wanted)]
            for name, kind in (("persisting", persisting), ("gone", gone)):
                if end in ("", "_without") and (total := sum(map(len, kind))):
                    hits = sum(len(one & other) for one, other in zip(stated, kind))
                    values[f"{name}_stated{end}"] = hits / total
        if values:
            scores[context] = values
    return scores


def agreement(folder: Path) -> dict[str, float]:
    """Return how often the reports of a run agree with their references in side, severity and
    course, and with the references of other patients (``_dealt``); means over contexts."""
    columns = ["record_id", "subject_id", "context", "reference", "hypothesis"]
    cases = pl.read_parquet(folder / CASES, columns=columns)
    dealt = [exchange(cases, ["hypothesis"], ["context"], seed) for seed in range(3)]
    sums = [[sums_of(part) for part in one.partition_by("context")] for one in (cases, *dealt)]
    values: dict[str, float] = {}
    for place, kind in enumerate(ATTRIBUTES, len(ATTRIBUTES)):
        named = [[part for part in one if part[place]] for one in sums]
        if all(named):
            own, *others = (
                fmean(float(attribute_share(part, kind)) for part in one) for one in named
            )
            values |= {f"attributes_{kind}": own, f"{kind}_dealt": fmean(others)}
    return values


def sums_of(cases: pl.DataFrame) -> np.ndarray:
    """Return how often side, severity and course agree, then how often they are named."""
    reference, report = (read_findings(cases[side]) for side in ("reference", "hypothesis"))
    return attribute_counts(compared(reference, report), len(cases)).sum(axis=0)


def interval(low: float | None, high: float | None) -> str:
    """Format an interval in brackets; empty if there is none."""
    if low is None or high is None:
        return ""
    return f" ({short(low, sign='+')} to {short(high, sign='+')})"


def mean_of(values: Mapping[str, float] | None, decimals: int = 3) -> str:
    return short(fmean(values.values()), decimals) if values else ""


def cell(values: Mapping[str, float] | None) -> str:
    """Format a mean over replicates, with its standard deviation."""
    spread = f" ± {short(stdev(values.values()))}" if values and len(values) > 1 else ""
    return mean_of(values) + spread


def score_rows(result: Stored, keys: Mapping[str, str]) -> list[str]:
    """Tabulate means of scores, key -> column."""
    rows = result["rows"].items()
    cells = [[name, *(cell(row[MEAN].get(key)) for key in keys)] for name, row in rows]
    return table(["Row", *keys.values()], cells)


def present(result: Stored, keys: Sequence[str]) -> dict[str, str]:
    """Return the column of those of the scores that a row has."""
    known = {key for row in result["rows"].values() for key in row.get(MEAN, {})}
    return {key: score_of(key).column for key in keys if key in known}


def made_at(result: Stored) -> list[str]:
    """Say which commit the runs of a table are of."""
    return [f"All runs on generated data are of commit {' and '.join(result['commits'])}.", ""]


def rows(result: Stored) -> list[str]:
    """Means of each row over its replicates, ± standard deviation."""
    return score_rows(result, present(result, ROWS))


def seeds(result: Stored) -> list[str]:
    """Scores of each replicate, and their commit."""
    keys = present(result, SEEDS)
    cells = [
        [name, *(", ".join(map(short, row[MEAN][key].values())) for key in keys)]
        for name, row in result["rows"].items()
    ]
    return [*table(["Row", *keys.values()], cells), *made_at(result)]


def mark(result: Stored, one: Mapping[str, Any]) -> str:
    """Mark a difference: ✓ better, ✗ not, ? not shown (docs/evidence.md). Over patients, better
    needs the same sign in all replicates, too."""
    first, second = (
        result["rows"][name][MEAN].get(one["metric"], {}) for name in one["label"].split(" − ")
    )
    gaps = [value - second[key] for key, value in first.items() if key in second]
    low, high = one["low"], one["high"]
    if score_of(one["metric"]).better == "lower":
        low, high, gaps = -high, -low, [-gap for gap in gaps]
    if low > 0:
        return "?" if one["over"] == "patients" and min(gaps) <= 0 else "✓"
    return "✗" if high < 0 or (one["metric"] == "f1" and max(-low, high) <= SMALL) else "?"


def tested(result: Stored, key: str) -> dict[str, str]:
    """Return the cell of each planned difference in a score; Holm's p covers them all."""
    of_key, cells = [one for one in result["differences"] if one["metric"] == key], {}
    for one, p in zip(of_key, holm([one["p"] for one in of_key]), strict=True):
        text = short(one["difference"], sign="+") + interval(one["low"], one["high"])
        if one["low"] is not None:
            text += f" {mark(result, one)}"
        if p is not None:
            text += f" {short(p)}" if p >= 0.0005 else " <0.001"
        cells[one["label"]] = text
    return cells


def differences(result: Stored) -> list[str]:
    """Planned differences with 95% intervals and Holm's p."""
    columns = {key: cells for key in DIFFERENCES if (cells := tested(result, key))}
    heads = [f"{score_of(key).column} (95%), Holm's p" for key in columns]
    labels = dict.fromkeys(one["label"] for one in result["differences"])
    lines = [[label, *(cells.get(label, "") for cells in columns.values())] for label in labels]
    return table(["Difference", *heads], lines)


def contexts(result: Stored) -> list[str]:
    """F1, gate and unfounded comparisons of each row by context, means over its replicates."""
    every = result["rows"].values()
    names = [name for name in next(iter(every)) if name != MEAN]
    without = [name for name in names if any(UNFOUNDED in row.get(name, {}) for row in every)]
    lines = []
    for label, row in result["rows"].items():
        f1, gate, unfounded = (
            " ".join(mean_of(row[name][key], 2) for name in names if key in row[name])
            for key in ("f1", "gate", UNFOUNDED)
        )
        own, bleu, truth = (mean_of(row[MEAN].get(key)) for key in ("f1", "bleu4", TRUTH))
        lines.append([label, f"{own} ({f1})", bleu, truth, gate, unfounded])
    known = " ".join(names)
    heads = [f"F1 ({known})", "B@4", "F1 of truth", f"gate ({known})"]
    return table(["Row", *heads, f"unfounded ({' '.join(without)})"], lines)


def paired(values: Mapping[str, float], others: Mapping[str, float]) -> str:
    """Return the mean difference of two scores over replicates, with Student's interval."""
    gaps = [value - others[key] for key, value in values.items()]
    one = student(gaps)
    return short(fmean(gaps), sign="+") + interval(one.low, one.high)


def previous(result: Stored) -> list[str]:
    """What the previous report contributes, by context."""
    lines = []
    for label, row in result["rows"].items():
        for name, scores in row.items():
            if all(key in scores for key in ("prior_f1", *PREVIOUS.values())):
                cells = [f"{label}, {name}", cell(scores["prior_f1"])]
                for other in PREVIOUS.values():
                    cells += [cell(scores[other]), paired(scores["prior_f1"], scores[other])]
                lines.append(cells)
    heads = [head for name in PREVIOUS for head in (name, "difference (95%)")]
    return table(["Row, context", "F1 with the previous report", *heads], lines)


def attributes(result: Stored) -> list[str]:
    """How often side, severity and course agree with the reference, and with those of other
    patients, in the first row and those whose lists state the side (until 0.4, all three)."""
    lines = []
    for place, (label, row) in enumerate(result["rows"].items()):
        if place == 0 or label.endswith(("attributes", "sides")):
            cells, means = [label], row[MEAN]
            for kind in ATTRIBUTES:
                given, dealt = means.get(f"attributes_{kind}"), means.get(f"{kind}_dealt")
                pair = [f"{cell(given)} ({mean_of(dealt)})", paired(given, dealt)] if given else []
                cells += pair or ["", ""]
            lines.append(cells)
    heads = [head for kind in ATTRIBUTES for head in (f"{kind} (shuffled)", "difference (95%)")]
    return table(["Row", *heads], lines)


def on_openi(name: str, text: str) -> dict[str, str]:
    """Return means over the seeds of a row's commitments or reports on Open-I; empty for what it
    does not have."""
    means = pl.DataFrame(read_json(OPENI)).filter(row=name, text=text).mean().row(0, named=True)
    return {key: "" if value is None else short(value) for key, value in means.items()}


def radiographs(_: Stored) -> list[str]:
    """The rows that Open-I has, as `bench/openi_scores.py` scored them."""
    lines = []
    for name in dict.fromkeys(one["row"] for one in read_json(OPENI)):
        cells = [name]
        for text in ("commitment", "report"):
            scores = on_openi(name, text)
            chance = f" ({scores['chance']})" if scores["chance"] else ""
            cells += [scores["f1"] + chance, scores["another_patient"]]
        lines.append([*cells, scores["bleu4"], scores["rougeL"]])
    heads = ["F1 of commitments", "another's", "F1 of reports", "another's", "BLEU-4", "ROUGE-L"]
    return table(["Row, mean of three seeds (chance)", *heads], lines)


def components(result: Stored) -> list[str]:
    """F1 of each row that Open-I has too, its planned difference, its F1 on Open-I, and the
    commit."""
    first, lines = next(iter(result["rows"])), []
    planned = [[*label.split(" − "), text] for label, text in tested(result, "f1").items()]
    for name, row in result["rows"].items():
        against = {base: text.rpartition(" ")[0] for one, base, text in planned if one == name}
        base = first if first in against else next(iter(against), "")
        beside = against.get(base, "")
        if base not in ("", first):
            beside = f"from {base.partition(' (')[0]}: {beside}"
        real, chance = (on_openi(name, "report")[key] for key in ("f1", "chance"))
        if real and (beside or name == first):
            own, denied = (mean_of(row[MEAN].get(key)) for key in ("f1", "report_negative_f1"))
            lines.append([name, own, beside, denied, f"{real} ({chance})"])
    heads = ["Row", "F1", f"Difference from {first} (95% interval)", "F1, denied findings"]
    return [*table([*heads, "Open-I, F1 (chance)"], lines), *made_at(result)]


KINDS = {
    kind.__name__: kind
    for kind in (
        rows,
        differences,
        seeds,
        contexts,
        previous,
        attributes,
        components,
        radiographs,
    )
} | default_run.KINDS


def result_of(name: str) -> Any:
    """Return what the blocks of a NAME are made of."""
    sources = default_run.RESULTS | {"openi": dict}  # `radiographs` reads a file of its own
    return sources[name]() if name in sources else read_json(RESULTS / f"{name}.json")


def with_tables(page: str) -> str:
    """Return a page with all its blocks as the committed files give them."""

    def written(block: re.Match[str]) -> str:
        return block[1] + "\n".join(KINDS[block[3]](result_of(block[2]))) + block[4]

    return BLOCK.sub(written, page)


def write_pages() -> None:
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")


def main() -> None:
    for name in options_of(__doc__, studies={"nargs": "*"}).studies:
        result = stored(name)
        write_json(RESULTS / f"{name}.json", result)
        print(name, *result["commits"])
    write_pages()


if __name__ == "__main__":
    main()
