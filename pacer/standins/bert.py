"""Small BERTs: the stand-ins for BiomedVLP-CXR-BERT, which reads previous reports, and for
CheXbert, whose weights may not be redistributed.

The text encoder is trained to fill in masked words and to represent the findings that a report
names as present, so that a linear map reads them from single states and from their mean. It is
saved as a plain Hugging Face BERT. The labeller has CheXbert's own checkpoint format. Its
fourteenth head follows the labelling convention: "No Finding" is 1 exactly when no observation
except Support Devices is positive or uncertain.

It is easy to learn that a report names a finding. The hard part is to connect it with the "no",
"possible" or "resolved" a few words away. Two measures speed this up. The first block's heads
initially attend to positions a few words back, which the original takes millions of steps to learn.
And during training, every finding has a separate query that reads single positions.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertConfig, BertModel, BertTokenizer

from pacer.backbones.chexbert import CheXbertNetwork
from pacer.backbones.observations import (
    CHECKPOINT,
    OBSERVATION_OF,
    OBSERVATIONS,
    POSITIVE,
    UNCERTAIN,
)
from pacer.core.findings import FINDINGS
from pacer.standins.data import LabelledText
from pacer.standins.recipes import Recipe
from pacer.standins.training import POSITIONS, ReportTask
from pacer.text.cleaning.cleaners import clean_report

#: Initial standard deviation of weights: the original's 0.02 suits widths of 768.
_STD = 0.08
#: Positions that the first block's heads attend to initially: how far back, and the share of high
#: frequencies left out (a larger share includes more neighbours). Other heads start at random.
_LOOK_BACK = ((1, 0.0), (3, 3 / 16), (6, 6 / 16))
_WAVELENGTHS = (6.0, 200.0)
#: Share of the pieces to fill in.
_HIDDEN = 0.15
#: Share of these that are shown as [MASK].
_SHOWN_AS_MASK = 0.8
#: Share of these that are shown as a random piece.
_SHOWN_AS_OTHER = 0.1
_FINDING_OF = {observation: finding for finding, observation in OBSERVATION_OF.items()}
#: The finding of each four-class head, in the checkpoint's order; head 13 is "No Finding" with two
#: classes.
HEADS: tuple[str, ...] = tuple(_FINDING_OF[observation] for observation in OBSERVATIONS[:-1])
#: Weights of the classes: blank is easy and frequent, uncertain is rare.
_CLASS_WEIGHTS = (1.0, 2.0, 2.0, 3.0)
#: Weight of the per-finding reader, which is dropped after training.
_READER_WEIGHT = 2.0


def small_bert(tokenizer: BertTokenizer, width: int, layers: int, heads: int) -> BertModel:
    """Build a BERT with the original's proportions (inner width 4 x width, 512 positions) and local
    first heads.

    Weights are drawn from torch's global generator.
    """
    bert = BertModel(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * width,
            max_position_embeddings=POSITIONS,
            pad_token_id=tokenizer.pad_token_id,
            initializer_range=_STD,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
    _look_back(bert, heads)
    return bert


@torch.no_grad()
def _look_back(bert: BertModel, heads: int) -> None:
    """Set sinusoidal positions in the last quarter of the width, and first-block heads that follow
    them."""
    width = bert.config.hidden_size
    size = width // heads
    pairs = min(width // 8, size // 2)
    first = width - 2 * pairs
    shortest, longest = _WAVELENGTHS
    steps = torch.arange(pairs) / max(pairs - 1, 1)
    frequency = 2 * math.pi / (shortest * (longest / shortest) ** steps)
    angle = torch.arange(float(POSITIONS))[:, None] * frequency
    table = bert.embeddings
    table.word_embeddings.weight[:, first:] = 0
    table.token_type_embeddings.weight.zero_()
    table.position_embeddings.weight.zero_()
    table.position_embeddings.weight[:, first:] = (
        torch.cat([angle.sin(), angle.cos()], 1) * _STD * math.sqrt(2)
    )
    block: Any = bert.encoder.layer[0]
    attention = block.attention.self
    for head, (back, left_out) in enumerate(_LOOK_BACK[: max(heads - 1, 1)]):
        query, key = torch.zeros(size, width), torch.zeros(size, width)
        for pair in range(pairs):
            chosen = max(pair, round(left_out * pairs))
            sine, cosine = first + chosen, first + pairs + chosen
            turn = frequency[chosen] * back
            query[2 * pair, sine] = 1
            query[2 * pair + 1, cosine] = 1
            key[2 * pair, sine] = turn.cos()
            key[2 * pair, cosine] = turn.sin()
            key[2 * pair + 1, sine] = -turn.sin()
            key[2 * pair + 1, cosine] = turn.cos()
        rows = slice(head * size, (head + 1) * size)
        attention.query.weight[rows] = 0.5 * attention.query.weight[rows] + query
        attention.key.weight[rows] = 0.5 * attention.key.weight[rows] + key


class FindingReader(nn.Module):
    """A reader of each finding's status from token states: one attention query and one linear map
    per finding.

    Only used in training, where it makes single tokens represent a finding together with its
    polarity.
    """

    def __init__(self, width: int, classes: int):
        super().__init__()
        self.classes = classes
        self.query = nn.Linear(width, len(FINDINGS))
        self.value = nn.Linear(width, len(FINDINGS) * classes)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Map states ``[n, T, width]`` and mask ``[n, T]`` to scores ``[n, 13, classes]``."""
        weights = self.query(states).masked_fill(mask[:, :, None] == 0, float("-inf")).softmax(1)
        values = self.value(states).unflatten(2, (len(FINDINGS), self.classes))
        return (weights[..., None] * values).sum(1)


