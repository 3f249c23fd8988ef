"""Flipping one finding of a report."""

from __future__ import annotations

import pytest

from pacer.commitments.anchor import FINDINGS, Anchor
from pacer.commitments.rules.extract import extract_anchor
from pacer.metrics.probe.make import flip


@pytest.mark.parametrize("finding", FINDINGS)
def test_every_finding_can_be_flipped_there_and_back(finding: str) -> None:
    affirmed, denied = f"the chest is imaged . there is {finding} .", f"the chest is imaged . there is no {finding} ."
    assert flip(affirmed, finding) == denied and flip(denied, finding) == affirmed


def test_the_other_findings_of_the_sentence_keep_their_polarity() -> None:
    report = "no pneumothorax or pleural effusion . possible pneumonia ."
    flipped = flip(report, "pleural effusion")
    assert flipped == "there is pleural effusion . there is no pneumothorax . possible pneumonia ."
    assert extract_anchor(flipped) == Anchor(("pleural effusion",), ("pneumothorax",), ("pneumonia",))


@pytest.mark.parametrize(
    ("report", "finding"),
    [
        ("possible pneumonia .", "pneumonia"),  # neither affirmed nor denied
        ("the lungs are clear .", "edema"),  # not named
        ("small pleural effusion . the effusion is unchanged .", "pleural effusion"),  # two sentences
    ],
)
def test_what_cannot_be_flipped(report: str, finding: str) -> None:
    assert flip(report, finding) is None
