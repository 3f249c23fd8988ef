"""A small labeller in CheXbert's own checkpoint format: the stand-in for the weights that may not be passed on.

Trained on raw and cleaned forms of the same reports. Its fourteenth head follows the labelling convention: "No
Finding" is 1 exactly when no observation but Support Devices is positive or uncertain.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertModel

from pacer.backbones.standins.bert import PADDING, FindingReader, small_bert, train_wordpiece
from pacer.backbones.standins.training import Descent, held_out_tenth, pad, reproducible, training_batches
from pacer.core.errors import DataError
from pacer.core.io import write_json
from pacer.corpus.text.cleaning import clean_report
from pacer.params import TextStandin
from pacer.pretrained.pointers import PROVENANCE
from pacer.records.findings import FINDINGS

#: The finding of each four-class head, in the checkpoint's order; head 13 is "No Finding" with two classes.
HEADS: tuple[str, ...] = (
    "enlarged mediastinum",
    "cardiomegaly",
    "lung opacity",
    "lung lesion",
    "edema",
    "consolidation",
    "pneumonia",
    "atelectasis",
    "pneumothorax",
    "pleural effusion",
    "pleural abnormality",
    "fracture",
    "support devices",
)
_BLANK, _POSITIVE, _NEGATIVE, _UNCERTAIN = range(4)
#: Weights of the classes: blank is easy and frequent, uncertain rare.
_CLASS_WEIGHTS = (1.0, 2.0, 2.0, 3.0)
#: Weight of the per-finding reader, which is dropped after training.
_READER_WEIGHT = 2.0
_JUDGED_AT_ONCE = 64


def make_chexbert_standin(
    config: TextStandin,
    reports: Sequence[str],
    statuses: np.ndarray,
    seed: int,
    out: str | Path,
    origin: str = "not stated",
) -> dict[str, Any]:
    """Train the labeller and save ``chexbert.pth``, ``config.json``, the tokenizer and ``provenance.json``.

    Args:
        config: sizes and budget; at most ``config.texts`` reports are used.
        reports: raw texts; each is learnt as it is and as :func:`~pacer.corpus.text.cleaning.clean_report` leaves it.
        statuses: what each report says of the 13 findings ``[n, 13]`` in their order: 0 blank, 1 positive,
            2 negative, 3 uncertain.
        seed: decides everything that is random here; the global generators are left as they were.
        out: made if need be. origin: what the texts are, for the provenance.

    Returns:
        The provenance, with the accuracy of each head on held-out reports, raw and cleaned.

    Raises:
        DataError: shapes do not fit or there is too little text.
    """
    reports, statuses = list(reports)[: config.texts], np.asarray(statuses)[: config.texts]
    if statuses.shape != (len(reports), len(FINDINGS)) or not np.isin(statuses, range(4)).all():
        raise DataError(f"expected {len(reports)} rows of {len(FINDINGS)} statuses 0 to 3, got {list(statuses.shape)}")
    rng = np.random.default_rng(seed)
    learnt, held_out = held_out_tenth(len(reports), rng)
    count = len(reports)
    texts = reports + [clean_report(report) for report in reports]
    rows = np.concatenate([learnt, learnt + count])
    tokenizer = train_wordpiece([texts[row] for row in rows], config.vocabulary)
    pieces = tokenizer(texts, truncation=True)["input_ids"]
    targets = torch.from_numpy(np.tile(head_targets(statuses), (2, 1)))
    with reproducible(seed):
        network = _Network(small_bert(tokenizer, config.width, config.layers, config.heads))
        reader = FindingReader(config.width, len(_CLASS_WEIGHTS))
        _train(network, reader, pieces, targets, rows, config, rng)
        accuracy = {
            form: _accuracy(network, [pieces[row] for row in held_out + shift], targets[held_out])
            for form, shift in (("raw", 0), ("cleaned", count))
        }
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    state = {f"module.{name}": value for name, value in network.state_dict().items()}
    torch.save({"model_state_dict": state}, out / "chexbert.pth")
    network.bert.config.save_pretrained(out)
    tokenizer.save_pretrained(out)
    provenance = {
        "provider": "standin",
        "model": f"BERT, {config.layers} blocks, width {config.width}, 14 linear heads",
        "data": origin,
        "objective": "blank, positive, negative or uncertain for each finding; no-finding",
        "seed": seed,
        "texts": len(learnt),
        "steps": config.steps,
        "held_out_accuracy": accuracy,
    }
    write_json(out / PROVENANCE, provenance)
    return provenance


def head_targets(statuses: np.ndarray) -> np.ndarray:
    """Statuses ``[n, 13]`` in the findings' order to classes ``[n, 14]`` in the heads' order."""
    ordered = statuses[:, [FINDINGS.index(finding) for finding in HEADS]].astype(np.int64)
    findings = np.array([finding != "support devices" for finding in HEADS])
    present = np.isin(ordered, (_POSITIVE, _UNCERTAIN)) & findings
    return np.concatenate([ordered, ~present.any(axis=1, keepdims=True)], axis=1)


class _Network(nn.Module):
    """The parts of a CheXbert checkpoint under their own names: ``bert`` and ``linear_heads``."""

    def __init__(self, bert: BertModel):
        super().__init__()
        self.bert: BertModel = bert
        width = bert.config.hidden_size
        self.linear_heads = nn.ModuleList([*(nn.Linear(width, 4) for _ in HEADS), nn.Linear(width, 2)])

    def scores(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Last states ``[n, T, width]`` to class scores ``[n, 13, 4]`` and those of "No Finding" ``[n, 2]``."""
        first = states[:, 0]
        return torch.stack([head(first) for head in self.linear_heads[:-1]], 1), self.linear_heads[-1](first)


