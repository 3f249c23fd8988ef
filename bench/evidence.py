"""The studies' tables in docs/evidence.md and docs/results.md.

    pacer study run worlds; python bench/evidence.py worlds    writes
    bench/results/studies/worlds.json python bench/evidence.py
    writes the tables of both pages, and charts of precision
                                                               against recall, from these files

Datasets may be measured one at a time, on several machines: those that the file has, of the same
commit, are kept. With ``--results FOLDER`` the files lie there and no page changes, until all
datasets are measured.

A page has a table between ``<!-- table: NAME KIND -->`` and ``<!-- end -->``. NAME is a study, KIND
one of:

    rows           mean of each row over its replicates, ± standard deviation differences    planned
    differences with 95 % intervals and Holm's p; ✓ better, ✗ not, ? not shown seeds          F1 by
    the rules, F1 by CheXbert, BLEU-4 and F1 of denied findings of each replicate contexts       F1,
    gate and unfounded comparisons of each row by context, means over its replicates previous
    what the previous report contributes, by context attributes     how often side, severity and
    course agree with the reference, and with those of other patients, in
                   the first row and those with attributes
    components     F1 of each row that Open-I has too, its planned difference, and its F1 on Open-I
    radiographs    the rows that Open-I has, as `bench/openi_scores.py` scored them there lists
    F1 of reports, of generated lists, of read lists, and of reports for the references' lists
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import polars as pl
from measuring import options_of, table

from pacer.commitments.anchor import KINDS as ATTRIBUTES
from pacer.core.io import read_json, write_json
from pacer.data.exchange import exchange
from pacer.metrics.cases import MEAN
from pacer.metrics.commitments import attribute_counts, attribute_share
from pacer.metrics.scores import score_of
from pacer.metrics.signature import CASES
from pacer.metrics.statistics.bootstrap import holm
from pacer.metrics.statistics.comparison import compare_repeats
from pacer.reporting.charts import curve_chart
from pacer.reporting.score_tables import context_mean, contexts_in
from pacer.studies.run import finished, results_folder
from pacer.studies.study import Study, load_study
from pacer.studies.table import RowDifference, collect, compare_rows, student
from pacer.studies.worktree import Repository, git

RESULTS = Path("bench/results/studies")
PAGES = [Path("README.md"), *(Path("docs", f"{name}.md") for name in ("evidence", "results"))]
PAGES += [Path("bench/results", f"{name}.md") for name in ("commitment", "seeds")]
#: Scores of the reports on Open-I (bench/openi_scores.py).
OPENI = Path("bench/results/openi/answers.md")
#: Charts by study.
CURVES = {"commitment": Path("docs/figures/threshold.svg")}
BLOCK = re.compile(r"(<!-- table: (\w+) (\w+) -->\n).*?(<!-- end -->\n)", re.DOTALL)
#: F1 that differs by no more than this is said not to differ (docs/evidence.md).
SMALL = 0.01
#: Columns of the tables; a study without one of them leaves it out.
ROWS = ("precision", "recall", "f1", "report_positive_f1", "report_negative_f1")
ROWS += ("bleu4", "rougeL", "contradiction_rate")
DIFFERENCES = ("f1", "report_positive_f1", "report_negative_f1", "bleu4", "contradiction_rate")
#: F1 of affirmed findings with the previous report, and what it is compared with.
PREVIOUS = {
    "without it": "prior_f1_without",
    "the previous report itself": "prior_f1_itself",
    "united with it": "prior_f1_united",
}
UNFOUNDED = "unfounded_prior_wording_rate"
#: Deals of the reports to other patients.
DEALS = 3
#: F1 of reports for the references' own lists (decode.controls: [gold_list]).
GIVEN = "gold_list_f1"
#: Mean F1 against the latent findings of a generated corpus.
TRUTH = "truth"
#: Scores that are stored beside the study's own.
BY_CONTEXT = ("f1", "prior_f1", *PREVIOUS.values(), UNFOUNDED, "gate")

Stored = Mapping[str, Any]
#: Value of each replicate.
Values = Mapping[str, float]


def stored(name: str, path: Path) -> dict[str, Any]:
    """Return what a study's finished runs measured, with datasets that ``path`` has, and the
    commits they are of."""
    root = Path.cwd()
    study, repository, state = (
        load_study(Path("studies"), name),
        Repository(root),
        results_folder(root),
    )
    runs = collect(study, repository, state)
    references = [reference for _, _, reference, _ in finished(study, repository, state)]
    scores: dict[str, Any] = {}
    for run in runs:
        of_row = scores.setdefault(study.rows[run.row].name, {})
        for context in (MEAN, *contexts_in(run.scores)):
            for key in dict.fromkeys((*study.metrics, *BY_CONTEXT)):
                if (value := context_mean(run.scores, key, context)) is not None:
                    of_row.setdefault(context, {}).setdefault(key, {})[run.replicate or ""] = round(
                        value, 6
                    )
        of_run = agreement(run.folder)
        if given := run.scores.get("controls", {}).get("gold_list"):
            of_run[GIVEN] = fmean(context["f1"] for context in given.values())
        for key, value in of_run.items():
            of_row[MEAN].setdefault(key, {})[run.replicate or ""] = round(value, 6)
        if truth := run.scores.get("truth"):
            of_row[MEAN].setdefault(TRUTH, {})[run.replicate or ""] = round(truth["mean_f1"], 6)
    commits = sorted(
        {git(root, "rev-parse", "--short=8", f"{reference}^").strip() for reference in references}
    )
    if "corpus.seed" in study.replicates[0]:
        known = read_json(path) if path.exists() else {}
        scores = united(known["rows"] if known.get("commits") == commits else {}, scores, study)
        tested = over_datasets(study, scores)
    else:
        tested, _ = compare_rows(study, runs, compare_repeats)
    differences = [
        {"label": one.label, "metric": one.metric, "difference": one.difference.difference}
        | {"low": one.difference.low, "high": one.difference.high, "p": one.difference.p}
        | {"over": "replicates" if one.difference.first is None else "patients"}
        for one in tested
    ]
    return {
        "study": name,
        "title": study.title,
        "commits": commits,
        "rows": scores,
        "differences": differences,
    }


def united(known: Stored, new: Stored, study: Study) -> dict[str, Any]:
    """Return the scores of both, by row, context, score and dataset, in the order of the study."""
    rows: dict[str, Any] = {}
    for name in (row.name for row in study.rows if row.name in known or row.name in new):
        for scores in (known.get(name, {}), new.get(name, {})):
            for context, of_context in scores.items():
                for key, values in of_context.items():
                    rows.setdefault(name, {}).setdefault(context, {}).setdefault(key, {}).update(
                        values
                    )
        for of_context in rows[name].values():
            for key, values in of_context.items():
                of_context[key] = {
                    label: values[label] for label in study.labels if label in values
                }
    return rows


def over_datasets(study: Study, scores: Stored) -> list[RowDifference]:
    """Return the planned differences, tested over the datasets that both rows have."""
    tested = []
    for name, base in study.compared:
        for metric in study.metrics:
            first, second = (
                scores.get(row, {}).get(MEAN, {}).get(metric, {}) for row in (name, base)
            )
            if gaps := [value - second[label] for label, value in first.items() if label in second]:
                tested.append(RowDifference(f"{name} − {base}", metric, student(gaps)))
    return tested


def agreement(folder: Path) -> dict[str, float]:
    """Return how often the reports of a run agree with their references in each attribute, and with
    the references of other patients (``_dealt``), means over contexts whose references name it, and
    how many they name (``_named``)."""
    cases = pl.read_parquet(
        folder / CASES, columns=["record_id", "subject_id", "context", "reference", "hypothesis"]
    )
    dealt = [exchange(cases, ["hypothesis"], ["context"], seed) for seed in range(DEALS)]
    values: dict[str, float] = {}
    sums = [
        [
            np.array(attribute_counts(part)).sum(axis=0)
            for part in one.partition_by("context", maintain_order=True)
        ]
        for one in (cases, *dealt)
    ]
    for place, kind in enumerate(ATTRIBUTES, len(ATTRIBUTES)):
        shares = [
            [float(attribute_share(part, kind)) for part in one if part[place]] for one in sums
        ]
        if all(shares):
            values[f"attributes_{kind}"], *others = map(fmean, shares)
            values[f"{kind}_dealt"] = fmean(others)
            values[f"{kind}_named"] = float(sum(part[place] for part in sums[0]))
    return values


def short(value: float, decimals: int = 3, sign: str = "") -> str:
    """Format a figure without the zero before its point."""
    return f"{value:{sign}.{decimals}f}".replace("0.", ".", 1).replace("-", "−")


def cell(values: Values | None) -> str:
    known = list((values or {}).values())
    spread = f" ± {short(stdev(known))}" if len(known) > 1 else ""
    return f"{short(fmean(known))}{spread}" if known else ""


def present(result: Stored, keys: Sequence[str], context: str = MEAN) -> list[str]:
    """Return those of the scores that a row has."""
    return [
        key for key in keys if any(key in row.get(context, {}) for row in result["rows"].values())
    ]


def rows(result: Stored) -> list[str]:
    keys = present(result, ROWS)
    lines = [
        [name, *(cell(row[MEAN].get(key)) for key in keys)] for name, row in result["rows"].items()
    ]
    return table(["Row", *(score_of(key).column for key in keys)], lines)


def mark(result: Stored, one: Mapping[str, Any]) -> str:
    """Say whether the first row of a difference is better, worse or neither (docs/evidence.md).
    Over patients, better is one sign in all replicates, too."""
    low, high = one["low"], one["high"]
    if low is None:
        return ""
    by_replicate = apart(result, one["label"], one["metric"])
    if score_of(one["metric"]).better == "lower":
        low, high, by_replicate = -high, -low, [-value for value in by_replicate]
    if low > 0:
        return "?" if one["over"] == "patients" and min(by_replicate) <= 0 else "✓"
    return "✗" if high < 0 or (one["metric"] == "f1" and max(-low, high) <= SMALL) else "?"


def apart(result: Stored, label: str, metric: str) -> list[float]:
    """Return a difference by replicate."""
    first, second = (result["rows"][name][MEAN].get(metric, {}) for name in label.split(" − "))
    return [value - second[key] for key, value in first.items() if key in second]


def difference_cell(result: Stored, one: Mapping[str, Any], p: float | None) -> str:
    text = short(one["difference"], sign="+")
    if one["low"] is not None:
        text += (
            f" ({short(one['low'], sign='+')} to {short(one['high'], sign='+')}) "
            f"{mark(result, one)}"
        )
    if p is not None:
        text += f" {short(p)}" if p >= 0.0005 else " <.001"
    return text


def tested(result: Stored, key: str) -> dict[str, str]:
    """Return the cell of each planned difference in a score; Holm's p covers them all."""
    of_key = [one for one in result["differences"] if one["metric"] == key]
    corrected = holm([one["p"] for one in of_key])
    return {
        one["label"]: difference_cell(result, one, p)
        for one, p in zip(of_key, corrected, strict=True)
    }


