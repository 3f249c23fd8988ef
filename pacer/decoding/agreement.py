"""Whether a report agrees with its commitment. Decoding reads reports by rules only here."""

from collections.abc import Collection
from itertools import pairwise

from pacer.core.anchor import Anchor, Attributes
from pacer.core.findings import FINDINGS
from pacer.decoding.extract import extract_report
from pacer.text.cleaning.cleaners import sentence_ends
from pacer.text.rules import extract_anchor, read_attributes


def stated_commitment(report: str, kinds: Collection[str]) -> Anchor:
    """Return the commitment that a report states, with attributes of these ``kinds``."""
    attributes = read_attributes(report) if kinds else {}
    return extract_anchor(report).described(attributes, kinds)


def agreement(anchor: Anchor | None, report: str) -> float | None:
    """Return the share of a commitment's findings to which the report gives the same polarity; None
    if it has none. For files of predictions: reports are selected by :func:`text_distance`."""
    if anchor is None:
        return None
    stated = [finding for finding in FINDINGS if anchor.polarity(finding)]
    if not stated:
        return None
    read = extract_anchor(report)
    agreeing = sum(read.polarity(finding) == anchor.polarity(finding) for finding in stated)
    return agreeing / len(stated)


def distance(anchor: Anchor, report: str, kinds: Collection[str] = ()) -> tuple[int, int, int]:
    """Return the contradictions, the findings that only one of commitment and report affirms, and
    the differences in attributes of those that both affirm.

    A contradiction is a finding that one of the two affirms and the other denies, or to which the
    report gives a side that the commitment does not give. A difference is a kind of attribute that
    only one of the two has, or that differs.

    Args:
        kinds: of attributes in the model's commitments; others do not count.
    """
    read = extract_anchor(report)
    committed = set(anchor.positive)
    affirmed = set(read.positive)
    contradictions = len(anchor.contradicted(read))
    differences = 0
    attributes = read_attributes(report) if kinds else {}
    for finding in committed & affirmed & attributes.keys():
        listed = anchor.attributes.get(finding, Attributes())
        written = attributes[finding].only(kinds)
        if not written.side <= listed.side:
            contradictions += 1
        differences += sum(
            in_list != in_report for in_list, in_report in zip(listed, written, strict=True)
        )
    return contradictions, len(committed ^ affirmed), differences


def text_distance(generated: str, kinds: Collection[str] = ()) -> tuple[int, ...]:
    """Return the :func:`distance` of the report in a generated text from the commitment in it. The
    distance of a text without a report is larger than any other."""
    extraction = extract_report(generated, kinds=kinds)
    anchor = extraction.anchor or Anchor()
    return (int(extraction.fallback), *distance(anchor, extraction.report, kinds))


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
