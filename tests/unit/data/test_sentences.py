"""Sentences: texts without some of them, and whole ones in the tokens of a language model."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pacer.data.cleaning import CLEANERS, sentence_ends, token_marks, without_sentences
from pacer.data.wording import compares_with_prior
from pacer.phantom.language import phantom_tokenizer
from tests.support.cases import cases


@cases(__file__)
def test_whole_sentences_that_compare_are_taken_out(kind: str, case: dict[str, Any]) -> None:
    assert without_sentences(case["text"], compares_with_prior) == case["kept"]


@given(st.text("aB1 2.)!m\n", max_size=40))
def test_what_is_kept_is_in_the_text(text: str) -> None:
    kept = without_sentences(text, lambda sentence: "B" in sentence)
    assert kept is None or "B" not in kept
    assert sum(map((kept or "").count, "a1m")) <= sum(map(text.count, "a1m"))


SENTENCES = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["the", "heart", "1.2", "cm", "effusion", "is", "äé", ".5", "pm", "-"]), min_size=1),
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
)


@given(SENTENCES)
def test_marked_tokens_are_exactly_those_of_marked_sentences(sentences: list[tuple[list[str], bool]]) -> None:
    tokenizer = phantom_tokenizer(900)
    texts = [f"{' '.join(words)} ." for words, _ in sentences]
    report, marked = " ".join(texts), [marked for _, marked in sentences]
    ends = sentence_ends(report)
    assert [report[a:b].strip() for a, b in zip([0, *ends], ends, strict=False)] == texts
    encoding = tokenizer.encode(report, add_special_tokens=False)
    marks = token_marks(ends, marked, [end for _, end in encoding.offsets])
    assert marks[0] == 0.0 and marks[-1] == 0.0 and len(marks) == len(encoding.ids) + 2
    kept = [number for number, mark in zip(encoding.ids, marks[1:-1], strict=True) if mark]
    assert tokenizer.decode(kept).strip() == " ".join(t for t, m in zip(texts, marked, strict=True) if m)


@given(st.text(" .,:/1aB\n", max_size=40), st.sampled_from(sorted(CLEANERS)))
def test_sentences_cover_any_text_without_gaps(text: str, cleaner: str) -> None:
    report = CLEANERS[cleaner](text)
    ends = sentence_ends(report)
    assert ends[-1] == len(report) and ends == sorted(set(ends))


def test_a_text_without_an_end_is_one_sentence() -> None:
    assert sentence_ends("no effusion") == [11] and sentence_ends("") == [0] and sentence_ends("a . b") == [3, 5]
