"""A small Llama that writes reports and follows its prefix: the stand-in for Vicuna.

A language model trained only on text ignores visual tokens, which it has never seen, and a short
warm-up cannot change that at this size. So the stand-in learns to read a conditioned prefix. Some
of the prefix slots contain the noisy sum of the word embeddings of a sentence that the report
states; the others contain noise. The first steps use only the warm-up layout (slots, no
instruction), the others mostly the whole instruction and both routes.

If the prefix always contained everything that the commitment states, the model would not learn to
write from a commitment, as any chat model can. So in many commitment-first examples the commitment
is given, and the slots hold only a part of it. Some lists have the sides of findings, the others
none (``commit.attributes``), so that the model can write from both.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from pacer.standins.data import Instruct, LabelledText, TrainingData, commitment_first
from pacer.standins.recipes import Recipe
from pacer.standins.training import State, train
from pacer.text.cleaning.cleaners import clean_report, sentence_ends, token_marks
from pacer.text.rules import extract_anchor

BOS = 1
EOS = 2
#: Slots of the prefix that carry the condition.
SLOTS = 16
#: Share of a sentence's words that its slots omit.
DROPPED = 0.1
#: Bounds of the noise relative to the words.
NOISE = (0.1, 0.6)
#: Share of examples in the warm-up layout.
BARE = 0.15
#: Share of the steps that use only the warm-up layout.
BARE_STEPS = 0.6
#: Share of commitment-first targets (commitments are harder to learn).
COMMIT = 0.7
#: Share of the commitment-first examples whose commitment is given; in the others the list is
#: learnt from the slots.
GIVEN = 0.5
#: Largest share of the stated sentences that the slots of these examples hold: the other sentences
#: must be written from the commitment alone.
HEARD = 0.8
#: ``GIVEN`` if reports are composed.
GIVEN_COMPOSED = 0.7
#: Share of the examples with a given list whose slots hold nothing, if reports are composed: the
#: wording of real reports reveals less of a list than the phantom's.
UNHEARD_COMPOSED = 0.5
#: Weight in the loss of the tokens of sentences that affirm a finding, if reports are composed: few
#: tokens of a real report reveal which findings its list has.
AFFIRMING = 4.0
#: Share of the lists that have sides.
SIDED = 0.5
#: Batches drawn together and divided by length.
_WINDOW = 10


def make_language_standin(
    recipe: Recipe, data: TrainingData, instruct: Instruct, seed: int, out: Path
) -> dict[str, object]:
    """Train the model. If the data has fewer texts than the recipe asks for, more are composed from
    those that are not held out."""
    tokenizer = data.tokenizer(recipe.vocabulary)
    texts = data.texts(recipe.examples)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    architecture = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=recipe.width,
        intermediate_size=3 * recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        max_position_embeddings=2048,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=None,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(architecture)
    held_out = max(1, len(texts) // 20)
    composed = data.recombined(texts[held_out:], recipe.examples - len(texts))
    if composed:
        lists = _Lists(given=GIVEN_COMPOSED, unheard=UNHEARD_COMPOSED, affirming=AFFIRMING)
    else:
        lists = _Lists(given=GIVEN, unheard=0.0, affirming=1.0)
    texts = [*texts, *composed]
    encoded = [
        encode(tokenizer, text, instruct, bool(rng.random() < SIDED), bool(composed))
        for text in texts
    ]
    lengths = np.array([len(text.target[True]) for text in encoded])

    def batches() -> Iterator[tuple[list[_Encoded], float]]:
        # the model first learns to read the slots, on short sequences without instruction and
        # commitment
        for step in range(0, recipe.steps, _WINDOW):
            bare = BARE
            size = recipe.batch_size
            if step < BARE_STEPS * recipe.steps:
                bare = 1.0
                size = 2 * recipe.batch_size
            rows = rng.integers(held_out, len(encoded), size=_WINDOW * size)
            rows = rows[np.argsort(lengths[rows], kind="stable")].reshape(_WINDOW, size)
            for batch in rng.permutation(rows):
                yield [encoded[row] for row in batch], bare

    def loss_of(batch: tuple[list[_Encoded], float]) -> Tensor:
        return _loss(model, batch[0], SLOTS, batch[1], rng, lists)

    model.train()
    first = train(
        "train language stand-in", model, batches(), loss_of, recipe, state=State(out, rng)
    )
    model.eval()
    with torch.no_grad():
        parts = [encoded[i : min(i + 16, held_out)] for i in range(0, held_out, 16)]
        held_out_loss = float(
            np.mean([_loss(model, part, SLOTS, BARE, rng, lists).item() for part in parts])
        )
    model.save_pretrained(out)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(out)
    return {
        "model": f"Llama, {recipe.layers} blocks, width {recipe.width}",
        "texts": len(texts) - held_out,
        "steps": recipe.steps,
        "first_losses": first,
        "held_out_loss": round(held_out_loss, 4),
        "objective": "next token given noisy sums of stated sentences' word embeddings in prefix "
        "slots; in a part, the commitment and fewer sentences",
    }


class _Lists(NamedTuple):
    """Settings for learning lists of findings."""

    #: Share of the commitment-first examples whose list is given.
    given: float
    #: Share of these examples with empty slots.
    unheard: float
    #: Weight in the loss of the tokens of sentences that affirm a finding.
    affirming: float


class _Encoded(NamedTuple):
    """The token ids of a text. Dictionaries are by route (True: commitment first)."""

    #: The instruction before the slots.
    before: list[int]
    #: The instruction after the slots.
    after: dict[bool, list[int]]
    target: dict[bool, list[int]]
    #: Number of tokens of the commitment.
    commitment: int
    #: The sentences that state a finding.
    stated: list[list[int]]
    #: For each token of the target, whether its sentence affirms a finding; empty if not marked.
    affirming: dict[bool, list[float]]


def encode(
    tokenizer: Tokenizer,
    text: LabelledText,
    instruct: Instruct,
    sides: bool = False,
    marked: bool = False,
) -> _Encoded:
    """Encode both routes of a text, and count the tokens of its commitment, which has ``sides`` or
    none; stated sentences are cleaned like the report. Only if ``marked``, the tokens of sentences
    that affirm a finding are marked."""

    def ids(piece: str) -> list[int]:
        return tokenizer.encode(piece, add_special_tokens=False).ids

    about = {
        "view": text.view,
        "sections": text.sections,
        "indication": text.indication,
        "history": text.history,
    }
    parts = {commit: instruct(**about, commit=commit) for commit in (False, True)}
    commitment = text.commitment(sides)
    targets = {False: text.cleaned, True: commitment_first(commitment, text.cleaned)}
    return _Encoded(
        ids(parts[False][0]),
        {commit: ids(after) for commit, (_, after) in parts.items()},
        {commit: ids(target) for commit, target in targets.items()},
        len(ids(commitment)),
        [ids(clean_report(sentence)) for sentence in text.stated],
        {commit: _affirming(tokenizer, target, text.cleaned) for commit, target in targets.items()}
        if marked
        else {},
    )


def _affirming(tokenizer: Tokenizer, target: str, report: str) -> list[float]:
    """Mark the tokens of a target, EOS included, that are in a sentence of the ``report`` that
    affirms a finding."""
    start = target.index(report)
    ends = sentence_ends(report)
    affirms = [
        bool(extract_anchor(report[first:last]).positive) for first, last in pairwise([0, *ends])
    ]
    token_ends = [end for _, end in tokenizer.encode(target, add_special_tokens=False).offsets]
    # the text around the report counts as sentences that affirm nothing; <s> is not a target
    ends = [start] + [start + end for end in ends] + [len(target)]
    return token_marks(ends, [False, *affirms, False], token_ends)[1:]


def _loss(
    model: LlamaForCausalLM,
    texts: Sequence[_Encoded],
    slots: int,
    bare_share: float,
    rng: np.random.Generator,
    lists: _Lists,
) -> Tensor:
    """Return the mean cross-entropy of the targets (EOS included) in a right-padded batch, with the
    weights of ``lists``."""
    embedding: Any = model.get_input_embeddings()
    rows = []
    starts = []
    labels = []
    heard = []
    marks = []
    for text in texts:
        commit = bool(rng.random() < COMMIT)
        bare = rng.random() < bare_share
        prefix = [BOS] + [0] * slots + [BOS]
        start = 1
        if not bare:
            prefix = [BOS] + text.before + [0] * slots + text.after[commit] + [BOS]
            start = 1 + len(text.before)
        target = [*text.target[commit], EOS]
        given = text.commitment if commit and rng.random() < lists.given else 0
        share = 1.0
        if given:
            share = max(0.0, rng.random() - lists.unheard) / (1 - lists.unheard) * HEARD
        rows.append(torch.tensor(prefix + target))
        labels.append(torch.tensor([-100] * (len(prefix) + given) + target[given:]))
        marks += text.affirming[commit][given:] if text.affirming else []
        starts.append(start)
        heard.append([sentence for sentence in text.stated if rng.random() < share])
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    wanted = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=-100)
    conditions = torch.stack(
        [prefix_slots(embedding.weight, sentences, slots, rng) for sentences in heard]
    )
    places = torch.tensor(starts).unsqueeze(1) + torch.arange(slots)
    inputs = embedding(ids).scatter(1, places.unsqueeze(-1).expand_as(conditions), conditions)
    hidden = model.model(inputs_embeds=inputs, use_cache=False).last_hidden_state[:, :-1]
    known = wanted[:, 1:] != -100
    if lists.affirming == 1:
        return F.cross_entropy(model.lm_head(hidden[known]), wanted[:, 1:][known])
    weights = 1 + (lists.affirming - 1) * torch.tensor(marks)
    losses = F.cross_entropy(model.lm_head(hidden[known]), wanted[:, 1:][known], reduction="none")
    return losses @ weights / weights.sum()


def prefix_slots(
    embedding: Tensor, stated: list[list[int]], slots: int, rng: np.random.Generator
) -> Tensor:
    """Return prefix slots [Q, d] at unit scale; each stated sentence's words, some dropped, get
    separate slots."""
    noise = torch.from_numpy(rng.standard_normal((slots, embedding.shape[1]), dtype=np.float32))
    signal = torch.zeros_like(noise)
    free = rng.permutation(slots)
    share = max(1, slots // max(len(stated), 4))
    for i, sentence in enumerate(stated):
        tokens = [token for token in sentence if rng.random() > DROPPED]
        places = free[i * share : (i + 1) * share][: int(rng.integers(1, share + 1))]
        if tokens and len(places):
            signal[torch.from_numpy(places)] = F.layer_norm(
                embedding[torch.tensor(tokens)].sum(0), noise.shape[1:]
            )
    level = float(rng.uniform(*NOISE))
    return F.layer_norm(
        torch.where(signal.any(1, keepdim=True), signal + level * noise, noise), noise.shape[1:]
    )
