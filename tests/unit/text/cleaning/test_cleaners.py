"""Texts of reports: cleaners, sentences, and comparisons with an earlier study."""

from itertools import pairwise
from typing import Any, get_args

from hypothesis import example, given
from hypothesis import strategies as st

from pacer.config.corpus import Cleaner
from pacer.phantom.tokenizer import phantom_tokenizer
from pacer.text.cleaning import cleaners
from pacer.text.cleaning.cleaners import (
    CLEANERS,
    changed_number,
    clean_report,
    sentence_ends,
    token_marks,
    without_sentences,
)
from pacer.text.cleaning.wording import compares_with_prior, find_wording, prior_wording
from tests.support.cases import cases


@cases(__file__, "upstream", "iu_xray", "decimals")
def test_cleaners(kind: str, case: dict[str, Any]) -> None:
    clean = CLEANERS[kind]
    assert clean(case["raw"]) == case["cleaned"]
    if kind == "decimals":  # it changes no number, also if used twice
        assert clean(case["cleaned"]) == case["cleaned"]
        assert changed_number(case["raw"], case["cleaned"]) is None
        assert changed_number(case["raw"], clean_report(case["raw"])) == case["changed"]


def test_every_row_of_the_table_has_an_example() -> None:
    for *_, raw, cleaned in (row for name in cleaners._REPLACED for row in cleaners._TEXT[name]):
        assert CLEANERS["decimals"](raw) == f"{cleaned} ."


def test_every_cleaner_can_be_named() -> None:
    assert set(CLEANERS) == set(get_args(Cleaner))


@cases(__file__, "kept")
def test_whole_sentences_that_compare_are_taken_out(kind: str, case: dict[str, Any]) -> None:
    assert without_sentences(case["text"], compares_with_prior) == case["kept"]


@given(st.text("aB1 2.)!m\n", max_size=40))
def test_what_is_kept_is_in_the_text(text: str) -> None:
    kept = without_sentences(text, lambda sentence: "B" in sentence)
    assert kept is None or "B" not in kept
    assert sum(map((kept or "").count, "a1m")) <= sum(map(text.count, "a1m"))


SENTENCES = st.lists(
    st.tuples(
        st.lists(
            st.sampled_from(["the", "heart", "1.2", "cm", "effusion", "is", "äé", ".5", "pm", "-"]),
            min_size=1,
        ),
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
)


@given(SENTENCES)
def test_marked_tokens_are_exactly_those_of_marked_sentences(
    sentences: list[tuple[list[str], bool]],
) -> None:
    tokenizer = phantom_tokenizer(900)
    texts = [f"{' '.join(words)} ." for words, _ in sentences]
    report, marked = " ".join(texts), [marked for _, marked in sentences]
    ends = sentence_ends(report)
    assert [report[a:b].strip() for a, b in zip([0, *ends], ends, strict=False)] == texts
    encoding = tokenizer.encode(report, add_special_tokens=False)
    marks = token_marks(ends, marked, [end for _, end in encoding.offsets])
    assert marks[0] == 0.0 and marks[-1] == 0.0 and len(marks) == len(encoding.ids) + 2
    kept = [number for number, mark in zip(encoding.ids, marks[1:-1], strict=True) if mark]
    assert tokenizer.decode(kept).strip() == " ".join(
        t for t, m in zip(texts, marked, strict=True) if m
    )


@given(st.text(" .,:/1aB\n", max_size=40), st.sampled_from(sorted(CLEANERS)))
def test_sentences_cover_any_text_without_gaps(text: str, cleaner: str) -> None:
    report = CLEANERS[cleaner](text)
    ends = sentence_ends(report)
    assert ends[-1] == len(report) and ends == sorted(set(ends))


def test_a_text_without_an_end_is_one_sentence() -> None:
    assert (
        sentence_ends("no effusion") == [11]
        and sentence_ends("") == [0]
        and sentence_ends("a . b") == [3, 5]
    )


def forms(text: str) -> list[str]:
    return [
        text,
        text.upper(),
        text.replace(" ", "\n", 2),
        *(clean(text) for clean in CLEANERS.values()),
    ]


@cases(__file__, "comparing", "not comparing")
def test_wording_in_every_form(kind: str, case: dict[str, str]) -> None:
    for form in forms(case["text"]):
        assert compares_with_prior(form) == (kind == "comparing"), form
        assert (
            case["rule"] in prior_wording(form)
            if kind == "comparing"
            else prior_wording(form) == ()
        ), form


def test_rules_of_wording_are_named_once_in_order() -> None:
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
    assert [
        text[start:end] for text in ["more than 24 hours"] for start, end, _ in find_wording(text)
    ] == ["more than 24"]
    wide = "İİ unchanged İ"  # longer in small letters
    assert [wide[start:end] for start, end, _ in find_wording(wide)] == ["unchanged"]


def test_what_hides_ends_with_its_phrase() -> None:
    assert prior_wording("No prior studies. Effusion has increased.") == ("change verb",)
    assert prior_wording("Patient in stable condition with stable effusion.") == ("stable",)


@given(st.text(st.characters(exclude_categories=())))
@example("prior \ud800 study")
@example("\0")
def test_wording_of_any_text(text: str) -> None:
    assert compares_with_prior(text) == bool(prior_wording(text))
    found = find_wording(text)
    assert all(0 <= start < end <= len(text) for start, end, _ in found)
    assert all(one[1] <= two[0] for one, two in pairwise(found))
