"""The figures on certificates in the docs are those of committed files, or of this code."""

import random
import re

import numpy as np
import pytest

import pacer
from pacer.core.findings import FINDINGS
from pacer.phantom.language import contexts_of, report_of
from pacer.phantom.world import make_world
from tests.support import documented_scores
from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "certificate.md").read_text(encoding="utf-8")


def test_the_table_of_verdicts_is_that_of_the_committed_results() -> None:
    block = documented_scores.VERDICTS.search(PAGE)
    assert block and block[0] == documented_scores.verdict_table()
    assert "| `exact_f1` | sees 0.957 |" in block[0]


def test_what_a_policy_gains_without_looking_at_the_image() -> None:
    references = []
    for patient in make_world(0, 300):
        study = patient.studies[-1]
        context = random.Random(f"0 {study.study_id}").choice(contexts_of(study))
        references.append(report_of(study, context).text)
    affirmed = [anchor.positive for anchor in pacer.label(references)]
    frequent = max(FINDINGS, key=sum(affirmed, ()).count)
    absent = [[name for name in FINDINGS if name not in one] for one in affirmed]
    completions = {
        "the reference": references,
        "the reference twice": [f"{text} {text}" for text in references],
        '"Normal chest radiograph." for everyone': ["Normal chest radiograph."] * 300,
        '"There is no …" of all 13 findings for everyone': [stated(FINDINGS, "no ")] * 300,
        "another patient's reference": references[1:] + references[:1],
        "the most frequent finding for everyone": [f"There is {frequent}."] * 300,
        "all 13 findings for everyone": [stated(FINDINGS)] * 300,
        "the reference, and all other findings": [
            f"{text} {stated(names)}" for text, names in zip(references, absent, strict=True)
        ],
    }
    for name, texts in completions.items():
        figure = re.search(rf"^\| {re.escape(name)} \| ([\d.]+) \|$", PAGE, re.MULTILINE)
        assert figure, name
        gained = float(np.mean(pacer.reward(texts, references)))
        assert gained == pytest.approx(float(figure[1]), abs=0.0005), name


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


def stated(names: list[str] | tuple[str, ...], no: str = "") -> str:
    return " ".join(f"There is {no}{name}." for name in names)
