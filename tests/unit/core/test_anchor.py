"""Anchors as text: rendering and parsing are inverses, and parsing forgives what a generator gets
wrong."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.anchor import (
    FINDINGS,
    MAX_PER_FIELD,
    POLARITIES,
    Anchor,
    contains_commitment,
    normalize_finding,
    parse_anchor,
    read_list,
    render_anchor,
)
from pacer.core.attributes import KINDS, VALUES, Attributes
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
        {finding: Attributes(*of_finding) for finding, of_finding in known.items()}
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
def test_sides_are_written_and_read(anchor: Anchor) -> None:
    """In a list and as lists for tables; severity and course have no place there. A model whose
    lists have no sides does not know the findings with one."""
    sided = anchor.with_sides(anchor.attributes)
    text = render_anchor(anchor)
    assert text == render_anchor(sided) == render_anchor(parse_anchor(text, sides=True))
    assert Anchor.of_lists(sided.as_dict()) == sided
    assert Anchor.of_lists(sided.as_dict(), sides=False) == sided.described({})
    for finding, known in anchor.attributes.items():
        assert sided.attributes.get(finding, Attributes()) == known.only(["side"])
    bare = parse_anchor(text)
    assert bare == parse_anchor(render_anchor(bare)) and not sided.attributes.keys() & set(
        bare.positive
    )


def test_own_sides_stay_when_others_are_added() -> None:
    both = {"left": Attributes(side=frozenset(["left"])), "right": Attributes(frozenset(["right"]))}
    listed = read_list("positive: left edema, pneumonia; negative: fracture", sides=True)
    added = dict.fromkeys(("edema", "pneumonia", "fracture", "atelectasis"), both["right"])
    expected = {"edema": both["left"], "pneumonia": both["right"]}
    assert listed.completed(added).attributes == expected


@pytest.mark.parametrize(("text", "written"), CASES["described"].items())
def test_the_words_of_sides(text: str, written: str) -> None:
    assert render_anchor(read_list(text, sides=True)) == f"<ANCHOR> {written} </ANCHOR>"


@pytest.mark.parametrize(("text", "sides", "message"), CASES["refused"])
def test_lists_with_sides_that_are_refused(text: str, sides: bool, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_list(text, sides)


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
