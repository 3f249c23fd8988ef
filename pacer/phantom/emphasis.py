"""``new_scores``: which tokens of a report state findings, in the format of the released files."""

from __future__ import annotations

from tokenizers import Tokenizer

from pacer.data.cleaning import clean_report
from pacer.data.emphasis import sentence_ends, token_marks
from pacer.data.schemas import EMPHASIS_POSITIONS
from pacer.phantom.language import PhantomReport


def emphasis_scores(report: PhantomReport, tokenizer: Tokenizer) -> list[float]:
    """One number for each token of ``<s> cleaned report </s>``: 1.0 in sentences that state a finding, else 0.0.

    A finding that is held possible counts as stated; ``<s>`` and ``</s>`` are 0.0. The list is cut at 100.

    Raises:
        ValueError: cleaning did not keep the sentences apart.
    """
    cleaned = clean_report(report.text)
    ends = sentence_ends(cleaned)
    if len(ends) != len(report.sentences):
        raise ValueError(f"{len(report.sentences)} sentences became {len(ends)} by cleaning")
    tokens = tokenizer.encode(cleaned, add_special_tokens=False)
    marks = token_marks(ends, [bool(stated) for _, stated in report.sentences], [end for _, end in tokens.offsets])
    return marks[:EMPHASIS_POSITIONS]
