"""Inputs of the speed benches: shapes, and for `bench/train.py` records of realistic lengths,
batches and models."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from measuring import Preset
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from pacer.config.params import load_profile
from pacer.core.contexts import CONTEXTS
from pacer.data.audit import PAPER_RECORDS
from pacer.model.assemble import from_modules
from pacer.model.batch import TrainingBatch
from pacer.model.checkpoint import ModelSpecification, specification_of
from pacer.model.pacer import Pacer
from pacer.model.prompt import PromptIds
from pacer.training.examples import MicroBatch, collate
from pacer.training.sampler import Order, micro_batches
from pacer.training.trajectory import Span, Trajectory

ROOT = Path(__file__).resolve().parents[1]
PARAMS = load_profile(ROOT / "configs" / "mimic_rg4.yaml")
#: batches.window of the default profile.
WINDOW = load_profile(ROOT / "configs" / "phantom.yaml").batches.window

BOS, EOS, FIRST_WORD = 1, 2, 3
#: Tokens of "\n<REPORT>\n" and "\n</REPORT>" under the Llama tokenizer.
OPENING, CLOSING = 6, 5
#: Share of records on the direct route.
DIRECT = 0.45
#: Bounds, inclusive, of the lengths in tokens: of the text left of the image (log-normal around its
#: median), right of it on each route, of the commitment with its delimiters, and of the report
#: without BOS and EOS (log-normal).
BEFORE, BEFORE_MEDIAN, AFTER, AFTER_COMMIT = (10, 50), 24, (20, 26), (34, 40)
COMMITMENT, REPORT, REPORT_MEDIAN = (30, 60), (20, 98), 64
#: Positions of the longest target: BOS, commitment, opening, report, closing, EOS.
LONGEST_TARGET = 1 + COMMITMENT[1] + OPENING + REPORT[1] + CLOSING + 1


@dataclass
class Records:
    """Lengths of synthetic records, int64 [n] each; ``commit`` bool [n]: whether they take the
    commitment route."""

    context: np.ndarray
    before: np.ndarray
    after: np.ndarray
    anchor: np.ndarray
    report: np.ndarray
    commit: np.ndarray
    queries: int

    def tokens(self, rows: np.ndarray, *_: object) -> np.ndarray:
        """Return the number of real positions in these records' sequences, int64 [m], at any
        visit."""
        written = self.report[rows] + np.where(
            self.commit[rows], self.anchor[rows] + OPENING + CLOSING, 0
        )
        return 1 + self.before[rows] + self.queries + self.after[rows] + 2 + written

    def epoch(self, batch_size: int) -> list[MicroBatch]:
        """Return the micro-batches of one epoch in the order of training, in windows of the default
        profile."""
        rows = {
            str(name): np.flatnonzero(self.context == place) for place, name in enumerate(CONTEXTS)
        }
        order = Order(rows, batch_size, WINDOW, mix=False, seed=0, phase="parent")
        return list(islice(micro_batches(order, self.tokens), order.micro_batches_per_epoch))


def make_records(preset: Preset) -> Records:
    """Return a synthetic corpus in the paper's mixture of contexts."""
    rng = np.random.default_rng(0)
    sizes = [PAPER_RECORDS[context]["train"] for context in CONTEXTS]
    context = np.repeat(
        np.arange(len(CONTEXTS)),
        [max(round(preset.records * size / sum(sizes)), 1) for size in sizes],
    )
    n = len(context)

    def around(median: float, spread: float, bounds: tuple[int, int]) -> np.ndarray:
        return np.clip(np.rint(median * np.exp(spread * rng.standard_normal(n))), *bounds).astype(
            np.int64
        )

    def between(bounds: tuple[int, int]) -> np.ndarray:
        return rng.integers(bounds[0], bounds[1] + 1, n)

    commit = rng.random(n) >= DIRECT
    return Records(
        context,
        around(BEFORE_MEDIAN, 0.5, BEFORE),
        np.where(commit, between(AFTER_COMMIT), between(AFTER)),
        between(COMMITMENT),
        around(REPORT_MEDIAN, 0.45, REPORT),
        commit,
        preset.queries,
    )


