"""What the page says of a result: sentences against the commitment, maps, and everything escaped."""

from __future__ import annotations

import base64
import io
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pacer.commitments.anchor import Anchor
from pacer.commitments.rules.extract import extract_anchor
from pacer.serving import view
from pacer.serving.case import Result, Routing
from pacer.serving.examples import example_cases
from pacer.serving.maps import routing_overlay
from pacer.serving.reporter import Reporter
from pacer.serving.sentences import marked_sentences, unsaid

REPORT = "There is a small pleural effusion. No pneumothorax; possible edema. The hila are normal."
COMMITMENT = Anchor.of(positive=["pleural effusion"], negative=["pneumothorax", "fracture"], uncertain=[])


def test_sentences_against_the_commitment() -> None:
    marked = marked_sentences(REPORT, COMMITMENT)
    assert [(sentence.text, sentence.standing) for sentence in marked] == [
        ("There is a small pleural effusion. ", "backed"),
        ("No pneumothorax; ", "backed"),
        ("possible edema. ", "unbacked"),
        ("The hila are normal.", "plain"),
    ]
    assert marked[2].claims == (("edema", "uncertain", None),)
    turned = marked_sentences(REPORT, Anchor.of(negative=["pleural effusion"]))
    assert turned[0].standing == "unbacked" and turned[0].claims == (("pleural effusion", "positive", "negative"),)
    assert unsaid(REPORT, COMMITMENT) == [("fracture", "negative", None)]
    assert {sentence.standing for sentence in marked_sentences(REPORT, None)} == {"plain"}


PIECES = ["no effusion", "edema", ".", ";", "\n", " ", "Heart 1.5 cm", "vs.", "possible fracture", "Ünïcode", "?"]


@given(st.lists(st.sampled_from(PIECES), max_size=20).map(" ".join))
def test_sentences_joined_are_the_report(report: str) -> None:
    marked = marked_sentences(report, extract_anchor(report))
    assert "".join(sentence.text for sentence in marked) == report
    assert marked_sentences(report, None) == [sentence._replace(standing="plain", claims=()) for sentence in marked]


def picture(address: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))))


def test_a_map_is_warm_where_a_patch_takes_more() -> None:
    weights = np.full((2, 4, 2), 0.5, np.float32)
    weights[0, 3], weights[1, 0] = (0.9, 0.1), (0.2, 0.8)
    found = routing_overlay("Frontal", Routing(np.zeros((28, 56), np.uint8), weights, (3, 6)))
    assert [(one.depth, round(one.mean, 4)) for one in found.maps] == [(3, 0.5125), (6, 0.4875)]
    assert (found.even, round(found.limit, 4), found.uniform) == (0.5, 0.4, False)
    first, second = (picture(one.address).astype(int) for one in found.maps)
    top_right, bottom_left, middle = (30, -10), (-30, 10), (30, 96)
    assert first[top_right][0] > first[top_right][2] and second[top_right][2] > second[top_right][0]
    assert first[bottom_left][2] > first[bottom_left][0]
    assert first[top_right][3] > first[bottom_left][3] > first[middle][3]
    even = routing_overlay(
        "Frontal", Routing(np.zeros((28, 56), np.uint8), np.full((2, 4, 2), 0.5, np.float32), (3, 6))
    )
    assert even.uniform and not picture(even.maps[0].address)[..., 3].any()


@pytest.fixture(scope="module")
def result(reporter: Reporter) -> Result:
    return reporter(Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 70), dtype=np.uint8)))


def test_what_stands_in_a_report_is_text_on_the_page(result: Result) -> None:
    bad = "<script>alert(1)</script> effusion"
    shown = view.result_page(replace(result, report=bad, commitment=COMMITMENT, notes=(bad,)))
    assert "<script" not in shown and "&lt;script&gt;" in shown
    both = view.contexts_page({"sn": result, "mn": replace(result, context="mn", report=bad, notes=(bad,))})
    assert "<script" not in both and "<script" not in view.problem(bad)


def test_what_is_missing_is_said(result: Result) -> None:
    bare = view.result_page(replace(result, commitment=None, gate=None, fallback=True, truncated=True))
    assert "No report could be found" in bare and "the end may be missing" in bare
    assert "Commitment</h3>" not in bare and "Gate</h3>" not in bare and "unbacked" not in bare
    one = replace(result.frontal, weights=np.ones((4, 4, 1), np.float32), depths=(3,))
    assert "last depth alone" in view.result_page(replace(result, frontal=one))


@pytest.mark.parametrize(
    ("gate", "words"), [(0.0, "hardly at all"), (0.1, "a little"), (0.5, "moderately"), (1.0, "strongly")]
)
def test_the_gate_in_words(gate: float, words: str) -> None:
    assert view.gate_words(gate) == words


def test_examples_are_cases_that_a_reporter_takes(reporter: Reporter) -> None:
    examples = example_cases()
    assert len({example.name for example in examples}) == 4
    for example in examples:
        prepared = reporter.prepare(example)
        assert prepared.context == "mw" and len(extract_anchor(str(example.prior)).as_dict()) == 3
    again = example_cases()
    assert all(one.frontal == other.frontal for one, other in zip(examples, again, strict=True))
