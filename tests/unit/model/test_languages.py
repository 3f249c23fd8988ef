"""Language models of each family: what training and decoding compute is what the model itself computes."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from pacer.backbones.tokenizer import read_tokenizer
from pacer.decoding.beam import BeamSearch, Generate, unknown_attention
from pacer.model.assemble import from_modules
from pacer.model.batch import TrainingBatch
from pacer.model.pacer import Pacer
from tests.support.families import LANGUAGES, write_language
from tests.support.models import DEPTHS, GRID, QUERIES, WIDTH, specification
from tests.support.searches import found, settings


@pytest.fixture(scope="module", params=LANGUAGES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_language(request.param, tmp_path_factory.mktemp(request.param))


def built(folder: Path, targets: list[str] | None) -> Pacer:
    torch.manual_seed(3)
    language = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    lora = {"lora": {"targets": targets}}
    return from_modules(language, torch.nn.LayerNorm(WIDTH), 20, specification("parent", **lora)).eval()


def one_batch(length: int = 30) -> TrainingBatch:
    torch.manual_seed(4)
    at = torch.cat([row * length + torch.arange(13, length) for row in range(2)])
    return TrainingBatch(
        ids=torch.randint(3, 590, (2, length)),
        visual_start=torch.tensor([2, 2]),
        prefix_length=torch.tensor([12, 12]),
        longest_prefix=12,
        length=torch.tensor([length, length]),
        at=at,
        omega=torch.ones(len(at)),
        s=torch.zeros(len(at)),
        omega_cons=torch.ones(len(at), dtype=torch.bool),
        consistent=len(at),
        kappa=torch.ones(2),
        availability=torch.zeros(2, 2, dtype=torch.bool),
        frontal=torch.randn(2, len(DEPTHS), GRID * GRID, WIDTH),
    )


@torch.no_grad()
def test_tokens_are_embedded_as_the_model_does_and_visual_tokens_as_they_are(folder: Path) -> None:
    """Gemma multiplies embeddings by the root of its width, but not ``inputs_embeds``, nor its own image tokens."""
    model, batch = built(folder, None), one_batch()
    embedded = model.embed(batch)
    own = model.language.model.embed_tokens(batch.ids)
    visual = torch.zeros(30, dtype=torch.bool)
    visual[2 : 2 + QUERIES] = True
    assert torch.equal(embedded.inputs[:, ~visual], own[:, ~visual])
    assert torch.equal(embedded.inputs[:, visual], embedded.sources.fused)
    scale = 24**0.5 if model.language.config.model_type == "gemma3_text" else 1.0
    torch.testing.assert_close(own, model.language.model.embed_tokens.weight[batch.ids] * scale)
    expected = model.language(input_ids=batch.ids).logits
    logits = model.language.lm_head(model.hidden(own))
    torch.testing.assert_close(logits, expected)


@torch.no_grad()
def test_states_at_predicted_tokens_do_not_depend_on_what_is_left_out(folder: Path) -> None:
    model, batch = built(folder, None), one_batch()
    inputs = model.embed(batch).inputs
    expected = model.hidden(inputs)[:, 12:-1].flatten(0, 1)
    torch.testing.assert_close(model.predicting_states(inputs, batch), expected)


def test_lora_by_name_or_where_peft_puts_it(folder: Path) -> None:
    for targets, expected in ((None, {"q_proj", "v_proj"}), (["o_proj", "up_proj"], {"o_proj", "up_proj"})):
        trained = [name for name, p in built(folder, targets).language.named_parameters() if p.requires_grad]
        assert {name.split(".")[-4] for name in trained} == expected and all("lora_" in name for name in trained)


def test_the_beam_search_takes_the_attention_that_it_knows(folder: Path) -> None:
    """Mistral's and Gemma's have sliding windows here; the others' search gives the tokens of ``generate``."""
    language = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    unknown = unknown_attention(language.config)
    assert bool(unknown) == (language.config.model_type in ("mistral", "gemma3_text"))
    if unknown:
        return
    torch.manual_seed(5)
    prefixes = [torch.randn(length, 24, dtype=torch.float64) for length in (3, 9, 5, 14)]
    eos, decode = read_tokenizer(folder).eos_token_id, settings(max_new_tokens=12)
    expected = found(Generate(language, decode, eos), prefixes)
    assert found(BeamSearch(language, decode, eos), prefixes) == expected
