"""Generated text that repeats its prompt, or that thinks before it reports: no report."""

from __future__ import annotations

import re

from pacer.commitments.rules.table import GROUPS

_TURNS, _TASK, _INDICATION = (re.compile(GROUPS[name], re.IGNORECASE) for name in ("turns", "task", "indication"))
#: A tag or a mark, which is no word of a prompt.
_MARK = re.compile(r"<[^>]*>|\[/?\w+\]")
#: Words of a beginning that are compared.
_WORDS = 40


def prompt_echo(text: str) -> str | None:
    """Return which part of a prompt a generated text repeats, None if none: its ``turns`` (all before ``[/INST]`` and
    similar marks, and thoughts), or at its beginning the ``task`` or the ``indication``. The rules read no turns."""
    begins = " ".join(text.split(maxsplit=_WORDS)[:_WORDS])
    if any(re.search(r"\w", _MARK.sub("", turns[0])) for turns in _TURNS.finditer(text)):
        return "turns"
    return "task" if _TASK.search(begins) else "indication" if _INDICATION.match(begins) else None
