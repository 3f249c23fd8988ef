"""Keys and values of many searches at once: one tree of tokens per record, shared by all its beams.

A record's nodes are its prefix and every generated token that a beam still descends from. A beam is
the set of its ancestors. So the prefix and the beams' common start are stored once, and beams
change parents without copying. The slot of a token without descending beams is reused. Keys already
contain their position (RoPE), so a node may have any slot.

Shapes: S rows (records), K beams, H heads, G key-value heads, L nodes per row, W nodes in use, P
prefix positions.
"""

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AttentionInterface

#: Nodes are allocated and attended to in multiples of this, for alignment and few different shapes.
_BLOCK = 32
#: The name under which transformers' models find :func:`tree_attention`.
ATTENTION = "pacer_tree"


class TokenTree:
    """Keys and values of at most S records, used by transformers' models in place of a cache.

    The rows in use come first. Memory: 2 x layers x S x G x L x head width numbers. L is the
    largest number of nodes that a row has had, rounded up by a quarter when it grows. That number
    is at most P + K x generated tokens, usually little over P + generated tokens, because beams
    soon share their start.

    Args:
        rows: S.
        beams: K.
        layers: of the model.
        heads: query heads per key-value head, H / G.
    """

    def __init__(self, rows: int, beams: int, layers: int, heads: int, device: torch.device):
        self.beams = beams
        self.layers = layers
        self.heads = heads
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        #: [S, K, L] bool, the nodes that each beam attends to.
        self.ancestors = torch.zeros(rows, beams, 0, dtype=torch.bool, device=device)
        #: [S, K], the nodes of the newest tokens.
        self.slots = torch.zeros(rows, beams, dtype=torch.long, device=device)
        #: Nodes up to the last node in use, over the rows in use.
        self.used = 0
        self._filling: slice | None = None
        self._rows = 0

    @property
    def capacity(self) -> int:
        """L."""
        return self.ancestors.shape[2]

    @property
    def width(self) -> int:
        """W, the nodes that a step attends to."""
        return _whole_blocks(self.used)

    @contextmanager
    def filling(self, rows: slice, lengths: Tensor, longest: int) -> Generator[None]:
        """In this context, a forward pass over right-padded prefixes [n, P, d] of ``lengths`` [n]
        fills these rows."""
        self._reserve(longest)
        self._filling = rows
        yield
        self._filling = None
        nodes = torch.arange(self.capacity, device=lengths.device)
        self.ancestors[rows] = (nodes < lengths.unsqueeze(1)).unsqueeze(1)
        self.used = max(self.used, longest)

    @contextmanager
    def stepping(self, rows: int) -> Generator[Tensor]:
        """In this context, a forward pass over tokens [rows, K] stores one node per beam; yields
        its additive mask [rows, 1, H / G x K, W].
        """
        self._rows = rows
        mask = self.keys[0].new_zeros(rows, 1, self.beams, self.width)
        mask.masked_fill_(~self.ancestors[:rows, :, : self.width].unsqueeze(1), -torch.inf)
        yield mask.repeat(1, 1, self.heads, 1)

    def branch(self, rows: slice, parents: Tensor) -> Tensor:
        """Make beam k of each row continue beam ``parents[:, k]`` [n, K], and reserve a free node
        for its next token::

            nodes          0 1 2 3 4    0, 1: the prefix; 2, 3: the last tokens of beams 0, 1
            beam 0         x x x . .
            beam 1         x x . x .
            both continue beam 1, and node 2 is free again (N: the next token's)
            beam 0         x x N x .
            beam 1         x x . x N

        Returns the number of nodes up to the last one in use [n].
        """
        self._reserve(self.used + self.beams)
        ancestors = self.ancestors[rows]
        ancestors = ancestors.gather(1, parents.unsqueeze(-1).expand_as(ancestors))
        free_so_far = (~ancestors.any(1)).cumsum(-1)
        wanted = torch.arange(1, self.beams + 1, device=parents.device).repeat(len(parents), 1)
        # the first K nodes without descending beams
        slots = torch.searchsorted(free_so_far, wanted)
        ancestors.scatter_(2, slots.unsqueeze(-1), True)
        self.ancestors[rows] = ancestors
        self.slots[rows] = slots
        numbers = torch.arange(1, self.capacity + 1, device=parents.device)
        return (ancestors.any(1) * numbers).amax(-1)

    def move(self, sources: Tensor, targets: Tensor) -> None:
        """Copy rows ``sources`` over rows ``targets``."""
        for tensor in (self.ancestors, self.slots, *self.keys, *self.values):
            tensor[targets] = tensor[sources]

    def update(
        self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Store the keys and values [n, G, T, head width] of a forward pass; return those to attend
        to.

        The model's attention layers call this as they would for a transformers cache.
        """
        if len(self.keys) < self.layers:
            shape = len(self.ancestors), key.shape[1], self.capacity, key.shape[3]
            # zeros, because masked entries must be finite; in the values' type, because RoPE leaves
            # the keys of float32 embeddings in float32
            self.keys.append(value.new_zeros(shape))
            self.values.append(value.new_zeros(shape))
        keys, values = self.keys[layer], self.values[layer]
        if self._filling is not None:
            keys[self._filling, :, : key.shape[2]] = key
            values[self._filling, :, : key.shape[2]] = value
            return key, value
        places = self.slots[: self._rows, None, :, None].expand_as(key)
        keys, values = keys[: self._rows], values[: self._rows]
        keys.scatter_(2, places, key.to(keys.dtype))
        values.scatter_(2, places, value)
        return keys[:, :, : self.width], values[:, :, : self.width]

    def _reserve(self, nodes: int) -> None:
        """Make room for ``nodes`` nodes per row, copying one layer at a time."""
        if nodes <= self.capacity:
            return
        more = _whole_blocks(max(nodes, self.capacity * 5 // 4)) - self.capacity
        self.ancestors = F.pad(self.ancestors, (0, more))
        for tensors in (self.keys, self.values):
            for layer, tensor in enumerate(tensors):
                tensors[layer] = F.pad(tensor, (0, 0, 0, more))


def _whole_blocks(nodes: int) -> int:
    return math.ceil(nodes / _BLOCK) * _BLOCK


def tree_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    scaling: float,
    **_: Any,
) -> tuple[Tensor, None]:
    """Compute attention of [n, H, T, w] over [n, G, L, w], as transformers' models call it; return
    [n, T, H, w].

    Without a mask it is causal, over a prefix. With a mask [n, 1, H / G x K, L], the beams and the
    heads of a group are packed into one dimension of queries, so keys and values are read once for
    all of them.
    """
    if mask is None:
        attended = F.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scaling, enable_gqa=True
        )
    else:
        packed = query.reshape(*key.shape[:2], -1, query.shape[-1])
        attended = F.scaled_dot_product_attention(packed, key, value, attn_mask=mask, scale=scaling)
        attended = attended.reshape(query.shape)
    return attended.transpose(1, 2), None


AttentionInterface.register(ATTENTION, tree_attention)
