"""Side, severity and course of findings: sentences marked by hand, and people's terms."""

import gzip
import json
import re
from typing import Any

import pytest

from pacer.core.attributes import Attributes
from pacer.text.rules import extract_anchor, read_attributes
from tests.support.cases import cases, listed_cases
from tests.support.real import real


def read(text: str) -> dict[str, set[str]]:
    return {finding: set().union(*values) for finding, values in read_attributes(text).items()}


@pytest.mark.parametrize(("text", "expected"), listed_cases(__file__, "sentences"))
def test_affirmed_findings_of_a_sentence(text: str, expected: dict[str, str]) -> None:
    affirmed = extract_anchor(text).positive
    assert {
        finding: words for finding, words in read(text).items() if finding in affirmed
    } == marked(expected)


@pytest.mark.parametrize(("text", "expected"), listed_cases(__file__, "phrases"))
def test_words_describe_the_findings_of_their_phrase(text: str, expected: dict[str, str]) -> None:
    assert read(text) == marked(expected)


def marked(values: dict[str, str]) -> dict[str, set[str]]:
    return {finding: set(words.split()) for finding, words in values.items()}


@pytest.mark.parametrize(("difference", "reference", "report"), listed_cases(__file__, "pairs"))
def test_pairs_differ_in_one_attribute(difference: str, reference: str, report: str) -> None:
    both = set(extract_anchor(reference).positive) & set(extract_anchor(report).positive)
    one, other = read_attributes(reference), read_attributes(report)
    differing = {
        name
        for finding in both
        for name in Attributes._fields
        if getattr(one[finding], name) != getattr(other[finding], name)
    }
    assert both and differing == {difference} - {"same"}


@cases(__file__, "qualifiers")
def test_people_gave_the_same_qualifiers(kind: str, case: dict[str, Any]) -> None:
    attribute, meanings = (
        case["attribute"],
        {name: set(words.split()) for name, words in case["meanings"].items()},
    )
    pairs = []
    for row in map(
        json.loads, gzip.decompress(real("openi/reports.jsonl.gz").read_bytes()).splitlines()
    ):
        text = f"{row.get('findings') or ''} {row.get('impression') or ''}"
        terms = [term.split("/") for term in row.get("mesh_major", [])]
        for heading, finding in case["headings"].items():
            given = [qualifiers for name, *qualifiers in terms if name == heading]
            values = [
                meanings[one] for one in (given[0] if len(given) == 1 else ()) if one in meanings
            ]
            if (
                values
                and finding in extract_anchor(text).positive
                and re.search(case["words"], text, re.I)
            ):
                pairs.append(
                    (set().union(*values), getattr(read_attributes(text)[finding], attribute))
                )
    found = [(given, got) for given, got in pairs if got]
    assert len(pairs) > 300 and len(found) / len(pairs) > case["read"]
    right = sum(
        bool(given & got) if attribute == "severity" else given == got for given, got in found
    )
    assert right > case["right"] * len(found)
