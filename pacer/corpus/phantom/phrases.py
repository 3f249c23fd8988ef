"""The wording of the phantom's reports: noun phrases, sentence frames and denials."""

from __future__ import annotations

from dataclasses import dataclass

from pacer.corpus.phantom.world import FindingState


@dataclass(frozen=True, slots=True)
class Phrase:
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


#: {0} phrase, {a} phrase with its article, {is_} the verb before it, {be} is or are, {have} has or have.
STATEMENTS = ("There {is_} {a}.", "{0} {be} seen.", "{0} {be} present.", "{0}.", "{0} {be} noted.")
HEDGES = (
    "Possible {0}.",
    "Probable {0}.",
    "Questionable {0}.",
    "{0} {be} possible.",
    "{0} {be} suspected.",
    "Appearance may represent {0}.",
    "Findings could represent {0}.",
    "Suspect {0}.",
)
CHANGES = {
    "new": ("New {0}.", "{0} {be} new.", "New {0} since the prior study."),
    "worse": ("{0} {have} increased.", "Worsening {0}.", "{0} {have} worsened.", "Interval increase in {0}."),
    "stable": ("Unchanged {0}.", "{0} {be} unchanged.", "Stable {0}.", "{0} {be} stable."),
    "improved": ("{0} {have} decreased.", "Improved {0}.", "{0} {have} improved.", "Interval decrease in {0}."),
    "hedged new": ("Possible new {0}.", "Probable new {0}.", "Questionable new {0}.", "This may represent new {0}."),
    "hedged worse": ("Possible {0}, increased.", "Probable worsening {0}.", "This may represent worsening {0}."),
    "hedged stable": ("Possible {0}, unchanged.", "Probable {0}, stable.", "Questionable {0}, unchanged."),
    "hedged improved": ("Possible {0}, decreased.", "Probable {0}, improved.", "Questionable {0}, decreased."),
}
IMPRESSION_CHANGES = {
    "new": ("New {0}.", "{0}."),
    "worse": ("Worsening {0}.", "Increased {0}."),
    "stable": ("Stable {0}.", "Unchanged {0}.", "{0}."),
    "improved": ("Improved {0}.", "Decreased {0}."),
}
COMPARED = ("Compared with the prior study", "As compared to the previous radiograph", "Since the prior study")
RESOLVED = ("There is no longer any {0}.", "No residual {0}.", "No {0}, resolved since the prior study.")
CLEAR = ("The lungs are clear.", "Lungs are clear.", "Both lungs are clear.")
NORMAL_IMPRESSIONS = ("No acute cardiopulmonary process.", "Normal chest radiograph.", "No acute process.")

#: Words that compare with an earlier examination; none of them occurs in a report without one.
COMPARISON_WORDS = frozenset({
    "new", "since", "prior", "previous", "compared", "interval", "unchanged", "stable", "increased", "decreased",
    "increase", "decrease", "worsening", "worsened", "improved", "residual", "resolved", "longer",
})  # fmt: skip

_DENIED_NAMES = {
    "atelectasis": ("atelectasis",),
    "cardiomegaly": ("cardiomegaly",),
    "consolidation": ("consolidation", "focal consolidation", "focal consolidation"),
    "edema": ("pulmonary edema", "edema"),
    "enlarged mediastinum": ("mediastinal widening",),
    "fracture": ("fracture", "rib fracture"),
    "lung lesion": ("lung nodule", "lung lesion"),
    "lung opacity": ("lung opacity", "focal opacity"),
    "pleural effusion": ("pleural effusion", "effusion", "pleural effusion"),
    "pleural abnormality": ("pleural thickening",),
    "pneumonia": ("pneumonia",),
    "pneumothorax": ("pneumothorax",),
}
_ABSENCES = {
    "cardiomegaly": (
        "Heart size is normal.",
        "The heart is not enlarged.",
        "No cardiomegaly.",
        "The cardiac silhouette is normal.",
    ),
    "enlarged mediastinum": ("No mediastinal widening.", "The mediastinum is not widened."),
}
_DEVICE_NAMES = {
    "picc": ("{side} picc", "{side} picc with tip in the svc", "{side} picc line"),
    "central line": (
        "{side} central venous catheter",
        "{side} internal jugular central line",
        "central venous catheter with tip in the svc",
    ),
    "endotracheal tube": ("endotracheal tube", "endotracheal tube above the carina"),
    "nasogastric tube": ("nasogastric tube", "nasogastric tube with tip in the stomach", "enteric tube"),
    "pacemaker": ("{side} chest pacemaker", "{side} pacemaker with lead in the heart"),
    "chest tube": ("{side} chest tube", "{side} thoracostomy tube"),
}


def _pick(options: tuple, number: float):
    return options[int(number * len(options))]


