"""Commitment scores, wording of comparison, and counts of extraction."""

from __future__ import annotations

import pytest

from pacer.data.wording import prior_wording
from pacer.metrics.commitments import commitment_scores
from pacer.metrics.extraction import extraction_counts
from pacer.metrics.pairing import Prediction, is_unclosed
from pacer.metrics.wording_scores import wording_counts, wording_scores

NOTHING: dict[str, list[str]] = {"positive": [], "negative": [], "uncertain": []}


def anchor(**fields: list[str]) -> dict[str, list[str]]:
    return NOTHING | fields


def test_a_report_is_held_against_its_own_commitment():
    references = [anchor(positive=["edema"], negative=["pneumothorax"]), anchor(uncertain=["pneumonia"])]
    generated = [anchor(positive=["edema", "fracture"]), anchor(negative=["pneumonia"])]
    mixed = anchor(positive=["edema"], negative=["fracture"], uncertain=["atelectasis"])
    reports = [mixed, anchor(negative=["pneumonia"])]
    scores, whole = commitment_scores(references, generated, reports)
    assert scores["report_follows_anchor"] == pytest.approx(2 / 3)  # edema and pneumonia of three statements
    assert scores["report_covered_by_anchor"] == pytest.approx(2 / 4)
    assert scores["report_follows_positive_f1"] == pytest.approx(2 / 3)
    assert scores["report_follows_negative_f1"] == pytest.approx(2 / 3)
    assert scores["report_follows_uncertain_f1"] == 0.0
    assert scores["anchor_positive_f1"] == pytest.approx(2 / 3) and scores["anchor_uncertain_f1"] == 0.0
    assert scores["report_positive_f1"] == 1.0
    assert whole["anchor_report"]["confusion"] == [[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 22]]


def test_records_without_a_commitment_are_left_out_of_its_scores():
    states = [anchor(positive=["edema"]), anchor(negative=["edema"])]
    scores, whole = commitment_scores(states, [None, anchor(negative=["edema"])], states)
    assert scores["anchor_agreement"] == scores["report_follows_anchor"] == scores["report_agreement"] == 1.0
    assert scores["anchor_positive_f1"] is None  # nobody affirms anything there
    assert whole["anchor_report"]["confusion"][1][1] == 1
    scores, whole = commitment_scores(states, [None, None], states)
    assert not [name for name in scores if "anchor" in name or "follows" in name]
    assert list(whole) == ["reference_report"]


REFERENCES = ["heart is unchanged .", "the lungs are clear .", "compared to the prior study , effusion has increased ."]
REPORTS = ["heart is unchanged .", "no change from the previous exam .", "small effusion ."]


def test_wording_of_comparison():
    references, reports = (list(map(prior_wording, texts)) for texts in (REFERENCES, REPORTS))
    assert references[1] == () and "unchanged" in references[0]
    scores = wording_scores("sn", references, reports)
    assert scores["prior_wording_rate"] == scores["reference_prior_wording_rate"] == pytest.approx(2 / 3)
    assert scores["unfounded_prior_wording_rate"] == pytest.approx(2 / 3)
    for context in ("sw", "mw", "all"):  # a previous report was there, or it is not known
        assert "unfounded_prior_wording_rate" not in wording_scores(context, references, reports)
    assert wording_counts(references, reports)["unchanged"]["both"] == 1


def prediction(generated: str | None, lists=None, fallback=False, tokens: int | None = 9) -> Prediction:
    return Prediction(
        "x", "report", lists, fallback, None, None if generated is None else is_unclosed(generated), tokens
    )


def test_extraction_is_counted_from_the_lines():
    lines = [
        prediction("<ANCHOR> a </ANCHOR> <REPORT> b </REPORT>", anchor(positive=["edema"])),
        prediction("<REPORT> b </REPORT> <REPORT> c", NOTHING, tokens=20),
        prediction("no marker", None, fallback=True, tokens=21),
    ]
    assert extraction_counts(lines, 20) == {"fallback": 1, "unclosed": 1, "empty_anchor": 1, "truncated": 2}
    assert "truncated" not in extraction_counts(lines, None)
    assert extraction_counts([prediction(None, tokens=None)], 20) == {"fallback": 0}
