"""Families of language models, the prompt that they read, and the size of the published model."""

from itertools import product
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from pacer.backbones.tokenizer import read_tokenizer
from pacer.core.instruction import instruction, task
from pacer.decoding.beam import BeamSearch
from pacer.model.assemble import from_modules
from pacer.model.batch import TrainingBatch
from pacer.model.checkpoint import specification_of
from pacer.model.pacer import Pacer
from pacer.model.prompt import build_prompt
from pacer.training.phases import phase_of
from tests.support.cases import listed_cases
from tests.support.families import LANGUAGES, write_language
from tests.support.models import DEPTHS, GRID, QUERIES, WIDTH, specification
from tests.support.profiles import profile
from tests.support.searches import found, settings
from tests.support.transformers_generate import Generate


@pytest.fixture(scope="module", params=LANGUAGES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_language(request.param, tmp_path_factory.mktemp(request.param))


def built(folder: Path, targets: list[str] | None) -> Pacer:
    torch.manual_seed(3)
    language = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    lora = {"lora": {"targets": targets}}
    return from_modules(
        language, torch.nn.LayerNorm(WIDTH), 20, specification("parent", **lora)
    ).eval()


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
    """Gemma multiplies embeddings by the root of its width, but not ``inputs_embeds``, nor its own
    image tokens."""
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
    for targets, expected in (
        (None, {"q_proj", "v_proj"}),
        (["o_proj", "up_proj"], {"o_proj", "up_proj"}),
    ):
        trained = [
            name
            for name, p in built(folder, targets).language.named_parameters()
            if p.requires_grad
        ]
        assert {name.split(".")[-4] for name in trained} == expected and all(
            "lora_" in name for name in trained
        )


@pytest.mark.parametrize("family", LANGUAGES)
def test_the_beam_search_gives_the_tokens_of_the_reference(family: str, tmp_path: Path) -> None:
    """The windows of Mistral and Gemma hold the longest prefix and its text."""
    folder = write_language(family, tmp_path, window=14 + 12 - 1)
    language = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    torch.manual_seed(5)
    prefixes = [torch.randn(length, 24, dtype=torch.float64) for length in (3, 9, 5, 14)]
    eos, decode = (
        read_tokenizer(folder).eos_token_id,
        settings(min_new_tokens=12, max_new_tokens=12),
    )
    expected = found(Generate(language, decode, eos), prefixes)
    assert found(BeamSearch(language, decode, eos), prefixes) == expected


RECORD = {
    "view": "PA",
    "sections": "findings+impression",
    "indication": None,
    "history": None,
    "commit": False,
}


@pytest.fixture(scope="module")
def tokenizer(backbones):
    return AutoTokenizer.from_pretrained(backbones / "language")


DIRECT = (
    "</Img> Write radiological finding and impression for this posterior anterior chest X-ray "
    "visual feature. \nAssistant:"
)
COMMITMENT = (
    "visual feature. First output <ANCHOR> positive, negative and uncertain findings, then output "
    "the final report in <REPORT>. \nAssistant:"
)


def test_the_instruction_is_upstreams_and_the_commitment_suffix_part_of_it() -> None:
    known = RECORD | {"indication": "Cough.", "history": "Smoker."}
    assert instruction(**known) == ("Human: INDICATION: Cough. HISTORY: Smoker. <Img>", DIRECT)
    assert instruction(**RECORD)[0] == "Human:  <Img>"
    assert instruction(**RECORD | {"commit": True})[1].endswith(COMMITMENT)


@pytest.mark.parametrize(
    ("view", "sections", "unknown_view", "expected"), listed_cases(__file__, "tasks")
)
def test_task_strings(view: str, sections: str, unknown_view, expected: str) -> None:
    assert (
        task(view, sections, unknown_view)
        == "\n" * (view == "other") + f"Write radiological {expected}"
    )


def test_as_upstream_a_long_history_takes_the_image_marker_with_it(tokenizer) -> None:
    record = {**RECORD, "history": "pain " * 100}
    text = instruction(**record)[0]
    upstreams = tokenizer(text, add_special_tokens=False, truncation=True, max_length=20)[
        "input_ids"
    ]
    ids = build_prompt(
        tokenizer, record, commit=False, before_tokens=20, truncation="upstream"
    ).before
    assert len(ids) == 20 and ids == upstreams
    for short in (RECORD, {**RECORD, "history": "pain"}):
        assert build_prompt(tokenizer, short, commit=False, truncation="upstream") == build_prompt(
            tokenizer, short, commit=False
        )


#: Parts of the model, and the prefixes of their parameters' names.
PARTS = {
    "router": ("router.",),
    "interfaces": (
        "interface.queries",
        "interface.frontal.",
        "interface.lateral.",
        "interface.prior.",
    ),
    "fusion": ("interface.fusion", "interface.fusion_norm"),
    "LoRA": ("language.",),
    "calibrator": ("calibrator.",),
}
V, D, HIDDEN, TOKENS, RANK = 768, 4096, 2048, 128, 32


def linear(inside: int, outside: int) -> int:
    return inside * outside + outside


def test_trainable_parameters_are_those_of_the_published_layers() -> None:
    params = profile("mimic_rg4")
    with torch.device("meta"):
        language = LlamaForCausalLM(
            LlamaConfig(vocab_size=32_000)
        )  # Vicuna-7B's shapes are its defaults
        model = from_modules(
            language, torch.nn.LayerNorm(V), V, specification_of("calibrate", params)
        )
    counts = {phase: {} for phase in ("warmup", "parent", "calibrate")}
    for phase, (part, starts) in product(counts, PARTS.items()):
        trained = phase_of(phase, params).trainable
        counts[phase][part] = sum(
            p.numel() for n, p in model.named_parameters() if n.startswith(starts) and trained(n)
        )

    router = 3 * (2 * V + linear(V, V)) + V + 3 + 2 * V + linear(V, V) + 1
    attention = 3 * linear(V, V) + 2 * V + linear(V, V)  # with the bias key and value
    branch = (
        attention + 2 * V + linear(V, V) + 2 * V + linear(V, HIDDEN) + linear(HIDDEN, D) + 2 * D
    )
    fusion = linear(3 * D, D) + 2 * D
    lora = 32 * 2 * RANK * (D + D)
    calibrator = 4 * D + linear(3 * D, D) + linear(D, 1) + 2 * D + 2 * 16 * D
    queries, nothing = TOKENS * V, dict.fromkeys(PARTS, 0)
    assert counts["warmup"] == nothing | {"router": router, "interfaces": queries + branch}
    parent = {"router": router, "interfaces": queries + 3 * branch, "fusion": fusion, "LoRA": lora}
    assert counts["parent"] == nothing | parent
    assert counts["calibrate"] == nothing | {"calibrator": calibrator}
    rounded = [round(count / 1e6, 2) for count in (*parent.values(), calibrator)]
    assert rounded == [2.37, 38.9, 50.34, 16.78, 50.5]
