"""Parts of the body whose radiographs do not show the lungs: DICOM's terms (PS3.16 annex L) and usual words."""

from __future__ import annotations

import re

_OTHER = re.compile(
    r"ABD|ABDO(?:MEN|MINAL)?|KUB|PELVI[SC]|HIPS?|RIBS?|STERNUM|[CTL]?SPINES?|VERTEBRAE?|CERVICAL|LUMBAR|THORACIC|SACRUM"
    r"|COCCYX|SHOULDERS?|SCAPULAE?|CLAVICLES?|ARM|HUMERUS|ELBOWS?|FOREARMS?|WRISTS?|HANDS?|FINGERS?|THUMBS?|FEMURS?"
    r"|THIGHS?|KNEES?|PATELLAE?|LEGS?|TIBIA|FIBULA|ANKLES?|FOOT|FEET|TOES?|HEELS?|CALCANEUS|EXTREMIT(?:Y|IES)|SKULL|HEAD"
    r"|FACE|FACIAL|SINUS(?:ES)?|ORBITS?|MANDIBLE|MAXILLA|JAW|NASAL|TEETH|DENTAL|ZYGOMAS?|NECK|BREASTS?|BABYGRAM"
)
_CHEST = {"CHEST", "THORAX", "LUNG", "LUNGS", "CXR"}


def other_part(text: str) -> str | None:
    """Return the first word of a text that names a part of the body other than the chest; None if there is none, or if
    the text names the chest as well."""
    words = re.findall("[A-Z]+", text.upper())
    return None if _CHEST.intersection(words) else next(filter(_OTHER.fullmatch, words), None)