def spread_batches(records: Records, micros: Sequence[MicroBatch], count: int) -> list[MicroBatch]:
    """Return ``count`` representative micro-batches: the middles of equal groups in the order of
    the longest sample."""
    longest = [int(records.tokens(*micro).max()) for micro in micros]
    order = np.argsort(longest, kind="stable")
    return [
        micros[order[int((part + 0.5) * len(order) / count)]]
        for part in range(min(count, len(order)))
    ]


class RandomStates:
    """A feature store of random states: K x N x d_v for an image, L x d_text for a previous
    report."""

    def __init__(self, preset: Preset, depths: int):
        generator, dtype = torch.Generator().manual_seed(0), getattr(torch, preset.dtype)
        self.images = torch.randn(
            4, depths, preset.patches, preset.d_vision, generator=generator
        ).to(dtype)
        self.texts = torch.randn(4, preset.prior_tokens, preset.d_vision, generator=generator).to(
            dtype
        )

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        """Return the states of images [B, K, N, d_v]."""
        return self.images[[int(name) % len(self.images) for name in image_ids]]

    def prior_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return the states of texts [B, L, d_text] and a mask [B, L] without padding."""
        states = self.texts[[int(text) % len(self.texts) for text in texts]]
        return states, torch.ones(states.shape[:2], dtype=torch.bool)


def make_batch(
    records: Records, micro: MicroBatch, preset: Preset, states: RandomStates, lambda_q: float
) -> TrainingBatch:
    """Return the training batch of a micro-batch: random words, real lengths, spans and weights."""
    rng = np.random.default_rng([7, *micro.rows.tolist()])

    def words(count: int) -> np.ndarray:
        return rng.integers(FIRST_WORD, preset.vocabulary, count)

    prefixes, starts, targets, sources = [], [], [], []
    for row in micro.rows.tolist():
        commit = bool(records.commit[row])
        pieces = [(Span.BOS, np.array([BOS]))]
        if commit:
            pieces += [
                (Span.COMMITMENT, words(records.anchor[row])),
                (Span.OPENING, words(OPENING)),
            ]
        pieces.append((Span.REPORT, words(records.report[row])))
        if commit:
            pieces.append((Span.CLOSING, words(CLOSING)))
        pieces.append((Span.END, np.array([EOS])))
        spans = np.concatenate([np.full(len(ids), span, dtype=np.int8) for span, ids in pieces])
        emphasis = ((spans == Span.REPORT) & (rng.random(len(spans)) < 0.3)).astype(np.float32)
        targets.append(
            Trajectory(np.concatenate([ids for _, ids in pieces]), spans, emphasis, commit)
        )
        prompt = PromptIds(words(records.before[row]).tolist(), words(records.after[row]).tolist())
        prefixes.append(prompt.prefix(BOS, preset.queries))
        starts.append(1 + len(prompt.before))
        context = CONTEXTS[records.context[row]]
        sources.append(
            {
                "context": context,
                "frontal": str(row),
                "lateral": str(row + 1),
                "prior_report": str(row),
            }
        )
    return collate(prefixes, starts, targets, sources, states, lambda_q)


def make_language(shape: Preset) -> LlamaForCausalLM:
    """Return a language model with random weights, made on the device in its type."""
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.ffn,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.groups,
        initializer_range=shape.spread,
        bos_token_id=BOS,
        eos_token_id=EOS,
    )
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(
        getattr(torch, shape.dtype)
    )  # made in float32 first, the largest needs twice the memory
    try:
        with torch.device(shape.device):
            return LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)


def make_model(preset: Preset) -> Pacer:
    """Return the whole model with LoRA unmerged and random weights, none of them zero, so that all
    count."""
    groups = specification_of("calibrate", PARAMS).written()
    groups["interface"] |= {
        "num_queries": preset.queries,
        "num_heads": preset.vision_heads,
        "d_hidden": preset.d_hidden,
    }
    groups["lora"] |= {"rank": min(groups["lora"]["rank"], preset.width)}
    language, specification = make_language(preset), ModelSpecification.model_validate(groups)
    with torch.device(preset.device):
        model = from_modules(
            language, nn.LayerNorm(preset.d_vision), preset.d_vision, specification
        )
    model.to(preset.device)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if (
                "lora_B" in name
                or name.startswith("router.out")
                or name == "calibrator.gate_out.weight"
            ):
                parameter.normal_(std=0.02)
            elif name == "calibrator.up.weight":
                parameter.normal_(std=0.2)
    return model
