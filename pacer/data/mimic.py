"""How MIMIC-CXR writes its ids."""

from __future__ import annotations

import re

_PATH = re.compile(r"(?:^|/)p(\d+)/s(\d+)/")
_ID = re.compile(r"^[ps](\d+)$")


def mimic_ids(path: str) -> tuple[str, str] | None:
    """Subject and study of an image path such as ``p10/p10000032/s50414267/name.jpg``, without their letters."""
    match = _PATH.search(path)
    return (match[1], match[2]) if match else None


def bare_id(value: str) -> str:
    """A subject or study id without MIMIC's letter: ``s50414267`` is ``50414267``; other ids stay as they are."""
    match = _ID.match(value)
    return match[1] if match else value
