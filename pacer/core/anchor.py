"""Clinical commitments: type, vocabulary, text form and table.

Paper, appendices "Commitment supervision" and "Preserved Commitment-Labeling Prompt". The side of a
finding is not in the paper (``docs/readings.md``). It precedes the name: "left pleural effusion",
and "bilateral" for both sides.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from pacer.core.attributes import BILATERAL, VALUES, Attributes, words
from pacer.core.errors import DataError
from pacer.core.findings import FINDINGS

#: The words for the side of a finding in a list, and what they mean.
SIDES = {side: frozenset([side]) for side in VALUES["side"]} | {
    BILATERAL: frozenset(VALUES["side"])
}

#: The fields of a commitment, in writing order.
POLARITIES: tuple[str, ...] = ("positive", "negative", "uncertain")

#: Maximum number of findings written in one field (paper, appendix "Commitment supervision").
MAX_PER_FIELD = 8

#: Markers around the report, which follows the commitment.
OPEN_REPORT = "<REPORT>"
CLOSE_REPORT = "</REPORT>"

#: The columns of ``anchors.parquet``; with ``commit.attributes`` also those of :data:`DESCRIBED`.
ANCHOR_SCHEMA: dict[str, pl.DataType] = {
    "record_id": pl.String(),
    "positive": pl.List(pl.String()),
    "negative": pl.List(pl.String()),
    "uncertain": pl.List(pl.String()),
    "origin": pl.String(),  # llm | rules
}
#: The findings that have a side, with it: "left pleural effusion".
DESCRIBED = {"attributes": pl.List(pl.String())}

_RANK = {finding: rank for rank, finding in enumerate(FINDINGS)}
_OPENING = re.compile(r"<\s*anchor\s*>", re.IGNORECASE)
_CLOSING = re.compile(r"<\s*/\s*anchor\s*>|<\s*report\s*>", re.IGNORECASE)
_FIELD = re.compile(rf"\b({'|'.join(POLARITIES)})\b\s*:", re.IGNORECASE)


@dataclass(frozen=True)
class Anchor:
    """A commitment ``q = (q_pos, q_neg, q_unc)``: affirmed, denied and uncertain findings, each in
    vocabulary order and without repeats.

    Raises a ValueError if a finding is unknown or repeated, or a field is out of order (:meth:`of`
    sorts and deduplicates); or a finding has attributes and is denied or not listed.
    """

    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()
    #: Attributes of positive and uncertain findings: in a list the side, in what the rules read in
    #: a report also severity and course.
    attributes: Mapping[str, Attributes] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        fields = (self.positive, self.negative, self.uncertain)
        unknown = sorted({finding for field in fields for finding in field} - _RANK.keys())
        if unknown:
            raise ValueError(
                f"unknown findings {', '.join(unknown)}; choose from {', '.join(FINDINGS)}"
            )
        ordered = all(list(field) == sorted(field, key=_RANK.__getitem__) for field in fields)
        if not ordered or sum(map(len, fields)) != len(set().union(*fields)):
            raise ValueError("findings must be unique and in the vocabulary's order; use Anchor.of")
        if stray := sorted(self.attributes.keys() - {*self.positive, *self.uncertain}):
            raise ValueError(
                f"attributes given for {', '.join(stray)}, which are denied or not listed"
            )

    @classmethod
    def of(
        cls,
        positive: Iterable[str] = (),
        negative: Iterable[str] = (),
        uncertain: Iterable[str] = (),
    ) -> Anchor:
        """Order and deduplicate known findings. If several fields name a finding, positive takes
        precedence over uncertain, and uncertain over negative (paper, labelling rule 21)."""
        affirmed = set(positive)
        hedged = set(uncertain)
        return cls(
            _ordered(affirmed),
            _ordered(set(negative) - affirmed - hedged),
            _ordered(hedged - affirmed),
        )

    @classmethod
    def of_lists(cls, lists: Mapping[str, Sequence[str]], sides: bool = True) -> Anchor:
        """Return the commitment of a row of ``anchors.parquet`` or of a prediction, with the sides
        in ``attributes``, or without any ``sides``. Raises the ValueErrors of the class; a word
        that is no side counts as part of the finding's name."""
        named = map(split_side, (sides and lists.get("attributes")) or ())
        attributes = {finding: Attributes(side=side) for side, finding in named}
        anchor = cls.of(**{name: lists.get(name) or () for name in POLARITIES})
        return replace(anchor, attributes=attributes).with_sides(attributes)

    def described(self, attributes: Mapping[str, Attributes]) -> Anchor:
        """Return the commitment with other ``attributes``: those of findings that it affirms or
        leaves uncertain."""
        stated = {*self.positive, *self.uncertain}
        known = {
            finding: known
            for finding, known in attributes.items()
            if finding in stated and any(known)
        }
        return replace(self, attributes=known)

    def with_sides(self, attributes: Mapping[str, Attributes]) -> Anchor:
        """Return the commitment with the sides among ``attributes``, the only ones that a list can
        state."""
        return self.described(
            {finding: known.only(["side"]) for finding, known in attributes.items()}
        )

    def completed(self, sides: Mapping[str, Attributes]) -> Anchor:
        """Return the commitment with ``sides`` added to the findings that have none."""
        return self.with_sides({**sides, **self.attributes})

    def side(self, finding: str) -> frozenset[str]:
        """Return the side of a finding; empty if it is unknown."""
        return self.attributes.get(finding, Attributes()).side

    def polarity(self, finding: str) -> str | None:
        """Return positive, negative or uncertain; None if the commitment does not mention
        the finding."""
        return next((name for name in POLARITIES if finding in getattr(self, name)), None)

    def contradicted(self, read: Anchor) -> tuple[str, ...]:
        """Return the findings that this commitment affirms and the report (``read``: its findings)
        denies, or the reverse."""
        return _ordered({*self.positive} & {*read.negative} | {*self.negative} & {*read.positive})

    def as_dict(self) -> dict[str, list[str]]:
        """Return the three fields as lists, for JSON and tables; and, if there are any, the
        findings with attributes, after the words for these."""
        lists = {name: list(getattr(self, name)) for name in POLARITIES}
        return lists | (
            {"attributes": [*map(self.text, self.attributes)]} if self.attributes else {}
        )

    def text(self, finding: str) -> str:
        """Return a finding after the words for its attributes."""
        return " ".join([*words(self.attributes.get(finding, Attributes())), finding])


