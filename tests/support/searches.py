"""Random searches: small language models, prefixes of many lengths, settings from all over their
ranges."""

import random
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from pacer.config import Decode
from pacer.decoding.search import Engine, Prefix

EOS = 2
ROPES = [
    {"rope_type": "default", "rope_theta": 10000.0},
    {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0},
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "rope_theta": 10000.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    },
]


def settings(**changes: Any) -> Decode:
    plain = {
        "split": "test",
        "limit": None,
        "num_beams": 3,
        "min_new_tokens": 0,
        "max_new_tokens": 16,
        "repetition_penalty": 2.0,
        "length_penalty": 2.0,
        "batch_size": 4,
        "examples": 1,
        "controls": [],
    }
    return Decode(**plain | changes)


class Case(NamedTuple):
    """A model, settings, and prefixes to search from."""

    language: Any
    decode: Decode
    prefixes: list[Tensor]

    def to(self, device: torch.device, dtype: torch.dtype | None = None) -> Self:
        """The same case elsewhere, or in another type."""
        language = self.language.to(device=device, dtype=dtype)
        return self._replace(
            language=language, prefixes=[prefix.to(device, dtype) for prefix in self.prefixes]
        )


def random_language(draw: random.Random, dtype: torch.dtype, end: float) -> Any:
    """A model that says EOS the more often, the larger ``end``."""
    groups, heads, width = draw.choice([1, 2, 3]), draw.choice([1, 2, 3]), draw.choice([4, 8])
    config = LlamaConfig(
        vocab_size=draw.randint(30, 300),
        hidden_size=groups * heads * draw.choice([4, 6]),
        intermediate_size=24,
        num_hidden_layers=draw.randint(1, 3),
        num_attention_heads=groups * heads,
        num_key_value_heads=groups,
        head_dim=width,
        attention_bias=draw.random() < 0.3,
        initializer_range=draw.choice([0.2, 0.4]),
        rope_parameters=dict(draw.choice(ROPES)),
        bos_token_id=1,
        eos_token_id=EOS,
        tie_word_embeddings=False,
    )
    torch.manual_seed(draw.randrange(2**31))
    language = LlamaForCausalLM(config).to(dtype).eval()
    with torch.no_grad():
        language.lm_head.weight *= draw.choice([0.5, 1.0, 2.0])
        language.lm_head.weight[EOS] *= end
    return language


def random_case(seed: int, prefixes: int = 9, dtype: torch.dtype = torch.float64) -> Self:
    """In float64 two ways to sum differ by less than any two scores, which float32 cannot
    promise."""
    draw = random.Random(seed)
    most = draw.randint(1, 24)
    decode = settings(
        num_beams=draw.randint(1, 5),
        max_new_tokens=most,
        min_new_tokens=draw.choice([0, 0, draw.randint(0, most)]),
        repetition_penalty=draw.choice([1.0, draw.uniform(1, 3), 2.0]),
        batch_size=draw.randint(1, 6),
        length_penalty=draw.choice([-1.0, 0.0, 1.0, 2.0, 2.15, draw.uniform(-1, 2)]),
    )
    language = random_language(draw, dtype, end=draw.choice([0.1, 1.0, 2.0, 4.0]))
    lengths = [draw.randint(1, 24) for _ in range(prefixes)]
    return Case(
        language,
        decode,
        [torch.randn(n, language.config.hidden_size, dtype=dtype) for n in lengths],
    )


def candidates(engine: Engine, prefixes: Iterable[Prefix], count: int) -> list[list[list[int]]]:
    """Texts in the order of the prefixes; each prefix has come out once."""
    results = dict(pairs := list(engine(enumerate(prefixes), count)))
    assert len(pairs) == len(results) and sorted(results) == list(range(len(pairs)))
    return [results[number] for number in range(len(pairs))]


def found(engine: Engine, prefixes: list[Tensor]) -> list[list[int]]:
    """The best text of each prefix."""
    return [tokens for (tokens,) in candidates(engine, map(Prefix, prefixes), 1)]
