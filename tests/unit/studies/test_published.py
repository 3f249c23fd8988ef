"""The published numbers: whole, consistent with one another, and marked as the paper marks them."""

import re
from itertools import pairwise
from statistics import fmean

import pytest
from ruamel.yaml import YAML

from pacer.studies.study import PUBLISHED, PublishedBlock, load_published
from pacer.studies.table import ranked
from tests.support.cases import listed_cases

TABLES = load_published()
BLOCKS = [(name, block) for name, table in TABLES.items() for block in table.blocks]
CONTEXTS = ("SN", "SW", "MN", "MW")


def values(name: str, block: str, system: str) -> dict[str, float]:
    [found] = [b for b in TABLES[name].blocks if b.name == block]
    return {metric: float(value.text) for metric, value in found.rows[system].items() if value.text is not None}


def test_tables_have_the_papers_size_and_every_value_its_form() -> None:
    sizes = [(name, len(table.metrics), [len(b.rows) for b in table.blocks]) for name, table in TABLES.items()]
    assert sizes == [tuple(size.values[0]) for size in listed_cases(__file__, "sizes")]
    raw = YAML(typ="safe").load(PUBLISHED.read_text(encoding="utf-8"))["tables"]
    rows = [row for table in raw.values() for block in table["blocks"] for row in block["rows"].values()]
    assert all(re.fullmatch(r"--|([*_]?)\d\.\d{3}\1", value) for row in rows for value in row.split())
    for name, table in TABLES.items():
        assert set(table.provenance) == {system for block in table.blocks for system in block.rows}, name


@pytest.mark.parametrize(("name", "block"), BLOCKS, ids=lambda part: getattr(part, "name", part))
def test_the_rows_of_a_block_agree_with_one_another(name: str, block: PublishedBlock) -> None:
    """Best bold, second underlined, ties by the printed value, as in the tables of studies. Micro-F1 follows from
    precision and recall, where the paper's own evaluation applies and no mean was taken. BLEU falls with its order."""
    assert block.marked is any(value.mark for row in block.rows.values() for value in row.values())
    if block.marked:
        printed = {system: [value.text for value in row.values()] for system, row in block.rows.items()}
        lines = ranked(printed, ["higher"] * len(TABLES[name].metrics))
        assert [[cell.mark for cell in cells] for cells in lines.values()] == [
            [value.mark for value in row.values()] for row in block.rows.values()
        ]
    for system in block.rows:
        found = values(name, block.name, system)
        bleu = [found[f"bleu{n}"] for n in range(1, 5) if f"bleu{n}" in found]
        assert all(a > b for a, b in pairwise(bleu)), system
        if block.context != "mean" and block.name != "Literature":
            p, r = found["precision"], found["recall"]
            assert found["f1"] == pytest.approx(2 * p * r / (p + r), abs=0.0011), system


@pytest.mark.parametrize(("block", "system", "component"), listed_cases(__file__, "shared"))
def test_shared_configurations_have_the_same_numbers(block: str, system: str, component: str) -> None:
    assert values("mechanisms", block, system) == values("components", "Components", component)


def test_what_the_papers_text_says_of_its_tables() -> None:
    """It averages before rounding and says that the component table may differ by 0.001."""
    for metric, value in values("components", "Components", "PACER (+ Calibrate)").items():
        contexts = [values("main", name, "PACER (Ours)")[metric] for name in CONTEXTS]
        assert value == pytest.approx(fmean(contexts), abs=0.001 + 1e-9)
    gains = [round(values("main", c, "PACER (Ours)")["f1"] - values("main", c, "LLM-RG4")["f1"], 3) for c in CONTEXTS]
    assert (min(gains), max(gains)) == (0.023, 0.028)
    pacer, other = (values("conventional_sn", "Common test set", s) for s in ("PACER (Ours)", "LLM-RG4"))
    assert (pacer["f1"], pacer["recall"]) == (0.620, 0.654)
    assert [round(pacer[m] - other[m], 3) for m in ("f1", "recall")] == [0.032, 0.061]
