"""Shared parts of the stand-ins' training: the loop and its schedule, and tokenised reports, a
tenth of them held out.

Each ``make_*_standin`` saves model and tokenizer (or image processor) into ``out`` in Hugging Face
format and returns the description of the training for the provenance. Its ``seed`` determines
everything random.
"""

import math
import string
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from torch import Tensor, nn
from transformers import BertTokenizer

from pacer.core.errors import DataError
from pacer.core.io import atomic_path
from pacer.core.progress import Ticker
from pacer.standins.recipes import Recipe

#: Share of the steps in which the learning rate rises.
_RISE = 0.1
#: Number of first losses that identify a training run.
_FIRST = 10
#: Steps between two saved states; after these, batches that are drawn together are used up.
_SAVED_EVERY = 100
#: Ending of the files of saved states.
UNFINISHED = ".unfinished"
#: Batches drawn together and sorted by length.
_WINDOW = 8
#: Texts evaluated at once.
_JUDGED_AT_ONCE = 64
_SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
#: Always in the vocabulary, so that no plain English word becomes [UNK].
_LETTERS = string.ascii_lowercase + string.digits
_ALPHABET = list(string.punctuation + _LETTERS) + [f"##{letter}" for letter in _LETTERS]
POSITIONS = 512

Batch = TypeVar("Batch")


class State(NamedTuple):
    """Where a training saves its state. ``rng``: the generator of its batches and losses, besides
    torch's global generator."""

    folder: Path
    rng: np.random.Generator

    def save(self, what: str, parts: Sequence[Any], losses: list[float]) -> None:
        """Save the state of a training after the steps of ``losses``."""
        state = {
            "losses": losses,
            "parts": [part.state_dict() for part in parts],
            "torch": torch.get_rng_state(),
            "numpy": self.rng.bit_generator.state,
        }
        with atomic_path(self.folder / f"{what}{UNFINISHED}", durable=True) as temporary:
            torch.save(state, temporary)

    def restore(self, what: str, parts: Sequence[Any], batches: Iterator[object]) -> list[float]:
        """Restore the state last saved, if any, and pass over the batches used until then. Return
        the losses."""
        saved = self.folder / f"{what}{UNFINISHED}"
        if not saved.exists():
            return []
        state = torch.load(saved, weights_only=True)
        list(islice(batches, len(state["losses"])))
        for part, values in zip(parts, state["parts"], strict=True):
            part.load_state_dict(values)
        torch.set_rng_state(state["torch"])
        self.rng.bit_generator.state = state["numpy"]
        return state["losses"]


def train(
    what: str,
    modules: nn.Module,
    batches: Iterator[Batch],
    loss_of: Callable[[Batch], Tensor],
    recipe: Recipe,
    weight_decay: float = 0.01,
    state: State | None = None,
) -> list[float]:
    """Minimise ``loss_of(batch)`` with AdamW, clipping the gradient's norm at 1. Return the first
    losses, at most ten, which identify a training run.

    Args:
        what: name of the work for progress lines, different for each call with the same ``state``.
        batches: at least as many as steps; may be endless.
        recipe: gives the number of steps and the peak learning rate (see :func:`peak_schedule`).
        state: for models that take long: after an interruption, the same call continues from the
            state last saved.
    """
    steps = recipe.steps
    parameters = list(modules.parameters())
    optimizer = torch.optim.AdamW(
        parameters, lr=recipe.learning_rate, weight_decay=weight_decay, fused=True
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: peak_schedule(step, steps))
    parts = (modules, optimizer, schedule)
    losses = state.restore(what, parts, batches) if state else []
    with Ticker(what, steps, len(losses)) as ticker:
        for batch in islice(batches, steps - len(losses)):
            loss = loss_of(batch)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()
            losses.append(round(loss.item(), 6))
            ticker.advance(note=f"loss {losses[-1]:.3f}")
            if state and len(losses) % _SAVED_EVERY == 0:
                state.save(what, parts, losses)
    return losses[:_FIRST]


