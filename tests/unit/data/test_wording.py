"""Wording that presupposes an earlier examination: hand-written sentences, real reports, and the phantom's."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from pacer.data.cleaning import CLEANERS
from pacer.data.wording import compares_with_prior, find_wording, prior_wording
from tests.support.cases import cases


def forms(text: str) -> list[str]:
    return [text, text.upper(), text.replace(" ", "\n", 2), *(clean(text) for clean in CLEANERS.values())]


@cases(__file__)
def test_sentences_in_every_form(kind: str, case: dict[str, str]) -> None:
    for form in forms(case["text"]):
        assert compares_with_prior(form) == (kind == "comparing"), form
        assert case["rule"] in prior_wording(form) if kind == "comparing" else prior_wording(form) == (), form


def test_rules_are_named_once_in_order() -> None:
    text = "Unchanged heart. New opacity. The mediastinum is unchanged."
    assert prior_wording(text) == ("unchanged", "new")
    assert prior_wording("") == ()


def test_the_phrase_of_a_rule_is_found_where_it_stands() -> None:
    text = "As COMPARED  with\nprior study, a new line\thas been  inserted. No prior films."
    assert [(text[start:end], rule) for start, end, rule in find_wording(text)] == [
        ("COMPARED", "comparison"),
        ("prior study", "prior study"),
        ("new", "new"),
        ("has been  inserted", "change verb"),
    ]
    assert [text[start:end] for text in ["more than 24 hours"] for start, end, _ in find_wording(text)] == [
        "more than 24"
    ]
    wide = "İİ unchanged İ"  # longer in small letters
    assert [wide[start:end] for start, end, _ in find_wording(wide)] == ["unchanged"]


def test_what_hides_ends_with_its_phrase() -> None:
    assert prior_wording("No prior studies. Effusion has increased.") == ("change verb",)
    assert prior_wording("Patient in stable condition with stable effusion.") == ("stable",)


@given(st.text(st.characters(exclude_categories=())))
@example("prior \ud800 study")
@example("\0")
def test_any_text(text: str) -> None:
    assert compares_with_prior(text) == bool(prior_wording(text))
    found = find_wording(text)
    assert all(0 <= start < end <= len(text) for start, end, _ in found)
    assert all(one[1] <= two[0] for one, two in pairwise(found))
