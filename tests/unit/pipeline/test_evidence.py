"""The studies' tables in docs/evidence.md and docs/results.md, made by bench/evidence.py."""

import re
import runpy
import sys
from statistics import fmean
from typing import Any

import pytest

from pacer.core.io import read_json
from tests.support.repository import ROOT


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    monkeypatch.delitem(sys.modules, "measuring", raising=False)
    return runpy.run_path(str(ROOT / "bench" / "evidence.py"))


def result(*apart: float, metric: str = "f1", interval: tuple[float, float] = (0.02, 0.04)) -> dict[str, Any]:
    """What two rows measured whose scores are ``apart`` by replicate."""
    base = {str(place): 0.5 for place in range(len(apart))}
    scores = {str(place): 0.5 + value for place, value in enumerate(apart)}
    rows = {"Base": {"mean": {metric: base}}, "PACER": {"mean": {metric: scores}}}
    difference = {"label": "PACER − Base", "metric": metric, "difference": 0.03, "p": 0.004, "over": "patients"}
    return {"rows": rows, "differences": [difference | dict(zip(("low", "high"), interval, strict=True))]}


@pytest.mark.parametrize(
    ("metric", "apart", "interval", "mark"),
    [
        ("f1", (0.03, 0.02), (0.02, 0.04), "✓"),
        ("f1", (0.03, -0.01), (0.02, 0.04), "?"),  # a replicate disagrees
        ("f1", (0.03, 0.02), (-0.02, 0.04), "?"),
        ("f1", (0.001, 0.002), (-0.01, 0.009), "✗"),  # too small to matter
        ("bleu4", (0.001, 0.002), (-0.01, 0.009), "?"),
        ("f1", (-0.03, -0.02), (-0.04, -0.02), "✗"),
        ("contradiction_rate", (-0.03, -0.02), (-0.04, -0.02), "✓"),
        ("contradiction_rate", (0.03, 0.02), (0.02, 0.04), "✗"),
    ],
)
def test_answer(
    bench: dict[str, Any], metric: str, apart: tuple[float, ...], interval: tuple[float, float], mark: str
) -> None:
    found = result(*apart, metric=metric, interval=interval)
    assert bench["mark"](found, found["differences"][0]) == mark


def test_tables(bench: dict[str, Any]) -> None:
    found = result(0.03, 0.01)
    assert bench["rows"](found)[2:4] == ["| Base | .500 ± .000 |", "| PACER | .520 ± .014 |"]
    assert bench["differences"](found)[2] == "| PACER − Base | +.030 (+.020 to +.040) ✓ .004 |"


def test_a_row_stands_with_all_its_differences(bench: dict[str, Any]) -> None:
    found = result(0.03, 0.01)
    found["differences"].append(found["differences"][0] | {"label": "PACER − Refine only", "difference": -0.01})
    found["rows"]["Refine only"] = found["rows"]["Base"]
    last = bench["gains"](found)[3]
    assert last.endswith(
        "| .530, .510 | Base: +.030 (+.020 to +.040) ✓ .008; Refine only: −.010 (+.020 to +.040) ✓ .008 |"
    )


def test_scores_by_context(bench: dict[str, Any]) -> None:
    row = {name: {"f1": {"42": value, "43": value + 0.02}} for name, value in (("sn", 0.5), ("sw", 0.7), ("mean", 0.6))}
    row["mean"] |= {"bleu4": {"42": 0.1}, "truth": {"42": 0.4}}
    row["sn"] |= {bench["UNFOUNDED"]: {"42": 0.94}, "gate": {"42": 0.0}}
    head, _, line, _ = bench["contexts"]({"rows": {"frozen": row}})
    assert "F1 (sn sw)" in head and "unfounded (sn)" in head
    assert line == "| frozen | .610 (.51 .71) | .100 | .400 | .00 | .94 |"


def test_what_the_previous_report_contributes_is_paired(bench: dict[str, Any]) -> None:
    scores = {"prior_f1": {"1": 0.7, "2": 0.8, "3": 0.9}}
    scores |= {key: {"1": 0.6, "2": 0.7, "3": 0.8} for key in bench["PREVIOUS"].values()}
    table = bench["previous"]({"rows": {"PACER": {"mean": {}, "sn": {"f1": {"1": 0.5}}, "mw": scores}}})
    assert len(table) == 4
    assert table[2].startswith("| PACER, mw | .800 ± .100 | .700 ± .100 | +.100 |")