def peak_schedule(step: int, steps: int) -> float:
    """Return the factor of the peak learning rate at ``step``: linear rise for a tenth of
    ``steps``, cosine to 0."""
    rise = max(1, round(_RISE * steps))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))


def train_wordpiece(texts: Sequence[str], vocabulary: int) -> BertTokenizer:
    """Train a lower-casing BERT tokenizer of at most ``vocabulary`` pieces on ``texts``.

    It starts from the alphabet and joins the most frequent pair of pieces until the vocabulary is
    full or no pair repeats. Ties are broken alphabetically, so the same texts always give the same
    tokenizer (the trainer in the package ``tokenizers`` depends on the order of a hash table).
    """
    normalizer = BertNormalizer(lowercase=True)
    splitter = BertPreTokenizer()
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
    words = {
        word: [word[0]] + [f"##{character}" for character in word[1:]] for word in sorted(counts)
    }
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
    return BertTokenizer(vocab=vocab, do_lower_case=True, model_max_length=POSITIONS)


def _joined(parts: list[str], pair: tuple[str, str], joined: str) -> list[str]:
    result: list[str] = []
    for part in parts:
        if result and (result[-1], part) == pair:
            result[-1] = joined
        else:
            result.append(part)
    return result


class ReportTask:
    """Reports to train a BERT on, with a tenth of them (at least one) held out for evaluation.
    Raises a DataError if there are fewer than two reports.

    Args:
        forms: the same reports in one or several forms, such as raw and cleaned.
        vocabulary: size of the tokenizer, which is learnt from the reports that are not held out.

    Attributes:
        held_out: indices of the held-out reports.
    """

    def __init__(self, forms: Sequence[Sequence[str]], vocabulary: int, rng: np.random.Generator):
        self.count = len(forms[0])
        self.rng = rng
        if self.count < 2:
            raise DataError(f"a stand-in needs at least 2 texts to train on, got {self.count}")
        order = rng.permutation(self.count)
        tenth = max(1, self.count // 10)
        self.held_out = order[:tenth]
        self.rows = np.concatenate(
            [order[tenth:] + self.count * form for form in range(len(forms))]
        )
        reports = [report for form in forms for report in form]
        self.tokenizer = train_wordpiece([reports[row] for row in self.rows], vocabulary)
        self.pieces = self.tokenizer(reports, truncation=True)["input_ids"]

    def train(
        self,
        what: str,
        modules: nn.Module,
        loss_of: Callable[[Tensor, Tensor, np.ndarray], Tensor],
        recipe: Recipe,
    ) -> list[float]:
        """Call :func:`train`; ``loss_of`` gets ids and attention mask [n, T], and the indices of
        the reports."""

        def loss(rows: np.ndarray) -> Tensor:
            return loss_of(*self._padded(rows), rows % self.count)

        return train(what, modules, self.batches(recipe.batch_size), loss, recipe)

    def batches(self, batch_size: int) -> Iterator[np.ndarray]:
        """Yield endless batches of rows: shuffled passes, with similar lengths together inside
        shuffled windows."""
        lengths = np.array([len(row) for row in self.pieces])
        while True:
            order = self.rng.permutation(self.rows)
            for start in range(0, len(order), _WINDOW * batch_size):
                window = order[start : start + _WINDOW * batch_size]
                window = window[np.argsort(lengths[window], kind="stable")]
                parts = [
                    window[first : first + batch_size]
                    for first in range(0, len(window), batch_size)
                ]
                yield from (parts[index] for index in self.rng.permutation(len(parts)))

    @torch.inference_mode()
    def judged(self, judge: Callable[[Tensor, Tensor], Tensor], form: int = 0) -> Tensor:
        """Return ``judge(ids, mask)`` of the held-out reports, [held out, columns]."""
        parts = np.split(self.held_out, range(_JUDGED_AT_ONCE, len(self.held_out), _JUDGED_AT_ONCE))
        return torch.cat([judge(*self._padded(part + form * self.count)) for part in parts])

    def _padded(self, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        batch = self.tokenizer.pad(
            {"input_ids": [self.pieces[row] for row in rows]}, return_tensors="pt"
        )
        return batch["input_ids"], batch["attention_mask"]
