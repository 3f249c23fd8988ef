"""Figures in README.md and docs/ are those of the committed results, and what the benches compute
of them."""

import re
from pathlib import Path
from statistics import fmean
from typing import Any

import evidence
import pytest
import release_check

from pacer.core.io import parse_yaml, read_json
from pacer.metrics.signature import read_scores
from tests.support.cases import cases, listed_cases
from tests.support.repository import ROOT

PAGES = {
    page.name: page.read_text(encoding="utf-8")
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
}
#: A part of `scores.json` that a section gives figures of: "`truth` of `metrics/scores.json`".
NAMED = re.compile(r"`(\w+)` of `metrics/scores\.json`(.*?)(?=^#|\Z)", re.DOTALL | re.MULTILINE)


def differences(study: str, label: str, metric: str) -> dict[str, str]:
    if study == "suppress":
        one = read_json(ROOT / "bench/results/suppress.json")[label][metric]
    else:
        known = read_json(ROOT / evidence.RESULTS / f"{study}.json")["differences"]
        (one,) = (each for each in known if (each["label"], each["metric"]) == (label, metric))
    plain, low, high = (evidence.short(one[key], sign="+") for key in ("difference", "low", "high"))
    return {"plain": plain, "size": plain.strip("+−"), "all": f"{plain} ({low} to {high})"}


def values(file: str, decimals: int | str, *paths: list[str]) -> list[str]:
    found = []
    for path in paths:
        value = read_json(ROOT / file)
        for key in path:
            value = value[key]
        value = fmean(value.values()) if isinstance(value, dict) else value
        forms = {
            "percent": f"{100 * value:.0f}",
            "short": evidence.short(value),
            "two": evidence.short(value, 2),
        }
        found.append(forms.get(str(decimals)) or str(round(value, int(decimals))))
    return found


def cells(file: str, *places: tuple[str, int, int]) -> list[str]:
    """Figures without sign: each is the mean of those at this place of a cell, over the lines that
    start so."""
    lines, found = (ROOT / file).read_text(encoding="utf-8").splitlines(), []
    for start, cell, number in places:
        rows = [line.split("|") for line in lines if re.match(start, line)]
        figures = [re.findall(r"\d*\.\d+", row[cell])[number] for row in rows]
        found.append(evidence.short(fmean(map(float, figures)), len(figures[0].partition(".")[2])))
    return found


def extremes(file: str, start: str, cell: int) -> list[str]:
    (line,) = (
        one
        for one in (ROOT / file).read_text(encoding="utf-8").splitlines()
        if one.startswith(start)
    )
    figures = sorted(line.split("|")[cell].replace(",", " ").split(), key=float)
    return [figures[0], figures[-1]]


def seen() -> list[str]:
    known = parse_yaml(release_check.SEEN.read_text(encoding="utf-8"))
    return [" to ".join(dict.fromkeys(f"{known[end]:.2f}".lstrip("0") for end in ("low", "high")))]


@cases(__file__, "differences", "values", "cells", "extremes", "seen")
def test_sentences_quote_the_committed_figures(kind: str, case: list[Any]) -> None:
    page, sentence, *arguments = case
    figures = globals()[kind](*arguments)
    named, listed = (figures, []) if isinstance(figures, dict) else ({}, figures)
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert sentence.format(*listed, **named) in text


def test_figures_of_the_committed_run_are_those_of_its_scores() -> None:
    """Figures such as .653, after the name of a part of `scores.json`, are rounded from its
    numbers."""
    scores = read_json(ROOT / "metrics" / "scores.json")
    sections = [found for text in PAGES.values() for found in NAMED.findall(text)]
    assert sections
    for part, section in sections:
        for figure in re.findall(r"(?<![\w.])\.\d+", section):
            rounded = {
                f"{value:.{len(figure) - 1}f}".lstrip("0") for value in scores[part].values()
            }
            assert figure in rounded, (part, figure)


def test_scores_and_signature_of_the_committed_run_belong_together() -> None:
    scores, signature = read_scores(ROOT / "metrics")
    assert signature.run and scores["mean"]["f1"] > 0


def test_differences_on_open_i_are_those_of_the_answers() -> None:
    answers = (
        (ROOT / "bench/results/openi/answers.md").read_text(encoding="utf-8").replace("-.", "−.")
    )
    table, _, _ = PAGES["results.md"].partition("¹ The parent")
    column = [line.split("|")[-2] for line in table.splitlines() if line[:1] == "|"]
    section = re.split(r"^## ", PAGES["evidence.md"], flags=re.MULTILINE)[3]
    quoted = re.findall(
        r"([+−]\.\d{3}) \(([+−]\.\d{3}) to ([+−]\.\d{3})[;)]", "\n".join([*column, section])
    )
    assert len(quoted) > 12
    assert [one for one in quoted if "{} ({} to {})".format(*one) not in answers] == []


