"""A table of experiments by hand, and the published numbers: whole, consistent, and marked as the
paper marks them."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from pacer.core.errors import DataError
from pacer.core.io import write_json
from pacer.display.tables import Table
from pacer.extras.studies import table as tables
from pacer.extras.studies.repository import Repository
from pacer.extras.studies.run import Finished, plan
from pacer.extras.studies.study import Study, StudyRow, load_published, load_study
from pacer.extras.studies.table import (
    ScoredRun,
    build_tables,
    collect,
    published_table,
    write_tables,
)
from pacer.metrics.signature import Signature
from pacer.statistics.halves import Difference
from tests.support.cases import listed_cases
from tests.support.studies import TinyRepository

SIGNATURE = {
    "standin_labeller": True,
    "clinical": {"convention": "llm-rg4", "labeller": {"files": {"a": "1"}}},
    "language": {
        "target": "findings_and_impression",
        "cleaner": "upstream",
        "unseen_comparisons": "keep",
    },
}
#: Signature of a run on the paper's data.
PAPER = SIGNATURE | {"standin_labeller": False}
COUNTS = {"sn": 2357, "sw": 2026, "mn": 1004, "mw": 828}


def study(
    rows: Sequence = ("one", "two", "three"), replicates: Sequence[int] = (1,), **changes: Any
) -> Study:
    described = {"name": "mine", "title": "Mine", "layout": "mean", "metrics": ["f1", "bleu4"]}
    named = [row if isinstance(row, dict) else {"name": row} for row in rows]
    seeds = [{"train.seed": seed} for seed in replicates]
    return Study.model_validate(described | {"rows": named, "replicates": seeds} | changes)


def scored(
    row: str,
    replicate: int,
    contexts: dict,
    signature: dict = SIGNATURE,
) -> ScoredRun:
    return ScoredRun(
        row, str(replicate), Path(f"{row}-{replicate}"), contexts, Signature.of(signature)
    )


def runs_of(case: dict, rows: Sequence[StudyRow]) -> list[ScoredRun]:
    """The runs of a case, which names rows by their index; ``paper``: they are on the paper's data;
    ``worlds``: each replicate has other records."""
    signature = PAPER if case.get("paper") else SIGNATURE
    return [
        scored(
            rows[row].name,
            seed,
            contexts,
            signature | ({"data": {"records": seed}} if case.get("worlds") else {}),
        )
        for row, seed, contexts in case["runs"]
    ]


def blocks(table: Table) -> list[tuple[str, dict[str, list[str]]]]:
    """Heading and lines of every block."""
    read: list[tuple[str, dict[str, list[str]]]] = []
    for row, (label, *cells) in enumerate(table.rows):
        if table.begins_group(row):
            heading = table.headings.get(row)
            read.append((heading.text if heading else "", {}))
        read[-1][1][label] = cells
    return read


@pytest.mark.parametrize("case", listed_cases(__file__, "tables"))
def test_cells_and_notes(case: dict) -> None:
    settings = study(**case["study"])
    table, *published = build_tables(settings, runs_of(case, settings.rows))
    assert len(published) == ("published" in case)
    assert list(table.columns[1:]) == case.get("columns", ["F1", "B@4"][: len(table.columns) - 1])
    for shown, expected in zip(
        (table, *published), (case["blocks"], case.get("published")), strict=False
    ):
        read = blocks(shown)
        assert [heading for heading, _ in read] == [heading for heading, _ in expected]
        for (_, lines), (_, wanted) in zip(read, expected, strict=True):
            assert {label: lines[label] for label in wanted} == wanted
    for note in case.get("notes", []):
        assert any(line.startswith(note) for line in table.notes), table.notes


@pytest.mark.parametrize("case", listed_cases(__file__, "differences"))
def test_rows_that_are_tested(case: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    settings = study(**case["study"])
    places = {row.name: str(place) for place, row in enumerate(settings.rows)}

    def compare(repeats) -> dict[str, Difference]:
        names = [[str(folder).rpartition("-") for folder in pair] for pair in repeats]
        asked.append([[f"{places[row]}-{label}" for row, _, label in pair] for pair in names])
        return {"f1": Difference(0.5, 0.5, -0.0123, -0.02, 0.001, 0.0004)}

    monkeypatch.setattr(tables, "compare_repeats", compare)
    table, tested = build_tables(settings, runs_of(case, settings.rows))
    assert asked == case["asked"]
    assert [list(row) for row in tested.rows] == case["lines"]
    for note in case.get("notes", []):
        assert sum(line.startswith(note) for line in table.notes) == 1, table.notes
    assert not any("not scored" in note for note in table.notes)


def on_mimic(
    row: str = "one",
    n: dict = COUNTS,
    signature: dict | None = None,
    language: dict | None = None,
) -> ScoredRun:
    """A run on the paper's data, but for what is given."""
    data = PAPER | (signature or {}) | {"language": PAPER["language"] | (language or {})}
    return scored(row, 1, {context: {"f1": 0.5, "n": count} for context, count in n.items()}, data)


