"""A small BERT for previous reports: the stand-in for BiomedVLP-CXR-BERT.

Trained to fill masked words and to tell which findings a report names as present; saved as a plain Hugging Face BERT.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertModel, BertTokenizer

from pacer.backbones.standins.bert import PADDING, FindingReader, small_bert, train_wordpiece
from pacer.backbones.standins.training import Descent, held_out_tenth, pad, reproducible, training_batches
from pacer.core.errors import DataError
from pacer.core.io import write_json
from pacer.params import TextStandin
from pacer.pretrained.pointers import PROVENANCE
from pacer.records.findings import FINDINGS

#: Share of the pieces to fill in, and how often one of them is shown as [MASK] or as a random piece.
_HIDDEN, _SHOWN_AS_MASK, _SHOWN_AS_OTHER = 0.15, 0.8, 0.1
_JUDGED_AT_ONCE = 64


def make_text_standin(
    config: TextStandin,
    reports: Sequence[str],
    labels: np.ndarray,
    seed: int,
    out: str | Path,
    origin: str = "not stated",
) -> dict[str, Any]:
    """Train the model and save it with its tokenizer and ``provenance.json`` into ``out``.

    Args:
        config: sizes and budget; at most ``config.texts`` reports are used.
        reports: texts in the form in which they will be read (cleaned).
        labels: findings that each report names as present or possible ``[n, 13]``, 0 or 1.
        seed: decides everything that is random here; the global generators are left as they were.
        out: made if need be. origin: what the texts are, for the provenance.

    Returns:
        The provenance.

    Raises:
        DataError: shapes do not fit or there is too little text.
    """
    reports, labels = list(reports)[: config.texts], np.asarray(labels)[: config.texts]
    if labels.shape != (len(reports), len(FINDINGS)) or not np.isin(labels, (0, 1)).all():
        raise DataError(f"expected {len(reports)} rows of {len(FINDINGS)} labels 0 or 1, got {list(labels.shape)}")
    rng = np.random.default_rng(seed)
    learnt, held_out = held_out_tenth(len(reports), rng)
    tokenizer = train_wordpiece([reports[row] for row in learnt], config.vocabulary)
    pieces = tokenizer(reports, truncation=True)["input_ids"]
    targets = torch.tensor(labels, dtype=torch.float32)
    with reproducible(seed):
        network = _Network(tokenizer, config)
        batches = training_batches(np.array([len(row) for row in pieces]), learnt, config.batch_size, config.steps, rng)
        with Descent("train text stand-in", list(network.parameters()), config.learning_rate, config.steps) as descend:
            for rows in batches:
                ids, mask = pad([pieces[row] for row in rows], PADDING)
                shown, hidden = _hide(ids, tokenizer)
                states = network.bert(input_ids=shown, attention_mask=mask).last_hidden_state
                filled = F.cross_entropy(network.fill(states[hidden]), ids[hidden]) if hidden.any() else 0.0
                told = F.binary_cross_entropy_with_logits(network.reader(states, mask).squeeze(2), targets[rows])
                descend(filled + 2.0 * told)
        accuracy = _accuracy(network.eval(), [pieces[row] for row in held_out], targets[held_out].bool())
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    network.bert.save_pretrained(out)
    tokenizer.save_pretrained(out)
    provenance = {
        "provider": "standin",
        "model": f"BERT, {config.layers} blocks, width {config.width}",
        "data": origin,
        "objective": "masked words, and the findings that a report names as present or possible",
        "seed": seed,
        "texts": len(learnt),
        "steps": config.steps,
        "held_out_accuracy": dict(zip(FINDINGS, accuracy, strict=True)),
    }
    write_json(out / PROVENANCE, provenance)
    return provenance


class _Network(nn.Module):
    def __init__(self, tokenizer: BertTokenizer, config: TextStandin):
        super().__init__()
        self.bert: BertModel = small_bert(tokenizer, config.width, config.layers, config.heads)
        self.reader = FindingReader(config.width, 1)
        self.transform = nn.Sequential(nn.Linear(config.width, config.width), nn.GELU(), nn.LayerNorm(config.width))

    def fill(self, states: Tensor) -> Tensor:
        """States of hidden pieces ``[m, width]`` to scores over the vocabulary, with the word embeddings' weights."""
        return self.transform(states) @ self.bert.embeddings.word_embeddings.weight.T


def _hide(ids: Tensor, tokenizer: BertTokenizer) -> tuple[Tensor, Tensor]:
    """Ids as shown to the model, and which of them it must fill in."""
    special = torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
    hidden = (torch.rand(ids.shape) < _HIDDEN) & ~special
    draw = torch.rand(ids.shape)
    shown = torch.where(hidden & (draw < _SHOWN_AS_MASK), tokenizer.mask_token_id, ids)
    other = hidden & (draw >= _SHOWN_AS_MASK) & (draw < _SHOWN_AS_MASK + _SHOWN_AS_OTHER)
    return torch.where(other, torch.randint(len(tokenizer), ids.shape), shown), hidden


@torch.inference_mode()
def _accuracy(network: _Network, pieces: list[list[int]], targets: Tensor) -> list[float]:
    """Share of the texts whose label is told right, for each finding."""
    told = []
    for start in range(0, len(pieces), _JUDGED_AT_ONCE):
        ids, mask = pad(pieces[start : start + _JUDGED_AT_ONCE], PADDING)
        states = network.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        told.append(network.reader(states, mask).squeeze(2) > 0)
    return [round(value, 4) for value in (torch.cat(told) == targets).float().mean(0).tolist()]
