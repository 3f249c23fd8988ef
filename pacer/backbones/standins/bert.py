"""A small BERT that quickly learns the status of each finding in a report, and its tokenizer.

Noticing that a report names a finding is easy. The hard part is to bind it to its "no", "possible" or "resolved" a few
words away. Two things speed this up. The first block's heads start by looking a few positions back, which the original
takes millions of steps to learn. And during training, every finding has a separate query that reads single positions.
"""

import math
import string
from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import torch
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from torch import Tensor, nn
from transformers import BertConfig, BertModel, BertTokenizer

from pacer.data.findings import FINDINGS

_SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
#: Always in the vocabulary, so that no plain English word becomes [UNK].
_LETTERS = string.ascii_lowercase + string.digits
_ALPHABET = (*string.punctuation, *_LETTERS, *(f"##{letter}" for letter in _LETTERS))
_POSITIONS = 512
#: Initial standard deviation of weights: the original's 0.02 suits widths of 768.
_STD = 0.08
#: Where the first block's heads look initially: positions back, and the share of high frequencies left out (a larger
#: share widens the view). Other heads start at random.
_LOOK_BACK = ((1, 0.0), (3, 3 / 16), (6, 6 / 16))
_WAVELENGTHS = (6.0, 200.0)


def train_wordpiece(texts: Sequence[str], vocabulary: int) -> BertTokenizer:
    """Train a lower-casing BERT tokenizer of at most ``vocabulary`` pieces on ``texts``.

    It starts from the alphabet and joins the most frequent pair of pieces until the vocabulary is full or no pair
    repeats. Ties are broken alphabetically, so the same texts always give the same tokenizer (the trainer in the
    package ``tokenizers`` depends on the order of a hash table).
    """
    normalizer, splitter = BertNormalizer(lowercase=True), BertPreTokenizer()
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
    words = {word: [word[0], *(f"##{character}" for character in word[1:])] for word in sorted(counts)}
    pieces = _SPECIAL_TOKENS + sorted({*_ALPHABET, *chain.from_iterable(words.values())})
    while len(pieces) < vocabulary:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, parts in words.items():
            for pair in pairwise(parts):
                pairs[pair] += counts[word]
        best = min(pairs, key=lambda pair: (-pairs[pair], pair), default=None)
        if best is None or pairs[best] < 2:
            break
        pieces.append(best[0] + best[1].removeprefix("##"))
        words = {word: _joined(parts, best, pieces[-1]) for word, parts in words.items()}
    vocab = {piece: index for index, piece in enumerate(pieces)}
    return BertTokenizer(vocab=vocab, do_lower_case=True, model_max_length=_POSITIONS)


def _joined(parts: list[str], pair: tuple[str, str], joined: str) -> list[str]:
    result: list[str] = []
    for part in parts:
        if result and (result[-1], part) == pair:
            result[-1] = joined
        else:
            result.append(part)
    return result


def small_bert(tokenizer: BertTokenizer, width: int, layers: int, heads: int) -> BertModel:
    """Build a BERT with the original's proportions (inner width 4 x width, 512 positions) and local first heads.

    Weights are drawn from torch's global generator.
    """
    bert = BertModel(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * width,
            max_position_embeddings=_POSITIONS,
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
    """Set sinusoidal positions in the last quarter of the width, and first-block heads that follow them."""
    width = bert.config.hidden_size
    size = width // heads
    pairs = min(width // 8, size // 2)
    first = width - 2 * pairs
    shortest, longest = _WAVELENGTHS
    steps = torch.arange(pairs) / max(pairs - 1, 1)
    frequency = 2 * math.pi / (shortest * (longest / shortest) ** steps)
    angle = torch.arange(float(_POSITIONS))[:, None] * frequency
    table = bert.embeddings
    table.word_embeddings.weight[:, first:] = 0
    table.token_type_embeddings.weight.zero_()
    table.position_embeddings.weight.zero_()
    table.position_embeddings.weight[:, first:] = torch.cat([angle.sin(), angle.cos()], 1) * _STD * math.sqrt(2)
    block: Any = bert.encoder.layer[0]
    attention = block.attention.self
    for head, (back, left_out) in enumerate(_LOOK_BACK[: max(heads - 1, 1)]):
        query, key = torch.zeros(size, width), torch.zeros(size, width)
        for pair in range(pairs):
            chosen = max(pair, round(left_out * pairs))
            sine, cosine = first + chosen, first + pairs + chosen
            turn = frequency[chosen] * back
            query[2 * pair, sine], query[2 * pair + 1, cosine] = 1, 1
            key[2 * pair, sine], key[2 * pair, cosine] = turn.cos(), turn.sin()
            key[2 * pair + 1, sine], key[2 * pair + 1, cosine] = -turn.sin(), turn.cos()
        rows = slice(head * size, (head + 1) * size)
        attention.query.weight[rows] = 0.5 * attention.query.weight[rows] + query
        attention.key.weight[rows] = 0.5 * attention.key.weight[rows] + key


class FindingReader(nn.Module):
    """A reader of each finding's status from token states: one attention query and one linear map per finding.

    Only used in training, where it makes single tokens represent a finding together with its polarity.
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
