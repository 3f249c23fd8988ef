"""Strict reading of single values of records, MIMIC's ids, and how much of a value a message may show."""

from __future__ import annotations

import math
import re
from typing import Any

from pacer.core.hygiene import fault_of

#: What a row that is not used can be: one that cannot be used, and a sound one that was not asked for.
BAD, LEFT_OUT = "bad", "left out"
#: How MIMIC-CXR writes its ids, in paths and alone.
_MIMIC_PATH = re.compile(r"(?:^|/)p(\d+)/s(\d+)/")
_MIMIC_ID = re.compile(r"^[ps](\d+)$")


class Unusable(Exception):
    """Raised for the row at hand, which then is a line of ``problems.csv``. ``reason`` never quotes report text."""

    def __init__(self, field: str, reason: str, kind: str = BAD):
        super().__init__(field, reason)
        self.field, self.reason, self.kind = field, reason, kind


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


def ids_of(raw: dict[str, Any], known: tuple[str, str] | None, reason: str, field: str = "") -> tuple[str, str]:
    """Subject and study without MIMIC's letters: the record's fields, else what is ``known`` from elsewhere.

    Raises:
        Unusable: neither is there; for ``reason``, in ``field`` or the one that is missing.
    """
    ids = []
    for number, name in enumerate(("subject_id", "study_id")):
        if name in raw:
            ids.append(bare_id(name_of(raw, name)))
        elif known is not None:
            ids.append(known[number])
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


def shown(value: Any) -> str:
    """What arrived, for an error, without its content: numbers are shown, text is not."""
    if isinstance(value, str):
        return "blank text" if not value.strip() else f"text of {len(value)} characters"
    if isinstance(value, bool | float | None):
        return repr(value)
    if isinstance(value, int):
        return repr(value) if abs(value) < 10**20 else "a number of more than 20 digits"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "an object" if isinstance(value, dict) else f"a {type(value).__name__}"


def quoted(value: str, longest: int = 40, words: int = 3) -> str:
    """An id, date, view, split, path or column name as a message may show it: a longer one could be report text."""
    return value if len(value) <= longest and len(value.split()) <= words else f"text of {len(value)} characters"


def shown_view(value: str) -> str:
    """A view as the audit may show it."""
    return quoted(value, 16, 2)


def mimic_ids(path: str) -> tuple[str, str] | None:
    """Subject and study of an image path such as ``p10/p10000032/s50414267/name.jpg``, without their letters."""
    match = _MIMIC_PATH.search(path)
    return (match[1], match[2]) if match else None


def bare_id(value: str) -> str:
    """A subject or study id without MIMIC's letter: ``s50414267`` is ``50414267``; other ids stay as they are."""
    match = _MIMIC_ID.match(value)
    return match[1] if match else value
