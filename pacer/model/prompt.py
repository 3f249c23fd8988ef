"""Prompt assembly: the token ids of the instruction before and after the image tokens.

``[BOS] before-image text | Q visual tokens | after-image text || [BOS] target``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pacer.backbones.tokenizer import continuation_ids, ids_of
from pacer.core.instruction import BEFORE_IMAGE, UnknownView, instruction

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class PromptIds(NamedTuple):
    """Token ids before and after the visual tokens, without BOS."""

    before: list[int]
    after: list[int]

    @property
    def visual_start(self) -> int:
        """Index of the first visual token in :meth:`prefix`."""
        return 1 + len(self.before)

    def prefix(self, bos: int, num_queries: int) -> list[int]:
        """Return all ids left of ``||``, with zeros at the visual positions."""
        return [bos] + self.before + [0] * num_queries + self.after


def build_prompt(
    tokenizer: PreTrainedTokenizerBase,
    record: Mapping[str, Any],
    *,
    commit: bool,
    before_tokens: int = 50,
    unknown_view: UnknownView = "upstream",
    truncation: Literal["context", "upstream"] = "context",
) -> PromptIds:
    """Return the token ids of the :func:`instruction` for one record (a row of
    ``records.parquet``).

    If the text before the image has more than ``before_tokens`` tokens, the clinical context is cut
    and the closing ``<Img>`` marker stays. With ``truncation`` ``upstream`` the last tokens are
    dropped, the marker included, as LLM-RG4's tokenizer does.
    """
    before_text, after_text = instruction(
        view=record["view"],
        sections=record["sections"],
        indication=record["indication"],
        history=record["history"],
        commit=commit,
        unknown_view=unknown_view,
    )
    before = ids_of(tokenizer, before_text)
    if len(before) > before_tokens:
        marker = continuation_ids(tokenizer, BEFORE_IMAGE) if truncation == "context" else []
        before = before[: before_tokens - len(marker)] + marker
    return PromptIds(before, ids_of(tokenizer, after_text))
