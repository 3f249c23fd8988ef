"""A small residual network: what a few thousand radiographs without known places can teach in minutes of one core.

A vision transformer has to learn what a convolution knows beforehand, that neighbours belong together and that an
opacity is one wherever it lies. So where radiographs are few, this network learns the findings first, and the encoder
learns from it (:mod:`pacer.backbones.standins.vision`). Residual blocks after He et al., "Deep Residual Learning for
Image Recognition", 2016; each starts as its skip connection.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pacer.core.devices import gains_from_bfloat16

#: Channels of the four stages; the last two share a resolution.
WIDTHS = (24, 48, 96, 192)


class ResidualNetwork(nn.Module):
    """Grey radiographs [B, 1, H, W] -> map [B, 192, H / 16, W / 16] and findings' logits [B, F] of its mean place.

    Computes in bfloat16 on processors that multiply it, in a third of the time.
    """

    def __init__(self, findings: int):
        super().__init__()
        first, second, third, fourth = WIDTHS
        self.stem = nn.Sequential(
            nn.Conv2d(1, first, 7, 2, 3, bias=False), nn.BatchNorm2d(first), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.body = nn.Sequential(
            _Block(first, first, 1),
            _Block(first, second, 2),
            _Block(second, second, 1),
            _Block(second, third, 2),
            _Block(third, third, 1),
            _Block(third, fourth, 1),
            _Block(fourth, fourth, 1),
        )
        self.label = nn.Linear(fourth, findings)
        self.in_bfloat16 = gains_from_bfloat16()

    def forward(self, grey: Tensor) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", torch.bfloat16, self.in_bfloat16):
            places = self.body(self.stem(grey.contiguous(memory_format=torch.channels_last)))
        places = places.float()
        return places, self.label(places.mean((2, 3)))


class _Block(nn.Module):
    def __init__(self, width_in: int, width: int, stride: int):
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(width_in, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.second, self.second_norm = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        nn.init.zeros_(self.second_norm.weight)
        self.skip = nn.Identity()
        if width != width_in:
            self.skip = nn.Sequential(nn.Conv2d(width_in, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, places: Tensor) -> Tensor:
        added = F.relu(self.first_norm(self.first(places)))
        return F.relu(self.skip(places) + self.second_norm(self.second(added)))
