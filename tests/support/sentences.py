"""Commitments in short notation."""

from pacer.core.anchor import POLARITIES, Anchor


def anchor_of(notation: str) -> Anchor:
    """``+`` positive, ``-`` negative, ``?`` uncertain."""
    fields: dict[str, list[str]] = {name: [] for name in POLARITIES}
    for part in notation.replace("+", "|+").replace("?", "|?").replace("- ", "|- ").split("|"):
        if part.strip():
            name = {"+": "positive", "-": "negative", "?": "uncertain"}[part[0]]
            fields[name] += [finding.strip() for finding in part[1:].split(",")]
    return Anchor.of(**fields)
