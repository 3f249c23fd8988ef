"""The paper's own fallback, the choice ``anchors.rules: paper`` (paper, appendix "Commitment
supervision").

The cues and the patterns of devices are the appendix's. The words of the other findings and the
size of the window are ours (``docs/readings.md``), because the appendix names none.
"""

import re

from pacer.core.anchor import POLARITIES, Anchor

#: Characters on either side of a name in which a negation counts.
WINDOW = 40
#: The words that name each finding, also with a plural "s".
WORDS: dict[str, tuple[str, ...]] = {
    "atelectasis": ("atelectasis", "atelectatic"),
    "cardiomegaly": (
        "cardiomegaly",
        "cardiac enlargement",
        "enlarged heart",
        "heart is large",
        "heart is enlarged",
        "heart is mildly enlarged",
        "heart size is enlarged",
        "heart size is mildly enlarged",
        "heart size mildly enlarged",
        "cardiac silhouette is enlarged",
    ),
    "consolidation": ("consolidation", "consolidative"),
    "edema": ("edema", "vascular congestion", "heart failure"),
    "enlarged mediastinum": ("widened mediastinum", "mediastinal widening"),
    "fracture": ("fracture", "fractured"),
    "lung lesion": ("nodule", "mass", "masses", "lesion"),
    "lung opacity": ("opacity", "opacities", "opacification", "infiltrate", "airspace disease"),
    "pleural effusion": ("effusion", "pleural fluid", "hydropneumothorax"),
    "pleural abnormality": ("pleural thickening", "pleural scarring", "pleural plaque"),
    "pneumonia": ("pneumonia",),
    "pneumothorax": ("pneumothorax", "pneumothoraces", "hydropneumothorax"),
}
_NAMES = {
    finding: re.compile(rf"\b(?:{'|'.join(words)})s?\b") for finding, words in WORDS.items()
} | {
    "support devices": re.compile(
        r"\b(?:tubes?|catheters?|picc|central(?: venous)? lines?|devices?|pacemakers?)\b"
    )
}
_UNCERTAIN = re.compile(
    r"\b(?:possible|probable|may represent|could represent|questionable|suspect)"
)
_NEGATIVE = re.compile(
    r"\b(?:no|not|without|absent|negative for|no evidence of)\b"
    r"(?! (?:interval |significant )*change\b)"
)
_SENTENCE_END = re.compile(r"[.;](?!\d)")


def extract_paper_anchor(report: str) -> Anchor:
    """Extract the findings as the paper's fallback does: a hedge anywhere in the sentence counts
    before a negation nearby, and the first mention that is positive or uncertain ends the search
    for its finding."""
    fields: dict[str, list[str]] = {polarity: [] for polarity in POLARITIES}
    sentences = _SENTENCE_END.split(" ".join(report.lower().split()))
    for finding, names in _NAMES.items():
        read = [_polarity(text, name) for text in sentences for name in names.finditer(text)]
        if read:
            decided = next((one for one in read if one != "negative"), "negative")
            fields[decided].append(finding)
    return Anchor.of(**fields)


def _polarity(text: str, name: re.Match[str]) -> str:
    if _UNCERTAIN.search(text):
        return "uncertain"
    before, after = text[: name.start()][-WINDOW:], text[name.end() :][:WINDOW]
    return "negative" if any(map(_NEGATIVE.search, (before, after))) else "positive"
