"""The system prompt carries the paper's vocabulary, schema, input format and each of its 21 rules."""

from __future__ import annotations

import re

import pytest

from pacer.anchors.vocabulary import FINDINGS
from pacer.core.errors import ConfigError
from pacer.labelling.client.request import system_prompt

#: What each rule of the paper decides, in terms that any wording of it needs.
RULES: dict[int, tuple[str, ...]] = {
    1: ("not allowed", "thirteen"),
    2: ("at most one", "`positive`", "`negative`", "`uncertain`"),
    3: ("`positive`", "only when"),
    4: (
        "`negative`",
        "direct synonym",
        "no pleural effusion",
        "no focal consolidation",
        "heart size is normal",
        "lungs are clear",
        "not mentioned",
        "no support devices mentioned",
        "normal chest",
        "mediastinal and hilar contours are normal",
    ),
    5: (
        "`uncertain`",
        "possible",
        "probable",
        "suspected",
        "difficult to exclude",
        "possibly",
        "may represent",
        "could represent",
        "could reflect",
        "could be seen with",
        "cannot be excluded",
        "not excluded",
        "suspicious for",
        "concerning for",
        "worrisome for",
    ),
    6: ("no new", "unchanged", "stable", "no interval change", "positive", "leave it out"),
    7: ("resolved", "cleared", "resolution of", "no longer seen", "negative"),
    8: (
        "tubes",
        "catheters",
        "picc lines",
        "central lines",
        "ports",
        "pacemakers",
        "icds",
        "leads",
        "drains",
        "chest tubes",
        "feeding",
        "enteric",
        "(ng)",
        "(et)",
    ),
    9: ("unchanged", "support devices", "named"),
    10: ("no fracture", "no displaced fracture", "positive"),
    11: ("hydropneumothorax", "pneumothorax positive", "usually", "pleural effusion", "separates"),
    12: ("thickening", "scarring", "plaques", "pleural abnormality", "fluid"),
    13: ("nodules", "masses", "lesions", "metastatic", "lung lesion"),
    14: (
        "opacities",
        "infiltrates",
        "airspace disease",
        "opacification",
        "lung opacity positive",
        "pneumonia uncertain",
    ),
    15: ("short", "clinically", "empty"),
    16: (
        "left out",
        "pneumothorax",
        "pleural effusion",
        "consolidation",
        "edema",
        "pneumonia",
        "fracture",
        "cardiomegaly",
        "enlarged mediastinum",
        "lung opacity",
        "lung lesion",
        "atelectasis",
        "support devices",
        "pleural abnormality",
        "more than 6",
    ),
    17: (
        "vascular congestion",
        "elevated pulmonary venous pressure",
        "engorgement",
        "fluid overload",
        "could reflect elevated pulmonary venous pressure",
        "pulmonary edema",
        "uncertain",
        "never",
    ),
    18: (
        "no focal consolidation concerning for pneumonia",
        "consolidation negative",
        "pneumonia negative",
        "not uncertain",
    ),
    19: ("widened mediastinum", "cardiomediastinal silhouette", "enlarged mediastinum positive"),
    20: ("normal heart size", "cardiomegaly", "normal mediastinal contours", "enlarged mediastinum", "no other denial"),
    21: (
        "several lists",
        "mixed evidence",
        "positive",
        "definitely",
        "uncertain",
        "possible or suspected",
        "negative",
        "explicitly denied",
    ),
}


@pytest.fixture(scope="module")
def sections() -> dict[str, str]:
    """Heading -> text, in lower case and with single blanks; the rules by number."""
    parts = re.split(r"^## (\w+)$", system_prompt(None), flags=re.MULTILINE)
    found = {name.lower(): text for name, text in zip(parts[1::2], parts[2::2])}
    rules, _, end = found.pop("rules").partition("\nReturn ")
    numbered = re.split(r"^(\d+)\. ", rules, flags=re.MULTILINE)
    found |= dict(zip(numbered[1::2], numbered[2::2])) | {"end": end}
    return {name: " ".join(text.lower().split()) for name, text in found.items()}


def test_rules_are_numbered_like_the_papers(sections: dict[str, str]) -> None:
    assert [name for name in sections if name.isdigit()] == [str(number) for number in range(1, 22)]


@pytest.mark.parametrize("number", range(1, 22))
def test_rule(sections: dict[str, str], number: int) -> None:
    assert [term for term in RULES[number] if term not in sections[str(number)]] == []


def test_vocabulary_schema_and_input_format(sections: dict[str, str]) -> None:
    assert re.findall(r"- ([a-z ]+?)(?= -|$)", sections["findings"]) == list(FINDINGS)
    schema = ["sample_uid", "positive", "negative", "uncertain", "rationale"]
    assert re.findall(r'"(\w+)":', sections["output"]) == schema
    for field in ("sample_uid", "scenario", "report", "regex_anchor", "risk_buckets"):
        assert f'"{field}":' in sections["input"]
    assert "sn|sw|mn|mw" in sections["input"]
    assert '{"positive": [], "negative": [], "uncertain": []}' in sections["input"]
    assert "no markdown" in sections["end"] and "json object alone" in sections["end"]


def test_prompt_file(tmp_path) -> None:
    path = tmp_path / "prompt.md"
    path.write_text("Own words, as JSON.")
    assert system_prompt(str(path)) == "Own words, as JSON."
    for text, message in ((" \n", "is empty"), ("Own words.", "must ask for a JSON object")):
        path.write_text(text)
        with pytest.raises(ConfigError, match=message):
            system_prompt(str(path))
    with pytest.raises(ConfigError, match="cannot be read"):
        system_prompt(str(tmp_path / "none.md"))
