"""A small labeller in CheXbert's own checkpoint format: the stand-in for the weights that may not be passed on.

Trained on raw and cleaned forms of the same reports. Its fourteenth head follows the labelling convention: "No
Finding" is 1 exactly when no observation but Support Devices is positive or uncertain.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pacer.backbones.standins.bert import FindingReader, small_bert, train_wordpiece
from pacer.backbones.standins.data import LabelledText
from pacer.backbones.standins.training import held_out_accuracy, held_out_tenth, train_on_texts
from pacer.config.backbones import TextStandin
from pacer.data.cleaning import clean_report
from pacer.data.findings import FINDINGS
from pacer.metrics.chexbert.network import CheXbertNetwork
from pacer.metrics.chexbert.observations import CHECKPOINT, OBSERVATION_OF, OBSERVATIONS, POSITIVE, UNCERTAIN

_FINDING_OF = {observation: finding for finding, observation in OBSERVATION_OF.items()}
#: The finding of each four-class head, in the checkpoint's order; head 13 is "No Finding" with two classes.
HEADS: tuple[str, ...] = tuple(_FINDING_OF[observation] for observation in OBSERVATIONS[:-1])
#: Weights of the classes: blank is easy and frequent, uncertain rare.
_CLASS_WEIGHTS = (1.0, 2.0, 2.0, 3.0)
#: Weight of the per-finding reader, which is dropped after training.
_READER_WEIGHT = 2.0


def make_chexbert_standin(
    config: TextStandin, texts: Sequence[LabelledText], seed: int, out: Path
) -> dict[str, object]:
    """Train the labeller on each text as it is and as :func:`~pacer.data.cleaning.clean_report` leaves it, and
    judge it by the accuracy of each head on held-out ones.

    Raises:
        DataError: there is too little text.
    """
    rng = np.random.default_rng(seed)
    count = len(texts)
    learnt, held_out = held_out_tenth(count, rng)
    reports = [text.raw for text in texts] + [clean_report(text.raw) for text in texts]
    rows = np.concatenate([learnt, learnt + count])
    tokenizer = train_wordpiece([reports[row] for row in rows], config.vocabulary)
    pieces = tokenizer(reports, truncation=True)["input_ids"]
    targets = torch.from_numpy(np.tile(head_targets(np.array([text.statuses for text in texts])), (2, 1)))
    weights = torch.tensor(_CLASS_WEIGHTS)
    in_order = [HEADS.index(finding) for finding in FINDINGS]

    torch.manual_seed(seed)
    network = CheXbertNetwork(small_bert(tokenizer, config.width, config.layers, config.heads))
    reader = FindingReader(config.width, len(_CLASS_WEIGHTS))

    def loss_of(ids: Tensor, mask: Tensor, rows: np.ndarray) -> Tensor:
        states = network.bert(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
        *findings, nothing = network.scores(states[-1])
        wanted = targets[rows]
        loss = F.cross_entropy(torch.stack(findings, 1).flatten(0, 1), wanted[:, :-1].flatten(), weight=weights)
        loss = loss + F.cross_entropy(nothing, wanted[:, -1]) / len(HEADS)
        read = reader(states[-2], mask).flatten(0, 1)  # the states that [CLS] reads in the last block
        return loss + _READER_WEIGHT * F.cross_entropy(read, wanted[:, in_order].flatten(), weight=weights)

    parameters = [*network.parameters(), *reader.parameters()]
    first = train_on_texts("train labeller stand-in", parameters, pieces, rows, loss_of, config, rng)
    accuracy = {}
    for form, shift in (("raw", 0), ("cleaned", count)):
        right = held_out_accuracy(network.classes, [pieces[row] for row in held_out + shift], targets[held_out])
        accuracy[form] = dict(zip((*HEADS, "no finding"), right, strict=True))
    out.mkdir(parents=True, exist_ok=True)
    state = {f"module.{name}": value for name, value in network.state_dict().items()}
    torch.save({"model_state_dict": state}, out / CHECKPOINT)
    network.bert.config.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return {
        "model": f"BERT, {config.layers} blocks, width {config.width}, 14 linear heads",
        "objective": "blank, positive, negative or uncertain for each finding; no-finding",
        "texts": len(learnt),
        "steps": config.steps,
        "first_losses": first,
        "held_out_accuracy": accuracy,
    }


def head_targets(statuses: np.ndarray) -> np.ndarray:
    """Statuses ``[n, 13]`` in the findings' order to classes ``[n, 14]`` in the heads' order."""
    ordered = statuses[:, [FINDINGS.index(finding) for finding in HEADS]].astype(np.int64)
    findings = np.array([finding != "support devices" for finding in HEADS])
    present = np.isin(ordered, (POSITIVE, UNCERTAIN)) & findings
    return np.concatenate([ordered, ~present.any(axis=1, keepdims=True)], axis=1)
