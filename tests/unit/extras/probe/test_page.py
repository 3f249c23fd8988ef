"""The tables of a probe, and its verdicts in words."""

from dataclasses import replace

import pytest

from pacer.display.tables import Heading
from pacer.extras.probe.make import COVERED, ELSEWHERE, GIVEN
from pacer.extras.probe.page import use_table, verdict_sentence, verdict_table
from pacer.extras.probe.use import FindingUse, SystemUse, Use, Verdict
from pacer.statistics.halves import Difference
from tests.support.cases import listed_cases


def test_the_use_of_sources_has_a_row_a_twin_below_its_system():
    gain = Difference(0.4, 0.6, 0.2, 0.1, 0.3, None)
    use, chance = Use(12, gain, 0.25), Use(12, replace(gain, difference=-0.2), None)
    side = Use(12, replace(gain, low=-0.1, counts=(4, 9)), None)
    system = SystemUse("copies", {"no_prior": use, "chance": chance, "side": side}, [], 3)
    titles = {
        "chance": "another's",
        "side": "side",
        "no_lateral": "no lateral",
        "no_prior": "no previous report",
    }
    table = use_table([system], titles)
    heads = ("Score", "changed", "gain", "Reports that change")
    assert table.columns == ("Changed source", "Verdict", "n", *heads)
    assert table.rows == (
        ("another's", "above chance", "12", "0.600", "0.400", "−0.200 (+0.100…+0.300)", ""),
        ("side", "not above chance", "12", "0.600 (9)", "0.400 (4)", "+0.200 (−0.100…+0.300)", ""),
        ("no previous report", "used", "12", "0.600", "0.400", "+0.200 (+0.100…+0.300)", "0.750"),
    )
    assert table.cell_styles == {(0, 1): "yes", (1, 1): "no", (2, 1): "yes"}
    assert table.headings == {0: Heading("copies", "3 reports are empty")}


@pytest.mark.parametrize(("change", "expected"), listed_cases(__file__, "sentences"))
def test_what_a_system_does_with_a_source_in_words(change: list[float], expected: str):
    low, high, unchanged = change
    use = Use(12, Difference(0.4, 0.5, 0.1, low, high, None), unchanged)
    assert verdict_sentence(SystemUse("mine", {"another_radiograph": use}, [], 0)) == expected


@pytest.mark.parametrize(
    ("boxes", "coverings", "columns", "reason"), listed_cases(__file__, "unclear")
)
def test_findings_without_a_verdict_are_one_row_and_a_note_with_the_reasons(
    boxes, coverings, columns, reason
):
    rates = {GIVEN: 0.5} | ({COVERED: 0.5, ELSEWHERE: 0.5} if coverings else {})
    place = {"place": Difference(0.5, 0.5, 0, -0.2, 0.2, 1)} if coverings > 10 else {}
    one = FindingUse(
        "edema", 40, rates, place, dict.fromkeys(place, coverings), Verdict.UNCLEAR, 91
    )
    table = verdict_table(
        [SystemUse("mine", {}, [replace(one, verdict=Verdict.THERE), one, one], 0)], boxes
    )
    assert len(table.columns) == columns == len(table.rows[0]) == len(table.rows[1])
    assert [row[:2] for row in table.rows] == [
        ("edema", Verdict.THERE),
        ("2 findings", Verdict.UNCLEAR),
    ]
    assert table.notes[0] == f"mine: cannot tell: edema ({reason}), edema ({reason})."
