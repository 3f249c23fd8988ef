"""The version of the rules: a person raises it when readings change."""

import hashlib
import json
from pathlib import Path

from pacer.text.rules import VERSION, extract_anchor, read_attributes

HERE = Path(__file__).parent
TEXTS: list[str] = json.loads((HERE / "texts.json").read_text(encoding="utf-8"))


def reading(text: str) -> list:
    anchor = extract_anchor(text)
    return [anchor.described(read_attributes(text)).as_dict(), text]


def test_readings_change_with_the_version() -> None:
    assert len(TEXTS) == 500
    readings = json.dumps([reading(text) for text in TEXTS])
    digest = hashlib.sha256(readings.encode()).hexdigest()
    known = json.loads((HERE / "version.json").read_text())
    assert {"version": VERSION, "sha256": digest} == known, (
        "readings of texts.json have changed: raise the number in pacer/text/rules/VERSION, and "
        f"put it into version.json with the hash {digest}"
    )
