"""Figures that README and docs give of the default run, and what `make repro` says of its own."""

import re
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from pacer.core.errors import DataError
from pacer.core.io import read_json, write_json
from pacer.metrics.signature import read_scores

ROOT = Path(__file__).parents[3]
BENCH = runpy.run_path(str(ROOT / "bench" / "expected.py"))
SEEN = YAML(typ="safe").load(BENCH["SEEN"].read_text(encoding="utf-8"))
PAGES = {page.name: page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]}
#: A part of `scores.json` that a section gives figures of: "`truth` of `metrics/scores.json`".
NAMED = re.compile(r"`(\w+)` of `metrics/scores\.json`(.*?)(?=^#|\Z)", re.DOTALL | re.MULTILINE)


def unknown_figures(text: str, scores: dict[str, Any]) -> list[str]:
    """Figures such as .653, after the name of a part of `scores.json`, that none of its numbers rounds to."""
    return [
        figure
        for part, section in NAMED.findall(text)
        for figure in re.findall(r"(?<![\w.])\.\d+", section)
        if figure.lstrip("0") not in {f"{value:.{len(figure) - 1}f}".lstrip("0") for value in scores[part].values()}
    ]


def test_the_difference_that_readme_quotes_is_from_the_committed_scores() -> None:
    mean = read_json(ROOT / "metrics" / "scores.json")["mean"]
    quoted = re.findall(r"scores\.json  mean\.(\w+) +([\d.]+)", PAGES["README.md"])
    assert len(quoted) == 3 and all(round(mean[key], 5) == float(value) for key, value in quoted)  # as DVC prints it


def test_figures_of_the_committed_run_are_those_of_its_scores() -> None:
    scores = read_json(ROOT / "metrics" / "scores.json")
    assert any(NAMED.search(text) for text in PAGES.values())
    assert {name: wrong for name, text in PAGES.items() if (wrong := unknown_figures(text, scores))} == {}


def test_scores_and_signature_of_the_committed_run_belong_together(tmp_path: Path) -> None:
    scores, signature = read_scores(ROOT / "metrics")
    assert signature.run and scores["mean"]["f1"] > 0
    for name in ("scores.json", "signature.json"):
        shutil.copy(ROOT / "metrics" / name, tmp_path)
    write_json(tmp_path / "scores.json", scores | {"mean": scores["mean"] | {"f1": 0.9}})
    with pytest.raises(DataError, match="come from different runs"):
        read_scores(tmp_path)


def test_readme_gives_the_range_that_was_seen() -> None:
    low, high = (f"{SEEN[end]:.2f}".lstrip("0") for end in ("low", "high"))
    assert f"mean F1 {low}{f' to {high}' if high != low else ''};" in PAGES["README.md"]


def test_a_run_is_placed_by_the_range() -> None:
    seen = {"low": 0.653, "high": 0.68, "seeds": [42, 43, 44], "processors": 3}
    places = {0.6526: "0.653 is within", 0.6521: "0.652 is below", 0.69: "0.690 is above"}
    assert all(words in BENCH["verdict"](f1, 42, seen) for f1, words in places.items())
    other = BENCH["verdict"](0.66, 7, seen)
    assert "this run: seed 7" in other and "0.653 to 0.680 (seeds 42, 43, 44" in other


def test_other_parameters_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    committed = (ROOT / "configs" / "phantom.yaml").read_text(encoding="utf-8")
    (tmp_path / "configs").mkdir()
    (tmp_path / "metrics").mkdir()
    (tmp_path / "configs" / "phantom.yaml").write_text(committed)
    (tmp_path / "metrics" / "scores.json").write_text('{"mean": {"f1": 0.66}}')
    main = BENCH["main"]
    main.__globals__["ROOT"] = tmp_path
    for changed, said in ((committed, True), (committed.replace("rank: 16", "rank: 4", 1), False)):
        (tmp_path / "params.yaml").write_text(changed.replace("seed: 42", "seed: 43"))
        main()
        assert bool(capsys.readouterr().out) == said
