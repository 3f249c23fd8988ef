"""The wording of the phantom's reports (``wording.yaml``), and assembly of sentences from noun phrases."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from ruamel.yaml import YAML

Style = Literal["terse", "plain", "prose", "numbered"]
#: Cumulative shares of the styles.
STYLES: dict[Style, float] = {"terse": 0.26, "plain": 0.60, "prose": 0.88, "numbered": 1.0}
#: Exponent that favours the first wordings, as habits do: the first of four is chosen 42 % of the time, the last 16 %.
_HABIT = 1.6

Texts = Sequence[str]
ByName = dict[str, Texts]
Option = TypeVar("Option")


class Names(NamedTuple):
    """The names of one finding."""

    names: Texts
    short: Texts
    adjectives: Texts = ("",)
    bilateral: Texts = ()
    several: Texts = ()
    vertebra: Texts = ()
    lateral_only: Texts = ()
    adjective_first: Texts = ()
    clauses: Texts = ()
    countable: bool = True


class Phrase(NamedTuple):
    """A noun phrase, its grammatical number, and whether it can take an article."""

    text: str
    plural: bool = False
    countable: bool = True

    @property
    def with_article(self) -> str:
        """The phrase as it follows "there is" or "there are"; every member of a list has its own article."""
        if not self.countable or (self.plural and " and " not in self.text):
            return self.text
        return " and ".join(f"{'an' if part[0] in 'aeiou' else 'a'} {part}" for part in self.text.split(" and "))


_TABLES = YAML(typ="safe").load(Path(__file__).with_name("wording.yaml"))
#: All wordings, an attribute for each table of ``wording.yaml``; see its comments. Most frames are grouped by style.
WORDING = SimpleNamespace(**_TABLES | {"phrases": {name: Names(**names) for name, names in _TABLES["phrases"].items()}})


def pick(options: Sequence[Option], choice: float) -> Option:
    """Select one of ``options``, favouring the first ones; ``choice`` is a number in [0, 1)."""
    return options[int(choice**_HABIT * len(options))]


def style_of(choice: float) -> Style:
    """Map a number in [0, 1) to a style."""
    return next(style for style, share in STYLES.items() if choice < share)


def by_style(frames: ByName, style: Style) -> Texts:
    """Return the frames of a style."""
    return frames["plain" if style == "numbered" else style]


def capitalised(text: str) -> str:
    """Capitalise the first letter."""
    return text[0].upper() + text[1:]


def fill(frame: str, phrase: Phrase, second: Phrase | None = None, absent: str = "") -> str:
    """Fill a frame with its phrases; verbs agree with them in number."""
    be, have = ("are", "have") if phrase.plural else ("is", "has")
    values = {"a": phrase.with_article, "is_": _verb(phrase), "be": be, "have": have, "n": absent}
    if second is not None:
        values |= {"b": second.with_article, "is_b": _verb(second)}
    return capitalised(frame.format(phrase.text, second.text if second else "", **values))


def _verb(phrase: Phrase) -> str:
    """Return the verb after "there": singular if the members of a list have their own articles."""
    return "are" if phrase.plural and phrase.with_article == phrase.text else "is"


def denial(findings: list[str], style: Style, choice: float) -> str:
    """Write one sentence that denies all ``findings`` (one or more)."""
    names = [pick(WORDING.denied_names[name], (choice * 7.0 + 0.37 * i) % 1.0) for i, name in enumerate(findings)]
    listed = " or ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])}, or {names[-1]}"
    frames = by_style(WORDING.denials, style)
    # words after a long list, such as "is seen", are too far from its first member
    return pick(frames[:3] if len(names) > 2 else frames, choice).format(listed)


def clinical_text(rng: np.random.Generator, traits: list[str], phrases: ByName, share: float) -> str | None:
    """Draw an indication or history that fits a trait of the patient, or None.

    Args:
        phrases: ``WORDING.indications`` or ``WORDING.histories``.
        share: probability of a text.
    """
    known, general, trait, choice = rng.random(4)
    if known > share:
        return None
    source = "" if not traits or general < 0.4 else traits[int(trait * len(traits))]
    return phrases[source][int(choice * len(phrases[source]))]
