"""Prompt assembly: the instruction around the image tokens, piece by piece, as token ids.

``[BOS] before-image text | Q visual tokens | after-image text || [BOS] target``. Task strings are LLM-RG4's. The
commitment-first suffix belongs to the instruction and stands before ``Assistant:``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from transformers import PreTrainedTokenizerBase

BEFORE_START, BEFORE_END = "Human: ", " <Img>"
AFTER_START, AFTER_END = "</Img> ", ". \nAssistant:"
COMMIT_SUFFIX = (
    " First output <ANCHOR> positive, negative and uncertain findings, then output the final report in <REPORT>."
)
_VIEWS = {"AP": "anterior posterior ", "PA": "posterior anterior "}


class PromptIds(NamedTuple):
    """Token ids left and right of the visual tokens, without BOS."""

    before: list[int]
    after: list[int]

    @property
    def visual_start(self) -> int:
        """Place of the first visual token in :meth:`prefix`."""
        return 1 + len(self.before)

    def prefix(self, bos: int, num_queries: int) -> list[int]:
        """All ids left of ``||``, with zeros in the places of the visual tokens."""
        return [bos, *self.before, *([0] * num_queries), *self.after]


def clinical_context(indication: str | None, history: str | None) -> str:
    """``INDICATION: … HISTORY: …``, whichever exist, as upstream writes them."""
    parts = [f"{name}: {text}" for name, text in (("INDICATION", indication), ("HISTORY", history)) if text]
    return " ".join(parts)


def task(view: str, sections: str, unknown_view: Literal["upstream", "by_sections"] = "upstream") -> str:
    """The task sentence for a view (AP | PA | other) and the sections that the target has.

    With an unknown view upstream always asks for the findings, on a line of its own; ``by_sections`` asks for the
    sections that exist.
    """
    if view not in _VIEWS:
        asked = "findings" if unknown_view == "upstream" else sections
        if asked == "findings+impression":
            return "\nWrite radiological finding and impression for this chest X-ray examination"
        return f"\nWrite radiological {asked.removesuffix('s')} section of report for chest X-ray examination"
    if sections == "findings+impression":
        return f"Write radiological finding and impression for this {_VIEWS[view]}chest X-ray visual feature"
    section = sections.removesuffix("s")
    return f"Write radiological {section} section of report for {_VIEWS[view]}chest X-ray visual feature"


def instruction(
    *,
    view: str,
    sections: str,
    indication: str | None,
    history: str | None,
    commit: bool,
    unknown_view: Literal["upstream", "by_sections"] = "upstream",
) -> tuple[str, str]:
    """The instruction's text left and right of the visual tokens."""
    before = f"{BEFORE_START}{clinical_context(indication, history)}{BEFORE_END}"
    suffix = f".{COMMIT_SUFFIX}{AFTER_END.removeprefix('.')}" if commit else AFTER_END
    return before, f"{AFTER_START}{task(view, sections, unknown_view)}{suffix}"


def build_prompt(
    tokenizer: PreTrainedTokenizerBase,
    record: Mapping[str, Any],
    *,
    commit: bool,
    before_tokens: int = 50,
    unknown_view: Literal["upstream", "by_sections"] = "upstream",
    truncation: Literal["context", "upstream"] = "context",
) -> PromptIds:
    """Token ids of the :func:`instruction` for one record (a row of ``records.parquet``).

    Where the text before the image is longer than ``before_tokens``, the clinical context is cut so that its closing
    ``<Img>`` marker stays; with ``truncation`` ``upstream`` its last tokens go, the marker first, as LLM-RG4's
    tokenizer cuts it.
    """
    known = {name: record[name] for name in ("view", "sections", "indication", "history")}
    before_text, after_text = instruction(**known, commit=commit, unknown_view=unknown_view)
    before = _encode(tokenizer, before_text)
    if len(before) > before_tokens:
        marker = continuation_ids(tokenizer, BEFORE_END) if truncation == "context" else []
        before = before[: before_tokens - len(marker)] + marker
    return PromptIds(before, _encode(tokenizer, after_text))


def _encode(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def continuation_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Token ids of ``text`` as it continues earlier text: without the tokenizer's dummy prefix.

    Tokenizers as Qwen's and Llama 3's merge a full stop with the line break behind it, but no letter.

    Raises:
        ValueError: the tokenizer merges ``text`` with whatever stands before it, so it has no ids of its own.
    """
    for earlier in ("a.", "a"):
        before, both = _encode(tokenizer, earlier), _encode(tokenizer, earlier + text)
        if both[: len(before)] == before:
            return both[len(before) :]
    raise ValueError(f"the tokenizer merges {text!r} with the text before it")
