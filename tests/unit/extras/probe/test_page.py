"""The table of a probe."""

from dataclasses import replace

import pytest

from pacer.display.tables import Heading
from pacer.extras.probe.page import use_table
from pacer.extras.probe.use import FindingUse, SystemUse, Use, Verdict
from pacer.statistics.halves import Difference
from tests.support.cases import listed_cases

GAIN = Difference(0.4, 0.6, 0.2, 0.1, 0.3, None)


def test_a_system_has_a_row_for_each_changed_source_and_each_finding():
    uses = {"no_prior": Use(12, GAIN, 0.25), "chance": Use(12, replace(GAIN, low=-0.1), None)}
    place = Difference(0.013, 0.626, 0.613, 0.5, 0.7, 0.001, counts=(114, 114))
    findings = [
        FindingUse("atelectasis", 120, {}, {"place": place}, Verdict.THERE),
        FindingUse("edema", 40, {}, {}, Verdict.UNCLEAR),
        FindingUse("fracture", 40, {}, {}, Verdict.WITHOUT),
    ]
    table = use_table([SystemUse("copies", uses, findings, 3), SystemUse("b", {}, [], 0)])
    heads = ("Score", "changed", "gain", "Reports that change")
    assert table.columns == ("Changed source", "Verdict", "n", *heads)
    chance = ("another patient's reference (chance)", "not above chance")
    assert table.rows == (
        (*chance, "12", "0.600", "0.400", "+0.200 (−0.100…+0.300)", ""),
        ("no previous report", "used", "12", "0.600", "0.400", "+0.200 (+0.100…+0.300)", "0.750"),
        ("atelectasis", Verdict.THERE, "114", "0.63", "0.01", "+0.61 (+0.50…+0.70)", ""),
        ("fracture", Verdict.WITHOUT, "–", "–", "–", "–", ""),
    )
    styles = {0: "no", 1: "yes", 2: "yes", 3: "no"}
    assert table.cell_styles == {(row, 1): style for row, style in styles.items()}
    assert table.headings == {
        0: Heading("copies", "3 reports are empty"),
        2: Heading("copies, by finding"),
        4: Heading("b"),
    }


@pytest.mark.parametrize(("change", "expected"), listed_cases(__file__, "verdicts"))
def test_the_interval_of_the_gain_decides_the_verdict(change: list, expected: str):
    low, high, unchanged = change
    assert Use(12, replace(GAIN, low=low, high=high), unchanged).verdict == expected
