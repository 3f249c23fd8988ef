"""Inputs of `bench/train.py`: presets, synthetic records of realistic lengths, batches and models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from pacer.config.profiles import load_profile
from pacer.core.contexts import CONTEXTS
from pacer.data.audit import PAPER_RECORDS
from pacer.data.prompt import PromptIds
from pacer.model.assemble import from_modules
from pacer.model.batch import TrainingBatch
from pacer.model.checkpoint import ModelSpecification, specification_of
from pacer.model.pacer import Pacer
from pacer.training.examples import MicroBatch, collate
from pacer.training.sampler import Order, micro_batches
from pacer.training.trajectory import Span, Trajectory

ROOT = Path(__file__).resolve().parents[1]
PARAMS = load_profile(ROOT / "configs" / "mimic_rg4.yaml")
#: batches.window of the default profile.
WINDOW = load_profile(ROOT / "configs" / "phantom.yaml").batches.window

BOS, EOS, FIRST_WORD = 1, 2, 3
#: Tokens of "\n<REPORT>\n" and "\n</REPORT>" under the Llama tokenizer; visits whose routes are drawn beforehand.
OPENING, CLOSING, VISITS = 6, 5, 16

#: Relative tolerances of losses and of gradients between two sides in single precision.
FLOAT32 = (1e-5, 1e-4)


@dataclass(frozen=True)
class Texts:
    """Lengths in tokens of one kind of training records; pairs are inclusive bounds.

    Attributes:
        direct: share of records on the direct route.
        before: text left of the image, log-normal around ``before_median``. after, after_commit: text right of it.
        anchor: the commitment with its delimiters. report: without BOS and EOS, log-normal around ``report_median``.
        pad_before, pad_target: fixed lengths of the baseline's padding.
    """

    direct: float
    before: tuple[int, int] = (10, 50)
    before_median: float = 24
    after: tuple[int, int] = (20, 26)
    after_commit: tuple[int, int] = (34, 40)
    anchor: tuple[int, int] = (30, 60)
    report: tuple[int, int] = (20, 98)
    report_median: float = 64
    pad_before: int = 50
    pad_target: int = 100


#: Direct reports in at most 100 positions, as in LLM-RG4's training; and PACER's two routes.
UPSTREAM = Texts(direct=1.0)
PACERS = Texts(direct=0.45, pad_target=1 + 60 + OPENING + 98 + CLOSING + 1)


@dataclass(frozen=True)
class Preset:
    """One set of shapes and repetitions.

    Attributes:
        device: None: a GPU if there is one. dtype: of the frozen language model; trainable parts are float32.
        d_hidden: of the source projector.
        records: in the synthetic epoch. batches: number of its batches that are timed. repeats: of each comparison.
        tolerances: relative, of losses and of gradients, in the checks before anything is timed.
        limits: bars by name: ``(">=" or "<=", value)``.
    """

    name: str
    device: str | None
    dtype: torch.dtype
    d_model: int
    d_ffn: int
    layers: int
    heads: int
    vocabulary: int
    d_vision: int
    patches: int
    vision_heads: int
    d_hidden: int
    queries: int
    prior_tokens: int
    batch_size: int
    records: int
    batches: int
    repeats: int
    tolerances: tuple[float, float]
    limits: Mapping[str, tuple[str, float]] = field(default_factory=dict)


CPU = Preset(
    name="cpu",
    device="cpu",
    dtype=torch.float32,
    d_model=512,
    d_ffn=1376,
    layers=4,
    heads=8,
    vocabulary=32_000,
    d_vision=192,
    patches=64,
    vision_heads=12,
    d_hidden=512,
    queries=128,
    prior_tokens=100,
    batch_size=8,
    records=6_000,
    batches=2,
    repeats=3,
    tolerances=FLOAT32,
    limits={"Commit: times faster": (">=", 2.5)},
)

#: The shapes of lmsys/vicuna-7b-v1.5 and microsoft/rad-dino.
GPU = Preset(
    name="gpu",
    device=None,
    dtype=torch.bfloat16,
    d_model=4096,
    d_ffn=11008,
    layers=32,
    heads=32,
    vocabulary=32_000,
    d_vision=768,
    patches=1369,
    vision_heads=12,
    d_hidden=2048,
    queries=128,
    prior_tokens=100,
    batch_size=16,
    records=20_000,
    batches=6,
    repeats=5,
    tolerances=(1e-2, 1.5e-1),
    limits={"Commit: times faster": (">=", 1.7), "Commit: share of the peak": ("<=", 0.75)},
)

PRESETS = {preset.name: preset for preset in (CPU, GPU)}


def miniature(preset: Preset) -> Preset:
    """Return a tiny version of a preset, which takes seconds on a CPU; its figures mean nothing."""
    return replace(
        preset,
        device="cpu",
        d_model=16,
        d_ffn=40,
        layers=3,
        heads=2,
        vocabulary=97,
        d_vision=8,
        patches=4,
        vision_heads=2,
        d_hidden=8,
        queries=3,
        prior_tokens=4,
        batch_size=2,
        records=60,
        batches=1,
        repeats=1,
    )


@dataclass
class Records:
    """Lengths of synthetic records, int64 [n] each; ``commit`` bool [n, VISITS]: the route of each visit."""

    context: np.ndarray
    before: np.ndarray
    after: np.ndarray
    after_commit: np.ndarray
    anchor: np.ndarray
    report: np.ndarray
    commit: np.ndarray
    queries: int

    def commits(self, rows: np.ndarray, visits: np.ndarray) -> np.ndarray:
        """Return which of these visits take the commitment-first route, bool [m]."""
        return self.commit[rows, visits % VISITS]

    def lengths(self, rows: np.ndarray, visits: np.ndarray, number: int) -> np.ndarray:
        """Return :meth:`tokens`, for any number (a :data:`pacer.training.sampler.Lengths`)."""
        return self.tokens(rows, visits)

    def tokens(self, rows: np.ndarray, visits: np.ndarray) -> np.ndarray:
        """Return the number of real positions in these records' sequences, int64 [m]."""
        left = 1 + self.before[rows] + self.queries
        direct = self.after[rows] + 2 + self.report[rows]
        commit = self.after_commit[rows] + 2 + self.report[rows] + self.anchor[rows] + OPENING + CLOSING
        return left + np.where(self.commits(rows, visits), commit, direct)

    def epoch(self, batch_size: int, window: int) -> list[MicroBatch]:
        """Return the micro-batches of one epoch in the order of training."""
        rows = {str(name): np.flatnonzero(self.context == place) for place, name in enumerate(CONTEXTS)}
        order = Order(rows, batch_size, window, mix=False, seed=0, phase="parent")
        return list(islice(micro_batches(order, self.lengths), order.micro_batches_per_epoch))


