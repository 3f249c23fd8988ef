"""What the page says of a result: the report against its commitment, and everything escaped."""

import json
import re
from dataclasses import replace
from urllib.parse import unquote

import numpy as np
import polars as pl
import pytest
from PIL import Image

from pacer.commitments.anchor import Anchor, read_list
from pacer.commitments.rules.extract import extract_anchor
from pacer.decoding.reader import AttributeChances
from pacer.metrics import commitments as metrics
from pacer.serving import page as view
from pacer.serving.case import Result
from pacer.serving.reporter import Reporter
from tests.support.cases import listed_cases

REPORT = "There is a small pleural effusion. No pneumothorax; possible edema. The hila are normal."
COMMITMENT = Anchor.of(positive=["pleural effusion"], negative=["pneumothorax", "fracture"], uncertain=[])


@pytest.fixture(scope="module")
def result(reporter: Reporter) -> Result:
    return reporter(Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 70), dtype=np.uint8)))


def test_what_stands_in_a_report_is_text_on_the_page(result: Result) -> None:
    bad = "<script>alert(1)</script> effusion"
    shown = view.result_page(replace(result, report=bad, commitment=COMMITMENT, notes=(bad,)))
    assert "<script" not in shown and "&lt;script&gt;" in shown
    assert "<script" not in view.problem(bad)


def test_a_report_stands_beside_its_commitment(result: Result) -> None:
    shown = view.result_page(replace(result, report=REPORT, commitment=COMMITMENT, fallback=False))
    assert ">effusion</mark>" in shown and 'class="unverified" title="edema: uncertain; not in the comm' in shown
    assert "Stated in the report, but not committed: <b>edema</b> (uncertain)." in shown
    assert "Committed, but not stated this way in the report: <b>fracture</b> (negative)." in shown
    assert "agrees with its commitment" not in shown
    raw = view.result_page(replace(result, report=REPORT, commitment=COMMITMENT, fallback=True))
    assert 'class="unverified"' not in raw and "not committed" not in raw, "no report stands after this commitment"


@pytest.mark.parametrize(("report", "departures", "contradictions"), listed_cases(__file__, "departures"))
def test_a_result_says_where_its_report_departs_from_its_commitment(
    result: Result, report: str, departures: dict[str, str | None], contradictions: list[str]
) -> None:
    """As the scores do (:mod:`pacer.metrics.commitments`), and the page in words."""
    departs = replace(result, report=report, commitment=COMMITMENT, fallback=False)
    opposite = {"positive": "negative", "negative": "positive"}
    departures |= {finding: opposite[COMMITMENT.polarity(finding) or ""] for finding in contradictions}
    assert departs.departures() == departures and [*departs.contradictions()] == contradictions
    sides = {"anchor": COMMITMENT, "report": extract_anchor(report)}
    row = {f"{side}_{name}": [found] for side, anchor in sides.items() for name, found in anchor.as_dict().items()}
    cases = pl.DataFrame(row, schema=dict.fromkeys(row, pl.List(pl.String)))
    assert metrics.contradictions(cases) == [tuple(contradictions)]
    shown = view.result_page(departs)
    assert ("The report agrees with its commitment." in shown) is (not departures)
    assert shown.count("the report says the opposite)") == len(contradictions)
    assert shown.count('contradicts" title="the report says the opposite"') == len(contradictions)  # on the chip
    assert shown.count("the commitment says the opposite") == len(contradictions)  # in the report
    assert replace(departs, fallback=True).departures() == replace(departs, commitment=None).departures() == {}


def test_a_side_that_the_commitment_does_not_have_is_marked(result: Result) -> None:
    right = Anchor.of_lists({"positive": ["pleural effusion"], "attributes": ["right pleural effusion"]})
    for text, wrong in (("Left effusion.", True), ("Right effusion.", False)):
        shown = view.result_page(replace(result, report=text, commitment=right, fallback=False))
        assert shown.count("side: left here, right in the commitment") == shown.count(">wrong side<") == wrong
        assert ("The report agrees with its commitment." in shown) is not wrong
        assert "not committed" not in shown  # the finding is


def test_what_is_missing_is_said(result: Result) -> None:
    bare = view.result_page(replace(result, commitment=None, gate=None, fallback=True, truncated=True))
    assert view.result_page(result, None, False).count(" disabled>") == 13 and " disabled>" not in bare
    assert "SN: empty report: every sentence" in view.result_page(replace(result, report=""))
    assert "No report could be found" in bare and "the end may be missing" in bare
    assert "Commitment</h3>" not in bare and "Gate</h3>" not in bare and "not committed" not in bare
    one = replace(result.frontal, weights=np.ones((4, 4, 1), np.float32), depths=(3,))
    assert "only the last depth" in view.result_page(replace(result, frontal=one))


ROW = re.compile(r'<tr( hidden)?><td colspan="4"[^>]*>(.*?)</td></tr>', re.S)
SELECT = re.compile(r'<select class="attribute" aria-label="([^"]+)" data-model="([^"]*)">(.*?)</select>', re.S)
OPTION = re.compile(r'<option value="([^"]*)"( selected)?>([^<]+)</option>')
MODELS = "positive: mild moderate edema, left fracture; negative: pneumothorax"


@pytest.mark.parametrize(("given", "chosen", "changed"), listed_cases(__file__, "attributes"))
def test_a_person_may_choose_attributes(result: Result, given: str | None, chosen: dict, changed: dict) -> None:
    kinds = ["side", "severity"]
    read = {"pleural effusion": {"side": [0.04, 0.9, 0.06], "severity": [0.2, 0.7, 0.1]}}
    chances = AttributeChances(read, dict.fromkeys(kinds, 0.5))
    model, own = read_list(MODELS, kinds), read_list(given or MODELS, kinds)
    if given is not None:
        own = own.completed(chances.stated())
    described = replace(result, commitment=own, given=given is not None, attributes=chances)
    shown = view.result_page(described, None if given is None else model, True, kinds)
    options = {name: OPTION.findall(inside) for name, _, inside in SELECT.findall(shown)}
    assert len(options) == 26 and all(len([o for o in one if o[1]]) == 1 for one in options.values())
    selected = {name: value for name, one in options.items() for value, chosen, _ in one if chosen}
    hidden = {name for hides, row in ROW.findall(shown) for name, *_ in SELECT.findall(row) if hides}
    assert {name: "hidden" if name in hidden else selected[name] for name in chosen} == chosen
    assert {name.split(", ")[0] for name in options.keys() - hidden} == {*own.positive, *own.uncertain}
    sent = {name: words for name, words, _ in SELECT.findall(shown) if words}
    assert sent == {"edema, severity": "mild moderate", "fracture, side": "left"}
    effusion, fracture = ([label for *_, label in options[f"{one}, side"]] for one in ("pleural effusion", "fracture"))
    assert effusion == ["side: as read", "left 0.04", "right 0.90", "bilateral 0.06"]
    assert fracture == ["side: none", "left", "right", "bilateral"]
    saved = json.loads(unquote(re.findall(r'href="data:[^,]*,([^"]*)"', shown)[0]))
    assert saved["changed"] == changed and saved["attributes"]["pleural effusion"]["right"] == 0.9
    assert shown.count('<tr class="person">') == shown.count("<b>yours</b>") == len(changed)
    for finding in own.attributes:
        assert f'<span class="word">{own.text(finding)}</span>' in shown
    assert "or its side or severity, to rewrite" in shown and "attribute" not in view.result_page(result)
