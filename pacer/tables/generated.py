"""Reports within generated texts: the last box, and the sentences without their repeats."""

import re

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def last_box(text: str) -> str:
    r"""Return the content of the last ``\boxed{...}``, without a ``\text{...}`` around all of it
    (paper, appendix "Additional Conventional-SN Baselines"). The text is empty if there is no box
    or the last one is not closed."""
    _, _, rest = text.rpartition("\\boxed{")
    content = _to_closing_brace(rest).strip() if len(rest) < len(text) else ""
    written = _to_closing_brace(content.removeprefix("\\text{"))
    return written.strip() if content == f"\\text{{{written}}}" else content


def _to_closing_brace(text: str) -> str:
    """Return the text before the brace that closes a group, found by counting braces; empty if it
    is not closed."""
    depth = 1
    for position, letter in enumerate(text):
        if letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
        if depth == 0:
            return text[:position]
    return ""


def without_repeats(text: str) -> str:
    """Return the report with only the first occurrence of every sentence, which ends at a period,
    question or exclamation mark before white space. Case, white space and a space before the end
    mark make no difference."""
    sentences: dict[str, str] = {}
    for sentence in _SENTENCE_END.split(text.strip()):
        sentences.setdefault(" ".join(sentence.lower().rstrip(".!? ").split()), sentence)
    return " ".join(sentences.values())