def _ordered(findings: set[str]) -> tuple[str, ...]:
    return tuple(sorted(findings, key=lambda finding: _RANK.get(finding, -1)))


def _spellings(finding: str) -> set[str]:
    """Return singular and plural forms of a finding."""
    forms = {finding, f"{finding}s", finding.removesuffix("s")}
    if finding.endswith("y"):
        forms.add(f"{finding[:-1]}ies")
    if finding.endswith("is"):
        forms.add(f"{finding[:-2]}es")
    return forms


_BY_SPELLING = {spelling: finding for finding in FINDINGS for spelling in _spellings(finding)}


def normalize_finding(name: str) -> str | None:
    """Return the vocabulary's name for ``name``, ignoring case, number and separators; None if
    there is none.

    >>> normalize_finding(" Pleural_Effusions ")
    'pleural effusion'
    """
    return _BY_SPELLING.get(re.sub(r"[\s_-]+", " ", name).strip(" .").lower())


def split_side(text: str) -> tuple[frozenset[str], str]:
    """Split a finding of a list into its side (empty: none) and its name.

    >>> split_side("left pleural effusion")
    (frozenset({'left'}), 'pleural effusion')
    """
    first, *name = text.split(maxsplit=1) or [""]
    side = SIDES.get(first.lower())
    return (side, name[0]) if side and name else (frozenset(), text)


def render_anchor(anchor: Anchor) -> str:
    """Return the text that the decoder learns: ``<ANCHOR> positive: a, b; negative: c; uncertain:
    none </ANCHOR>``.

    A field without findings is ``none``; at most the first eight findings of a field are written,
    each after its side, if it has one.
    """
    listed = anchor.with_sides(anchor.attributes)
    shown = {name: map(listed.text, getattr(listed, name)[:MAX_PER_FIELD]) for name in POLARITIES}
    fields = (f"{name}: {', '.join(findings) or 'none'}" for name, findings in shown.items())
    return f"<ANCHOR> {'; '.join(fields)} </ANCHOR>"


