"""A bias on the findings that a generated commitment affirms (``decode.list_bias``; not in the paper).

Where most reports affirm nothing, the most probable list is nearly always "none", although "none" is far from certain.
With a bias, a search adds it to the log-probability of a text once for each finding that its commitment affirms: at the
first token of the first finding, and at the comma before each further one.
"""

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

_START = "<ANCHOR> positive:"


class ListBias:
    """The ``bias`` for texts of a tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, bias: float):
        def ids(text: str) -> list[int]:
            return list(tokenizer(f"{_START}{text}", add_special_tokens=False)["input_ids"])

        def with_mark(mark: str) -> list[int]:
            return [number for token, number in tokenizer.get_vocab().items() if mark in token]

        self.bias, self.start = bias, ids("")
        self.none = sorted({ids(text)[len(self.start)] for text in (" none", " none;")})
        # a mark may be a token, or the end of a word's
        self.commas, self.ends = with_mark(","), with_mark(";")

    def __call__(self, scores: Tensor, tokens: Tensor, length: Tensor) -> Tensor:
        """Add the bias to the scores [n, K, V] of what follows the first ``length`` [n] of ``tokens`` [n, K, T]."""
        size, longest = len(self.start), tokens.shape[-1]
        if longest < size:
            return scores
        start, none, ends = (torch.tensor(one, device=tokens.device) for one in (self.start, self.none, self.ends))
        places, length = torch.arange(longest, device=tokens.device), length[:, None]
        ending = torch.isin(tokens, ends) | torch.isin(tokens, none) & (places == size)
        ended = (ending & (places >= size) & (places < length.unsqueeze(-1))).any(-1)
        listing = (tokens[..., :size] == start).all(-1) & (length >= size) & ~ended
        first = listing & (length == size)
        scores += self.bias * first.unsqueeze(-1)
        scores[..., none] -= self.bias * first.unsqueeze(-1)
        scores[..., self.commas] += self.bias * listing.unsqueeze(-1)
        return scores