def differences(result: Stored) -> list[str]:
    columns = {key: cells for key in DIFFERENCES if (cells := tested(result, key))}
    heads = [f"{score_of(key).column} (95 %), Holm's p" for key in columns]
    labels = dict.fromkeys(one["label"] for one in result["differences"])
    lines = [[label, *(cells.get(label, "") for cells in columns.values())] for label in labels]
    return table(["Difference", *heads], lines)


def seeds(result: Stored) -> list[str]:
    keys = present(result, ("report_positive_f1", "f1", "bleu4", "report_negative_f1"))
    lines = [
        [name, *(", ".join(map(short, row[MEAN][key].values())) for key in keys)]
        for name, row in result["rows"].items()
    ]
    return table(["Row", *(score_of(key).column for key in keys)], lines)


def contexts(result: Stored) -> list[str]:
    names = [name for name in next(iter(result["rows"].values())) if name != MEAN]

    def by_context(row: Mapping[str, Mapping[str, Values]], key: str) -> str:
        return " ".join(
            short(fmean(row[name][key].values()), 2) for name in names if key in row[name]
        )

    lines = []
    for label, row in result["rows"].items():
        of_findings = f"{mean_of(row, 'f1')} ({by_context(row, 'f1')})"
        means = mean_of(row, "bleu4"), mean_of(row, TRUTH)
        lines.append(
            [label, of_findings, *means, by_context(row, "gate"), by_context(row, UNFOUNDED)]
        )
    without = " ".join(name for name in names if present(result, [UNFOUNDED], name))
    heads = [
        f"F1 ({' '.join(names)})",
        "B@4",
        "F1 of truth",
        f"gate ({' '.join(names)})",
        f"unfounded ({without})",
    ]
    return table(["Row", *heads], lines)


