"""The system prompt carries the paper's vocabulary, schema, input format and each of its 21 rules."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pacer.commitments.anchor import FINDINGS
from pacer.commitments.request import system_prompt
from pacer.core.errors import ConfigError

RULES: dict[int, list[str]] = YAML(typ="safe").load(Path(__file__).with_name("prompt_rules.yaml"))


@pytest.fixture(scope="module")
def sections() -> dict[str, str]:
    """Heading -> text, in lower case and with single blanks; the rules by number."""
    parts = re.split(r"^## (\w+)$", system_prompt(None), flags=re.MULTILINE)
    found = {name.lower(): text for name, text in zip(parts[1::2], parts[2::2])}
    rules, _, end = found.pop("rules").partition("\nReturn ")
    numbered = re.split(r"^(\d+)\. ", rules, flags=re.MULTILINE)
    found |= dict(zip(numbered[1::2], numbered[2::2])) | {"end": end}
    return {name: " ".join(text.lower().split()) for name, text in found.items()}


def test_the_rules_are_the_papers(sections: dict[str, str]) -> None:
    assert [name for name in sections if name.isdigit()] == [str(number) for number in RULES]
    lacking = {number: [word for word in words if word not in sections[str(number)]] for number, words in RULES.items()}
    assert not any(lacking.values()), lacking


def test_vocabulary_schema_and_input_format(sections: dict[str, str]) -> None:
    assert re.findall(r"- ([a-z ]+?)(?= -|$)", sections["findings"]) == list(FINDINGS)
    schema = ["sample_uid", "positive", "negative", "uncertain", "rationale"]
    assert re.findall(r'"(\w+)":', sections["output"]) == schema
    for field in ("sample_uid", "scenario", "report", "regex_anchor", "risk_buckets"):
        assert f'"{field}":' in sections["input"]
    assert "sn|sw|mn|mw" in sections["input"]
    assert '{"positive": [], "negative": [], "uncertain": []}' in sections["input"]
    text = system_prompt(None)  # the paper does not say what they are worth
    assert all(text.count(field) == 1 for field in ("regex_anchor", "risk_buckets", "scenario"))
    assert "no markdown" in sections["end"] and "json object alone" in sections["end"]


def test_prompt_file(tmp_path) -> None:
    path = tmp_path / "prompt.md"
    path.write_text("Own words, as JSON.")
    assert system_prompt(str(path)) == "Own words, as JSON."
    with pytest.raises(ConfigError, match="cannot be read"):
        system_prompt(str(tmp_path / "none.md"))