def test_tables_of_the_pages_are_those_of_the_committed_files(bench: dict[str, Any]) -> None:
    for page in bench["PAGES"]:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert bench["with_tables"](text) == text, "run `python bench/evidence.py`"


def test_charts_are_those_of_the_committed_files(bench: dict[str, Any]) -> None:
    for study, path in bench["CURVES"].items():
        assert bench["curve"](study) == (ROOT / path).read_text(encoding="utf-8"), "run `python bench/evidence.py`"


#: Sentences of the pages, and what their figures are: differences of a study in a score; ``plain``: the difference
#: alone, ``size``: without its sign.
PACER, READ = "PACER (+ Calibrate)", "PACER, read, agreement"
QUOTED = [
    ("README.md", "PACER's F1 is {size} above", "worlds", "PACER (+ Calibrate) − Base", "f1"),
    ("README.md", "add {size} (", "worlds", f"{READ} − {PACER}", "f1"),
    ("README.md", "but F1 fell by {size}.", "adaptation", "mw, g(h,z,e) − mw, frozen", "f1"),
    ("README.md", "LoRA gained {size} and", "adaptation", "mw, LoRA − mw, frozen", "f1"),
    ("docs/results.md", "| {all} | yes, 5 of 5 | +.059", "worlds", "Refine only − Base", "f1"),
    ("docs/results.md", "| {all} | yes, 5 of 5 | +.020", "worlds", "Refine + Commit − Commit only", "f1"),
    ("docs/results.md", "| {all} | 5 of 5, but not", "worlds", "Commit only − Base", "f1"),
    ("docs/results.md", "| {all} | not shown, 4 of 5", "worlds", "Refine + Commit − Refine only", "f1"),
    ("docs/results.md", "| {all} | yes, 5 of 5 | −.047", "worlds", "PACER (+ Calibrate) − Base", "f1"),
    ("docs/results.md", "| {all} | yes, 5 of 5 | +.025", "worlds", f"PACER, select: agreement − {PACER}", "f1"),
    ("docs/results.md", "| {all} | yes, 5 of 5 | +.164", "worlds", f"{READ} − {PACER}", "f1"),
    ("docs/results.md", "BLEU-4 {all}, F1", "adaptation", "mw, g(h,z,e) − mw, frozen", "bleu4"),
    ("docs/results.md", "F1 {all}, each in every seed", "adaptation", "mw, g(h,z,e) − mw, frozen", "f1"),
    ("docs/results.md", "gains F1 {plain}, BLEU-4", "adaptation", "mw, LoRA − mw, frozen", "f1"),
    ("docs/results.md", "Refine only {all}", "components", "Refine only − Base", "f1"),
    ("docs/results.md", "Commit only {all}", "components", "Commit only − Base", "f1"),
    ("docs/results.md", "SimMLM {all}", "main", "SimMLM − PACER", "f1"),
    ("docs/results.md", "RAGPT {all}", "main", "RAGPT − PACER", "f1"),
    ("docs/training.md", "These marks lower F1 by {size},", "emphasis", "computed marks − none", "f1"),
    ("docs/training.md", "released ones by {size} (", "emphasis", "released marks − none", "f1"),
    ("docs/training.md", "F1 rose by {size} and BLEU-4", "worlds", f"PACER, select: agreement − {PACER}", "f1"),
    ("docs/evidence.md", "F1 {all}, BLEU-4 +.005", "suppress", "calibrated - suppressed", "f1"),
    ("docs/evidence.md", "BLEU-4 {all}, each with one sign", "suppress", "calibrated - suppressed", "bleu4"),
]


@pytest.mark.parametrize(("page", "sentence", "study", "label", "metric"), QUOTED)
def test_sentences_quote_the_committed_figures(
    bench: dict[str, Any], page: str, sentence: str, study: str, label: str, metric: str
) -> None:
    if study == "suppress":
        one = read_json(ROOT / "bench/results/suppress.json")[label][metric]
    else:
        known = read_json(ROOT / bench["RESULTS"] / f"{study}.json")["differences"]
        (one,) = (each for each in known if (each["label"], each["metric"]) == (label, metric))
    plain, low, high = (bench["short"](one[key], sign="+") for key in ("difference", "low", "high"))
    figures = {"plain": plain, "size": plain.strip("+−"), "all": f"{plain} ({low} to {high})"}
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert sentence.format(**figures) in text


