"""Clinical commitments: type, vocabulary, text form and table.

Paper, appendices "Commitment supervision" and "Preserved Commitment-Labeling Prompt". Side,
severity and course of a finding are not in the paper (``docs/readings.md``). Their words precede
its name:

    described finding = course... severity... side finding      stable mild left pleural effusion

Words of the same kind are in the order of :data:`VALUES`, so two severities are "mild moderate";
both sides are "bilateral".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import polars as pl

from pacer.core.errors import DataError
from pacer.core.findings import FINDINGS


class Attributes(NamedTuple):
    """Attributes of a finding. An empty set means that the attribute is unknown."""

    #: left, right; both: bilateral.
    side: frozenset[str] = frozenset()
    #: mild, moderate, severe.
    severity: frozenset[str] = frozenset()
    #: new, worse, stable, improved.
    course: frozenset[str] = frozenset()

    def only(self, kinds: Collection[str]) -> Attributes:
        """Return these kinds alone."""
        return Attributes(**{kind: getattr(self, kind) for kind in kinds})


#: The values of each kind, from left to right, from mild to severe, from worse to better.
VALUES: dict[str, tuple[str, ...]] = {
    "side": ("left", "right"),
    "severity": ("mild", "moderate", "severe"),
    "course": ("new", "worse", "stable", "improved"),
}
KINDS = Attributes._fields
_WRITTEN = ("course", "severity", "side")
_BOTH = "bilateral"
_KIND = {value: kind for kind, values in VALUES.items() for value in values} | {_BOTH: "side"}


def words(attributes: Attributes) -> list[str]:
    """Return the words for attributes, in writing order."""
    chosen = {
        kind: [value for value in VALUES[kind] if value in getattr(attributes, kind)]
        for kind in _WRITTEN
    }
    if len(chosen["side"]) == len(VALUES["side"]):
        chosen["side"] = [_BOTH]
    return [word for kind in _WRITTEN for word in chosen[kind]]


def split_words(text: str, kinds: Collection[str]) -> tuple[Attributes, str]:
    """Split a described finding into its attributes of these ``kinds``, in any order, and the
    remaining text.

    >>> split_words("stable mild left pleural effusion", ["side", "severity", "course"])[1]
    'pleural effusion'
    """
    rest = text.split()
    values: set[str] = set()
    while len(rest) > 1 and _KIND.get(rest[0].lower()) in kinds:
        word = rest.pop(0).lower()
        values |= set(VALUES["side"]) if word == _BOTH else {word}
    attributes = {kind: frozenset(values.intersection(VALUES[kind])) for kind in KINDS}
    return Attributes(**attributes), " ".join(rest)


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
#: The findings that have attributes, described: "mild left pleural effusion".
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
    #: Attributes of positive and uncertain findings.
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
    def of_lists(cls, lists: Mapping[str, Sequence[str]], kinds: Collection[str] = KINDS) -> Anchor:
        """Return the commitment of a row of ``anchors.parquet`` or of :meth:`as_dict`, with these
        ``kinds`` of attributes. Raises the ValueErrors of the class; an unknown word counts as part
        of the finding's name."""
        described = (split_words(text, KINDS) for text in lists.get("attributes") or ())
        attributes = {finding: known for known, finding in described}
        anchor = cls.of(**{name: lists.get(name) or () for name in POLARITIES})
        return replace(anchor, attributes=attributes).described(attributes, kinds)

    def described(self, attributes: Mapping[str, Attributes], kinds: Collection[str]) -> Anchor:
        """Return the commitment with other ``attributes``: only those of these ``kinds``, and only
        of findings that it affirms or leaves uncertain."""
        stated = {*self.positive, *self.uncertain}
        of_kinds = {
            finding: known.only(kinds) for finding, known in attributes.items() if finding in stated
        }
        return replace(
            self, attributes={finding: known for finding, known in of_kinds.items() if any(known)}
        )

    def completed(self, attributes: Mapping[str, Attributes]) -> Anchor:
        """Return the commitment with the ``attributes`` added. Where a finding already has an
        attribute of the same kind, its own stays."""
        completed = dict(self.attributes)
        for finding, added in attributes.items():
            own = completed.get(finding, Attributes())
            completed[finding] = Attributes(
                side=own.side or added.side,
                severity=own.severity or added.severity,
                course=own.course or added.course,
            )
        return self.described(completed, KINDS)

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
        described findings."""
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


def render_anchor(anchor: Anchor) -> str:
    """Return the text that the decoder learns: ``<ANCHOR> positive: a, b; negative: c; uncertain:
    none </ANCHOR>``.

    A field without findings is ``none``; at most the first eight findings of a field are written.
    The words for a finding's attributes precede it.
    """
    shown = {name: map(anchor.text, getattr(anchor, name)[:MAX_PER_FIELD]) for name in POLARITIES}
    fields = (f"{name}: {', '.join(findings) or 'none'}" for name, findings in shown.items())
    return f"<ANCHOR> {'; '.join(fields)} </ANCHOR>"


def contains_commitment(text: str) -> bool:
    """Whether a generated text has an opening ``<ANCHOR>`` marker and at least one named field
    after it."""
    return _FIELD.search(_body(text)) is not None


def parse_anchor(text: str, kinds: Collection[str] = ()) -> Anchor:
    """Parse the commitment in a text; the inverse of :func:`render_anchor` for at most eight
    findings per field.

    Generated text may be imperfect. The first ``<ANCHOR>`` counts; it ends at ``</ANCHOR>``, at
    ``<REPORT>`` or at the end of the text. Case and spaces do not matter, and unknown findings are
    left out. A finding in several fields is resolved as in :meth:`Anchor.of`. Without a commitment
    (see :func:`contains_commitment`) the result is empty.

    Args:
        kinds: the kinds of attributes in the model's commitments (``commit.attributes``). A finding
            with any other word before its name is unknown.
    """
    _, *parts = _FIELD.split(_body(text))  # name, content, name, content, ...
    fields: dict[str, list[str]] = {name: [] for name in POLARITIES}
    attributes: dict[str, Attributes] = {}
    for name, content in zip(parts[::2], parts[1::2], strict=True):
        for described in re.split(r"[,;]", content):
            known, named = split_words(described, kinds)
            if finding := normalize_finding(named):
                fields[name.lower()].append(finding)
                attributes.setdefault(finding, known)
    return Anchor.of(**fields).described(attributes, kinds)


def read_list(text: str, kinds: Collection[str] = ()) -> Anchor:
    """Read a commitment that a person has written: ``positive: edema; negative: pneumothorax``,
    each field at most once; ``none`` for a field without findings. ``kinds`` as in
    :func:`parse_anchor`. Raises a DataError if a field, finding or attribute is unknown, a finding
    is named twice or denied with an attribute, or a field has more than eight findings."""
    form = "expected a list such as 'positive: edema; negative: pneumothorax, lung lesion'"
    fields: dict[str, list[str]] = {}
    attributes: dict[str, Attributes] = {}
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
        fields[name] = [_given(word, name, kinds, attributes) for word in named]
        if len(named) > MAX_PER_FIELD:
            raise DataError(
                f"commitment: {name} has {len(named)} findings; at most {MAX_PER_FIELD} are allowed"
            )
    counts = Counter(finding for of_field in fields.values() for finding in of_field)
    if twice := [finding for finding, count in counts.items() if count > 1]:
        raise DataError(f"commitment: {twice[0]} appears twice; give each finding one state")
    return Anchor.of(**fields).described(attributes, kinds)


def _given(
    word: str, polarity: str, kinds: Collection[str], attributes: dict[str, Attributes]
) -> str:
    """Return the finding of one entry of :func:`read_list`, and put its attributes into
    ``attributes``."""
    known, named = split_words(word, KINDS)
    if (finding := normalize_finding(named)) is None:
        raise DataError(
            f"commitment: {word!r:.40} is not a finding; choose from {', '.join(FINDINGS)}"
        )
    if polarity == "negative" and any(known):
        raise DataError(
            f"commitment: {word!r:.60} is denied, and a denied finding takes no attributes; write "
            f"{finding!r}"
        )
    if known != known.only(kinds):
        raise DataError(
            f"commitment: {word!r:.60} has attributes that this model was not trained with; "
            f"allowed: {', '.join(kinds) or 'none'} (commit.attributes in training)"
        )
    attributes[finding] = known
    return finding


def _body(text: str) -> str:
    """Return the text between the first opening marker and its end; empty if there is no marker."""
    _, *after = _OPENING.split(text, maxsplit=1)
    return _CLOSING.split(after[0], maxsplit=1)[0] if after else ""
