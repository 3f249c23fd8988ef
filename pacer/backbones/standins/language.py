"""A small Llama that writes reports and follows its prefix: the stand-in for Vicuna.

A language model trained on text alone ignores visual tokens that it has never met, and a short warm-up cannot teach
it otherwise at this size. So the stand-in learns to read a conditioned prefix: some of the prefix slots hold the noisy
sum of the word embeddings of a sentence that the report states, the others hold noise. Half of the targets are
direct reports, half are commitment-first; a quarter stands in the warm-up layout (slots alone, no instruction).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from pacer.backbones.standins.training import peak_schedule
from pacer.core.io import write_json
from pacer.core.progress import Ticker
from pacer.params import LanguageStandin

BOS, EOS = 1, 2
#: Share of a sentence's words left out of its slots, and bounds of the noise relative to the words.
DROPPED, NOISE = 0.1, (0.1, 0.6)
#: Share of examples in the warm-up layout, share of the steps that see nothing else, and share of commitment-first
#: targets among the others (the commitment is the harder of the two to learn).
BARE, BARE_STEPS, COMMIT = 0.15, 0.4, 0.7


class TrainingText(NamedTuple):
    """One training text: the instruction's two parts, the target of each route, and the sentences that state a
    finding (what the prefix is conditioned on)."""

    before: str
    after_direct: str
    after_commit: str
    report: str
    commitment: str
    stated: tuple[str, ...]


def make_language_standin(
    config: LanguageStandin, tokenizer: Tokenizer, texts: Sequence[TrainingText], seed: int, out: Path, origin: str
) -> dict:
    """Train the model and save it as a Hugging Face directory with its tokenizer.

    Args:
        tokenizer: with ``<unk>`` 0, ``<s>`` 1, ``</s>`` 2. origin: what the texts are, for the provenance.

    Returns:
        The provenance, written to ``out/provenance.json`` as well.
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = LlamaForCausalLM(_architecture(config, tokenizer.get_vocab_size()))
    encoded = [_encode(tokenizer, text) for text in texts]
    held_out = max(1, len(encoded) // 20)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, weight_decay=0.01)
    model.train()
    with Ticker("train language stand-in", config.steps) as ticker:
        for step in range(config.steps):
            # binding is learnt on short sequences first, the instruction and the commitment afterwards
            bare, size = (1.0, 2 * config.batch_size) if step < BARE_STEPS * config.steps else (BARE, config.batch_size)
            rows = rng.integers(held_out, len(encoded), size=size)
            for group in optimizer.param_groups:
                group["lr"] = config.learning_rate * peak_schedule(step, config.steps)
            loss = _loss(model, [encoded[r] for r in rows], config.slots, bare, rng)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            ticker.advance(note=f"loss {loss.item():.3f}")
    model.eval()
    with torch.no_grad():
        parts = [encoded[i : min(i + 16, held_out)] for i in range(0, held_out, 16)]
        held_out_loss = float(np.mean([_loss(model, part, config.slots, BARE, rng).item() for part in parts]))
    model.save_pretrained(out)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(out)
    provenance = {
        "provider": "standin",
        "model": f"Llama, {config.layers} blocks, width {config.width}",
        "data": origin,
        "seed": seed,
        "texts": len(texts) - held_out,
        "steps": config.steps,
        "held_out_loss": round(held_out_loss, 4),
        "objective": "next token given prefix slots that hold noisy sums of stated sentences' word embeddings",
    }
    write_json(out / "provenance.json", provenance)
    return provenance


def _architecture(config: LanguageStandin, vocabulary: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=config.width,
        intermediate_size=round(config.width * 8 / 3),
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        max_position_embeddings=2048,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=None,
        tie_word_embeddings=False,
    )


class _Encoded(NamedTuple):
    before: list[int]
    after: dict[bool, list[int]]
    target: dict[bool, list[int]]
    stated: list[list[int]]


def _encode(tokenizer: Tokenizer, text: TrainingText) -> _Encoded:
    def ids(piece: str) -> list[int]:
        return tokenizer.encode(piece, add_special_tokens=False).ids

    report = ids(text.report)
    return _Encoded(
        ids(text.before),
        {False: ids(text.after_direct), True: ids(text.after_commit)},
        {False: report, True: ids(f"{text.commitment}\n<REPORT>\n{text.report}\n</REPORT>")},
        [ids(sentence) for sentence in text.stated],
    )


def _loss(
    model: LlamaForCausalLM, texts: Sequence[_Encoded], slots: int, bare_share: float, rng: np.random.Generator
) -> Tensor:
    """Cross-entropy of the targets (EOS included) in a right-padded batch."""
    embedding: Any = model.get_input_embeddings()
    rows, starts, labels = [], [], []
    for text in texts:
        commit, bare = bool(rng.random() < COMMIT), rng.random() < bare_share
        commit = commit and not bare
        before, after = ([], []) if bare else (text.before, text.after[commit])
        prefix = [BOS, *before, *([0] * slots), *after, BOS]
        target = [*text.target[commit], EOS]
        rows.append(torch.tensor(prefix + target))
        labels.append(torch.tensor([-100] * len(prefix) + target))
        starts.append(1 + len(before))
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    wanted = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=-100)
    conditions = torch.stack([_condition(embedding.weight, text.stated, slots, rng) for text in texts])
    places = torch.tensor(starts).unsqueeze(1) + torch.arange(slots)
    inputs = embedding(ids).scatter(1, places.unsqueeze(-1).expand_as(conditions), conditions)
    hidden = model.model(inputs_embeds=inputs, use_cache=False).last_hidden_state[:, :-1]
    known = wanted[:, 1:] != -100
    return F.cross_entropy(model.lm_head(hidden[known]), wanted[:, 1:][known])


def _condition(embedding: Tensor, stated: list[list[int]], slots: int, rng: np.random.Generator) -> Tensor:
    """Prefix slots [Q, d] at unit scale: each stated sentence's words, some dropped, in slots of its own."""
    noise = torch.from_numpy(rng.standard_normal((slots, embedding.shape[1]), dtype=np.float32))
    signal = torch.zeros_like(noise)
    free = rng.permutation(slots)
    share = max(1, slots // max(len(stated), 4))
    for i, sentence in enumerate(stated):
        kept = [token for token in sentence if rng.random() > DROPPED]
        own = free[i * share : (i + 1) * share][: int(rng.integers(1, share + 1))]
        if kept and len(own):
            words = F.layer_norm(embedding[torch.tensor(kept)].sum(0), (embedding.shape[1],))
            signal[torch.from_numpy(own)] = words
    level = float(rng.uniform(*NOISE))
    return F.layer_norm(torch.where(signal.any(1, keepdim=True), signal + level * noise, noise), (len(noise[0]),))