def _train(
    network: _Network,
    reader: FindingReader,
    pieces: list[list[int]],
    targets: Tensor,
    rows: np.ndarray,
    config: TextStandin,
    rng: np.random.Generator,
) -> None:
    weights = torch.tensor(_CLASS_WEIGHTS)
    read_from = max(1, config.layers - 1)  # the states that [CLS] reads in the last block
    in_order = [HEADS.index(finding) for finding in FINDINGS]
    lengths = np.array([len(row) for row in pieces])
    parameters = [*network.parameters(), *reader.parameters()]
    with Descent("train labeller stand-in", parameters, config.learning_rate, config.steps) as descend:
        for batch in training_batches(lengths, rows, config.batch_size, config.steps, rng):
            ids, mask = pad([pieces[row] for row in batch], PADDING)
            states = network.bert(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
            findings, nothing = network.scores(states[-1])
            wanted = targets[batch]
            loss = F.cross_entropy(findings.flatten(0, 1), wanted[:, :-1].flatten(), weight=weights)
            loss = loss + F.cross_entropy(nothing, wanted[:, -1]) / len(HEADS)
            read = reader(states[read_from], mask).flatten(0, 1)
            descend(loss + _READER_WEIGHT * F.cross_entropy(read, wanted[:, in_order].flatten(), weight=weights))
    network.eval()


@torch.inference_mode()
def _accuracy(network: _Network, pieces: list[list[int]], targets: Tensor) -> dict[str, float]:
    """Share of the texts that each head labels right."""
    found = []
    for start in range(0, len(pieces), _JUDGED_AT_ONCE):
        ids, mask = pad(pieces[start : start + _JUDGED_AT_ONCE], PADDING)
        findings, nothing = network.scores(network.bert(input_ids=ids, attention_mask=mask).last_hidden_state)
        found.append(torch.cat([findings.argmax(2), nothing.argmax(1, keepdim=True)], 1))
    right = (torch.cat(found) == targets).float().mean(0).tolist()
    return {name: round(value, 4) for name, value in zip((*HEADS, "no finding"), right, strict=True)}