def make_text_standin(
    recipe: Recipe, texts: Sequence[LabelledText], seed: int, out: Path
) -> dict[str, object]:
    """Train the model on cleaned reports, and measure on held-out reports the F1 of the findings
    predicted by a linear map of the mean state. Raises a DataError if there is too little text."""
    task = ReportTask(
        [[text.cleaned for text in texts]], recipe.vocabulary, np.random.default_rng(seed)
    )
    statuses = torch.tensor([text.statuses for text in texts])
    present = torch.isin(statuses, torch.tensor([1, 3]))
    named = torch.cat([present, statuses == 1], 1)
    torch.manual_seed(seed)
    bert = small_bert(task.tokenizer, recipe.width, recipe.layers, recipe.heads)
    reader = FindingReader(recipe.width, 1)
    mean_reader = nn.Linear(recipe.width, 2 * len(FINDINGS))
    transform = nn.Sequential(
        nn.Linear(recipe.width, recipe.width), nn.GELU(), nn.LayerNorm(recipe.width)
    )

    def loss_of(ids: Tensor, mask: Tensor, rows: np.ndarray) -> Tensor:
        shown, hidden = _hide(ids, task.tokenizer)
        states = bert(input_ids=shown, attention_mask=mask).last_hidden_state
        scores = transform(states[hidden]) @ bert.embeddings.word_embeddings.weight.T
        filled = F.cross_entropy(scores, ids[hidden]) if hidden.any() else 0.0
        read = F.binary_cross_entropy_with_logits(
            reader(states, mask).squeeze(2), present[rows].float()
        )
        read = read + F.binary_cross_entropy_with_logits(
            mean_reader(_mean(states, mask)), named[rows].float()
        )
        return filled + 2.0 * read

    def judge(ids: Tensor, mask: Tensor) -> Tensor:
        return (
            mean_reader(_mean(bert(input_ids=ids, attention_mask=mask).last_hidden_state, mask)) > 0
        )

    modules = nn.ModuleList([bert, reader, mean_reader, transform])
    first = task.train("train text stand-in", modules, loss_of, recipe)
    judged = task.judged(judge)
    true = named[task.held_out]
    f1 = 2 * (judged & true).sum() / (judged.sum() + true.sum()).clamp(min=1)
    bert.save_pretrained(out)
    task.tokenizer.save_pretrained(out)
    return {
        "model": f"BERT, {recipe.layers} blocks, width {recipe.width}",
        "objective": "masked words, and the findings that a report names, from single states and "
        "from their mean",
        "texts": len(task.rows),
        "steps": recipe.steps,
        "first_losses": first,
        "held_out_f1": round(f1.item(), 4),
    }


