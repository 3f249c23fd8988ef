"""The figures on certificates in the docs are those of committed files, or of this code."""

import default_run
import policies
import pytest

import pacer
from pacer.core.io import read_json
from tests.support import documented_scores
from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "certificate.md").read_text(encoding="utf-8")


def test_the_table_of_verdicts_is_that_of_the_committed_results() -> None:
    block = documented_scores.VERDICTS.search(PAGE)
    assert block and block[0] == documented_scores.verdict_table()
    assert "| `exact_f1` | sees 0." in block[0]


def test_what_a_policy_gains_without_looking_at_the_image() -> None:
    gained = read_json(ROOT / default_run.POLICIES)
    assert gained == pytest.approx(policies.gains(), abs=0.0005)
    assert gained["the reference"] == 1 > 2 * max([*gained.values()][2:])


def test_what_meteor_takes_for_the_same() -> None:
    page = " ".join((ROOT / "docs" / "scores.md").read_text(encoding="utf-8").split())
    long = (
        "The heart is normal. The mediastinum is normal. There is no effusion. There is no "
        "pneumothorax."
    )
    pairs = [
        ("The heart is normal.", "The heart is abnormal."),
        ("The heart is normal.", "The heart is large."),
        (long, "The heart is normal. The mediastinum is normal."),
        (long, "There is no effusion. There is no pneumothorax."),
        ("Mild edema is present.", "Mild edema is absent."),
        ("Pneumonia is likely.", "Pneumonia is unlikely."),
    ]
    scored = pacer.score([one for one, _ in pairs], [other for _, other in pairs])
    opposite, wrong, first, last, *others = scored.cases["meteor"]
    assert f'"The heart is abnormal." has a METEOR of {opposite:.2f}' in page
    assert f'"The heart is large." {wrong:.2f}' in page
    assert f"the first two sentences have {first:.2f} and the last two {last:.2f}" in page
    assert min(others) > 0.8
