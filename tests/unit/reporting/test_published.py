"""The published numbers: whole, consistent with one another, and marked as the paper marks them."""

from __future__ import annotations

import re
from itertools import pairwise
from statistics import fmean

import pytest

from pacer.reporting import published
from pacer.reporting.published import PublishedBlock, load_published
from pacer.studies.table import ranked

TABLES = load_published()
BLOCKS = [(name, block) for name, table in TABLES.items() for block in table.blocks]


def values(name: str, block: str, system: str) -> dict[str, float]:
    [found] = [b for b in TABLES[name].blocks if b.name == block]
    return {metric: float(value.text) for metric, value in found.rows[system].items() if value.text is not None}


def test_tables_have_the_papers_size() -> None:
    sizes = {name: [len(block.rows) for block in table.blocks] for name, table in TABLES.items()}
    assert sizes == {
        "main": [6] * 4,
        "conventional_sn": [10, 10],
        "components": [5],
        "mechanisms": [3, 3, 5],
        "transfer": [7],
    }
    assert {name: len(table.metrics) for name, table in TABLES.items()} == {
        "main": 9,
        "conventional_sn": 9,
        "components": 6,
        "mechanisms": 6,
        "transfer": 6,
    }


@pytest.mark.parametrize(("name", "block"), BLOCKS, ids=lambda part: getattr(part, "name", part))
def test_marks_follow_the_rule_of_the_tables_of_studies(name: str, block: PublishedBlock) -> None:
    """Best bold, second underlined, ties by the printed value: in every marked block of the paper."""
    assert block.marked is any(value.mark for row in block.rows.values() for value in row.values())
    if block.marked:
        printed = {system: [value.text for value in row.values()] for system, row in block.rows.items()}
        lines = ranked(printed, ["higher"] * len(TABLES[name].metrics))
        assert [[cell.mark for cell in cells] for cells in lines.values()] == [
            [value.mark for value in row.values()] for row in block.rows.values()
        ]


@pytest.mark.parametrize(("name", "block"), BLOCKS, ids=lambda part: getattr(part, "name", part))
def test_every_system_has_a_provenance_and_every_provenance_a_system(name: str, block: PublishedBlock) -> None:
    assert set(block.rows) <= set(TABLES[name].provenance)
    assert set(TABLES[name].provenance) == {system for b in TABLES[name].blocks for system in b.rows}


@pytest.mark.parametrize(("name", "block"), BLOCKS, ids=lambda part: getattr(part, "name", part))
def test_micro_f1_follows_from_precision_and_recall(name: str, block: PublishedBlock) -> None:
    """Where the paper says that its own micro-averaged evaluation applies, and no mean was taken."""
    if block.context == "mean" or block.name == "Literature":
        return
    for system in block.rows:
        found = values(name, block.name, system)
        p, r = found["precision"], found["recall"]
        assert found["f1"] == pytest.approx(2 * p * r / (p + r), abs=0.0011), system


def test_bleu_falls_with_its_order() -> None:
    for block in TABLES["main"].blocks:
        for system in block.rows:
            found = values("main", block.name, system)
            assert all(a > b for a, b in pairwise(found[f"bleu{n}"] for n in range(1, 5))), system


def test_the_component_row_is_the_mean_of_the_four_contexts() -> None:
    """The paper averages before rounding and says that its table may differ by 0.001."""
    mean = values("components", "Components", "PACER (+ Calibrate)")
    for metric, value in mean.items():
        contexts = [values("main", name, "PACER (Ours)")[metric] for name in ("SN", "SW", "MN", "MW")]
        assert value == pytest.approx(fmean(contexts), abs=0.001 + 1e-9)


@pytest.mark.parametrize(
    ("group", "system", "component"),
    [
        ("Refine", "No Refine (endpoint only)", "Commit only"),
        ("Refine", "Patchwise depth routing", "Refine + Commit"),
        ("Commit", "No Commit (direct report)", "Refine only"),
        ("Commit", "Stochastic trajectory routing", "Refine + Commit"),
        ("Calibrate", "No Calibrate (no prefix routing)", "Refine + Commit"),
        ("Calibrate", "g(h,z,e) (PACER)", "PACER (+ Calibrate)"),
    ],
)
def test_shared_configurations_have_the_same_numbers(group: str, system: str, component: str) -> None:
    assert values("mechanisms", group, system) == values("components", "Components", component)


def test_what_the_papers_text_says_of_its_tables() -> None:
    gains = [
        round(values("main", c, "PACER (Ours)")["f1"] - values("main", c, "LLM-RG4")["f1"], 3)
        for c in ("SN", "SW", "MN", "MW")
    ]
    assert (min(gains), max(gains)) == (0.023, 0.028)
    own, other = (values("conventional_sn", "Common test set", s) for s in ("PACER (Ours)", "LLM-RG4"))
    assert (own["f1"], own["recall"]) == (0.620, 0.654)
    assert [round(own[m] - other[m], 3) for m in ("f1", "recall")] == [0.032, 0.061]


@pytest.mark.parametrize("row", ["0.5", "*0.500_", "0.500 0.500", "0,500", "-"])
def test_a_malformed_value_is_refused(row: str) -> None:
    with pytest.raises(Exception, match=re.escape("system")):
        published._row("system", row, ("f1",))