def _mean(states: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of the states [n, T, width] of real pieces: [n, width]."""
    return (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)


def _hide(ids: Tensor, tokenizer: BertTokenizer) -> tuple[Tensor, Tensor]:
    """Return the ids to show to the model, and a mask of those it must fill in."""
    special = torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
    hidden = (torch.rand(ids.shape) < _HIDDEN) & ~special
    draw = torch.rand(ids.shape)
    shown = torch.where(hidden & (draw < _SHOWN_AS_MASK), tokenizer.mask_token_id, ids)
    other = hidden & (draw >= _SHOWN_AS_MASK) & (draw < _SHOWN_AS_MASK + _SHOWN_AS_OTHER)
    return torch.where(other, torch.randint(len(tokenizer), ids.shape), shown), hidden


def make_chexbert_standin(
    recipe: Recipe, texts: Sequence[LabelledText], seed: int, out: Path
) -> dict[str, object]:
    """Train the labeller on each text, raw and cleaned by
    :func:`~pacer.text.cleaning.cleaners.clean_report`, and measure the accuracy of each head on
    held-out texts. Raises a DataError if there is too little text."""
    raw = [text.raw for text in texts]
    task = ReportTask(
        [raw, list(map(clean_report, raw))], recipe.vocabulary, np.random.default_rng(seed)
    )
    targets = torch.from_numpy(head_targets(np.array([text.statuses for text in texts])))
    weights = torch.tensor(_CLASS_WEIGHTS)
    in_order = [HEADS.index(finding) for finding in FINDINGS]

    torch.manual_seed(seed)
    network = CheXbertNetwork(small_bert(task.tokenizer, recipe.width, recipe.layers, recipe.heads))
    reader = FindingReader(recipe.width, len(_CLASS_WEIGHTS))

    def loss_of(ids: Tensor, mask: Tensor, rows: np.ndarray) -> Tensor:
        states = network.bert(
            input_ids=ids, attention_mask=mask, output_hidden_states=True
        ).hidden_states
        *findings, nothing = network.scores(states[-1])
        wanted = targets[rows]
        loss = F.cross_entropy(
            torch.stack(findings, 1).flatten(0, 1), wanted[:, :-1].flatten(), weight=weights
        )
        loss = loss + F.cross_entropy(nothing, wanted[:, -1]) / len(HEADS)
        # the states that [CLS] reads in the last block
        read = reader(states[-2], mask).flatten(0, 1)
        return loss + _READER_WEIGHT * F.cross_entropy(
            read, wanted[:, in_order].flatten(), weight=weights
        )

    first = task.train("train labeller stand-in", nn.ModuleList([network, reader]), loss_of, recipe)
    accuracy = {}
    for number, form in enumerate(("raw", "cleaned")):
        right = (
            (task.judged(network.classes, number) == targets[task.held_out])
            .float()
            .mean(0)
            .tolist()
        )
        accuracy[form] = {
            name: round(share, 4) for name, share in zip((*HEADS, "no finding"), right, strict=True)
        }
    network.bert.config.save_pretrained(out)
    task.tokenizer.save_pretrained(out)
    state = {f"module.{name}": value for name, value in network.state_dict().items()}
    torch.save({"model_state_dict": state}, out / CHECKPOINT)
    return {
        "model": f"BERT, {recipe.layers} blocks, width {recipe.width}, 14 linear heads",
        "objective": "blank, positive, negative or uncertain for each finding; no-finding",
        "texts": len(task.rows) // 2,
        "steps": recipe.steps,
        "first_losses": first,
        "held_out_accuracy": accuracy,
    }


def head_targets(statuses: np.ndarray) -> np.ndarray:
    """Convert statuses ``[n, 13]`` in the findings' order to classes ``[n, 14]`` in the heads'
    order."""
    ordered = statuses[:, [FINDINGS.index(finding) for finding in HEADS]].astype(np.int64)
    findings = np.array([finding != "support devices" for finding in HEADS])
    present = np.isin(ordered, (POSITIVE, UNCERTAIN)) & findings
    return np.concatenate([ordered, ~present.any(axis=1, keepdims=True)], axis=1)