def contains_commitment(text: str) -> bool:
    """Whether a generated text has an opening ``<ANCHOR>`` marker and at least one named field
    after it."""
    return _FIELD.search(_body(text)) is not None


def parse_anchor(text: str, sides: bool = False) -> Anchor:
    """Parse the commitment in a text; the inverse of :func:`render_anchor` for at most eight
    findings per field.

    Generated text may be imperfect. The first ``<ANCHOR>`` counts; it ends at ``</ANCHOR>``, at
    ``<REPORT>`` or at the end of the text. Case and spaces do not matter, and unknown findings are
    left out. A finding in several fields is resolved as in :meth:`Anchor.of`. Without a commitment
    (see :func:`contains_commitment`) the result is empty.

    Args:
        sides: whether the lists of the model have sides (``commit.attributes``). A finding with any
            other word before its name is unknown.
    """
    _, *parts = _FIELD.split(_body(text))  # name, content, name, content, ...
    fields: dict[str, list[str]] = {name: [] for name in POLARITIES}
    stated: dict[str, Attributes] = {}
    for name, content in zip(parts[::2], parts[1::2], strict=True):
        for entry in re.split(r"[,;]", content):
            side, named = split_side(entry) if sides else (frozenset[str](), entry)
            if finding := normalize_finding(named):
                fields[name.lower()].append(finding)
                stated.setdefault(finding, Attributes(side=side))
    return Anchor.of(**fields).described(stated)


def read_list(text: str, sides: bool = False) -> Anchor:
    """Read a commitment that a person has written: ``positive: edema; negative: pneumothorax``,
    each field at most once; ``none`` for a field without findings. ``sides`` as in
    :func:`parse_anchor`. Raises a DataError if a field or finding is unknown, a finding is named
    twice or denied with a side, a side is not allowed, or a field has more than eight findings."""
    form = "expected a list such as 'positive: edema; negative: pneumothorax, lung lesion'"
    fields: dict[str, list[str]] = {}
    stated: dict[str, Attributes] = {}
    for part in filter(str.strip, text.split(";")):
        name, colon, content = part.partition(":")
        name = name.strip().lower()
        if not colon or name not in POLARITIES:
            raise DataError(f"commitment: {name!r:.40} is not a field; {form}")
        if name in fields:
            raise DataError(f"commitment: {name!r} appears twice; {form}")
        named = [
            word.strip()
            for word in content.split(",")
            if word.strip() and word.strip().lower() != "none"
        ]
        read = [_given(word, name, sides) for word in named]
        fields[name] = [finding for finding, _ in read]
        stated |= {finding: Attributes(side=side) for finding, side in read}
        if len(named) > MAX_PER_FIELD:
            raise DataError(
                f"commitment: {name} has {len(named)} findings; at most {MAX_PER_FIELD} are allowed"
            )
    counts = Counter(finding for of_field in fields.values() for finding in of_field)
    if twice := [finding for finding, count in counts.items() if count > 1]:
        raise DataError(f"commitment: {twice[0]} appears twice; give each finding one state")
    return Anchor.of(**fields).described(stated)


def _given(word: str, polarity: str, sides: bool) -> tuple[str, frozenset[str]]:
    """Return the finding of one entry of :func:`read_list`, and its side."""
    side, named = split_side(word)
    if (finding := normalize_finding(named)) is None:
        raise DataError(
            f"commitment: {word!r:.40} is not a finding; choose from {', '.join(FINDINGS)}"
        )
    if side and polarity == "negative":
        raise DataError(
            f"commitment: {word!r:.60} is denied, and a denied finding takes no side; write "
            f"{finding!r}"
        )
    if side and not sides:
        raise DataError(
            f"commitment: {word!r:.60} has a side, but this model was trained with lists without "
            "sides (commit.attributes)"
        )
    return finding, side


def _body(text: str) -> str:
    """Return the text between the first opening marker and its end; empty if there is no marker."""
    _, *after = _OPENING.split(text, maxsplit=1)
    return _CLOSING.split(after[0], maxsplit=1)[0] if after else ""
