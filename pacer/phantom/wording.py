"""The wording of the phantom's reports (``wording.yaml``): noun phrases of findings, and sentences
with them."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Literal, NamedTuple, TypeVar

from pacer.core.io import yaml_beside
from pacer.phantom.world import FindingState, PhantomStudy

Style = Literal["terse", "plain", "prose"]
#: Cumulative shares of the styles.
STYLES: dict[Style, float] = {"terse": 0.26, "plain": 0.72, "prose": 1.0}
#: Exponent that favours the first wordings, as habits do: the first of four is chosen 42% of the
#: time, the last 16%.
_HABIT = 1.6

_PLURALS = frozenset({"fractures", "masses", "nodules", "effusions", "plaques"})
_ADVERBS = {"mild": "mildly", "moderate": "moderately", "severe": "severely"}

Texts = Sequence[str]
ByName = dict[str, Texts]
Option = TypeVar("Option")


class Names(NamedTuple):
    """The names of one finding; see the comments of ``wording.yaml``."""

    names: Texts
    short: Texts
    adjectives: Texts = ("",)
    bilateral: Texts = ()
    several: Texts = ()
    vertebra: Texts = ()
    lateral_only: Texts = ()
    clauses: Texts = ()
    countable: bool = True


class Phrase(NamedTuple):
    """A noun phrase, its grammatical number, and whether it can take an article."""

    text: str
    plural: bool = False
    countable: bool = True

    @property
    def with_article(self) -> str:
        """The phrase as it follows "there is" or "there are"; every member of a list has its own
        article."""
        if not self.countable or (self.plural and " and " not in self.text):
            return self.text
        parts = self.text.split(" and ")
        return " and ".join(f"an {part}" if part[0] in "aeiou" else f"a {part}" for part in parts)


_TABLES = yaml_beside(__file__, "wording.yaml")
#: All wordings, an attribute for each table of ``wording.yaml``; see its comments. Most frames are
#: grouped by style.
WORDING = SimpleNamespace(**_TABLES)
WORDING.phrases = {name: Names(**names) for name, names in _TABLES["phrases"].items()}


def pick(options: Sequence[Option], choice: float) -> Option:
    """Select one of ``options``, favouring the first ones; ``choice`` is a number in [0, 1)."""
    return options[int(choice**_HABIT * len(options))]


def by_style(frames: ByName, style: Style) -> Texts:
    return frames[style]


def capitalised(text: str) -> str:
    return text[0].upper() + text[1:]


def fill(frame: str, phrase: Phrase) -> str:
    """Fill a frame with its phrase; verbs agree with it in number."""
    be, have = ("are", "have") if phrase.plural else ("is", "has")
    # after "there", the members of a list with their own articles take a singular verb
    there = "are" if phrase.plural and phrase.with_article == phrase.text else "is"
    text = frame.format(phrase.text, a=phrase.with_article, is_=there, be=be, have=have)
    return capitalised(text)


def denial(findings: list[str], style: Style, choice: float) -> str:
    """Write one sentence that denies all ``findings`` (one or more)."""
    names = [
        pick(WORDING.denied_names[name], (choice * 7.0 + 0.37 * i) % 1.0)
        for i, name in enumerate(findings)
    ]
    listed = " or ".join(names)
    if len(names) > 2:
        listed = f"{', '.join(names[:-1])}, or {names[-1]}"
    frames = by_style(WORDING.denials, style)
    # words after a long list, such as "is seen", are too far from its first member
    return pick(frames[:3] if len(names) > 2 else frames, choice).format(listed)


def describe(state: FindingState, wording: float, detail: float) -> Phrase:
    """Return the noun phrase of one finding; two numbers in [0, 1) select the wording and the
    adjective."""
    if state.finding == "support devices":
        return _devices(state, wording)
    known = WORDING.phrases[state.finding]
    # whether the finding has several parts
    is_multiple = state.severity > 0.4
    if state.finding == "lung lesion":
        is_multiple = state.position[2] > 0.7
    names = known.names
    if state.lateral_only:
        names = known.vertebra or known.lateral_only
    elif state.side == "bilateral":
        names = known.bilateral or known.names
    elif is_multiple:
        names = known.several or known.names
    words = _words(state, detail)
    words["adjective"] = pick(known.adjectives, detail).format(**words)
    text = pick(names, wording).format(**words)
    return Phrase(text, not _PLURALS.isdisjoint(text.split()), known.countable)


def degree(state: FindingState) -> str:
    """Return the word for the severity of a finding."""
    if state.severity < 0.42:
        return "mild"
    return "moderate" if state.severity < 0.72 else "severe"


def _words(state: FindingState, detail: float = 0.0) -> dict[str, str]:
    """Return the values of the placeholders in the names of ``wording.yaml``."""
    grade = degree(state)
    lobe = "zone" if state.zone == "mid" else "lobe"
    seen = state.side != "central" and not state.lateral_only
    return {
        "side": state.side,
        "side_": f"{state.side} " if seen else "",
        "basilar": "bibasilar" if state.side == "bilateral" else f"{state.side} basilar",
        "place": f"{state.side} {state.zone} {pick(('lung', 'lung', lobe), (detail * 5.0) % 1.0)}",
        "size": {"mild": "small", "severe": "large"}.get(grade, grade),
        "degree": grade,
        "adverb": _ADVERBS[grade],
        "lesion": "nodule" if state.severity < 0.6 else "mass",
        "lesions": "nodules" if state.severity < 0.6 else "masses",
        "effusion": "effusions" if seen and state.side == "bilateral" else "effusion",
        "view": " on the lateral view" if detail > 0.5 else "",
    }


def clause(state: FindingState, choice: float) -> str | None:
    """Return a special sentence for an enlarged heart or mediastinum; None for other findings."""
    clauses = WORDING.phrases[state.finding].clauses if state.finding in WORDING.phrases else ()
    return pick(clauses, choice).format(**_words(state)) if clauses else None


def short(state: FindingState, wording: float) -> Phrase:
    """Return the noun phrase for an impression, without size and exact place."""
    if state.finding == "support devices":
        return _devices(state, 0.0)
    known = WORDING.phrases[state.finding]
    names = known.vertebra[:1] if state.kind == "vertebra" else known.short
    text = pick(names, wording).format(**_words(state))
    return Phrase(text, text.endswith("effusions"), known.countable)


def _devices(state: FindingState, wording: float) -> Phrase:
    names = [
        pick(WORDING.devices[device], wording).format(side=state.side) for device in state.devices
    ]
    return Phrase(" and ".join(names), plural=len(names) > 1)


def remarks(study: PhantomStudy, style: Style) -> Texts:
    """Return true remarks about body and exposure, and neutral ones; none of them states or denies
    a finding.

    They depend only on the examination, so its reports in different contexts agree.
    """
    body = study.anatomy
    untrue = {
        "low volumes": body.diaphragm >= 0.44,
        "well expanded": body.diaphragm <= 0.54,
        "tortuous aorta": body.knob <= 0.95,
        "osteopenic": body.bone >= 0.78,
        "scoliosis": abs(body.scoliosis) <= 0.025,
        "bones intact": "fracture" in study.findings,
    }
    column = {"terse": 0, "prose": 2}.get(style, 1)
    return tuple(texts[column] for name, texts in WORDING.remarks.items() if not untrue.get(name))
