import threading
from functools import partial

import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pacer.backbones.tokenizer import read_tokenizer
from pacer.config.backbones import CARD
from pacer.core.anchor import Anchor, render_anchor
from pacer.core.errors import DataError
from pacer.core.findings import FINDINGS
from pacer.decoding import generate
from pacer.decoding.beam import BeamSearch
from pacer.decoding.extract import extract_report
from pacer.decoding.generate import Generator
from pacer.decoding.list_bias import ListBias
from pacer.model.assemble import load_tokenizer
from tests.support import searches
from tests.support.cases import listed_cases
from tests.support.models import moved_model, specification
from tests.support.searches import EOS, found, random_case
from tests.support.transformers_generate import Generate

settings = partial(searches.settings, min_new_tokens=4, max_new_tokens=12, batch_size=8)


@pytest.fixture
def generator(backbones, features):
    return Generator(
        moved_model(backbones), load_tokenizer(backbones), features, specification(), settings()
    )


@pytest.fixture(params=[BeamSearch, Generate])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generators use our search, then the reference."""
    monkeypatch.setattr(generate, "BeamSearch", request.param)


@pytest.mark.usefixtures("engine")
def test_the_prefix_that_was_trained_is_decoded(generator, records: pl.DataFrame) -> None:
    """Interface, router and gate compute in float32, and a language model in bfloat16 gets what
    they give unrounded."""
    model = generator.model
    model.language.to(torch.bfloat16)
    generator.decode = settings(batch_size=1)
    row = records.filter(pl.col("context") == "mw").row(0, named=True)
    batch, seen = generator.batch(row), []
    model.language.model.layers[0].register_forward_pre_hook(
        lambda module, inputs: seen.append(inputs[0].detach())
    )
    with torch.no_grad():
        model.hidden(model.calibrate(model.embed(batch), batch)[0])
    generator([row])
    assert seen[0].dtype == torch.float32 and (seen[0] != seen[0].bfloat16()).any()
    assert torch.equal(seen[0], seen[1][:1])


@pytest.mark.usefixtures("engine")
def test_generated_tokens_enter_the_language_model_as_trained_ones_do(generator, records) -> None:
    """Sums between the blocks stay in float32 for generated tokens too, and no hook stays on the
    model."""
    language = generator.model.language.to(torch.bfloat16)
    blocks, types = language.model.layers, []
    handles = [
        block.register_forward_pre_hook(
            lambda _, inputs: types.append((inputs[0].shape[1], inputs[0].dtype))
        )
        for block in blocks
    ]
    generator(records.head(3).to_dicts())
    assert len(types) > len(blocks) and {kind for _, kind in types} == {torch.float32}
    for handle in handles:
        handle.remove()
    assert language.get_input_embeddings()(torch.tensor([1])).dtype == torch.bfloat16


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_prefix_that_is_no_number_is_refused_with_its_record(
    generator, records, wrong: float
) -> None:
    rows = records.filter(pl.col("context") == "mw").to_dicts()
    states = generator.features.depth_states
    generator.features.depth_states = lambda ids: (
        states(ids).fill_(wrong) if rows[2]["frontal"] in ids else states(ids)
    )
    with pytest.raises(DataError, match=f"record {rows[2]['record_id']}: .*NaN or infinite"):
        generator(rows)


@pytest.mark.parametrize(("generated", "report", "fallback"), listed_cases(__file__, "extractions"))
def test_extraction_as_published(generated: str, report: str, fallback: bool) -> None:
    extraction = extract_report(generated)
    assert (extraction.report, extraction.fallback) == (report, fallback)
    assert extraction.anchor == (
        Anchor.of(positive=["edema"]) if "positive:" in generated else None
    )


def test_features_are_read_ahead_and_change_nothing(generator, records, monkeypatch) -> None:
    rows = records.to_dicts()
    generator.decode = settings(batch_size=1)
    alone, threads = generator(rows), set()
    read = generator.features.depth_states
    monkeypatch.setattr(
        generator.features,
        "depth_states",
        lambda ids: threads.add(threading.current_thread().name) or read(ids),
    )
    ahead = [
        result
        for _, result in sorted(generator.stream(rows, workers=2), key=lambda placed: placed[0])
    ]
    assert threading.main_thread().name not in threads
    assert [result.text for result in ahead] == [result.text for result in alone]


TOKENIZER = read_tokenizer(CARD.parent / "language")


@given(
    present=st.sets(st.sampled_from(FINDINGS), max_size=6),
    absent=st.sets(st.sampled_from(FINDINGS), max_size=3),
)
def test_a_text_gains_the_bias_once_for_each_finding_that_its_list_affirms(
    present: set[str], absent: set[str]
) -> None:
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
    unbiased, expected = (
        found(Generate(case.language, case.decode, EOS, one), case.prefixes) for one in (None, bias)
    )
    assert (
        found(BeamSearch(case.language, case.decode, EOS, bias), case.prefixes)
        == expected
        != unbiased
    )