def make_records(texts: Texts, preset: Preset) -> Records:
    """Return the synthetic corpus of one kind of texts, in the paper's mixture of contexts."""
    rng = np.random.default_rng(0)
    sizes = [PAPER_RECORDS[context]["train"] for context in CONTEXTS]
    context = np.repeat(np.arange(len(CONTEXTS)), [max(round(preset.records * size / sum(sizes)), 1) for size in sizes])
    n = len(context)

    def around(median: float, spread: float, bounds: tuple[int, int]) -> np.ndarray:
        return np.clip(np.rint(median * np.exp(spread * rng.standard_normal(n))), *bounds).astype(np.int64)

    def between(bounds: tuple[int, int]) -> np.ndarray:
        return rng.integers(bounds[0], bounds[1] + 1, n)

    return Records(
        context,
        around(texts.before_median, 0.5, texts.before),
        between(texts.after),
        between(texts.after_commit),
        between(texts.anchor),
        around(texts.report_median, 0.45, texts.report),
        rng.random((n, VISITS)) >= texts.direct,
        preset.queries,
    )


def spread_batches(records: Records, micros: Sequence[MicroBatch], count: int) -> list[MicroBatch]:
    """Return ``count`` representative micro-batches: the middles of equal groups in the order of the longest sample."""
    longest = [int(records.tokens(*micro).max()) for micro in micros]
    order = np.argsort(longest, kind="stable")
    return [micros[order[int((part + 0.5) * len(order) / count)]] for part in range(min(count, len(order)))]


class RandomStates:
    """A feature store of random states: K x N x d_v for an image, L x d_text for a previous report."""

    def __init__(self, preset: Preset, depths: int):
        generator = torch.Generator().manual_seed(0)
        self.images = torch.randn(4, depths, preset.patches, preset.d_vision, generator=generator).to(preset.dtype)
        self.texts = torch.randn(4, preset.prior_tokens, preset.d_vision, generator=generator).to(preset.dtype)

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
    for row, commit in zip(micro.rows.tolist(), records.commits(*micro).tolist()):
        pieces = [(Span.BOS, np.array([BOS]))]
        if commit:
            pieces += [(Span.COMMITMENT, words(records.anchor[row])), (Span.OPENING, words(OPENING))]
        pieces.append((Span.REPORT, words(records.report[row])))
        if commit:
            pieces.append((Span.CLOSING, words(CLOSING)))
        pieces.append((Span.END, np.array([EOS])))
        spans = np.concatenate([np.full(len(ids), span, dtype=np.int8) for span, ids in pieces])
        emphasis = ((spans == Span.REPORT) & (rng.random(len(spans)) < 0.3)).astype(np.float32)
        targets.append(Trajectory(np.concatenate([ids for _, ids in pieces]), spans, emphasis, commit))
        after = records.after_commit[row] if commit else records.after[row]
        prompt = PromptIds(words(records.before[row]).tolist(), words(after).tolist())
        prefixes.append(prompt.prefix(BOS, preset.queries))
        starts.append(1 + len(prompt.before))
        context = CONTEXTS[records.context[row]]
        sources.append({"context": context, "frontal": str(row), "lateral": str(row + 1), "prior_report": str(row)})
    return collate(prefixes, starts, targets, sources, states, lambda_q)


def make_model(preset: Preset, device: torch.device) -> Pacer:
    """Return the whole model with LoRA unmerged and random weights, none of them zero, so that all count."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=preset.vocabulary,
        hidden_size=preset.d_model,
        num_hidden_layers=preset.layers,
        intermediate_size=preset.d_ffn,
        bos_token_id=BOS,
        eos_token_id=EOS,
        num_attention_heads=preset.heads,
    )
    groups = specification_of("calibrate", PARAMS).written()
    groups["interface"] |= {
        "num_queries": preset.queries,
        "num_heads": preset.vision_heads,
        "d_hidden": preset.d_hidden,
    }
    groups["lora"] |= {"rank": min(groups["lora"]["rank"], preset.d_model)}
    before = torch.get_default_dtype()
    with torch.device(device):
        torch.set_default_dtype(preset.dtype)
        try:
            language = LlamaForCausalLM(config)
        finally:
            torch.set_default_dtype(before)
        model = from_modules(
            language, nn.LayerNorm(preset.d_vision), preset.d_vision, ModelSpecification.model_validate(groups)
        )
    model.to(device)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name or name.startswith("router.out") or name == "calibrator.gate_out.weight":
                parameter.normal_(std=0.02)
            elif name == "calibrator.up.weight":
                parameter.normal_(std=0.2)
    return model
