"""Prompt assembly: the token ids of the instruction before and after the image tokens.

``[BOS] before-image text | Q visual tokens | after-image text || [BOS] target``. Task strings are
LLM-RG4's. The commitment-first suffix is part of the instruction and comes before ``Assistant:``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pacer.backbones.tokenizer import BEFORE_IMAGE, continuation_ids, ids_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BEFORE_START = "Human: "
AFTER_START = "</Img> "
AFTER_END = ". \nAssistant:"
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
        return [bos] + self.before + [0] * num_queries + self.after


def task(view: str, sections: str, unknown_view: UnknownView = "upstream") -> str:
    """Return the task sentence for a view (AP | PA | other) and the sections of the target. For an
    unknown view, upstream always asks for the findings, on a separate line; ``by_sections`` asks
    for the sections that exist."""
    if view in _VIEWS:
        start = ""
        image = f"{_VIEWS[view]}chest X-ray visual feature"
    else:
        start = "\n"
        image = "chest X-ray examination"
        if unknown_view == "upstream":
            sections = "findings"
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
    context = []
    if indication:
        context.append(f"INDICATION: {indication}")
    if history:
        context.append(f"HISTORY: {history}")
    before = f"{BEFORE_START}{' '.join(context)}{BEFORE_IMAGE}"
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
