"""Both engines behind the whole generator, and what a record's result depends on."""

from typing import Any

import pytest
import torch

from pacer.core.errors import BackboneError
from pacer.decoding.generate import Generator
from pacer.model.assemble import load_tokenizer
from tests.support.models import moved_model, specification
from tests.support.searches import settings


@pytest.fixture(params=[(True, True), (True, False), (False, True)], ids=["whole", "parent", "LoRA beside"])
def generator(request: pytest.FixtureRequest, backbones, features) -> Generator:
    """No parameter at its initial value; LoRA merged or beside the weights, with and without Calibrate."""
    merged, calibrate = request.param
    model = moved_model(backbones, specification("calibrate" if calibrate else "parent"), seed=4)
    with torch.no_grad():
        model.language.lm_head.weight[2] *= 5.0  # some rows end early
    if merged:
        model.merge_lora()
    return Generator(model, load_tokenizer(backbones), features, specification(), settings(max_new_tokens=24))


def rows(records: Any) -> list[dict]:
    return [row for row in records.iter_rows(named=True) if row["split"] == "train"]


def test_engines_give_the_same_results(generator: Generator, records) -> None:
    generator.decode = settings(max_new_tokens=24, min_new_tokens=6, length_penalty=0.0)
    ours = generator(rows(records))
    generator.decode = generator.decode.model_copy(update={"engine": "generate"})
    theirs = generator(rows(records))
    assert len(set(result.tokens for result in ours)) > 1
    for own, other, row in zip(ours, theirs, rows(records), strict=True):
        assert (own.text, own.tokens, own.gate) == (other.text, other.tokens, other.gate)
        assert torch.equal(own.depth_weights["frontal"], other.depth_weights["frontal"])
        assert ("lateral" in own.depth_weights) == (row["lateral"] is not None)


def test_generate_is_used_where_the_beam_search_does_not_know_the_attention(
    generator: Generator, records, capsys: pytest.CaptureFixture[str]
) -> None:
    language, specific = generator.model.language, specification()
    language.config.sliding_window = 4
    named = generator.model, generator.tokenizer, generator.features, specific
    other = Generator(*named, settings(max_new_tokens=6))
    assert (
        "does not support sliding-window attention (4 positions); using decode.engine: generate"
        in capsys.readouterr().out
    )
    asked: list[object] = []
    generate = language.generate
    language.generate = lambda **inputs: asked.append(1) or generate(**inputs)
    assert len(other(rows(records)[:2])) == 2 and asked
    for choice in ({"select": "agreement"}, {"commitment": "read"}):
        with pytest.raises(BackboneError, match="select: score and decode"):
            Generator(*named, settings(**choice))