@pytest.mark.parametrize("changes", listed_cases(__file__, "apart"))
def test_only_runs_that_were_scored_alike_stand_beside_the_published_rows(
    changes: dict[str, Any],
) -> None:
    def captions(*runs: ScoredRun) -> list[str]:
        rows = ["one", "two"][: max(1, len(runs))]
        settings = study(rows=rows, metrics=["f1"], published="components")
        return [table.caption for table in build_tables(settings, list(runs))]

    published = "Table 3 of the paper: Component ablations"
    for runs in ([on_mimic()], [], [on_mimic(), on_mimic("two")]):
        assert captions(*runs) == ["Mine", published]
    for runs in ([on_mimic(**changes)], [on_mimic(), on_mimic("two", **changes)]):
        assert captions(*runs) == ["Mine"]


def test_a_row_that_cannot_be_compared_leaves_the_table_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def compare(repeats) -> dict[str, Difference]:
        raise DataError("record sn-1 has another reference")

    monkeypatch.setattr(tables, "compare_repeats", compare)
    rows = ("one", "two", "three")
    runs = [scored(row, 1, {"sn": {"f1": 0.5, "bleu4": 0.1}}) for row in rows]
    [table] = build_tables(study(against="two"), runs)
    assert len(blocks(table)) == 1
    assert "one was not tested against two: record sn-1 has another reference." in table.notes


