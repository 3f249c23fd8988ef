"""Repetition within a text: models that run on write the same words, or the same sentence, again and again."""

import re

_TOKEN = re.compile(r"\w+(?:[.'’]\w+)*|[^\w\s]")
_SENTENCE_ENDS = frozenset(".!?;")
#: Longest run of words whose immediate repeat counts.
_LONGEST = 8


def repetition(text: str) -> float | None:
    """Return the share of the words that lie in an immediate repeat of a run of one to eight words, or in a sentence
    that stood before; None without words. The first occurrence does not count, case does not matter, and punctuation is
    compared but not counted."""
    tokens = _TOKEN.findall(text.lower())
    counted = [token[0].isalnum() for token in tokens]
    repeated = [False] * len(tokens)
    for length in range(1, _LONGEST + 1):
        start = length  # of the current stretch in which every token equals the one `length` before it
        for place in range(length, len(tokens) + 1):
            if place < len(tokens) and tokens[place] == tokens[place - length]:
                continue
            if place - start >= length:
                repeated[start:place] = [True] * (place - start)
            start = place + 1
    seen: set[tuple[str, ...]] = set()
    start = 0
    for place, token in enumerate([*tokens, "."]):
        if token in _SENTENCE_ENDS:
            sentence = tuple(tokens[start:place])
            if sentence in seen:
                repeated[start:place] = [True] * len(sentence)
            seen.add(sentence)
            start = place + 1
    words = sum(counted)
    return sum(again and word for again, word in zip(repeated, counted, strict=True)) / words if words else None
