"""Time and peak memory of a training step, in Commit and in Calibrate.

    python bench/train.py [--preset cpu|gpu] [--out FILE]

Weights, texts and image states are random; shapes and lengths are those of training. A step is
forward, loss, backward and AdamW on a batch that is on the device, with dropout.
"""

import statistics
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from measuring import BOS, EOS, PARAMS, Meter, Preset, make_language, run, table
from torch import Tensor, nn

from pacer.model.assemble import from_modules
from pacer.model.batch import TrainingBatch
from pacer.model.checkpoint import ModelSpecification, specification_of
from pacer.model.pacer import Pacer
from pacer.model.prompt import PromptIds
from pacer.training.examples import TokenSequence, collate
from pacer.training.losses import objective
from pacer.training.phases import Phase, phase_of
from pacer.training.trajectory import Span, Trajectory

#: Fewest and most tokens of the text before and after the image, of the commitment and the report.
BEFORE, AFTER, COMMITMENT, REPORT = (10, 50), (20, 40), (30, 60), (20, 98)
#: Tokens of "\n<REPORT>\n" and "\n</REPORT>" under the Llama tokenizer; share of direct reports.
OPENING, CLOSING, DIRECT = 6, 5, 0.45


class RandomStates:
    """A feature store of random states: K x N x d_v for an image, L x d_text for a report."""

    def __init__(self, preset: Preset, depths: int):
        dtype = getattr(torch, preset.dtype)
        self.image = torch.randn(depths, preset.patches, preset.d_vision).to(dtype)
        self.text = torch.randn(preset.prior_tokens, preset.d_vision).to(dtype)

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        """Return the states of images [B, K, N, d_v]."""
        return torch.stack([self.image] * len(image_ids))

    def prior_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return the states of texts [B, L, d_text] and a mask [B, L] without padding."""
        states = torch.stack([self.text] * len(texts))
        return states, torch.ones(states.shape[:2], dtype=torch.bool)


def make_batches(preset: Preset, depths: int, lambda_q: float) -> list[TrainingBatch]:
    """Return batches of similar lengths, as training orders them: random words in context mw."""
    draw, examples = np.random.default_rng(0), []

    def words(bounds: tuple[int, int]) -> np.ndarray:
        return draw.integers(EOS + 1, preset.vocabulary, draw.integers(*bounds, endpoint=True))

    for _ in range(preset.batch_size * preset.batches):
        commit = draw.random() >= DIRECT
        pieces = {Span.BOS: np.array([BOS])}
        if commit:
            pieces |= {Span.COMMITMENT: words(COMMITMENT), Span.OPENING: words((OPENING, OPENING))}
        pieces[Span.REPORT] = words(REPORT)
        if commit:
            pieces[Span.CLOSING] = words((CLOSING, CLOSING))
        pieces[Span.END] = np.array([EOS])
        ids = np.concatenate([*pieces.values()])
        spans = np.repeat(np.array([*pieces], np.int8), [len(part) for part in pieces.values()])
        emphasis = ((spans == Span.REPORT) & (draw.random(len(ids)) < 0.3)).astype(np.float32)
        prompt = PromptIds(words(BEFORE).tolist(), words(AFTER).tolist())
        examples.append((prompt, Trajectory(ids, spans, emphasis, commit)))
    examples.sort(key=lambda one: len(one[0].before) + len(one[0].after) + len(one[1].ids))
    states, batches = RandomStates(preset, depths), []
    source = {"context": "mw", "frontal": "a", "lateral": "b", "prior_report": "c"}
    for start in range(0, len(examples), preset.batch_size):
        sequences = [
            TokenSequence(prompt.prefix(BOS, preset.queries), prompt.visual_start, target)
            for prompt, target in examples[start : start + preset.batch_size]
        ]
        batch = collate(sequences, [source] * len(sequences), states, lambda_q)
        batches.append(batch.to(torch.device(preset.device)))
    return batches


def make_model(preset: Preset) -> Pacer:
    """Return the whole model with LoRA unmerged and random weights."""
    groups = specification_of("calibrate", PARAMS).written()
    groups["interface"] |= {
        "num_queries": preset.queries,
        "num_heads": preset.vision_heads,
        "d_hidden": preset.d_hidden,
    }
    groups["lora"] |= {"rank": min(groups["lora"]["rank"], preset.width)}
    specification = ModelSpecification.model_validate(groups)
    with torch.device(preset.device):
        norm = nn.LayerNorm(preset.d_vision)
        model = from_modules(make_language(preset), norm, preset.d_vision, specification)
    return model.to(preset.device)


def step_row(meter: Meter, model: Pacer, preset: Preset, phase: Phase) -> list[str]:
    """Return the table's row of a phase's step."""
    model.eval()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(phase.trainable(name))
    for name, module in model.named_children():
        module.train(any(prefix.split(".")[0] == name for prefix in phase.trained_prefixes))
    parameters = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=phase.schedule.learning_rate)
    batches = make_batches(preset, model.router.num_depths, phase.losses.lambda_q)

    def step(batch: TrainingBatch) -> None:
        objective(model, batch, phase.losses).total.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    step(batches[-1])  # the optimizer allocates its memory, too
    peak = meter.peak(partial(step, batches[-1]))
    times = meter.in_turns([partial(step, batch) for batch in batches], preset.repeats)
    seconds = statistics.fmean(map(statistics.median, times))
    return [phase.name, f"{1e3 * seconds:,.1f}", f"{peak:,.1f}"]


def measure(preset: Preset) -> list[str]:
    """Time the steps of both phases; return the results as Markdown."""
    meter, model = Meter(preset.device), make_model(preset)
    parent = Pacer(model.language, model.endpoint_norm, model.router, model.interface)
    rows = [step_row(meter, parent, preset, phase_of("parent", PARAMS))]
    model.merge_lora()  # as Calibrate does
    rows.append(step_row(meter, model, preset, phase_of("calibrate", PARAMS)))
    beside = "with" if meter.on_gpu else "beyond"
    return [
        f"{preset.layers} layers of width {preset.width}, {preset.dtype}; batches of "
        f"{preset.batch_size}, {preset.queries} visual tokens, {preset.patches} patches; batches: "
        f"{preset.batches}. Means of medians of {preset.repeats} turns; peak memory, {beside} "
        "weights and optimizer, of the longest batch.",
        "",
        *table(["step", "ms", "peak, MB"], rows),
    ]


if __name__ == "__main__":
    run("Training steps", __doc__, measure)
