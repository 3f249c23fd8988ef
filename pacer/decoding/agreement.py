"""Whether a report agrees with its commitment. Decoding reads reports by rules only here."""

from itertools import pairwise

from pacer.core.anchor import Anchor
from pacer.decoding.extract import extract_report
from pacer.text.cleaning.cleaners import sentence_ends
from pacer.text.rules import extract_anchor, read_attributes


def stated_commitment(report: str, sides: bool) -> Anchor:
    """Return the commitment that a report states, with ``sides`` or without."""
    anchor = extract_anchor(report)
    return anchor.with_sides(read_attributes(report)) if sides else anchor


def distance(anchor: Anchor, report: str, sides: bool = False) -> tuple[int, int, int]:
    """Return the contradictions, the findings that only one of commitment and report affirms, and
    those that both affirm, but not with the same side.

    A contradiction is a finding that one of the two affirms and the other denies, or to which the
    report gives a side that the commitment does not give.

    Args:
        sides: whether the model's commitments have sides; otherwise, sides do not count.
    """
    read = extract_anchor(report)
    committed = set(anchor.positive)
    affirmed = set(read.positive)
    contradictions = len(anchor.contradicted(read))
    differences = 0
    attributes = read_attributes(report) if sides else {}
    for finding in committed & affirmed & attributes.keys():
        listed = anchor.side(finding)
        written = attributes[finding].side
        contradictions += not written <= listed
        differences += written != listed
    return contradictions, len(committed ^ affirmed), differences


def text_distance(generated: str, sides: bool = False) -> tuple[int, ...]:
    """Return the :func:`distance` of the report in a generated text from the commitment in it. The
    distance of a text without a report is larger than any other."""
    extraction = extract_report(generated, sides=sides)
    anchor = extraction.anchor or Anchor()
    return (int(extraction.fallback), *distance(anchor, extraction.report, sides))


def drop_uncommitted_sentences(report: str, commitment: Anchor) -> str:
    """Leave out the sentences of a report that affirm a finding which the commitment does not
    affirm, or deny a finding that it affirms and the report as a whole denies."""
    affirmed = set(commitment.positive)
    denied = affirmed & set(extract_anchor(report).negative)
    sentences = [report[start:end].strip() for start, end in pairwise([0, *sentence_ends(report)])]

    def is_supported(texts: list[str]) -> bool:
        read = extract_anchor(" ".join(texts))
        return affirmed.issuperset(read.positive) and denied.isdisjoint(read.negative)

    supported = [sentence for sentence in sentences if is_supported([sentence])]
    if not is_supported(supported):
        # without its neighbours, a sentence such as "a small one persists" may mean another finding
        candidates = supported
        supported = []
        for sentence in candidates:
            if is_supported([*supported, sentence]):
                supported.append(sentence)
    return report if len(supported) == len(sentences) else " ".join(supported)
