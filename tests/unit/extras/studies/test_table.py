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
from pacer.extras.studies.study import PublishedBlock, Study, StudyRow, load_published
from pacer.extras.studies.table import ScoredRun, build_tables, collect, ranked, write_tables
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
PARAMS = {
    "corpus": {"source": "phantom", "format": "rg4", "limit": None},
    "decode": {"split": "test", "limit": None},
}
#: Signature and parameters of a run on the paper's data.
PAPER = (
    SIGNATURE | {"standin_labeller": False},
    PARAMS | {"corpus": PARAMS["corpus"] | {"source": "files"}},
)
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
    replicate: int | None,
    contexts: dict,
    signature: dict = SIGNATURE,
    params: dict | None = PARAMS,
) -> ScoredRun:
    label = None if replicate is None else str(replicate)
    return ScoredRun(row, label, Path(f"{row}-{label}"), contexts, Signature.of(signature), params)


def runs_of(case: dict, rows: Sequence[StudyRow]) -> list[ScoredRun]:
    """The runs of a case, which names rows by their index; ``paper``: they are on the paper's data;
    ``worlds``: each replicate has other records."""
    signature, params = PAPER if case.get("paper") else (SIGNATURE, PARAMS)
    return [
        scored(
            rows[row].name,
            seed,
            contexts,
            signature | ({"data": {"records": seed}} if case.get("worlds") else {}),
            params,
        )
        for row, seed, contexts in case["runs"]
    ]


def blocks(table: Table) -> list[tuple[str, dict[str, list[str]]]]:
    """Heading and lines of every block; a cell's mark stands behind its text."""
    read: list[tuple[str, dict[str, list[str]]]] = []
    for row, (label, *cells) in enumerate(table.rows):
        if table.begins_group(row):
            heading = table.headings.get(row)
            read.append((heading.text if heading else "", {}))
        marks = [table.marks.get((row, column)) for column in range(1, len(cells) + 1)]
        read[-1][1][label] = [
            f"{cell} {mark}" if mark else cell for cell, mark in zip(cells, marks, strict=True)
        ]
    return read


@pytest.mark.parametrize("case", listed_cases(__file__, "tables"))
def test_cells_marks_and_notes(case: dict) -> None:
    settings = study(**case["study"])
    [table] = build_tables(settings, runs_of(case, settings.rows))
    read = blocks(table)
    assert list(table.columns[1:]) == case.get("columns", ["F1", "B@4"][: len(table.columns) - 1])
    assert [heading for heading, _ in read] == [heading for heading, _ in case["blocks"]]
    for (_, lines), (_, expected) in zip(read, case["blocks"], strict=True):
        assert {label: lines[label] for label in expected} == expected
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
    corpus: dict | None = None,
    decode: dict | None = None,
) -> ScoredRun:
    """A run on the paper's data, but for what is given."""
    data = PAPER[0] | (signature or {}) | {"language": PAPER[0]["language"] | (language or {})}
    params = {
        "corpus": PAPER[1]["corpus"] | (corpus or {}),
        "decode": PAPER[1]["decode"] | (decode or {}),
    }
    return scored(
        row, 1, {context: {"f1": 0.5, "n": count} for context, count in n.items()}, data, params
    )


@pytest.mark.parametrize("changes", listed_cases(__file__, "apart"))
def test_only_runs_on_the_papers_own_data_stand_beside_the_published_rows(
    changes: dict[str, Any],
) -> None:
    def of(*runs: ScoredRun) -> tuple[list[str], str]:
        rows = ["one", "two"][: max(1, len(runs))]
        settings = study(rows=rows, metrics=["f1"], published="components")
        [table] = build_tables(settings, list(runs))
        return [heading for heading, _ in blocks(table)], " ".join(table.notes)

    for runs in ([on_mimic()], [], [on_mimic(), on_mimic("two", **changes)]):
        headings, notes = of(*runs)
        assert headings == ["", "Components (published)"] and "not shown" not in notes
        assert "Rows can be compared with them only if they are for all records" in notes
    headings, notes = of(on_mimic(**changes))
    assert headings == [""] and "Published rows are not shown" in notes


def test_foreign_scores_are_known_by_the_number_of_their_records() -> None:
    rows = [{"name": "theirs", "files": "theirs"}]
    theirs = on_mimic("theirs")._replace(params=None, replicate=None)
    [table] = build_tables(study(rows=rows, metrics=["f1"], published="components"), [theirs])
    assert [heading for heading, _ in blocks(table)] == ["", "Components (published)"]
    fewer = on_mimic("theirs", n={"sn": 2000}, language={"target": "findings"})
    fewer = fewer._replace(params=None, replicate=None)
    settings = study(rows=rows, metrics=["f1"], published="transfer", layout="contexts")
    assert any("not shown" in note for note in build_tables(settings, [fewer])[0].notes)


