"""What the language stand-in learns from a report, by route: all of its target, or only what follows a given list."""

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pacer.backbones.standins import language
from pacer.backbones.standins.data import LabelledText
from pacer.backbones.tokenizer import read_tokenizer
from pacer.commitments.anchor import Anchor, render_anchor
from pacer.config.backbones import CARD
from pacer.data.prompt import instruction
from tests.support.cases import listed_cases

STATED = ("There is mild edema.", "There is a fracture.")
TEXT = LabelledText("", "mild edema .", Anchor(("edema",), ("pneumothorax",)), STATED, "PA", "findings", None, None)


@pytest.mark.parametrize(("bare", "commit", "given", "heard", "first", "sentences"), listed_cases(__file__, "examples"))
def test_a_given_list_is_not_learnt_and_the_slots_hold_less(bare, commit, given, heard, first, sentences, monkeypatch):
    for name, share in (("COMMIT", commit), ("HEARD", heard)):
        monkeypatch.setattr(language, name, share)
    tokenizer = read_tokenizer(CARD.parent / "language").backend_tokenizer
    encoded = language.encode(tokenizer, TEXT, instruction)
    assert tokenizer.decode(encoded.target[True][: encoded.commitment]) == render_anchor(TEXT.anchor)
    learnt, in_slots, slots_of = [], [], language.prefix_slots
    cross_entropy = torch.nn.functional.cross_entropy
    monkeypatch.setattr(language.F, "cross_entropy", lambda s, t: learnt.extend(t.tolist()) or cross_entropy(s, t))
    monkeypatch.setattr(language, "prefix_slots", lambda e, s, *a: in_slots.append(len(s)) or slots_of(e, s, *a))
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=len(tokenizer.get_vocab()), hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    )
    language._loss(model, [encoded], 4, bare, np.random.default_rng(0), language._Lists(given, 0.0, 1.0))
    assert tokenizer.decode(learnt, skip_special_tokens=False).strip(" ").startswith(first)
    assert learnt[-1] == language.EOS
    assert in_slots == [sentences]


@pytest.mark.parametrize(("given", "commit"), [(1.0, 1.0), (0.0, 1.0), (0.0, 0.0)])
def test_sentences_that_affirm_a_finding_weigh_more(given, commit, monkeypatch):
    monkeypatch.setattr(language, "COMMIT", commit)
    tokenizer = read_tokenizer(CARD.parent / "language").backend_tokenizer
    text = TEXT._replace(cleaned="no pneumothorax . mild edema . clear .")
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=len(tokenizer.get_vocab()), hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    )
    calls, cross_entropy = [], torch.nn.functional.cross_entropy

    def noted(scores, targets, **named):
        calls.append((targets, cross_entropy(scores, targets, **named)))
        return calls[-1][1]

    monkeypatch.setattr(language.F, "cross_entropy", noted)
    encoded = language.encode(tokenizer, text, instruction, marked=True)
    lists = language._Lists(given, 0.0, affirming=3.0)
    loss = language._loss(model, [encoded], 4, 0.0, np.random.default_rng(0), lists)
    [(targets, losses)] = calls
    words = [tokenizer.decode([target]) for target in targets.tolist()]
    weights, first = torch.ones(len(words)), words.index("mild")
    assert words[first : first + 3] == ["mild", "edema", "."]
    weights[first : first + 3] = 3
    assert loss.item() == pytest.approx((losses @ weights / weights.sum()).item())
