"""The data that stand-ins are trained on."""

import polars as pl

from pacer.backbones.standins.data import CorpusData
from tests.support.made_records import REPORTS, few_records


def test_a_report_that_many_records_share_is_one_text_else_a_copy_is_both_learnt_and_held_out():
    train = few_records(".png").filter(split="train")
    assert len(train) == 24
    texts = CorpusData(train, pl.DataFrame(), seed=3).texts(100)
    assert sorted(text.raw for text in texts) == sorted(REPORTS)
    assert len(CorpusData(train, pl.DataFrame(), seed=3).texts(2)) == 2
