"""The rule-based extractor: the paper's order of checks, on raw and on cleaned text."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacer.anchors.rules import Anchor, extract_anchor
from pacer.anchors.vocabulary import FINDINGS
from pacer.corpus.text import clean_report

OPENI = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "openi" / "reports.jsonl.gz"

CASES = {
    # presence, denial, uncertainty
    "There is a small left pleural effusion.": {"positive": ["pleural effusion"]},
    "No focal consolidation, pleural effusion, or pneumothorax.":
        {"negative": ["consolidation", "pleural effusion", "pneumothorax"]},
    "Negative for pneumothorax.": {"negative": ["pneumothorax"]},
    "Pneumothorax is not seen.": {"negative": ["pneumothorax"]},
    "Effusion or pneumothorax is not identified.": {"negative": ["pleural effusion", "pneumothorax"]},
    "Possible pneumonia.": {"uncertain": ["pneumonia"]},
    "Questionable right rib fracture.": {"uncertain": ["fracture"]},
    "Pneumonia cannot be excluded.": {"uncertain": ["pneumonia"]},
    "Worsening pneumonia? Heart size normal.": {"uncertain": ["pneumonia"], "negative": ["cardiomegaly"]},
    "Atelectasis versus pneumonia.": {"uncertain": ["atelectasis", "pneumonia"]},
    # an opacity that may represent pneumonia
    "Opacity may represent pneumonia.": {"positive": ["lung opacity"], "uncertain": ["pneumonia"]},
    # uncertainty is checked before negation
    "No definite but possible pneumothorax.": {"uncertain": ["pneumothorax"]},
    # a denied hint is a denial
    "No focal consolidation concerning for pneumonia.": {"negative": ["consolidation", "pneumonia"]},
    "No opacity to suggest pneumonia.": {"negative": ["lung opacity", "pneumonia"]},
    # "no change" is no negation
    "No change in the left effusion.": {"positive": ["pleural effusion"]},
    "No significant interval change in pulmonary edema.": {"positive": ["edema"]},
    "Pleural effusion has not changed.": {"positive": ["pleural effusion"]},
    # no temporal resolver: surface rules alone
    "No new consolidation.": {"negative": ["consolidation"]},
    "Resolved pneumonia.": {"positive": ["pneumonia"]},
    "Stable cardiomegaly.": {"positive": ["cardiomegaly"]},
    # windows are local
    "No pneumothorax, stable small right pleural effusion.":
        {"positive": ["pleural effusion"], "negative": ["pneumothorax"]},
    "No effusion but there is mild edema.": {"positive": ["edema"], "negative": ["pleural effusion"]},
    "No pneumothorax; large effusion.": {"positive": ["pleural effusion"], "negative": ["pneumothorax"]},
    "Small effusion, pneumothorax is not seen.": {"positive": ["pleural effusion"], "negative": ["pneumothorax"]},
    # negative is a candidate only; the first positive or uncertain mention decides
    "No effusion. Small effusion.": {"positive": ["pleural effusion"]},
    "Possible effusion. Large effusion.": {"uncertain": ["pleural effusion"]},
    "Large effusion. No effusion.": {"positive": ["pleural effusion"]},
    "No effusion. Possible effusion. Large effusion.": {"uncertain": ["pleural effusion"]},
    # size of heart and mediastinum
    "The heart is normal in size.": {"negative": ["cardiomegaly"]},
    "Heart size is mildly enlarged.": {"positive": ["cardiomegaly"]},
    "The heart is not enlarged.": {"negative": ["cardiomegaly"]},
    "The cardiomediastinal silhouette is enlarged.": {"positive": ["enlarged mediastinum"]},
    "The cardiomediastinal silhouette and pulmonary vasculature are within normal limits.":
        {"negative": ["enlarged mediastinum"]},
    "Heart and mediastinum normal.": {"negative": ["cardiomegaly", "enlarged mediastinum"]},
    # synonyms
    "Right hydropneumothorax.": {"positive": ["pleural effusion", "pneumothorax"]},
    "Biapical pleural thickening.": {"positive": ["pleural abnormality"]},
    "Pulmonary vascular congestion.": {"positive": ["edema"]},
    "Right basilar airspace disease.": {"positive": ["lung opacity"]},
    "Nodular opacity in the left apex.": {"positive": ["lung lesion"]},
    "Left lower lobe collapse.": {"positive": ["atelectasis"]},
    "Vascular congestion. Signs of infection.": {"positive": ["edema", "pneumonia"]},
    # devices
    "Endotracheal tube tip 4.2 cm above the carina.": {"positive": ["support devices"]},
    "Right PICC and left-sided pacemaker.": {"positive": ["support devices"]},
    "Left subclavian central venous catheter.": {"positive": ["support devices"]},
    "Support and monitoring devices are unchanged.": {"positive": ["support devices"]},
    "No support devices.": {"negative": ["support devices"]},
    # look-alikes and silence
    "Small pericardial effusion. Soft tissue edema. Lytic lesion. Normal chest. Lungs are clear.": {},
    "": {},
}  # fmt: skip


@pytest.mark.parametrize("report", CASES)
def test_extraction(report: str) -> None:
    assert extract_anchor(report) == Anchor.of(**CASES[report])


@pytest.mark.parametrize("report", [r for r in CASES if "?" not in r and ";" not in r])
def test_cleaned_text_reads_the_same(report: str) -> None:
    cleaned = clean_report(report)
    assert extract_anchor(cleaned) == Anchor.of(**CASES[report])


def test_words_joined_by_the_cleaner() -> None:
    cleaned = clean_report("Bibasilar atelectasis/infiltrate. Pleura: no effusion.")
    assert "atelectasisinfiltrate" in cleaned
    assert extract_anchor(cleaned) == Anchor.of(["atelectasis", "lung opacity"], ["pleural effusion"])


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_gives_a_valid_anchor(text: str) -> None:
    anchor = extract_anchor(text)
    assert anchor == Anchor.of(**anchor.as_dict())


@given(st.lists(st.sampled_from(list(CASES)), max_size=6))
def test_case_and_blanks_do_not_matter(sentences: list[str]) -> None:
    report = " ".join(sentences)
    assert extract_anchor(report) == extract_anchor(report.upper().replace(" ", "  \n"))


@given(st.sampled_from(FINDINGS))
def test_every_finding_is_found_by_its_own_name(finding: str) -> None:
    assert extract_anchor(f"{finding} is present.").positive == (finding,)
    assert extract_anchor(f"No {finding}.").negative == (finding,)
    assert extract_anchor(f"Probable {finding}.").uncertain == (finding,)


def test_speed() -> None:
    """Reports without a repeated sentence, so that nothing is remembered; about a third of what was measured."""
    reports = [
        f"Compared with study {n}, the right effusion has increased by {n} mm. No pneumothorax in zone {n}. Possible "
        f"atelectasis in segment {n}. Heart size {n} is normal. Tube tip is {n} cm above the carina."
        for n in range(1500)
    ]
    started = time.process_time()
    for report in reports:
        extract_anchor(report)
    assert len(reports) / (time.process_time() - started) > 1500


def test_agreement_on_real_reports() -> None:
    """Against CheXpert-labeler's labels of real FINDINGS sections; thresholds lie just below what was measured."""
    if not OPENI.is_file():
        pytest.skip(f"the Open-I reports are not at {OPENI}")
    names = {"pleural effusion": "Pleural Effusion", "pneumothorax": "Pneumothorax", "consolidation": "Consolidation",
             "edema": "Edema", "pneumonia": "Pneumonia", "atelectasis": "Atelectasis", "lung opacity": "Lung Opacity",
             "lung lesion": "Lung Lesion", "fracture": "Fracture"}  # fmt: skip
    state = {1.0: "positive", 0.0: "negative", -1.0: "uncertain", None: None}
    same = dict.fromkeys(names, 0)
    total = equal = 0
    with gzip.open(OPENI, "rt") as file:
        for row in map(json.loads, file):
            if not row.get("chexpert14_auto") or not row.get("findings"):
                continue
            total += 1
            anchor = extract_anchor(row["findings"])
            equal += anchor == extract_anchor(clean_report(row["findings"]))
            for finding, name in names.items():
                same[finding] += anchor.polarity(finding) == state[row["chexpert14_auto"][name]]
    assert total > 2000
    assert equal / total > 0.99
    for finding, count in same.items():
        assert count / total > 0.93, f"{finding}: {count / total:.3f}"
