"""Figures in README.md and docs/ are those of the committed results: sentences, sections, tables and charts."""

import re
import shutil
from pathlib import Path
from statistics import fmean
from typing import Any

import evidence
import expected
import pytest
from ruamel.yaml import YAML

from pacer.core.errors import DataError
from pacer.core.io import read_json, write_json
from pacer.metrics.signature import read_scores
from tests.support.cases import cases
from tests.support.repository import ROOT

PAGES = {page.name: page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]}
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
        found.append(f"{100 * value:.0f}" if decimals == "percent" else str(round(value, int(decimals))))
    return found


def extremes(file: str, start: str, cell: int) -> list[str]:
    (line,) = (one for one in (ROOT / file).read_text(encoding="utf-8").splitlines() if one.startswith(start))
    figures = sorted(line.split("|")[cell].replace(",", " ").split(), key=float)
    return [figures[0], figures[-1]]


def seen() -> list[str]:
    known = YAML(typ="safe").load(expected.SEEN.read_text(encoding="utf-8"))
    return [" to ".join(dict.fromkeys(f"{known[end]:.2f}".lstrip("0") for end in ("low", "high")))]


def promises() -> dict[str, list[str]]:
    """The files have, of each dataset: given, exceeded, exceeded by much, true risk above."""
    means: dict[str, list[list[float]]] = {"same": [], "dataset": [], "context": []}
    for name, datasets in read_json(ROOT / "bench/results/promise.json").items():
        source, used = name.split(" → ")
        columns = [fmean(value for value in column if value is not None) for column in list(zip(*datasets))[:4]]
        means["same" if used == source else "dataset" if "dataset" in used else "context"].append(columns)
    assert all(much == 0 for _, _, much, _ in means["same"])
    found = {"refused": [1 - given for given, *_ in means["same"]]}
    for kind, rows in means.items():
        for name, place in {"": 1, "_much": 2, "_true": 3}.items():
            found[f"{kind}{name}"] = [row[place] for row in rows]
    decimals = {name: 3 if name.endswith("_true") else 2 for name in found}
    return {name: [evidence.short(end(of), decimals[name]) for end in (min, max)] for name, of in found.items()}


def worst_of_populations() -> dict[str, list[float]]:
    """The row of each simulated population, and its highest share of broken promises at each of three confidences."""
    rows = (ROOT / "bench/results/promise_populations.md").read_text(encoding="utf-8").splitlines()[2:]
    figures = {row: [float(cell) for cell in row.split("|")[2:-1]] for row in rows}
    return {
        row: [max(one[part : part + len(one) // 3]) for part in range(0, len(one), len(one) // 3)]
        for row, one in figures.items()
    }


def populations() -> list[str]:
    """All but the last two have to hold."""
    worst = [*worst_of_populations().values()]
    return [f"{share:.3f}"[1:] for share in (*map(max, zip(*worst[:-2], strict=True)), max(map(max, worst)))]


@cases(__file__)
def test_sentences_quote_the_committed_figures(kind: str, case: list[Any]) -> None:
    page, sentence, *arguments = case
    figures = globals()[kind](*arguments)
    named, listed = (figures, []) if isinstance(figures, dict) else ({}, figures)
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert sentence.format(*listed, **named) in text


def test_the_page_has_the_worst_of_each_simulated_population() -> None:
    for row, of_levels in worst_of_populations().items():
        (line,) = (line for line in PAGES["method.md"].splitlines() if line.startswith(row[:5]))
        assert line.endswith("".join(f" | {share:.3f}" for share in of_levels).replace("0.", ".") + " |")


def test_figures_of_the_committed_run_are_those_of_its_scores() -> None:
    """Figures such as .653, after the name of a part of `scores.json`, are rounded from its numbers."""
    scores = read_json(ROOT / "metrics" / "scores.json")
    sections = [found for text in PAGES.values() for found in NAMED.findall(text)]
    assert sections
    for part, section in sections:
        for figure in re.findall(r"(?<![\w.])\.\d+", section):
            rounded = {f"{value:.{len(figure) - 1}f}".lstrip("0") for value in scores[part].values()}
            assert figure in rounded, (part, figure)


def test_scores_and_signature_of_the_committed_run_belong_together(tmp_path: Path) -> None:
    scores, signature = read_scores(ROOT / "metrics")
    assert signature.run and scores["mean"]["f1"] > 0
    for name in ("scores.json", "signature.json"):
        shutil.copy(ROOT / "metrics" / name, tmp_path)
    write_json(tmp_path / "scores.json", scores | {"mean": scores["mean"] | {"f1": 0.9}})
    with pytest.raises(DataError, match="come from different runs"):
        read_scores(tmp_path)


def test_differences_on_open_i_are_those_of_the_answers() -> None:
    answers = (ROOT / "bench/results/openi/answers.md").read_text(encoding="utf-8").replace("-.", "−.")
    table, _, _ = PAGES["results.md"].partition("¹ The parent")
    column = [line.split("|")[-2] for line in table.splitlines() if line[:1] == "|"]
    section = re.split(r"^## ", PAGES["evidence.md"], flags=re.MULTILINE)[3]
    quoted = re.findall(r"([+−]\.\d{3}) \(([+−]\.\d{3}) to ([+−]\.\d{3})[;)]", "\n".join([*column, section]))
    assert len(quoted) > 12
    assert [one for one in quoted if "{} ({} to {})".format(*one) not in answers] == []


@pytest.mark.parametrize("page", evidence.PAGES, ids=str)
def test_tables_of_the_pages_are_those_of_the_committed_files(page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert evidence.with_tables(text) == text, "run `python bench/evidence.py`"


def test_charts_are_those_of_the_committed_files() -> None:
    for study, path in evidence.CURVES.items():
        assert evidence.curve(study) == (ROOT / path).read_text(encoding="utf-8"), "run `python bench/evidence.py`"
