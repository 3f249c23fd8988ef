"""What a reader gives for every row of its input: an examination, a problem, or a reason to leave the row out.

No row disappears: each one that a reader pulls is counted in :class:`Notes` and ends in exactly one of the three.
Readers give texts as they stand; joining the sections, cleaning and the choice of contexts happen in one place,
:mod:`pacer.data.assemble`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Set
from typing import Any, NamedTuple

from pacer.core.contexts import Context
from pacer.core.errors import DataError
from pacer.core.hygiene import fault_of
from pacer.data.mimic import bare_id
from pacer.data.tables import shown

#: Values that are counted one by one under a topic.
_VALUES = 200


class Place(NamedTuple):
    """Where a row stands: file, split (empty where the file has none), and number, counted from 0; in a table the line
    of the file, and in Parquet the row, counted from 1."""

    file: str
    split: str
    index: int

    def __str__(self) -> str:
        """For messages."""
        name = self.file.lower().removesuffix(".gz")
        if name.endswith((".csv", ".tsv", ".jsonl", ".parquet")):
            return f"{self.file}, {'row' if name.endswith('.parquet') else 'line'} {self.index},"
        return f"{self.file} {self.split}[{self.index}]" if self.split else self.file


class Problem(NamedTuple):
    """A row that cannot be used. ``reason`` never quotes report text. ``rows``: how many rows of the input it stands
    for, 0 where they were counted already. ``counted``: the reason in the audit, where ``reason`` names what differs
    from row to row."""

    place: Place
    field: str
    reason: str
    rows: int = 1
    counted: str = ""


class LeftOut(NamedTuple):
    """A sound row that is not part of what was asked for."""

    place: Place
    reason: str
    rows: int = 1


class Prior(NamedTuple):
    """The previous report of an examination.

    ``study_id`` and the fields after it are None where the input gives the text alone. ``gap_days``: days between the
    studies. ``rule``: how it was chosen. ``tied``: another study was equally near. ``passed_over``: nearer studies
    without a report.
    """

    findings: str | None
    impression: str | None
    study_id: str | None = None
    gap_days: float | None = None
    rule: str | None = None
    tied: bool = False
    passed_over: int = 0


class Examination(NamedTuple):
    """One examination with the sources that it has; None for what is absent.

    ``contexts`` are those that it gives a record in; ``id`` is unique in each of them. ``emphasis`` follows the tokens
    of the cleaned findings and impression, BOS first. ``rows``: rows of the input that it is made of.
    """

    place: Place
    id: str
    contexts: tuple[Context, ...]
    split: str
    study_id: str
    subject_id: str
    view: str
    frontal: str
    lateral: str | None = None
    findings: str | None = None
    impression: str | None = None
    prior: Prior | None = None
    indication: str | None = None
    history: str | None = None
    emphasis: list[float] | None = None
    rows: int = 1


Row = Examination | Problem | LeftOut


class Notes:
    """Counts of what a reader met besides its rows, by topic, input and value."""

    def __init__(self) -> None:
        self.read: Counter[str] = Counter()
        self.topics: dict[str, dict[str, Counter[str]]] = {}

    def row(
        self, raw: Any, source: str, place: Place, known: Set[str], make: Callable[[Any, Place, Notes], Row]
    ) -> Row:
        """What ``make`` gives for a record that was just pulled; its fields that are not ``known`` are counted."""
        self.read[source] += 1
        try:
            if not isinstance(raw, dict):
                raise Unusable("-", f"a record must be an object; this is a {type(raw).__name__}")
            made = make(raw, place, self)
        except Unusable as problem:
            return Problem(place, problem.field, problem.reason)
        for name in raw.keys() - known:
            self.count("unknown_fields", source, name)
        return made

    def count(self, topic: str, source: str, value: str, number: int = 1) -> None:
        """Count ``value`` under ``topic`` for one input (a context, or the role of a file)."""
        shown = value[:60].encode("utf-8", "backslashreplace").decode()
        counts = self.topics.setdefault(topic, {}).setdefault(source, Counter())
        counts[shown if shown in counts or len(counts) < _VALUES else "(others)"] += number

    def found(self, topic: str) -> dict[str, dict[str, int]]:
        """``{input: {value: count}}``, most frequent value first."""
        return {
            source: dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
            for source, counts in self.topics.get(topic, {}).items()
        }


class Unusable(Exception):
    """Raised inside a reader for the row at hand; the reader turns it into a :class:`Problem`."""

    def __init__(self, field: str, reason: str):
        super().__init__(field, reason)
        self.field, self.reason = field, reason


def present(raw: dict[str, Any], name: str, sentinel: str = "") -> Any:
    """The value of a field that must be there.

    Raises:
        Unusable: it is missing; ``sentinel`` says how an absent value is written.
    """
    if name not in raw:
        raise Unusable(name, "the field is missing" + (f"; write {sentinel}" if sentinel else ""))
    return raw[name]


def name_of(raw: dict[str, Any], name: str) -> str:
    """An id: text or a whole number, without white space around it."""
    value = present(raw, name)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise Unusable(name, f"expected a name or a number, got {shown(value)}")
    return sound(str(value).strip(), name)


def ids_of(raw: dict[str, Any], found: tuple[str, str] | None, reason: str, field: str = "") -> tuple[str, str]:
    """Subject and study without MIMIC's letters: the record's fields, else what was ``found`` elsewhere.

    Raises:
        Unusable: neither is there; for ``reason``, in ``field`` or the one that is missing.
    """
    ids = []
    for number, name in enumerate(("subject_id", "study_id")):
        if name in raw:
            ids.append(bare_id(name_of(raw, name)))
        elif found is not None:
            ids.append(found[number])
        else:
            raise Unusable(field or name, reason)
    return ids[0], ids[1]


def sound(text: str, name: str) -> str:
    """``text``, once it is known that it is plain text."""
    if fault := fault_of(text):
        raise Unusable(name, fault)
    return text


def weights_of(raw: dict[str, Any], name: str) -> list[float] | None:
    """A list of finite numbers, or None when the record has none."""
    if name not in raw:
        return None
    value = raw[name]
    if not isinstance(value, list):
        raise Unusable(name, f"expected a list of numbers, got {shown(value)}")
    try:
        weights = [float(entry) for entry in value]
    except (TypeError, ValueError, OverflowError):
        raise Unusable(name, "expected a list of numbers; an entry is not a number") from None
    if not all(math.isfinite(weight) and abs(weight) < 1e38 for weight in weights):
        raise Unusable(name, "expected finite numbers; an entry is NaN, infinite or beyond 1e38")
    return weights


def shown_view(value: str) -> str:
    """A view as the audit may show it: a long one could be report text in the wrong field."""
    return value if len(value) <= 16 and len(value.split()) <= 2 else f"text of {len(value)} characters"


def shown_path(value: str) -> str:
    """A path as an error may show it: one with blanks, or a very long one, could be report text in the wrong field."""
    return value if len(value) <= 200 and not any(map(str.isspace, value)) else f"a text of {len(value)} characters"


def check_roles(files: dict[str, Any], *needed: str) -> None:
    """Make sure that a source describes the files that a reader needs.

    Raises:
        DataError: a role is missing.
    """
    missing = [role for role in needed if role not in files]
    if missing:
        raise DataError(f"the source of this corpus describes no file for {', '.join(missing)}; make the source again")
