"""CheXbert's network (Smit et al. 2020): BERT, the last state of ``[CLS]``, and one linear head per observation."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import BertModel

from pacer.metrics.chexbert.observations import OBSERVATIONS


class CheXbertNetwork(nn.Module):
    """BERT and its 14 heads: 13 of four classes, "No Finding" of two. Dropout is never active.

    Only ``[CLS]`` is read, so after its attention the last block computes only that position.
    """

    def __init__(self, bert: BertModel):
        super().__init__()
        self.bert: BertModel = bert
        width, blocks = bert.config.hidden_size, bert.config.num_hidden_layers
        self.linear_heads = nn.ModuleList(nn.Linear(width, 2 if name == "No Finding" else 4) for name in OBSERVATIONS)
        last = bert.get_submodule(f"encoder.layer.{blocks - 1}.attention.output")
        last.register_forward_pre_hook(_first_position)
        self.eval()

    def train(self, mode: bool = True) -> CheXbertNetwork:
        """Stay in evaluation mode regardless of ``mode``."""
        return super().train(False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> list[Tensor]:
        """Map ids and mask ``[n, pieces]`` to 14 tensors of class scores: 13 of ``[n, 4]``, and the last ``[n, 2]``."""
        return self.scores(self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state)

    def scores(self, states: Tensor) -> list[Tensor]:
        """Compute the heads' scores from BERT's last states ``[n, 1, width]``."""
        first = states[:, 0]
        return [head(first) for head in self.linear_heads]

    def classes(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the best class of every head, ``[n, 14]``."""
        return torch.stack([scores.argmax(dim=1) for scores in self(input_ids, attention_mask)], dim=1)


def _first_position(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Cut inputs ``[n, pieces, width]`` to the first piece."""
    return tuple(states[:, :1] for states in inputs)
