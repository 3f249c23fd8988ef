"""Generation and teacher forcing are one function: same prefix, same correction, same logits at
every step."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from pacer.decoding import generate
from pacer.decoding.generate import Generator
from pacer.model.assemble import load_tokenizer
from pacer.model.pacer import Pacer
from pacer.model.prompt import build_prompt
from pacer.training.examples import Examples, TokenSequence, collate
from pacer.training.trajectory import Span, Trajectory
from tests.support import searches
from tests.support.models import QUERIES, moved_model, specification
from tests.support.transformers_generate import Generate

#: Two records of each context; prompts differ in length, so rows are padded.
ROWS = [0, 1, 8, 11, 18, 19, 26, 27]
PLAIN = {"num_beams": 1, "repetition_penalty": 1.0, "length_penalty": 1.0}
settings = partial(searches.settings, max_new_tokens=24, batch_size=8, **PLAIN)


@pytest.fixture(params=["calibrated", "parent"])
def generator(
    request: pytest.FixtureRequest, backbones, features, monkeypatch: pytest.MonkeyPatch
) -> Generator:
    """A model with no parameter at its initial value and LoRA merged, with and without
    Calibrate, decoded by the reference."""
    monkeypatch.setattr(generate, "BeamSearch", Generate)
    model = moved_model(
        backbones, specification("calibrate" if request.param == "calibrated" else "parent")
    )
    with torch.no_grad():
        model.language.lm_head.weight[2] *= 2.2  # some rows end early, so that lengths differ
        if model.calibrator is not None:
            model.calibrator.gate_out.bias.add_(3.0)  # the correction is large enough to be seen
    model.merge_lora()
    return Generator(model, load_tokenizer(backbones), features, specification(), settings())


class Heard(NamedTuple):
    """One call of the language model's ``generate``: what it was given, and what it said step by
    step."""

    inputs: Tensor
    mask: Tensor
    sequences: list[list[int]]
    logits: list[Tensor]


def listen(generator: Generator, records: list[dict], monkeypatch: pytest.MonkeyPatch) -> Heard:
    """Run the generator; ``logits`` holds, for every row, those that each of its tokens was chosen
    from."""
    heard: list[Heard] = []
    generate, eos = generator.model.language.generate, generator.tokenizer.eos_token_id

    def spy(**options: Any) -> Tensor:
        found = generate(
            **options, return_dict_in_generate=True, output_logits=True, output_scores=True
        )
        sequences, logits = [], []
        for row, tokens in enumerate(found.sequences.tolist()):
            tokens = tokens[: tokens.index(eos) + 1] if eos in tokens else tokens
            beams = (
                [row] * len(tokens)
                if options["num_beams"] == 1
                else found.beam_indices[row].tolist()
            )
            sequences.append(tokens)
            logits.append(
                torch.stack([found.logits[step][beams[step]] for step in range(len(tokens))])
            )
        heard.append(Heard(options["inputs_embeds"], options["attention_mask"], sequences, logits))
        return found.sequences

    with monkeypatch.context() as patch:
        patch.setattr(generator.model.language, "generate", spy)
        results = generator(records)
    assert [result.tokens for result in results] == [len(tokens) for tokens in heard[0].sequences]
    return heard[0]


def teacher_forced(
    generator: Generator, records: list[dict], sequences: list[list[int]]
) -> list[Tensor]:
    """Logits of the given target tokens from one training pass over right-padded rows."""
    prompts = [
        build_prompt(generator.tokenizer, r, commit=True, **specification().prompt.model_dump())
        for r in records
    ]
    targets = []
    for tokens in sequences:
        ids = np.array([generator.tokenizer.bos_token_id, *tokens], dtype=np.int64)
        spans = np.array([Span.BOS, *[Span.REPORT] * len(tokens)], dtype=np.int8)
        targets.append(Trajectory(ids, spans, np.zeros(len(ids), dtype=np.float32), commit=True))
    bos = generator.tokenizer.bos_token_id
    sequences_of_records = [
        TokenSequence(prompt.prefix(bos, QUERIES), prompt.visual_start, target)
        for prompt, target in zip(prompts, targets, strict=True)
    ]
    batch = collate(sequences_of_records, records, generator.features, lambda_q=1.0)
    model: Pacer = generator.model
    with torch.no_grad():
        inputs, _, _ = model.calibrate(model.embed(batch), batch)
        logits = model.language.lm_head(model.predicting_states(inputs, batch))
    return list(logits.split([len(tokens) for tokens in sequences]))


@pytest.mark.parametrize(
    "options",
    [
        {"num_beams": 1},
        {"num_beams": 1, "repetition_penalty": 2.0, "min_new_tokens": 12},
        {"num_beams": 3},
        {"num_beams": 3, "repetition_penalty": 2.0, "length_penalty": 2.0, "min_new_tokens": 12},
    ],
    ids=["greedy", "greedy with penalties", "beams", "beams with penalties"],
)
def test_rescoring_a_generation_gives_the_logits_it_was_made_with(
    options: dict, generator: Generator, examples: Examples, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator.decode = settings(**options)
    records = [examples.table.row(row) for row in ROWS]
    heard = listen(generator, records, monkeypatch)
    assert len(set(map(tuple, heard.sequences))) > 1
    if options == {"num_beams": 1}:
        assert len(set(map(len, heard.sequences))) >= 3  # some rows end before others
    rescored = teacher_forced(generator, records, heard.sequences)
    for tokens, own, other in zip(heard.sequences, heard.logits, rescored, strict=True):
        torch.testing.assert_close(other, own, rtol=0, atol=1e-4)
        if options == {"num_beams": 1}:
            assert other.argmax(-1).tolist() == tokens


def test_generation_starts_from_the_training_prefix(
    generator: Generator, examples: Examples, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same ids, and bit for bit the same calibrated embeddings, with the target's BOS as the
    table has it."""
    records = [examples.table.row(row) for row in ROWS]
    heard, model = listen(generator, records, monkeypatch), generator.model
    table = model.language.get_input_embeddings().weight
    for place, (row, record) in enumerate(zip(ROWS, records, strict=True)):
        training, own = examples.batch([row], [True], 0.35), generator.batch(record)
        with torch.no_grad():
            embedded = model.embed(training)
            inputs, _, residual = model.calibrate(embedded, training)
        assert torch.equal(own.visual_start, training.visual_start)
        prefix = int(training.prefix_length)
        assert (int(own.prefix_length), int(own.length)) == (prefix, prefix + 1)
        assert torch.equal(own.ids[0, : prefix + 1], training.ids[0, : prefix + 1])
        given = heard.inputs[place][heard.mask[place].bool()]
        assert len(given) == prefix + 1
        assert torch.equal(given[:prefix], inputs[0, :prefix])
        assert torch.equal(given[prefix], table[generator.tokenizer.bos_token_id])
        if residual is not None:  # and the correction is no trifle, the first BOS included
            changed = (given[:prefix] - embedded.inputs[0, :prefix]).abs().amax(-1)
            assert (changed > 1e-3).all()


def test_a_direct_configuration_starts_from_the_direct_prefix(
    generator: Generator, examples: Examples
) -> None:
    direct = Generator(
        generator.model,
        generator.tokenizer,
        generator.features,
        specification(commit={"route": "direct"}),
        settings(),
    )
    training = examples.batch(ROWS, [False] * 8, 0.35)
    for place, prefix in enumerate(training.prefix_length.tolist()):
        own = direct.batch(examples.table.row(ROWS[place]))
        assert int(own.length) == prefix + 1
        assert torch.equal(own.ids[0], training.ids[place, : prefix + 1])
