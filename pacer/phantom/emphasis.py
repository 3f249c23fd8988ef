"""``new_scores``: which tokens of a report state findings, in the format of the released files."""

from __future__ import annotations

from tokenizers import Tokenizer

from pacer.corpus.text.cleaning import clean_report
from pacer.phantom.language import PhantomReport

#: The released lists are at most this long.
MAX_SCORES = 100


def emphasis_scores(report: PhantomReport, tokenizer: Tokenizer) -> list[float]:
    """One number for each token of ``<s> cleaned report </s>``: 1.0 in sentences that state a finding, else 0.0.

    A finding that is held possible counts as stated; ``<s>`` and ``</s>`` are 0.0. The list is cut at 100.

    Raises:
        ValueError: cleaning did not keep the sentences apart.
    """
    cleaned = clean_report(report.text)
    ends, position = [], 0
    for segment in cleaned.removesuffix(" .").split(" . "):
        position += len(segment) + 3
        ends.append(position - 1)
    if len(ends) != len(report.sentences):
        raise ValueError(f"{len(report.sentences)} sentences became {len(ends)} by cleaning")
    scores, sentence = [0.0], 0
    for _, end in tokenizer.encode(cleaned, add_special_tokens=False).offsets:
        while end > ends[sentence] and sentence + 1 < len(ends):
            sentence += 1
        scores.append(float(bool(report.sentences[sentence][1])))
    return [*scores, 0.0][:MAX_SCORES]
