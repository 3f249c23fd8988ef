"""What stand-ins learn from: reports by route (all of the target, or what follows a given list) and
their data."""

import numpy as np
import polars as pl
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pacer.backbones.tokenizer import read_tokenizer
from pacer.config.backbones import CARD
from pacer.core.anchor import Anchor, render_anchor
from pacer.core.instruction import instruction
from pacer.standins import language
from pacer.standins.data import CorpusData, LabelledText, common_words
from pacer.text.rules import extract_anchor
from tests.support.cases import listed_cases
from tests.support.made_records import REPORTS, few_records

STATED = ("There is mild edema.", "There is a fracture.")
TEXT = LabelledText(
    "", "mild edema .", Anchor(("edema",), ("pneumothorax",)), STATED, "PA", "findings", None, None
)


@pytest.mark.parametrize(
    ("bare", "commit", "given", "heard", "first", "sentences"), listed_cases(__file__, "examples")
)
def test_a_given_list_is_not_learnt_and_the_slots_hold_less(
    bare, commit, given, heard, first, sentences, monkeypatch
):
    for name, share in (("COMMIT", commit), ("HEARD", heard)):
        monkeypatch.setattr(language, name, share)
    tokenizer = read_tokenizer(CARD.parent / "language").backend_tokenizer
    encoded = language.encode(tokenizer, TEXT, instruction)
    assert tokenizer.decode(encoded.target[True][: encoded.commitment]) == render_anchor(
        TEXT.anchor
    )
    learnt, in_slots, slots_of = [], [], language.prefix_slots
    cross_entropy = torch.nn.functional.cross_entropy
    monkeypatch.setattr(
        language.F, "cross_entropy", lambda s, t: learnt.extend(t.tolist()) or cross_entropy(s, t)
    )
    monkeypatch.setattr(
        language, "prefix_slots", lambda e, s, *a: in_slots.append(len(s)) or slots_of(e, s, *a)
    )
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer.get_vocab()),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
        )
    )
    language._loss(
        model, [encoded], 4, bare, np.random.default_rng(0), language._Lists(given, 0.0, 1.0)
    )
    assert tokenizer.decode(learnt, skip_special_tokens=False).strip(" ").startswith(first)
    assert learnt[-1] == language.EOS
    assert in_slots == [sentences]


def test_a_report_that_many_records_share_is_one_text_else_a_copy_is_both_learnt_and_held_out():
    train = few_records(".png").filter(split="train")
    assert len(train) == 24
    texts = CorpusData(train, pl.DataFrame(), seed=3).texts(100)
    assert sorted(text.raw for text in texts) == sorted(REPORTS)
    assert len(CorpusData(train, pl.DataFrame(), seed=3).texts(2)) == 2


def test_composed_reports_affirm_more_in_the_sentences_of_others() -> None:
    data = CorpusData(few_records(".png").filter(split="train"), pl.DataFrame(), seed=3)
    texts = data.texts(100)
    composed = data.recombined(texts, 200)
    assert composed == data.recombined(texts, 200) and len(composed) == 200
    sentences = {
        f"{one} ." for text in texts for one in text.cleaned.removesuffix(" .").split(" . ")
    }
    for text in composed:
        assert {f"{one} ." for one in text.cleaned.removesuffix(" .").split(" . ")} <= sentences
        assert text.anchor == extract_anchor(text.cleaned) and text.raw == text.cleaned
        # what is added takes the place of what says something else of the finding
        assert ("large right pleural effusion ." in text.cleaned) + (
            "no pleural effusion" in text.cleaned
        ) < 2
    positive = [
        sum(bool(one.anchor.positive) for one in some) / len(some) for some in (texts, composed)
    ]
    assert positive[0] == 0.5 and positive[1] > 0.75
    assert {finding for one in composed for finding in one.anchor.positive} == {
        "cardiomegaly",
        "pleural effusion",
    }
    assert (
        CorpusData(few_records(".png").head(1), pl.DataFrame(), seed=3).recombined(texts[:2], 0)
        == []
    )


def test_words_that_are_equally_frequent_are_in_one_order_in_all_processes() -> None:
    rare, frequent = [f"word{number:02}" for number in range(50)], ["edema", "effusion"]
    texts = [{*frequent, "heart"}] * 30 + [{*rare, "heart"}] * 12 + [{"once", "heart"}]
    assert common_words(texts) == frequent + rare