def test_tables_and_charts_are_those_of_the_committed_files() -> None:
    pages = {
        path: (ROOT / path).read_text(encoding="utf-8")
        for path in (*evidence.PAGES, *evidence.CURVES.values())
    }
    written = {page: evidence.with_tables(pages[page]) for page in evidence.PAGES}
    written |= {path: evidence.curve(study) for study, path in evidence.CURVES.items()}
    assert [str(path) for path, text in written.items() if text != pages[path]] == [], (
        "run `python bench/evidence.py`"
    )


def result(
    *apart: float, metric: str = "f1", interval: tuple[float, float] = (0.02, 0.04)
) -> dict[str, Any]:
    """What two rows measured whose scores are ``apart`` by replicate."""
    base = {str(place): 0.5 for place in range(len(apart))}
    scores = {str(place): 0.5 + value for place, value in enumerate(apart)}
    rows = {"Base": {"mean": {metric: base}}, "PACER": {"mean": {metric: scores}}}
    difference = {
        "label": "PACER − Base",
        "metric": metric,
        "difference": 0.03,
        "p": 0.004,
        "over": "patients",
    }
    return {
        "rows": rows,
        "differences": [difference | dict(zip(("low", "high"), interval, strict=True))],
    }


@pytest.mark.parametrize(("metric", "apart", "interval", "mark"), listed_cases(__file__, "marks"))
def test_answer(metric: str, apart: list[float], interval: tuple[float, float], mark: str) -> None:
    found = result(*apart, metric=metric, interval=interval)
    assert evidence.mark(found, found["differences"][0]) == mark


def test_tables() -> None:
    found = result(0.03, 0.01)
    assert evidence.rows(found)[2:4] == ["| Base | .500 ± .000 |", "| PACER | .520 ± .014 |"]
    assert evidence.differences(found)[2] == "| PACER − Base | +.030 (+.020 to +.040) ✓ .004 |"


def test_scores_by_context() -> None:
    row = {
        name: {"f1": {"42": value, "43": value + 0.02}}
        for name, value in (("sn", 0.5), ("sw", 0.7), ("mean", 0.6))
    }
    row["mean"] |= {"bleu4": {"42": 0.1}, "truth": {"42": 0.4}}
    row["sn"] |= {evidence.UNFOUNDED: {"42": 0.94}, "gate": {"42": 0.0}}
    head, _, line, _ = evidence.contexts({"rows": {"frozen": row}})
    assert "F1 (sn sw)" in head and "unfounded (sn)" in head
    assert line == "| frozen | .610 (.51 .71) | .100 | .400 | .00 | .94 |"


def test_what_the_previous_report_contributes_is_paired() -> None:
    scores = {"prior_f1": {"1": 0.7, "2": 0.8, "3": 0.9}}
    scores |= {key: {"1": 0.6, "2": 0.7, "3": 0.8} for key in evidence.PREVIOUS.values()}
    table = evidence.previous(
        {"rows": {"PACER": {"mean": {}, "sn": {"f1": {"1": 0.5}}, "mw": scores}}}
    )
    assert len(table) == 4
    assert table[2].startswith("| PACER, mw | .800 ± .100 | .700 ± .100 | +.100 |")


def test_a_run_is_placed_by_the_range() -> None:
    seen = {"low": 0.653, "high": 0.68, "seeds": [42, 43, 44], "processors": 3}
    places = {0.6526: "0.653 matches", 0.6521: "0.652 is below", 0.69: "0.690 is above"}
    assert all(words in release_check.verdict(f1, 42, seen) for f1, words in places.items())
    other = release_check.verdict(0.66, 7, seen)
    assert "this run: seed 7" in other and "0.653 to 0.680 (seeds 42, 43, 44" in other


def test_other_parameters_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed = (ROOT / "configs" / "phantom.yaml").read_text(encoding="utf-8")
    files = {"configs/phantom.yaml": committed, "metrics/scores.json": '{"mean": {"f1": 0.66}}'}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(release_check, "ROOT", tmp_path)
    for changed, said in ((committed, True), (committed.replace("rank: 16", "rank: 4", 1), False)):
        (tmp_path / "params.yaml").write_text(changed.replace("seed: 42", "seed: 43"))
        release_check.compare_last_run()
        assert bool(capsys.readouterr().out) == said