def attributes(result: Stored) -> list[str]:
    first, lines = next(iter(result["rows"])), []
    for label, row in result["rows"].items():
        if label != first and not label.endswith("attributes"):
            continue
        cells = [label]
        for kind in ATTRIBUTES:
            given, dealt = (
                row[MEAN].get(f"attributes_{kind}", {}),
                row[MEAN].get(f"{kind}_dealt", {}),
            )
            if given:
                cells += [f"{cell(given)} ({mean_of(row, f'{kind}_dealt')})", paired(given, dealt)]
            else:
                cells += ["", ""]
        lines.append(cells)
    heads = [head for kind in ATTRIBUTES for head in (f"{kind} (dealt)", "difference (95 %)")]
    return table(["Row", *heads], lines)


def lists(result: Stored) -> list[str]:
    keys = {
        "f1": "reports",
        GIVEN: "reports for the references' lists",
        "report_positive_f1": "reports, affirmed",
    }
    keys |= {"anchor_positive_f1": "generated lists, affirmed", "read_f1": "read lists, affirmed"}
    lines = [
        [label, *(cell(row[MEAN].get(key)) for key in keys)]
        for label, row in result["rows"].items()
    ]
    return table(["Row", *keys.values()], lines)


def on_open_i() -> list[list[str]]:
    """Return the cells of each line of Open-I's answers that has three or more."""
    lines = [
        line.strip("| ").split(" | ") for line in OPENI.read_text(encoding="utf-8").splitlines()
    ]
    return [line for line in lines if len(line) > 2]


