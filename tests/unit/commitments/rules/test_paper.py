"""The paper's own rule set: what its appendix says, sentence by sentence."""

from __future__ import annotations

import pytest

from pacer.commitments.rules import EXTRACTORS
from tests.support.sentences import anchor_of


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        # six uncertainty cues, checked before negation
        ("Possible edema.", "? edema"),
        ("Probable edema.", "? edema"),
        ("Opacity may represent edema.", "? lung opacity, edema"),
        ("This could represent edema.", "? edema"),
        ("Questionable edema.", "? edema"),
        ("Suspected edema.", "? edema"),
        ("No definite but possible edema.", "? edema"),
        # negation nearby, on either side
        ("No edema.", "- edema"),
        ("Edema is absent.", "- edema"),
        ("Negative for edema.", "- edema"),
        ("Edema is not seen.", "- edema"),
        ("No change in the edema.", "+ edema"),
        ("No interval change in the edema.", "+ edema"),
        # no temporal state
        ("Resolved edema.", "+ edema"),
        ("No new edema.", "- edema"),
        ("Stable edema.", "+ edema"),
        # segments end at sentences and semicolons; the first positive or uncertain match ends the search
        ("No edema; effusion.", "- edema + pleural effusion"),
        ("No edema. Edema. Possible edema.", "+ edema"),
        # cues that it does not have
        ("Likely edema.", "+ edema"),
        ("Free of edema.", "+ edema"),
        # devices by their explicit patterns
        ("A PICC and a pacemaker.", "+ support devices"),
        ("A drain.", ""),
    ],
)
def test_what_the_paper_describes(report: str, expected: str) -> None:
    assert EXTRACTORS["paper"](report) == anchor_of(expected)


def test_a_negation_far_away_does_not_count() -> None:
    assert EXTRACTORS["paper"](f"No {'very ' * 10}edema.") == anchor_of("+ edema")
