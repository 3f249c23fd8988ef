"""Share of the words of a text that are repeats."""

import re
from operator import and_, eq

_TOKEN = re.compile(r"\w+(?:[.'’]\w+)*|[^\w\s]")
_SENTENCE_ENDS = frozenset(".!?;")
#: Longest run of words whose immediate repeat counts.
_LONGEST = 8
#: Patterns of stretches of at least 1, 2, … bytes of value 1.
_STRETCHES = [re.compile(rb"\x01{%d,}" % length) for length in range(1, _LONGEST + 1)]


def repetition(text: str) -> float | None:
    """Return the share of the words that lie in an immediate repeat of a run of one to eight words,
    or in a sentence that occurred before; None without words. Case does not matter, and punctuation
    is compared but not counted."""
    tokens = _TOKEN.findall(text.lower())
    repeated = [False] * len(tokens)
    for length, stretch in enumerate(_STRETCHES, 1):
        # the tokens that equal the one `length` before them
        for match in stretch.finditer(bytes(map(eq, tokens, tokens[length:]))):
            start = match.start() + length
            end = match.end() + length
            repeated[start:end] = [True] * (end - start)
    seen: set[tuple[str, ...]] = set()
    start = 0
    for place, token in enumerate([*tokens, "."]):
        if token in _SENTENCE_ENDS:
            sentence = tuple(tokens[start:place])
            if sentence in seen:
                repeated[start:place] = [True] * len(sentence)
            seen.add(sentence)
            start = place + 1
    is_word = [token[0].isalnum() for token in tokens]
    if not any(is_word):
        return None
    return sum(map(and_, repeated, is_word)) / sum(is_word)
