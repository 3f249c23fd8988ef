"""A preference for longer lists of positive findings (``decode.list_bias``)."""

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

_START = "<ANCHOR> positive:"


class ListBias:
    """A ``bias`` towards findings in the positive list of a commitment."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, bias: float):
        def ids(text: str) -> list[int]:
            return list(tokenizer(f"{_START}{text}", add_special_tokens=False)["input_ids"])

        def with_mark(mark: str) -> list[int]:
            return [number for token, number in tokenizer.get_vocab().items() if mark in token]

        self.bias = bias
        self.start = ids("")
        self.none = sorted({ids(text)[len(self.start)] for text in (" none", " none;")})
        # a mark may be a token of its own, or the end of a word's token
        self.commas = with_mark(",")
        self.ends = with_mark(";")

    def __call__(self, scores: Tensor, tokens: Tensor, length: Tensor) -> Tensor:
        """Add the bias to the scores [n, K, V] of what follows the first ``length`` [n] of
        ``tokens`` [n, K, T].

        Directly after ``<ANCHOR> positive:``, all tokens but those of "none" get it; until the
        positive list ends, by "none" or a semicolon, those with a comma get it.
        """
        size = len(self.start)
        longest = tokens.shape[-1]
        if longest < size:
            return scores
        start = torch.tensor(self.start, device=tokens.device)
        none = torch.tensor(self.none, device=tokens.device)
        ends = torch.tensor(self.ends, device=tokens.device)
        places = torch.arange(longest, device=tokens.device)
        length = length[:, None]
        ending = torch.isin(tokens, ends) | (torch.isin(tokens, none) & (places == size))
        ended = (ending & (places >= size) & (places < length.unsqueeze(-1))).any(-1)
        listing = (tokens[..., :size] == start).all(-1) & (length >= size) & ~ended
        first = listing & (length == size)
        scores += self.bias * first.unsqueeze(-1)
        scores[..., none] -= self.bias * first.unsqueeze(-1)
        scores[..., self.commas] += self.bias * listing.unsqueeze(-1)
        return scores
