"""A small labeller in CheXbert's own checkpoint format: the stand-in for weights that may not be redistributed.

It is trained on raw and cleaned forms of the same reports. Its fourteenth head follows the labelling convention: "No
Finding" is 1 exactly when no observation except Support Devices is positive or uncertain.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pacer.backbones.standins.bert import FindingReader, small_bert
from pacer.backbones.standins.data import LabelledText
from pacer.backbones.standins.training import ReportTask
from pacer.config.backbones import TextStandin
from pacer.data.cleaning import clean_report
from pacer.data.findings import FINDINGS
from pacer.metrics.chexbert.network import CheXbertNetwork
from pacer.metrics.chexbert.observations import CHECKPOINT, OBSERVATION_OF, OBSERVATIONS, POSITIVE, UNCERTAIN

_FINDING_OF = {observation: finding for finding, observation in OBSERVATION_OF.items()}
#: The finding of each four-class head, in the checkpoint's order; head 13 is "No Finding" with two classes.
HEADS: tuple[str, ...] = tuple(_FINDING_OF[observation] for observation in OBSERVATIONS[:-1])
#: Weights of the classes: blank is easy and frequent, uncertain is rare.
_CLASS_WEIGHTS = (1.0, 2.0, 2.0, 3.0)
#: Weight of the per-finding reader, which is dropped after training.
_READER_WEIGHT = 2.0


def make_chexbert_standin(
    config: TextStandin, texts: Sequence[LabelledText], seed: int, out: Path
) -> dict[str, object]:
    """Train the labeller on each text, raw and cleaned by :func:`~pacer.data.cleaning.clean_report`, and measure the
    accuracy of each head on held-out texts.

    Raises:
        DataError: there is too little text.
    """
    raw = [text.raw for text in texts]
    task = ReportTask([raw, list(map(clean_report, raw))], config.vocabulary, np.random.default_rng(seed))
    targets = torch.from_numpy(head_targets(np.array([text.statuses for text in texts])))
    weights = torch.tensor(_CLASS_WEIGHTS)
    in_order = [HEADS.index(finding) for finding in FINDINGS]

    torch.manual_seed(seed)
    network = CheXbertNetwork(small_bert(task.tokenizer, config.width, config.layers, config.heads))
    reader = FindingReader(config.width, len(_CLASS_WEIGHTS))

    def loss_of(ids: Tensor, mask: Tensor, rows: np.ndarray) -> Tensor:
        states = network.bert(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
        *findings, nothing = network.scores(states[-1])
        wanted = targets[rows]
        loss = F.cross_entropy(torch.stack(findings, 1).flatten(0, 1), wanted[:, :-1].flatten(), weight=weights)
        loss = loss + F.cross_entropy(nothing, wanted[:, -1]) / len(HEADS)
        read = reader(states[-2], mask).flatten(0, 1)  # the states that [CLS] reads in the last block
        return loss + _READER_WEIGHT * F.cross_entropy(read, wanted[:, in_order].flatten(), weight=weights)

    first = task.train("train labeller stand-in", nn.ModuleList([network, reader]), loss_of, config)
    accuracy = {}
    for number, form in enumerate(("raw", "cleaned")):
        right = task.accuracy(network.classes, targets, number)
        accuracy[form] = dict(zip((*HEADS, "no finding"), right, strict=True))
    network.bert.config.save_pretrained(out)
    task.tokenizer.save_pretrained(out)
    state = {f"module.{name}": value for name, value in network.state_dict().items()}
    torch.save({"model_state_dict": state}, out / CHECKPOINT)
    return {
        "model": f"BERT, {config.layers} blocks, width {config.width}, 14 linear heads",
        "objective": "blank, positive, negative or uncertain for each finding; no-finding",
        "texts": len(task.rows) // 2,
        "steps": config.steps,
        "first_losses": first,
        "held_out_accuracy": accuracy,
    }


def head_targets(statuses: np.ndarray) -> np.ndarray:
    """Convert statuses ``[n, 13]`` in the findings' order to classes ``[n, 14]`` in the heads' order."""
    ordered = statuses[:, [FINDINGS.index(finding) for finding in HEADS]].astype(np.int64)
    findings = np.array([finding != "support devices" for finding in HEADS])
    present = np.isin(ordered, (POSITIVE, UNCERTAIN)) & findings
    return np.concatenate([ordered, ~present.any(axis=1, keepdims=True)], axis=1)
