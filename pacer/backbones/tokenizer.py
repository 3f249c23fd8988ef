"""A language model's tokenizer, a check that it agrees with the model's ``tokenizer.model``, and
the ids of a continuation.

Llama and Vicuna ship only a sentencepiece model, ``tokenizer.model``. Sentencepiece merges the
neighbours that make the piece with the highest score. The fast tokenizer that transformers makes
from it merges those with the lowest id. The orders differ where ids do not follow scores: Llama's
runs of spaces have low ids but the lowest score. So transformers' tokenizer merges two spaces
before it merges the second one with its word.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pacer.backbones.pointers import read_pieces
from pacer.core.errors import BackboneError
from pacer.core.io import read_json

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

SENTENCEPIECE = "tokenizer.model"
# Marks that continue other text, as BEFORE_IMAGE does; a usable tokenizer merges none of them with
# the text before it.
#: Before the report of a target.
OPENING_TEXT = "\n<REPORT>\n"
#: After the report of a target.
CLOSING_TEXT = "\n</REPORT>"

#: The character that sentencepiece models use for a space.
_SPACE = "▁"


def read_tokenizer(directory: str | Path) -> PreTrainedTokenizerBase:
    """Read the tokenizer of a directory in Hugging Face format.

    Without a BOS token, as Qwen's, it gets the one that ``config.json`` names, else EOS. If the
    directory has a ``tokenizer.model``, ids equal those of sentencepiece with it, for every text
    that does not begin with a space. Raises a BackboneError if the files cannot be read, there is
    no EOS token, or ``tokenizer.model`` gives other ids.
    """
    from transformers import AutoTokenizer

    directory = Path(directory)
    reference = None
    model = directory / SENTENCEPIECE
    if model.is_file():
        from sentencepiece import SentencePieceProcessor

        try:
            reference = SentencePieceProcessor(str(model))
        except (OSError, RuntimeError):
            raise BackboneError(
                f"{model} is not a SentencePiece model; download it again"
            ) from None
    tokenizer = read_pieces(AutoTokenizer, directory)
    if tokenizer.eos_token_id is None:
        raise BackboneError(
            f"the tokenizer in {directory} must have an EOS token, which ends a report; set "
            "eos_token"
        )
    if tokenizer.bos_token_id is None:
        config = directory / "config.json"
        number = read_json(config).get("bos_token_id") if config.is_file() else None
        named = tokenizer.convert_ids_to_tokens(number) if isinstance(number, int) else None
        tokenizer.bos_token = named or tokenizer.eos_token
    if reference is not None:
        scores = _scores(reference)
        if not (directory / "tokenizer.json").is_file():
            _merge_by_score(tokenizer.backend_tokenizer, scores)
        _check(tokenizer, reference, scores, directory)
    return tokenizer


def ids_of(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Return the token ids of ``text`` without special tokens."""
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def continuation_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Return the token ids of ``text`` as a continuation of earlier text: without the tokenizer's
    dummy prefix.

    Tokenizers such as Qwen's and Llama 3's merge a full stop with a following line break, but never
    a letter. Raises a ValueError if the tokenizer merges ``text`` with any text before it, so that
    ``text`` has no separate ids.
    """
    for earlier in ("a.", "a"):
        before = ids_of(tokenizer, earlier)
        both = ids_of(tokenizer, earlier + text)
        if both[: len(before)] == before:
            return both[len(before) :]
    raise ValueError(f"the tokenizer merges {text!r} with the text before it")


def _scores(reference: SentencePieceProcessor) -> dict[str, float]:
    """Return ``{piece: score}`` of the pieces of text: not control, unknown, byte or unused
    pieces."""
    not_text = reference.is_control, reference.is_unknown, reference.is_byte, reference.is_unused
    return {
        reference.id_to_piece(number): reference.get_score(number)
        for number in range(reference.get_piece_size())
        if not any(is_kind(number) for is_kind in not_text)
    }


def _merge_by_score(backend: Tokenizer, scores: dict[str, float]) -> None:
    """Order the merges of a byte-pair tokenizer as sentencepiece does: by the score of the
    resulting piece.

    Among equal scores, sentencepiece takes the leftmost pair in the text. A list of merges cannot
    express that. Putting the longer left part first has the same effect for runs of spaces, which
    grow from their left end.
    """
    from tokenizers.models import BPE
    from transformers.convert_slow_tokenizer import generate_merges

    model = backend.model
    if isinstance(model, BPE):
        backend.model = BPE(
            vocab=backend.get_vocab(with_added_tokens=False),
            merges=generate_merges(scores, scores),
            unk_token=model.unk_token,
            fuse_unk=model.fuse_unk,
            byte_fallback=model.byte_fallback,
        )


def _check(
    tokenizer: PreTrainedTokenizerBase,
    reference: SentencePieceProcessor,
    scores: dict[str, float],
    directory: Path,
) -> None:
    """Compare with sentencepiece on every piece, after one space and after two, and on many
    characters."""
    words = [piece.replace(_SPACE, " ").strip() for piece in scores]
    words = [word for word in words if word]
    characters = "".join(map(chr, range(1, 0x3000)))
    for text, kind in (
        (" ".join(words), "its pieces"),
        ("  ".join(words), "doubled spaces"),
        (f"a{characters}", "some characters"),
    ):
        ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        if ids != reference.encode(text):
            raise BackboneError(
                f"the tokenizer in {directory} and its {SENTENCEPIECE} give different ids for "
                f"{kind}; download it again, or remove tokenizer.json to have it rebuilt from "
                f"{SENTENCEPIECE}"
            )
