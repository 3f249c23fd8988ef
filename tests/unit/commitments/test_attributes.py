"""Side, severity and course of findings: sentences that were written and marked by hand before the reader was run."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from pacer.commitments.attributes import Attributes, read_attributes
from pacer.commitments.rules.extract import extract_anchor

OPEN_I = Path(__file__).parents[4] / "shared" / "data" / "openi" / "reports.jsonl.gz"
#: A sentence | each finding that it affirms, with the attributes that it gives it.
SENTENCES = """
Small left pleural effusion. | pleural effusion: left mild
There is a moderate right pneumothorax. | pneumothorax: right moderate
Large bilateral pleural effusions, unchanged. | pleural effusion: left right severe stable
Mild cardiomegaly is stable. | cardiomegaly: mild stable
Severe pulmonary edema has worsened since yesterday. | edema: severe worse
The right pleural effusion has decreased and is now small. | pleural effusion: right mild improved
New consolidation in the left lower lobe. | consolidation: left new
Unchanged right upper lobe nodule. New small left effusion. | lung lesion: right stable; pleural effusion: left mild new
Bibasilar atelectasis, slightly increased. | atelectasis: left right worse
Interval improvement in pulmonary edema, now mild. | edema: mild improved
Acute fractures of the right fifth and sixth ribs. | fracture: right
Stable mild enlargement of the cardiac silhouette. | cardiomegaly: mild stable
No left effusion; trace right effusion. | pleural effusion: right mild
Left chest tube with persistent small left pneumothorax. | support devices: left; pneumothorax: left mild stable
Worsening opacities in both lungs. | lung opacity: left right worse
Patchy opacity at the right base, new from prior. | lung opacity: right new
Minimal left basilar atelectasis. | atelectasis: left mild
Moderate-to-severe pulmonary edema. | edema: moderate severe
Heart size is mildly enlarged. | cardiomegaly: mild
The heart is severely enlarged, unchanged. | cardiomegaly: severe stable
Right internal jugular central venous catheter ends in the SVC. | support devices: right
Left-sided pacemaker with leads in the right atrium and right ventricle. | support devices: left
Resolving right lower lobe pneumonia. | pneumonia: right improved
Small to moderate right pleural effusion, increased. | pleural effusion: right mild moderate worse
Pleural thickening on the left is unchanged. | pleural abnormality: left stable
No change in the large left pneumothorax. | pneumothorax: left severe stable
Increased left effusion, decreased right effusion. | pleural effusion: left right worse improved
There is mild bilateral interstitial edema, which has improved. | edema: left right mild improved
Multiple pulmonary nodules in both lungs have grown. | lung lesion: left right worse
Right middle lobe collapse has not changed. | atelectasis: right stable
Large hiatal hernia; small left effusion. | pleural effusion: left mild
Compared with the prior study, the left pleural effusion is larger. | pleural effusion: left worse
A 2 cm nodule projects over the right mid lung. | lung lesion: right
The mediastinum is moderately widened. | enlarged mediastinum: moderate
New left lower lobe opacity may reflect pneumonia. | lung opacity: left new
Previously seen right pneumothorax has resolved. |
Extensive consolidation throughout the right lung, progressed. | consolidation: right severe worse
Left perihilar mass, similar in size to the previous examination. | lung lesion: left stable
Tiny right apical pneumothorax persists. | pneumothorax: right mild stable
Moderate cardiomegaly with mild edema and small effusions. | cardiomegaly: moderate; edema: mild; pleural effusion: mild
Cardiomegaly and small right effusion are unchanged. | cardiomegaly: stable; pleural effusion: right mild stable
Decreasing left retrocardiac opacity. | lung opacity: left improved
Healed left rib fractures. | fracture: left
Again seen is a right lung mass. | lung lesion: right stable
Marked cardiomegaly. | cardiomegaly: severe
Slight interval decrease in the moderate right effusion. | pleural effusion: right moderate improved
Interval placement of a left PICC. | support devices: left new
Small pleural effusions on both sides. | pleural effusion: left right mild
Left lung is clear; right basilar atelectasis is more prominent. | atelectasis: right worse
Interval enlargement of the cardiac silhouette. | cardiomegaly: worse
Mild pulmonary vascular congestion, stable. | edema: mild stable
Right pleural effusion, small. Left pleural effusion, large. | pleural effusion: left right mild severe
Stable postoperative change with new right pneumothorax. | pneumothorax: right new
Endotracheal tube is unchanged in position. | support devices: stable
Development of a right upper lobe consolidation. | consolidation: right new
Bilateral pleural plaques. | pleural abnormality: left right
Significant improvement of the left pneumonia. | pneumonia: left improved
There is a small amount of fluid in the right pleural space. | pleural effusion: right mild
Subtle left lower lobe opacity. | lung opacity: left mild
Dense right lower lobe pneumonia with large parapneumonic effusion. | pneumonia: right; pleural effusion: severe
"""
#: "parapneumonic" names pneumonia for the rules of findings, so the effusion's size is read as the pneumonia's too.
MISREAD = {"Dense right lower lobe pneumonia with large parapneumonic effusion."}
#: Further cases: what is denied or belongs to something else is no attribute.
CASES = [
    ("small left effusion without a large right pneumothorax .", {"pleural effusion": "left mild"}),
    ("no right effusion , which was large . left effusion .", {"pleural effusion": "left"}),
    ("new left effusion and right atelectasis .", {"pleural effusion": "left new", "atelectasis": "right new"}),
    ("effusion as well as mild edema .", {"pleural effusion": "", "edema": "mild"}),
    ("possible large right effusion .", {"pleural effusion": "right severe"}),
    ("the lungs are clear , unchanged .", {}),
]


def read(text: str) -> dict[str, set[str]]:
    return {finding: set().union(*found) for finding, found in read_attributes(text).items()}


def marked() -> list[tuple[str, dict[str, set[str]]]]:
    lines = (line.partition(" |") for line in SENTENCES.strip().splitlines())
    parts = ((text, [part.partition(":") for part in marks.split(";") if part.strip()]) for text, _, marks in lines)
    return [(text, {name.strip(): set(words.split()) for name, _, words in found}) for text, found in parts]


def test_sentences_are_read_as_they_were_marked() -> None:
    affirmed = {text: set(extract_anchor(text).positive) for text, _ in marked()}
    wrong = {
        text
        for text, expected in marked()
        if {finding: words for finding, words in read(text).items() if finding in affirmed[text]} != expected
    }
    assert len(affirmed) == 60 and wrong == MISREAD


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_words_describe_the_findings_of_their_phrase(text: str, expected: dict[str, str]) -> None:
    assert read(text) == {finding: set(words.split()) for finding, words in expected.items()}
    assert all(isinstance(one, Attributes) for one in read_attributes(text).values())


#: Open-I's headings of findings, and its qualifiers; they were given by people who read the report.
HEADINGS = {
    **{"Pulmonary Atelectasis": "atelectasis", "Pleural Effusion": "pleural effusion", "Cardiomegaly": "cardiomegaly"},
    **{"Opacity": "lung opacity", "Nodule": "lung lesion", "Mass": "lung lesion", "Pneumothorax": "pneumothorax"},
    **{"Fractures, Bone": "fracture", "Pulmonary Edema": "edema", "Pulmonary Congestion": "edema"},
    **{"Consolidation": "consolidation", "Pneumonia": "pneumonia", "Catheters, Indwelling": "support devices"},
}
QUALIFIERS = {
    "side": {"left": {"left"}, "right": {"right"}, "bilateral": {"left", "right"}},
    "severity": {"mild": {"mild"}, "small": {"mild"}, "moderate": {"moderate"}, "severe": {"severe"}},
}
#: Attribute -> words of a text that has it, and the least shares: read at all, and right where read.
EXPECTED = {
    "side": (r"\b(left|right|bilateral|both)", 0.85, 0.97),
    "severity": (r"\b(mild|small|minimal|tiny|trace|slight|moderate|severe|large|marked)", 0.93, 0.99),
}


@pytest.mark.skipif(not OPEN_I.is_file(), reason="needs the Open-I reports in ../shared/data")
@pytest.mark.parametrize("kind", EXPECTED)
def test_people_gave_the_same_qualifiers(kind: str) -> None:
    words, least_read, least_right = EXPECTED[kind]
    pairs = []
    for row in map(json.loads, gzip.decompress(OPEN_I.read_bytes()).splitlines()):
        text = f"{row.get('findings') or ''} {row.get('impression') or ''}"
        terms = [term.split("/") for term in row.get("mesh_major", [])]
        for heading, finding in HEADINGS.items():
            given = [qualifiers for name, *qualifiers in terms if name == heading]
            values = [QUALIFIERS[kind][one] for one in (given[0] if len(given) == 1 else ()) if one in QUALIFIERS[kind]]
            if values and finding in extract_anchor(text).positive and re.search(words, text, re.I):
                pairs.append((set().union(*values), getattr(read_attributes(text)[finding], kind)))
    found = [(given, got) for given, got in pairs if got]
    assert len(pairs) > 300 and len(found) / len(pairs) > least_read
    assert sum(bool(given & got) if kind == "severity" else given == got for given, got in found) > (
        least_right * len(found)
    )