def _size(state: FindingState, words: tuple[str, str, str]) -> str:
    return words[0 if state.severity < 0.42 else 1 if state.severity < 0.72 else 2]


#: What a definite statement may add.
_DETAILS = {
    "atelectasis": (" with elevation of the diaphragm", " with volume loss"),
    "consolidation": (" with a sharp border", " with straight margins"),
    "edema": (" with perihilar haze", " in a perihilar distribution"),
    "fracture": (" with displacement",),
    "lung lesion": (" with smooth margins", " with sharp margins"),
    "lung opacity": (" with indistinct margins", " with blurred margins"),
    "pleural effusion": (" with blunting of the costophrenic angle", " with a meniscus"),
    "pleural abnormality": (" along the chest wall", " with calcification"),
    "pneumonia": (" with air bronchograms", " with mottled appearance"),
    "pneumothorax": (" with visible pleural line", " with the lung edge seen"),
}

_SIZES = ("small", "moderate", "large")
_DEGREES = ("mild", "moderate", "severe")


def describe(state: FindingState, wording: float, detail: float) -> Phrase:
    """The noun phrase of one finding; the two numbers in [0, 1) choose the wording and the amount of detail."""
    return _DESCRIBERS[state.finding](state, wording, detail)


def elaborate(state: FindingState, phrase: Phrase, choice: float) -> Phrase:
    """The phrase with a visible detail added."""
    details = () if state.lateral_only or state.kind == "vertebra" else _DETAILS.get(state.finding, ())
    if not details:
        return phrase
    return Phrase(phrase.text + _pick(details, choice), phrase.plural, phrase.countable)


def short(state: FindingState, wording: float) -> Phrase:
    """The noun phrase for an impression: no size, no exact place."""
    side = "" if state.side == "central" or state.lateral_only else f"{state.side} "
    if state.finding == "support devices":
        return _device(state, 0.0)
    name = {
        "atelectasis": f"{side}basilar atelectasis" if state.side != "bilateral" else "bibasilar atelectasis",
        "cardiomegaly": "cardiomegaly",
        "consolidation": f"{side}lung consolidation",
        "edema": "pulmonary edema",
        "enlarged mediastinum": "mediastinal widening",
        "fracture": "vertebral compression fracture" if state.kind == "vertebra" else f"{side}rib fracture",
        "lung lesion": f"{side}lung {'nodule' if state.severity < 0.6 else 'mass'}",
        "lung opacity": f"{side}lung opacity",
        "pleural effusion": f"{side}pleural effusion",
        "pleural abnormality": f"{side}pleural thickening",
        "pneumonia": f"{side}pneumonia",
        "pneumothorax": f"{side}pneumothorax",
    }[state.finding]
    if state.finding == "pleural effusion" and state.side == "bilateral" and not state.lateral_only:
        return Phrase(name + "s", plural=True)
    return Phrase(name, countable=state.finding in _COUNTABLE)


_COUNTABLE = {"fracture", "lung lesion", "lung opacity", "pleural effusion", "pneumothorax", "consolidation"}


def _place(state: FindingState) -> str:
    """Side and height in the lung, as in "right upper lung"."""
    return f"{state.side} {state.zone} lung"


def _atelectasis(state: FindingState, wording: float, detail: float) -> Phrase:
    degree = _pick(("", "", _size(state, _DEGREES) + " ", "linear "), detail)
    if state.side == "bilateral":
        names = ("bibasilar atelectasis", "bilateral lower lobe atelectasis")
        return Phrase(degree + _pick(names, wording), countable=False)
    names = ("{} basilar atelectasis", "{} lower lobe atelectasis", "atelectasis at the {} base")
    return Phrase(degree + _pick(names, wording).format(state.side), countable=False)


def _cardiomegaly(state: FindingState, wording: float, detail: float) -> Phrase:
    degree = _size(state, _DEGREES)
    if wording < 0.55:
        return Phrase(f"{degree} cardiomegaly" if detail < 0.75 else "cardiomegaly", countable=False)
    if wording < 0.75:
        return Phrase(f"{degree} enlargement of the cardiac silhouette", countable=False)
    return Phrase({"mild": "mildly", "moderate": "moderately", "severe": "severely"}[degree] + " enlarged heart")


def _consolidation(state: FindingState, wording: float, detail: float) -> Phrase:
    dense = "dense " if detail > 0.7 else ""
    if state.lateral_only:
        return Phrase(f"{dense}retrocardiac consolidation on the lateral view")
    return Phrase(dense + _pick((f"consolidation in the {_place(state)}", f"{_place(state)} consolidation"), wording))


def _edema(state: FindingState, wording: float, detail: float) -> Phrase:
    degree = _size(state, _DEGREES)
    names = ("pulmonary edema", "pulmonary edema", "interstitial pulmonary edema", "edema")
    return Phrase(f"{degree} {_pick(names, wording)}", countable=False)


