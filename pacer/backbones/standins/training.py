"""What the stand-ins' training shares: the learning-rate schedule, a WordPiece tokenizer, length-sorted batches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from tokenizers import BertWordPieceTokenizer
from torch import Tensor
from transformers import BertConfig, BertTokenizer

from pacer.core.errors import DataError

#: Share of the steps in which the learning rate rises.
_RISE = 0.1
#: Batches drawn together and sorted by length.
_WINDOW = 8
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def peak_schedule(step: int, steps: int) -> float:
    """Factor of the peak learning rate at ``step`` of ``steps``: a linear rise over a tenth, then a cosine to 0."""
    rise = max(1, round(_RISE * steps))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))


def train_wordpiece(texts: Sequence[str], vocabulary: int) -> BertTokenizer:
    """A lower-casing BERT tokenizer of at most ``vocabulary`` pieces, learnt from ``texts``.

    Raises:
        DataError: there is no text.
    """
    if not any(text.strip() for text in texts):
        raise DataError("a tokenizer cannot be learnt without text; the corpus gives no report")
    learner = BertWordPieceTokenizer(lowercase=True)
    learner.train_from_iterator(iter(texts), vocab_size=vocabulary, min_frequency=2, show_progress=False,
                                special_tokens=list(SPECIAL_TOKENS))
    return BertTokenizer(vocab=learner.get_vocab(), do_lower_case=True, model_max_length=512)


def bert_config(tokenizer: BertTokenizer, width: int, layers: int, heads: int) -> BertConfig:
    """A small BERT with the proportions of the original: inner width four times the width, 512 positions."""
    return BertConfig(vocab_size=len(tokenizer), hidden_size=width, num_hidden_layers=layers,
                      num_attention_heads=heads, intermediate_size=4 * width, max_position_embeddings=512,
                      pad_token_id=tokenizer.pad_token_id)


def held_out_tenth(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from and a tenth (at least one) to judge by, disjoint.

    Raises:
        DataError: fewer than two rows.
    """
    if count < 2:
        raise DataError(f"{count} texts to train on; at least 2 are needed")
    order = rng.permutation(count)
    tenth = max(1, count // 10)
    return order[tenth:], order[:tenth]


def training_batches(lengths: np.ndarray, rows: np.ndarray, batch_size: int, steps: int,
                     rng: np.random.Generator) -> Iterator[np.ndarray]:
    """``steps`` batches of rows: shuffled passes over ``rows``, similar lengths together inside shuffled windows."""
    made = 0
    while made < steps:
        order = rng.permutation(rows)
        for start in range(0, len(order), _WINDOW * batch_size):
            window = order[start:start + _WINDOW * batch_size]
            window = window[np.argsort(lengths[window], kind="stable")]
            parts = [window[first:first + batch_size] for first in range(0, len(window), batch_size)]
            for index in rng.permutation(len(parts)):
                if made == steps:
                    return
                made += 1
                yield parts[index]


def pad(pieces: Sequence[Sequence[int]], padding: int) -> tuple[Tensor, Tensor]:
    """Ids and attention mask ``[n, longest]`` of token lists."""
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in pieces], batch_first=True,
                                          padding_value=padding)
    lengths = torch.tensor([len(row) for row in pieces])
    return ids, (torch.arange(ids.shape[1]) < lengths[:, None]).long()
