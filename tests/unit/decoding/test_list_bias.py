"""The bias on affirmed findings: what it adds to a whole text, and that both engines add it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pacer.backbones.tokenizer import read_tokenizer
from pacer.commitments.anchor import Anchor, render_anchor
from pacer.config.backbones import CARD
from pacer.data.findings import FINDINGS
from pacer.decoding.beam import BeamSearch, Generate
from pacer.decoding.hypotheses import ListBias
from tests.support.searches import EOS, found, random_case

TOKENIZER = read_tokenizer(CARD.parent / "language")


@given(present=st.sets(st.sampled_from(FINDINGS), max_size=6), absent=st.sets(st.sampled_from(FINDINGS), max_size=3))
def test_a_text_gains_the_bias_once_for_each_finding_that_its_list_affirms(present: set[str], absent: set[str]) -> None:
    listed = render_anchor(Anchor.of(positive=present, negative=absent - present))
    text = f"{listed}\n<REPORT>\nedema, effusion: none; no fracture"
    ids = torch.tensor(TOKENIZER(text, add_special_tokens=False)["input_ids"])
    bias, total = ListBias(TOKENIZER, 1.5), 0.0
    for length in range(len(ids)):
        # another beam, and what an earlier text left behind the first tokens
        tokens = torch.stack([ids, ids.flip(0)])[None].clone()
        tokens[:, :, length:] = bias.ends[0]
        scores = bias(torch.zeros(1, 2, len(TOKENIZER)), tokens, torch.tensor([length]))
        total += float(scores[0, 0, ids[length]])
        assert not scores[0, 1].any() and set(scores.unique().tolist()) <= {0.0, 1.5, 3.0}
    assert total == 1.5 * len(present)


@pytest.mark.parametrize("seed", range(4))
def test_both_engines_add_it(seed: int) -> None:
    """To texts of random tokens: the list begins at once."""
    case = random_case(seed)
    bias = ListBias.__new__(ListBias)
    vars(bias).update(bias=2.0, start=[], none=[5], commas=[7, 11], ends=[9])
    unbiased, expected = (found(Generate(case.language, case.decode, EOS, one), case.prefixes) for one in (None, bias))
    assert found(BeamSearch(case.language, case.decode, EOS, bias), case.prefixes) == expected != unbiased
