"""Prompt assembly: the token ids of the instruction before and after the image tokens.

``[BOS] before-image text | Q visual tokens | after-image text || [BOS] target``. Task strings are
LLM-RG4's. The commitment-first suffix is part of the instruction and comes before ``Assistant:``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BEFORE_START, BEFORE_END = "Human: ", " <Img>"
AFTER_START, AFTER_END = "</Img> ", ". \nAssistant:"
COMMIT_SUFFIX = (
    " First output <ANCHOR> positive, negative and uncertain findings, then output "
    "the final report in <REPORT>."
)
UnknownView = Literal["upstream", "by_sections"]
_VIEWS = {"AP": "anterior posterior ", "PA": "posterior anterior "}


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
        return [bos, *self.before, *([0] * num_queries), *self.after]


def task(view: str, sections: str, unknown_view: UnknownView = "upstream") -> str:
    """Return the task sentence for a view (AP | PA | other) and the sections of the target. For an
    unknown view, upstream always asks for the findings, on a separate line; ``by_sections`` asks
    for the sections that exist."""
    start, image = "", f"{_VIEWS.get(view, '')}chest X-ray visual feature"
    if view not in _VIEWS:
        start, image = "\n", "chest X-ray examination"
        sections = "findings" if unknown_view == "upstream" else sections
    if sections == "findings+impression":
        return f"{start}Write radiological finding and impression for this {image}"
    return f"{start}Write radiological {sections.removesuffix('s')} section of report for {image}"


def instruction(
    *,
    view: str,
    sections: str,
    indication: str | None,
    history: str | None,
    commit: bool,
    unknown_view: UnknownView = "upstream",
) -> tuple[str, str]:
    """Return the instruction's text before and after the visual tokens."""
    context = [
        f"{name}: {text}"
        for name, text in (("INDICATION", indication), ("HISTORY", history))
        if text
    ]
    before = f"{BEFORE_START}{' '.join(context)}{BEFORE_END}"
    suffix = f".{COMMIT_SUFFIX}{AFTER_END.removeprefix('.')}" if commit else AFTER_END
    return before, f"{AFTER_START}{task(view, sections, unknown_view)}{suffix}"


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
    """Return the token ids of ``text`` as a continuation of earlier text: without the tokenizer's
    dummy prefix.

    Tokenizers such as Qwen's and Llama 3's merge a full stop with a following line break, but never
    a letter. Raises a ValueError if the tokenizer merges ``text`` with any text before it, so that
    ``text`` has no separate ids.
    """
    for earlier in ("a.", "a"):
        before, both = _encode(tokenizer, earlier), _encode(tokenizer, earlier + text)
        if both[: len(before)] == before:
            return both[len(before) :]
    raise ValueError(f"the tokenizer merges {text!r} with the text before it")
