"""A small BERT for previous reports: the stand-in for BiomedVLP-CXR-BERT.

It is trained to fill in masked words and to represent the findings that a report names as present, so that a linear map
reads them from single states and from their mean. It is saved as a plain Hugging Face BERT.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertTokenizer

from pacer.backbones.standins.bert import FindingReader, small_bert
from pacer.backbones.standins.data import LabelledText
from pacer.backbones.standins.training import ReportTask
from pacer.config.backbones import TextStandin
from pacer.data.findings import FINDINGS

#: Share of the pieces to fill in, and the shares of these that are shown as [MASK] or as a random piece.
_HIDDEN, _SHOWN_AS_MASK, _SHOWN_AS_OTHER = 0.15, 0.8, 0.1


def make_text_standin(config: TextStandin, texts: Sequence[LabelledText], seed: int, out: Path) -> dict[str, object]:
    """Train the model on cleaned reports, and measure the F1 of findings that a linear map of the mean state tells, on
    held-out reports.

    Raises:
        DataError: there is too little text.
    """
    task = ReportTask([[text.cleaned for text in texts]], config.vocabulary, np.random.default_rng(seed))
    statuses = torch.tensor([text.statuses for text in texts])
    present = torch.isin(statuses, torch.tensor([1, 3]))
    named = torch.cat([present, statuses == 1], 1)
    torch.manual_seed(seed)
    bert = small_bert(task.tokenizer, config.width, config.layers, config.heads)
    reader, mean_reader = FindingReader(config.width, 1), nn.Linear(config.width, 2 * len(FINDINGS))
    transform = nn.Sequential(nn.Linear(config.width, config.width), nn.GELU(), nn.LayerNorm(config.width))

    def loss_of(ids: Tensor, mask: Tensor, rows: np.ndarray) -> Tensor:
        shown, hidden = _hide(ids, task.tokenizer)
        states = bert(input_ids=shown, attention_mask=mask).last_hidden_state
        scores = transform(states[hidden]) @ bert.embeddings.word_embeddings.weight.T
        filled = F.cross_entropy(scores, ids[hidden]) if hidden.any() else 0.0
        read = F.binary_cross_entropy_with_logits(reader(states, mask).squeeze(2), present[rows].float())
        read = read + F.binary_cross_entropy_with_logits(mean_reader(_mean(states, mask)), named[rows].float())
        return filled + 2.0 * read

    def judge(ids: Tensor, mask: Tensor) -> Tensor:
        return mean_reader(_mean(bert(input_ids=ids, attention_mask=mask).last_hidden_state, mask)) > 0

    modules = nn.ModuleList([bert, reader, mean_reader, transform])
    first = task.train("train text stand-in", modules, loss_of, config)
    judged, true = task.judged(judge), named[task.held_out]
    f1 = 2 * (judged & true).sum() / (judged.sum() + true.sum()).clamp(min=1)
    bert.save_pretrained(out)
    task.tokenizer.save_pretrained(out)
    return {
        "model": f"BERT, {config.layers} blocks, width {config.width}",
        "objective": "masked words, and the findings that a report names, from single states and from their mean",
        "texts": len(task.rows),
        "steps": config.steps,
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