def over_seeds(name: str, third: str, *columns: int) -> list[str]:
    """Return means over the seeds of a row, from the lines of Open-I's answers whose third cell
    starts so."""
    found = [line for line in on_open_i() if line[0] == name and line[2].startswith(third)]
    figures = [
        [line[column].split()[0] for line in found if line[column] != "–"] for column in columns
    ]
    return [short(fmean(map(float, one))) if one else "" for one in figures]


def radiographs(_: Stored) -> list[str]:
    lines = []
    for name in dict.fromkeys(line[0] for line in on_open_i() if line[2] == "report"):
        cells = [name]
        for text in ("commitment", "report"):
            f1, chance, other = over_seeds(name, text, 3, 4, 6)
            cells += [f"{f1} ({chance})" if f1 else "", other]
        lines.append([*cells, *over_seeds(name, ".", 5, 7)])
    heads = ["F1 of commitments", "another's", "F1 of reports", "another's", "BLEU-4", "ROUGE-L"]
    return table(["Row, mean of three seeds (chance)", *heads], lines)


def components(result: Stored) -> list[str]:
    first, f1 = next(iter(result["rows"])), tested(result, "f1")
    lines = []
    for name, row in result["rows"].items():
        planned = {
            label.partition(" − ")[2]: text
            for label, text in f1.items()
            if label.startswith(f"{name} − ")
        }
        base = first if first in planned else next(iter(planned), "")
        against = (
            f"over {base}: " * (base not in ("", first)) + planned.get(base, "").rpartition(" ")[0]
        )
        real, chance, _ = over_seeds(name, "report", 3, 4, 6)
        if real and (against or name == first):
            denied = mean_of(row, "report_negative_f1")
            lines.append([name, mean_of(row, "f1"), against, denied, f"{real} ({chance})"])
    heads = ["Row", "F1", f"− {first} (95 %), ✓ above 0, ? not shown", "F1 of denied findings"]
    return table([*heads, "Open-I, F1 by rules (chance)"], lines)


def mean_of(row: Mapping[str, Mapping[str, Values]], key: str) -> str:
    values = row[MEAN].get(key)
    return short(fmean(values.values())) if values else ""


def paired(values: Values, others: Values) -> str:
    """Return the mean difference of two scores over replicates, with Student's interval."""
    gaps = [value - others[key] for key, value in values.items()]
    one = student(gaps)
    known = one.low is not None and one.high is not None
    interval = f" ({short(one.low, sign='+')} to {short(one.high, sign='+')})" if known else ""
    return short(fmean(gaps), sign="+") + interval


def previous(result: Stored) -> list[str]:
    lines = []
    for label, row in result["rows"].items():
        for name, scores in row.items():
            given = scores.get("prior_f1", {})
            if not given or any(other not in scores for other in PREVIOUS.values()):
                continue
            cells = [f"{label}, {name}", cell(given)]
            for other in PREVIOUS.values():
                cells += [cell(scores[other]), paired(given, scores[other])]
            lines.append(cells)
    heads = [head for name in PREVIOUS for head in (name, "difference (95 %)")]
    return table(["Row, context", "F1 with the previous report", *heads], lines)


TABLES: tuple[Callable[[Stored], list[str]], ...] = (
    rows,
    differences,
    seeds,
    contexts,
    previous,
    attributes,
    lists,
)
KINDS = {kind.__name__: kind for kind in (*TABLES, components, radiographs)}


def curve(name: str) -> str:
    """Return the chart of a study: precision against recall of its rows, means over contexts and
    replicates."""
    points = {
        row: (fmean(of[MEAN]["recall"].values()), fmean(of[MEAN]["precision"].values()))
        for row, of in read_json(RESULTS / f"{name}.json")["rows"].items()
    }
    study = load_study(Path("studies"), name)
    return curve_chart(points, study.curve, study.title)


def with_tables(page: str) -> str:
    """Return a page with all its tables as the committed files give them."""

    def written(block: re.Match[str]) -> str:
        result = {} if KINDS[block[3]] is radiographs else read_json(RESULTS / f"{block[2]}.json")
        return block[1] + "\n".join(KINDS[block[3]](result)) + block[4]

    return BLOCK.sub(written, page)


def main() -> None:
    options = options_of(
        __doc__, ("studies", {"nargs": "*"}), ("--results", {"type": Path, "default": RESULTS})
    )
    for name in options.studies:
        path = options.results / f"{name}.json"
        write_json(path, result := stored(name, path))
        print(
            f"{name}: commit {', '.join(result['commits'])}",
            *rows(result),
            *differences(result),
            sep="\n",
        )
    if options.results != RESULTS:
        return
    for name, chart in CURVES.items():
        chart.write_text(curve(name), encoding="utf-8")
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