def _enlarged_mediastinum(state: FindingState, wording: float, detail: float) -> Phrase:
    degree = _size(state, _DEGREES)
    names = ("{} mediastinal widening", "{} widening of the mediastinum", "{} mediastinal enlargement")
    return Phrase(_pick(names, wording).format(degree), countable=False)


def _fracture(state: FindingState, wording: float, detail: float) -> Phrase:
    if state.kind == "vertebra":
        return Phrase(_pick(("vertebral compression fracture", "compression fracture of the spine"), wording))
    if state.severity > 0.4:
        names = (f"{state.side} rib fractures", f"displaced {state.side} rib fractures")
        return Phrase(_pick(names, wording), plural=True)
    return Phrase(_pick((f"{state.side} rib fracture", f"fracture of a {state.side} rib"), wording))


def _lung_lesion(state: FindingState, wording: float, detail: float) -> Phrase:
    name = "nodule" if state.severity < 0.6 else "mass"
    if state.lateral_only:
        return Phrase(f"retrocardiac lung {name} on the lateral view")
    place = _place(state)
    many = state.position[2] > 0.7
    name = {"nodule": "nodules", "mass": "masses"}[name] if many else name
    return Phrase(_pick((f"{place} {name}", f"{name} in the {place}"), wording), plural=many)


def _lung_opacity(state: FindingState, wording: float, detail: float) -> Phrase:
    hazy = _pick(("", "hazy ", "hazy ", "ill-defined "), detail)
    if state.lateral_only:
        return Phrase(f"{hazy}retrocardiac opacity on the lateral view")
    return Phrase(hazy + _pick((f"opacity in the {_place(state)}", f"{_place(state)} opacity"), wording))


def _pleural_effusion(state: FindingState, wording: float, detail: float) -> Phrase:
    size = _size(state, _SIZES)
    if state.lateral_only:
        return Phrase(f"{size} posterior pleural effusion" + (" on the lateral view" if detail > 0.5 else ""))
    if state.side == "bilateral":
        return Phrase(f"{size} bilateral pleural effusions", plural=True)
    names = (f"{size} {state.side} pleural effusion", f"{size} pleural effusion on the {state.side}")
    return Phrase(_pick(names, wording))


def _pleural_abnormality(state: FindingState, wording: float, detail: float) -> Phrase:
    names = ("{} pleural thickening", "calcified {} pleural thickening", "{} pleural thickening")
    return Phrase(_pick(names, wording).format(state.side), countable=False)


def _pneumonia(state: FindingState, wording: float, detail: float) -> Phrase:
    patchy = "patchy " if detail > 0.6 else ""
    names = (f"{_place(state)} pneumonia", f"pneumonia in the {_place(state)}")
    return Phrase(patchy + _pick(names, wording), countable=False)


def _pneumothorax(state: FindingState, wording: float, detail: float) -> Phrase:
    size = _size(state, _SIZES)
    return Phrase(_pick((f"{size} {state.side} pneumothorax", f"{size} {state.side} apical pneumothorax"), wording))


def _device(state: FindingState, wording: float) -> Phrase:
    names = [_pick(_DEVICE_NAMES[device], wording).format(side=state.side) for device in state.devices]
    return Phrase(" and ".join(names), plural=len(names) > 1)


def _support_devices(state: FindingState, wording: float, detail: float) -> Phrase:
    return _device(state, wording)


_DESCRIBERS = {
    "atelectasis": _atelectasis,
    "cardiomegaly": _cardiomegaly,
    "consolidation": _consolidation,
    "edema": _edema,
    "enlarged mediastinum": _enlarged_mediastinum,
    "fracture": _fracture,
    "lung lesion": _lung_lesion,
    "lung opacity": _lung_opacity,
    "pleural effusion": _pleural_effusion,
    "pleural abnormality": _pleural_abnormality,
    "pneumonia": _pneumonia,
    "pneumothorax": _pneumothorax,
    "support devices": _support_devices,
}


def absence(finding: str, wording: float) -> str:
    """A sentence of its own that denies cardiomegaly or a wide mediastinum."""
    return _pick(_ABSENCES[finding], wording)


def denial(findings: list[str], wording: float) -> str:
    """One sentence that denies all ``findings`` (one or more)."""
    names = [_pick(_DENIED_NAMES[finding], (wording * 7.0 + 0.37 * i) % 1.0) for i, finding in enumerate(findings)]
    if len(names) == 1:
        listed = names[0]
    elif len(names) == 2:
        listed = f"{names[0]} or {names[1]}"
    else:
        listed = f"{', '.join(names[:-1])}, or {names[-1]}"
    return _pick(("No {}.", "There is no {}.", "No evidence of {}.", "No {}."), wording).format(listed)