@pytest.mark.parametrize("part", listed_cases(__file__, "differently"))
def test_rows_that_were_scored_differently_are_told(part: dict) -> None:
    signature = SIGNATURE | {
        "data": {"records": "a", "predictions/sn": "x"},
    }
    for changed in (part, {}):
        n = changed.get("n", 8)
        runs = [
            scored("one", 1, {"sn": {"f1": 0.5, "n": 8}}, signature),
            scored("two", 1, {"sn": {"f1": 0.5, "n": n}}, signature | changed),
        ]
        [table] = build_tables(study(), runs)
        assert any("rows were scored alike" in note for note in table.notes) is bool(changed)


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


def test_scores_of_other_outputs_stand_beside_runs(tiny: TinyRepository) -> None:
    rows = [
        {"name": "ours"},
        {"name": "theirs", "files": "data/external/theirs"},
        {"name": "absent", "files": "data/external/absent"},
    ]
    settings = study(rows=rows, metrics=["f1"], notes=["No row here for Base: nobody has it."])
    write_json(tiny.folder / "data/external/theirs/scores.json", {"sn": {"f1": 0.25}})
    write_json(tiny.folder / "data/external/theirs/signature.json", SIGNATURE)
    [table] = build_tables(settings, collect(settings, Repository(tiny.folder)))
    assert blocks(table) == [("", {"ours": ["–"], "theirs": ["0.250"], "absent": ["–"]})]
    assert table.notes[-3:] == (
        "ours: not run yet with 1.",
        "absent: data/external/absent has no scores; run `pacer score --out data/external/absent`.",
        "No row here for Base: nobody has it.",
    )
    write_json(tiny.folder / "data/external/absent/scores.json", {"mw": {"f1": 0.25}})
    write_json(tiny.folder / "data/external/absent/signature.json", SIGNATURE)
    with pytest.raises(DataError, match="the same contexts"):
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
BLOCKS = [(name, block) for name, table in TABLES.items() for block in table.blocks]
CONTEXTS = ("SN", "SW", "MN", "MW")


def values(name: str, block: str, system: str) -> dict[str, float]:
    table = TABLES[name]
    [found] = [b for b in table.blocks if b.name == block]
    [row] = [row for row in table.rows(found, table.metrics) if row[0] == system]
    return {
        metric: float(text)
        for metric, text in zip(table.metrics, row[1:], strict=True)
        if text != "–"
    }


def test_tables_have_the_papers_size_and_every_value_its_form() -> None:
    sizes = [
        (name, len(table.metrics), [len(b.rows) for b in table.blocks])
        for name, table in TABLES.items()
    ]
    assert sizes == [tuple(size.values[0]) for size in listed_cases(__file__, "sizes")]
    rows = [row for _, block in BLOCKS for row in block.rows.values()]
    assert all(
        re.fullmatch(r"–|([*_]?)\d\.\d{3}\1", value) for row in rows for value in row.split()
    )
    for name, table in TABLES.items():
        assert set(table.provenance) == {
            system for block in table.blocks for system in block.rows
        }, name


@pytest.mark.parametrize(("name", "block"), BLOCKS, ids=lambda part: getattr(part, "name", part))
def test_the_rows_of_a_block_agree_with_one_another(name: str, block: PublishedBlock) -> None:
    """Best bold, second underlined, ties by the printed value, as in tables of experiments.
    Micro-F1 follows from precision and recall, where the paper's own evaluation applies and no mean
    was taken. BLEU falls with its order."""
    table, signs = TABLES[name], {"*": "best", "_": "second"}
    marks = {
        (place, column): signs[text[0]]
        for place, row in enumerate(block.rows.values())
        for column, text in enumerate(row.split(), 1)
        if text[0] in signs
    }
    assert block.marked is bool(marks)
    if block.marked:
        better = [None, *["higher"] * len(table.metrics)]
        assert ranked(table.rows(block, table.metrics), better) == marks
    for system in block.rows:
        found = values(name, block.name, system)
        bleu = [found[f"bleu{n}"] for n in range(1, 5) if f"bleu{n}" in found]
        assert all(a > b for a, b in pairwise(bleu)), system
        if block.context != "mean" and block.name != "Literature":
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