def test_rows_with_other_contexts_make_no_table(
    tiny: TinyRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = plan(load_study(tiny.folder / "studies", "tiny"), Repository(tiny.folder))[:2]
    for run, context in zip(runs, ("sn", "mw"), strict=True):
        write_json(tiny.folder / run.name / "scores.json", {context: {"f1": 0.25}})
        write_json(tiny.folder / run.name / "signature.json", SIGNATURE)
    found = [Finished(run, run.name, "") for run in runs]
    monkeypatch.setattr(tables, "finished", lambda runs, repository: found)
    monkeypatch.setattr(tables, "kept_files", lambda _, one: tiny.folder / one.name)
    settings = load_study(tiny.folder / "studies", "tiny")
    with pytest.raises(
        DataError, match="the same contexts, but these differ: no gate in sn; direct"
    ):
        collect(settings, Repository(tiny.folder))


def test_both_formats_have_the_scores_and_the_differences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells, marks and notes in either format: the tests of tables."""
    runs = [scored(row, 1, {"sn": {"f1": 0.5, "bleu4": 0.1}}) for row in ("A & <b>", "two")]
    difference = {"f1": Difference(0.5, 0.5, -0.0123, -0.02, 0.001, 0.0004)}
    monkeypatch.setattr(tables, "compare_repeats", lambda repeats: difference)
    built = build_tables(study(rows=["A & <b>", "two"], against="A & <b>"), runs)
    text, tex = write_tables(built, tmp_path), (tmp_path / "table.tex").read_text()
    assert text == (tmp_path / "table.md").read_text() and built[0].markdown(caption=False) in text
    assert "## Mine: differences, case by case" in text and "| two − A & <b> |" in text
    assert tex.count("\\begin{table}") == tex.count("\\end{table}") == 2 and "A \\& $<$b$>$" in tex


TABLES = load_published()
BLOCKS = [(name, block) for name, table in TABLES.items() for block in table["blocks"]]
CONTEXTS = ("SN", "SW", "MN", "MW")


def values(name: str, block: str, system: str) -> dict[str, float]:
    [lines] = [lines for head, lines in blocks(published_table(TABLES[name])) if head == block]
    cells = zip(TABLES[name]["metrics"], lines[system], strict=True)
    return {metric: float(text) for metric, text in cells if text != "–"}


def test_tables_have_the_papers_size_and_every_value_its_form() -> None:
    sizes = [
        (name, len(table["metrics"]), [len(block["rows"]) for block in table["blocks"]])
        for name, table in TABLES.items()
    ]
    assert sizes == [tuple(size.values[0]) for size in listed_cases(__file__, "sizes")]
    rows = [row for _, block in BLOCKS for row in block["rows"].values()]
    assert all(
        re.fullmatch(r"–|([*_]?)\d\.\d{3}\1", value) for row in rows for value in row.split()
    )
    for name, table in TABLES.items():
        named = {system for block in table["blocks"] for system in block["rows"]}
        assert set(table["provenance"]) == named, name


def marks_of(column: list[str]) -> list[str]:
    """The marks that the printed values of a column should have: best, second best or none; a dash
    is no value."""
    best = sorted({float(text) for text in column if text != "–"}, reverse=True)
    marks = dict(zip(best, "*_"))
    return [marks.get(float(text), "") if text != "–" else "" for text in column]


@pytest.mark.parametrize(
    ("name", "block"), BLOCKS, ids=lambda part: part["name"] if isinstance(part, dict) else part
)
def test_the_rows_of_a_block_agree_with_one_another(name: str, block: dict) -> None:
    """Best bold, second underlined, ties by the printed value. Micro-F1 follows from precision and
    recall, where the paper's own evaluation applies and no mean was taken. BLEU falls with its
    order."""
    printed = [row.split() for row in block["rows"].values()]
    for column in map(list, zip(*printed, strict=True)):
        found = [text.strip("0123456789.–")[:1] for text in column]
        wanted = marks_of([text.strip("*_") for text in column])
        assert found == (wanted if block["marked"] else [""] * len(column))
    for system in block["rows"]:
        found = values(name, block["name"], system)
        bleu = [found[f"bleu{n}"] for n in range(1, 5) if f"bleu{n}" in found]
        assert all(a > b for a, b in pairwise(bleu)), system
        if block["context"] != "mean" and block["name"] != "Literature":
            p, r = found["precision"], found["recall"]
            assert found["f1"] == pytest.approx(2 * p * r / (p + r), abs=0.0011), system


@pytest.mark.parametrize(("block", "system", "component"), listed_cases(__file__, "shared"))
def test_shared_configurations_have_the_same_numbers(
    block: str, system: str, component: str
) -> None:
    assert values("mechanisms", block, system) == values("components", "Components", component)


def test_what_the_papers_text_says_of_its_tables() -> None:
    """It averages before rounding and says that the component table may differ by 0.001."""
    for metric, value in values("components", "Components", "PACER (+ Calibrate)").items():
        contexts = [values("main", name, "PACER (Ours)")[metric] for name in CONTEXTS]
        assert value == pytest.approx(fmean(contexts), abs=0.001 + 1e-9)
    gains = [
        round(values("main", c, "PACER (Ours)")["f1"] - values("main", c, "LLM-RG4")["f1"], 3)
        for c in CONTEXTS
    ]
    assert (min(gains), max(gains)) == (0.023, 0.028)
    pacer, other = (
        values("conventional_sn", "Common test set", s) for s in ("PACER (Ours)", "LLM-RG4")
    )
    assert (pacer["f1"], pacer["recall"]) == (0.620, 0.654)
    assert [round(pacer[m] - other[m], 3) for m in ("f1", "recall")] == [0.032, 0.061]
