"""The words of the phantom's reports (``wording.yaml``): noun phrases for findings and the sentences around them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from ruamel.yaml import YAML

if TYPE_CHECKING:
    from pacer.phantom.world import FindingState, PhantomStudy

Style = Literal["terse", "plain", "prose", "numbered"]
#: Cumulative shares of the styles.
STYLES: dict[Style, float] = {"terse": 0.26, "plain": 0.60, "prose": 0.88, "numbered": 1.0}
#: Radiologists have habits: the first of four wordings is chosen 42 % of the time, the last 16 %.
_HABIT = 1.6
_PLURALS = frozenset({"fractures", "masses", "nodules", "effusions", "plaques"})
_ADVERBS = {"mild": "mildly", "moderate": "moderately", "severe": "severely"}

Texts = tuple[str, ...]
ByName = dict[str, Texts]
Option = TypeVar("Option")


class Names(BaseModel):
    """What one finding is called."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    names: Texts
    short: Texts
    adjectives: Texts = ("",)
    bilateral: Texts = ()
    several: Texts = ()
    vertebra: Texts = ()
    lateral_only: Texts = Field((), alias="lateral only")
    adjective_first: Texts = Field((), alias="adjective first")
    clauses: Texts = ()
    countable: bool = True


class Wording(BaseModel):
    """All wordings; see the comments of ``wording.yaml``. Frames by style unless the name of a type says otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    statements: ByName
    hedges: ByName
    changes: dict[str, ByName]
    hedged_changes: ByName
    joint: ByName
    joint_changes: ByName
    without: ByName
    impression_changes: ByName
    impression_hedges: Texts
    compared: Texts
    resolved: ByName
    clear: ByName
    normal: ByName
    denials: ByName
    denied_names: ByName
    absences: dict[str, ByName]
    both_absent: ByName
    remarks: ByName
    phrases: dict[str, Names]
    devices: ByName
    details: ByName
    indications: ByName
    histories: ByName


WORDING = Wording(**YAML(typ="safe").load(Path(__file__).with_name("wording.yaml")))


def pick(options: tuple[Option, ...], choice: float) -> Option:
    """One of ``options``, the first ones more often; ``choice`` is a number in [0, 1)."""
    return options[int(choice**_HABIT * len(options))]


def style_of(choice: float) -> Style:
    """The style that a number in [0, 1) stands for."""
    return next(style for style, share in STYLES.items() if choice < share)


def by_style(frames: ByName, style: Style) -> Texts:
    """The frames of a style."""
    return frames["plain" if style == "numbered" else style]


def capitalised(text: str) -> str:
    """With a capital at the start."""
    return text[0].upper() + text[1:]


def fill(frame: str, phrase: Phrase, second: Phrase | None = None, absent: str = "") -> str:
    """A frame with its phrases; verbs follow their number."""
    be, have = ("are", "have") if phrase.plural else ("is", "has")
    values = {"a": phrase.with_article, "is_": _verb(phrase), "be": be, "have": have, "n": absent}
    if second is not None:
        values |= {"b": second.with_article, "is_b": _verb(second)}
    return capitalised(frame.format(phrase.text, second.text if second else "", **values))


def _verb(phrase: Phrase) -> str:
    """The verb after "there": two things with articles of their own take the singular."""
    return "are" if phrase.plural and phrase.with_article == phrase.text else "is"


def denial(findings: list[str], style: Style, choice: float) -> str:
    """One sentence that denies all ``findings`` (one or more)."""
    names = [pick(WORDING.denied_names[name], (choice * 7.0 + 0.37 * i) % 1.0) for i, name in enumerate(findings)]
    listed = " or ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])}, or {names[-1]}"
    frames = by_style(WORDING.denials, style)
    # what follows a long list stands too far from its first member
    return pick(frames[:3] if len(names) > 2 else frames, choice).format(listed)


def remarks(study: PhantomStudy, style: Style) -> Texts:
    """True remarks about body and exposure, and neutral ones; none of them states or denies a finding.

    They depend on the study alone, so the reports of its contexts agree.
    """
    body = study.anatomy
    untrue = {
        "low volumes": body.diaphragm >= 0.44,
        "well expanded": body.diaphragm <= 0.54,
        "tortuous aorta": body.knob <= 0.95,
        "osteopenic": body.bone >= 0.78,
        "scoliosis": abs(body.scoliosis) <= 0.025,
        "rotated": abs(body.turned) <= 0.035,
        "skin fold": study.exposure.distractor != "skin fold",
        "portable": study.view != "AP",
        "bones intact": "fracture" in study.findings,
    }
    column = {"terse": 0, "prose": 2}.get(style, 1)
    return tuple(texts[column] for name, texts in WORDING.remarks.items() if not untrue.get(name))


def clinical_text(rng: np.random.Generator, traits: list[str], phrases: ByName, share: float) -> str | None:
    """An indication or history that fits a trait of the patient, or None.

    Args:
        phrases: ``WORDING.indications`` or ``WORDING.histories``.
        share: how often there is one.
    """
    known, general, trait, choice = rng.random(4)
    if known > share:
        return None
    source = "" if not traits or general < 0.4 else traits[int(trait * len(traits))]
    return phrases[source][int(choice * len(phrases[source]))]


class Phrase(NamedTuple):
    """A noun phrase, its number, and whether it can take an article."""

    text: str
    plural: bool = False
    countable: bool = True

    @property
    def with_article(self) -> str:
        """The phrase after "there is" or "there are"; every member of a list takes its own article."""
        if not self.countable or (self.plural and " and " not in self.text):
            return self.text
        return " and ".join(f"{'an' if part[0] in 'aeiou' else 'a'} {part}" for part in self.text.split(" and "))


def describe(state: FindingState, wording: float, detail: float) -> Phrase:
    """The noun phrase of one finding; the two numbers in [0, 1) choose the wording and the amount of detail."""
    if state.finding == "support devices":
        return _devices(state, wording)
    known, words = WORDING.phrases[state.finding], _words(state, detail)
    names, countable = known.names, known.countable
    if state.finding == "cardiomegaly":
        if wording < 0.45:
            names = ("{degree} cardiomegaly" if detail < 0.75 else "cardiomegaly",)
        elif wording >= 0.65:
            names, countable = known.adjective_first, True
        wording = detail
    elif state.finding == "enlarged mediastinum":
        if wording > 0.8:
            names, countable = known.adjective_first, True
        wording /= 0.801
    elif state.lateral_only:
        names = known.vertebra or known.lateral_only
    elif state.side == "bilateral":
        names = known.bilateral or known.names
    elif state.position[2] > 0.7 if state.finding == "lung lesion" else state.severity > 0.4:
        names = known.several or known.names
    words["adjective"] = pick(known.adjectives, detail).format(**words)
    text = pick(names, min(wording, 0.9999)).format(**words)
    return Phrase(text, plural=not _PLURALS.isdisjoint(text.split()), countable=countable)


def _words(state: FindingState, detail: float = 0.0) -> dict[str, str]:
    """What the names of ``wording.yaml`` are filled with."""
    grade = 0 if state.severity < 0.42 else 1 if state.severity < 0.72 else 2
    degree = ("mild", "moderate", "severe")[grade]
    lobe = "zone" if state.zone == "mid" else "lobe"
    seen = state.side != "central" and not state.lateral_only
    return {
        "side": state.side,
        "side_": f"{state.side} " if seen else "",
        "basilar": "bibasilar" if state.side == "bilateral" else f"{state.side} basilar",
        "place": f"{state.side} {state.zone} {pick(('lung', 'lung', lobe), (detail * 5.0) % 1.0)}",
        "size": ("small", "moderate", "large")[grade],
        "degree": degree,
        "adverb": _ADVERBS[degree],
        "lesion": "nodule" if state.severity < 0.6 else "mass",
        "lesions": "nodules" if state.severity < 0.6 else "masses",
        "effusion": "effusions" if seen and state.side == "bilateral" else "effusion",
        "view": " on the lateral view" if detail > 0.5 else "",
    }


def elaborate(state: FindingState, phrase: Phrase, choice: float) -> Phrase:
    """The phrase with a visible detail added."""
    unseen = state.lateral_only or state.prior_only or state.kind == "vertebra"
    details = () if unseen else WORDING.details.get(state.finding, ())
    return phrase._replace(text=phrase.text + pick(details, choice)) if details else phrase


def clause(state: FindingState, choice: float) -> str | None:
    """A sentence of its own for an enlarged heart or mediastinum; None for other findings."""
    clauses = WORDING.phrases[state.finding].clauses if state.finding in WORDING.phrases else ()
    return pick(clauses, choice).format(**_words(state)) if clauses else None


def short(state: FindingState, wording: float) -> Phrase:
    """The noun phrase for an impression: no size, no exact place."""
    if state.finding == "support devices":
        return _devices(state, 0.0)
    known = WORDING.phrases[state.finding]
    text = pick(known.vertebra[:1] if state.kind == "vertebra" else known.short, wording).format(**_words(state))
    return Phrase(text, plural=text.endswith("effusions"), countable=known.countable or text == "widened mediastinum")


def _devices(state: FindingState, wording: float) -> Phrase:
    names = [pick(WORDING.devices[device], wording).format(side=state.side) for device in state.devices]
    return Phrase(" and ".join(names), plural=len(names) > 1)
