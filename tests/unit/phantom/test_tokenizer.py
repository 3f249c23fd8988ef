"""The tokenizer: Llama's layout, exact round trips, the same every time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.data.cleaning import clean_report
from pacer.phantom.language import sample_texts
from pacer.phantom.tokenizer import commitment_text, phantom_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return phantom_tokenizer(900)


def test_layout_is_llamas(tokenizer):
    assert tokenizer.get_vocab_size() == 900
    assert [tokenizer.id_to_token(i) for i in range(3)] == ["<unk>", "<s>", "</s>"]
    assert tokenizer.token_to_id("<0x0A>") == 3 + 0x0A
    assert tokenizer.encode("edema .").ids[0] == 1
    assert tokenizer.encode("edema .").tokens[1] == "▁edema"


def test_whole_trajectories_round_trip(tokenizer):
    for report in sample_texts(77, 300):
        cleaned = clean_report(report.text)
        for text in (cleaned, report.text, f"{commitment_text(report)}\n<REPORT>\n{cleaned}\n</REPORT>"):
            ids = tokenizer.encode(text).ids
            assert tokenizer.decode(ids) == text
            assert 0 not in ids


@given(st.text(max_size=40).filter(lambda text: not text.startswith((" ", "▁"))))
def test_any_text_round_trips(text):
    tokenizer = phantom_tokenizer(900)
    if "▁" in text or any(token in text for token in ("<s>", "</s>", "<unk>")):
        return
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
