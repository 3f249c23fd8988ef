"""Generated text that repeats its prompt, or that thinks before it reports: no report."""

from __future__ import annotations

import re

#: What stands before the answer of a chat model, and its thoughts, up to the last mark; or thoughts that do not end.
ECHO = (
    r"\A.*(?:\[/INST\]|</think(?:ing)?>|<\|assistant\|>|<\|im_start\|>\s*assistant)"
    r"|\A.{0,300}?\b(?:user|human):.*\bassistant:|<think(?:ing)?>.*"
)
_ECHO = re.compile(ECHO, re.IGNORECASE | re.DOTALL)
#: Words of a beginning that are compared.
_WORDS = 40
#: How a task is put to a model.
_TASK = re.compile(
    r"\byou are an? (?:\w+ ){0,4}(?:radiolog|assistant|model|expert)|\b(?:task|instructions?)\s*:"
    r"|(?:^|[.:,;!>\]] *|\b(?:please|to|can you|could you) )(?:generate|write|provide|describe|produce|compose|draft"
    r"|predict|summari[sz]e) (?:\w+ ){0,8}?(?:reports?|findings|impressions?|radiographs?|x-rays?|images?|scan)\b"
    r"|\b(?:given|based on|look at) (?:the|this|these|an?) (?:\w+ ){0,5}?(?:images?|x-rays?|radiographs?|scan)\b[^.]*,",
    re.IGNORECASE,
)
_INDICATION = re.compile(r"\W*(?:clinical )?(?:indications?|history|reason for (?:the )?(?:exam\w*|study))\s*:", re.I)


def prompt_echo(text: str) -> str | None:
    """Return which part of a prompt a generated text repeats, None if none: its ``turns`` (all before ``[/INST]`` and
    similar marks, and ``<think>``), or at its beginning the ``task`` or the ``indication``."""
    begins = " ".join(text.split(maxsplit=_WORDS)[:_WORDS])
    if any(re.search(r"\w{4}", re.sub(r"<[^>]*>|\[/?\w+\]", "", match[0])) for match in _ECHO.finditer(text)):
        return "turns"
    return "task" if _TASK.search(begins) else "indication" if _INDICATION.match(begins) else None
