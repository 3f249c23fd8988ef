"""Anchors as text: rendering and parsing are inverses, and parsing forgives what a generator gets
wrong."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.anchor import (
    FINDINGS,
    KINDS,
    MAX_PER_FIELD,
    POLARITIES,
    VALUES,
    Anchor,
    Attributes,
    contains_commitment,
    normalize_finding,
    parse_anchor,
    read_list,
    render_anchor,
)
from pacer.core.errors import DataError
from pacer.core.io import yaml_beside

CASES: dict[str, Any] = yaml_beside(__file__, "anchor.yaml")
_FIELDS = st.lists(
    st.sampled_from(("positive", "negative", "uncertain", None)), min_size=13, max_size=13
)


@st.composite
def anchors(draw) -> Anchor:
    states = draw(_FIELDS)
    return Anchor(
        *(tuple(f for f, state in zip(FINDINGS, states) if state == name) for name in POLARITIES)
    )


@st.composite
def described(draw) -> Anchor:
    anchor = draw(anchors())
    values = (st.frozensets(st.sampled_from(VALUES[kind])) for kind in KINDS)
    known = draw(st.dictionaries(st.sampled_from(FINDINGS), st.tuples(*values)))
    return anchor.described(
        {finding: Attributes(*of_finding) for finding, of_finding in known.items()}, KINDS
    )


def cut(anchor: Anchor) -> Anchor:
    return Anchor(
        *(field[:MAX_PER_FIELD] for field in (anchor.positive, anchor.negative, anchor.uncertain))
    )


def test_form() -> None:
    anchor = Anchor(("cardiomegaly", "edema"), ("pneumothorax",))
    text = (
        "<ANCHOR> positive: cardiomegaly, edema; negative: pneumothorax; uncertain: none </ANCHOR>"
    )
    assert render_anchor(anchor) == text
    assert (
        render_anchor(Anchor())
        == "<ANCHOR> positive: none; negative: none; uncertain: none </ANCHOR>"
    )


@given(anchors(), st.text())
def test_inverse_also_inside_a_generation(anchor: Anchor, report: str) -> None:
    text = render_anchor(anchor)
    assert render_anchor(parse_anchor(text)) == text and contains_commitment(text)
    for generated in (text, f"{text}\n<REPORT>\n{report}\n</REPORT>"):
        assert parse_anchor(generated) == cut(anchor)


@given(described())
def test_attributes_are_written_and_read(anchor: Anchor) -> None:
    """In a list and as lists for tables; a model whose lists have none does not know the described
    findings."""
    text = render_anchor(anchor)
    assert render_anchor(parse_anchor(text, KINDS)) == text
    assert Anchor.of_lists(anchor.as_dict()) == anchor
    assert "attributes" in anchor.as_dict() or anchor == Anchor.of_lists(anchor.as_dict(), ())
    bare = parse_anchor(text)
    assert bare == parse_anchor(render_anchor(bare)) and not anchor.attributes.keys() & set(
        bare.positive
    )


@pytest.mark.parametrize(("text", "written"), CASES["described"].items())
def test_the_words_of_attributes(text: str, written: str) -> None:
    assert render_anchor(read_list(text, KINDS)) == f"<ANCHOR> {written} </ANCHOR>"


@pytest.mark.parametrize(("text", "kinds", "message"), CASES["refused"])
def test_lists_with_attributes_that_are_refused(text: str, kinds: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_list(text, kinds)


@pytest.mark.parametrize(
    ("text", "kind"), [(text, kind) for kind in ("imperfect", "without") for text in CASES[kind]]
)
def test_imperfect_text_and_text_without_a_commitment(text: str, kind: str) -> None:
    assert contains_commitment(text) == (kind == "imperfect")
    assert parse_anchor(text) == (
        Anchor(("edema",), ("fracture",)) if kind == "imperfect" else Anchor()
    )


@pytest.mark.parametrize(("fields", "message"), CASES["invalid"])
def test_invalid_commitments(fields: list[list[str]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Anchor(*map(tuple, fields[:3]), *fields[3:])


def test_conflicts_follow_the_published_priority() -> None:
    everywhere = ["edema"]
    assert Anchor.of(everywhere, everywhere, everywhere) == Anchor(("edema",))
    assert Anchor.of([], everywhere, everywhere) == Anchor((), (), ("edema",))


@pytest.mark.parametrize(("name", "finding"), CASES["names"].items())
def test_normalize_finding(name: str, finding: str | None) -> None:
    assert normalize_finding(name) == finding
