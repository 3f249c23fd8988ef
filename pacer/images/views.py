"""Views of chest radiographs, parsed from the words of tables and DICOM headers."""

import re
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, NamedTuple

from pacer.core.io import yaml_beside
from pacer.images.dicom import other_part

#: Directions of the beam in full, as in MIMIC-CXR-JPG's ``ViewCodeSequence_CodeMeaning``.
_IN_FULL = {
    re.compile(r"\bPOSTER(?:O|IOR)[-_\s]*ANTERIOR\b|\bP[.-]A\b"): "PA",
    re.compile(r"\bANTER(?:O|IOR)[-_\s]*POSTERIOR\b|\bA[.-]P\b"): "AP",
}
_WORDS: dict[str, list] = yaml_beside(__file__, "views.yaml")
_FRONTAL = set(_WORDS["frontal"])
_LATERAL = set(_WORDS["lateral"])
_DECUBITUS = set(_WORDS["decubitus"])
_OBLIQUE = set(_WORDS["oblique"])
_SPECIAL = re.compile(
    rf"(?<![A-Z])(?:{'|'.join(chain(*_WORDS['special']))})(?![A-Z])", re.IGNORECASE
)


class View(NamedTuple):
    """The view of an image."""

    kind: Literal["frontal", "lateral"]
    #: ``other`` for a lateral, and for a frontal of unknown direction.
    view: Literal["AP", "PA", "other"]


def parse_view(text: Any) -> View | None:
    """Parse a view as written in tables and DICOM files (``PA``, ``AP SUPINE``, ``LL``,
    ``postero-anterior``, …). Return None for anything else: no text, an oblique view, another part
    of the body, or both kinds of view."""
    return _parse(text) if isinstance(text, str) else None


@lru_cache(maxsize=256)  # tables have few distinct texts, and their images then share View objects
def _parse(text: str) -> View | None:
    text = text.strip().upper()
    if text == "L":  # this letter means lateral only on its own
        return View("lateral", "other")
    for in_full, letters in _IN_FULL.items():
        text = in_full.sub(letters, text)
    words = set(re.findall(r"[A-Z]+", text))
    frontal = words & _FRONTAL
    lateral = words & _LATERAL and not words & _DECUBITUS
    if other_part(text) or words & _OBLIQUE or bool(frontal) == bool(lateral):
        return None
    if lateral:
        return View("lateral", "other")
    directions = frontal & {"AP", "PA"}
    if directions == {"AP"}:
        return View("frontal", "AP")
    return View("frontal", "PA" if directions == {"PA"} else "other")


def is_special(text: str) -> bool:
    """Whether a text names a decubitus, cross-table, axial or lordotic view, or a processed
    image."""
    return _SPECIAL.search(text) is not None
