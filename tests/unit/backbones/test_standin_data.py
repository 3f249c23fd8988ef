"""The data that stand-ins are trained on."""

import polars as pl

from pacer.backbones.standins.data import CorpusData
from pacer.commitments.rules import extract_anchor
from tests.support.made_records import REPORTS, few_records


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
    sentences = {f"{one} ." for text in texts for one in text.cleaned.removesuffix(" .").split(" . ")}
    for text in composed:
        assert {f"{one} ." for one in text.cleaned.removesuffix(" .").split(" . ")} <= sentences
        assert text.anchor == extract_anchor(text.cleaned) and text.raw == text.cleaned
        # what is added takes the place of what says something else of the finding
        assert ("large right pleural effusion ." in text.cleaned) + ("no pleural effusion" in text.cleaned) < 2
    positive = [sum(bool(one.anchor.positive) for one in some) / len(some) for some in (texts, composed)]
    assert positive[0] == 0.5 and positive[1] > 0.75
    assert {finding for one in composed for finding in one.anchor.positive} == {"cardiomegaly", "pleural effusion"}
    assert CorpusData(few_records(".png").head(1), pl.DataFrame(), seed=3).recombined(texts[:2], 0) == []