def test_training_quotes_the_scores_of_commitments() -> None:
    rows = (ROOT / "bench/results/default.md").read_text(encoding="utf-8").splitlines()
    text = " ".join((ROOT / "docs/training.md").read_text(encoding="utf-8").split())
    (read,), (paper,) = (
        [sorted(row.split("|")[2].replace(",", " ").split()) for row in rows if row.startswith(f"| {name} |")]
        for name in ("read at 0.4, agreement", "generated, score")
    )
    assert f"three seeds, F1 of affirmed findings is {read[0]} to {read[-1]}, while" in text
    assert f"the paper's `generated`, `score` has {paper[0]} to {paper[-1]} (" in text


def test_readme_quotes_the_unfounded_mentions(bench: dict[str, Any]) -> None:
    rows = read_json(ROOT / bench["RESULTS"] / "adaptation.json")["rows"]
    names = ("mw, frozen", "mw, g(h,z,e)", "mw, LoRA")
    frozen, calibrated, lora = (round(100 * fmean(rows[name]["sn"][bench["UNFOUNDED"]].values())) for name in names)
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"from {frozen} % to {calibrated} % of `sn` reports" in text and f"and left {lora} %." in text


def test_differences_on_open_i_are_those_of_the_answers() -> None:
    answers = (ROOT / "bench/results/openi/answers.md").read_text(encoding="utf-8").replace("-.", "−.")
    results, evidence = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("results.md", "evidence.md"))
    column = [line.split("|")[-2] for line in results.partition("¹ The parent")[0].splitlines() if line[:1] == "|"]
    section = re.split(r"^## ", evidence, flags=re.MULTILINE)[3]
    quoted = re.findall(r"([+−]\.\d{3}) \(([+−]\.\d{3}) to ([+−]\.\d{3})[;)]", "\n".join([*column, section]))
    assert len(quoted) > 12
    assert [one for one in quoted if "{} ({} to {})".format(*one) not in answers] == []


def test_the_promises_of_the_plan_are_those_that_were_measured(bench: dict[str, Any]) -> None:
    """Means over datasets, from a context to the same: given, exceeded, exceeded by much, true risk above."""
    known = read_json(ROOT / "bench/results/promise.json")
    same, moved, elsewhere = [], [], []
    for name, datasets in known.items():
        source, used = name.split(" → ")
        means = [fmean(value for value in column if value is not None) for column in list(zip(*datasets))[:4]]
        (same if used == source else elsewhere if "dataset" in used else moved).append(means)

    def spread(rows: list[list[float]], column: int) -> tuple[str, str]:
        values = [row[column] for row in rows]
        return bench["short"](min(values), 2), bench["short"](max(values), 2)

    refused = [[1 - row[0]] for row in same]
    text = " ".join((ROOT / "docs/evidence.md").read_text(encoding="utf-8").split())
    assert max(row[2] for row in same) == 0
    assert f"true risk above it in at most {bench['short'](max(row[3] for row in same))}." in text
    assert "exceeded in {} to {}, and refused in".format(*spread(same, 1)) in text
    assert "refused in {} to {} of".format(*spread(refused, 0)) in text
    assert "another dataset: exceeded in {} to {}, by more than .05".format(*spread(elsewhere, 1)) in text
    assert "by more than .05 in up to {1}; another".format(*spread(elsewhere, 2)) in text
    assert "another context: in up to {1}, by more".format(*spread(moved, 1)) in text
    assert "than .05 in up to {1} ([all]".format(*spread(moved, 2)) in text


def test_the_page_has_the_worst_of_each_simulated_population() -> None:
    """And of those together for which a promise has to hold, all but the last two."""
    rows = (ROOT / "bench/results/promise_populations.md").read_text(encoding="utf-8").splitlines()[2:]
    figures = [[float(cell) for cell in row.split("|")[2:-1]] for row in rows]
    worst = [
        [max(one[place : place + len(one) // 3]) for place in range(0, len(one), len(one) // 3)] for one in figures
    ]
    page, evaluation = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("method.md", "evaluation.md"))
    for row, of_levels in zip(rows, worst, strict=True):
        (line,) = (line for line in page.splitlines() if line.startswith(row[:5]))
        assert line.endswith("".join(f" | {share:.3f}" for share in of_levels).replace("0.", ".") + " |")
    together = [f"{max(of_level):.3f}"[1:] for of_level in list(zip(*worst[:-2], strict=True))]
    assert "In the worst of A to I {} break it at 90 %, {} at 95 % and {} at 99 %".format(*together) in page
    text = "{} of the promises at 90 % were broken ({} at 95 %, {} at 99 %), but up to {}".format(
        *together, f"{max(map(max, worst)):.3f}"[1:]
    )
    assert text in evaluation.replace("\n", " ")
