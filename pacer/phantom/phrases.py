"""What the phantom's reports call a finding: its noun phrases, long and short."""

from __future__ import annotations

from dataclasses import dataclass

from pacer.phantom.world import FindingState


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


_DEVICE_NAMES = {
    "picc": ("{side} picc", "{side} picc with tip in the svc", "{side} picc line"),
    "central line": (
        "{side} central venous catheter",
        "{side} internal jugular central line",
        "central venous catheter with tip in the svc",
        "{side} jugular catheter",
    ),
    "endotracheal tube": (
        "endotracheal tube",
        "endotracheal tube above the carina",
        "endotracheal tube in the trachea",
    ),
    "nasogastric tube": (
        "nasogastric tube",
        "nasogastric tube with tip in the stomach",
        "enteric tube",
        "feeding tube below the diaphragm",
    ),
    "pacemaker": ("{side} chest pacemaker", "{side} pacemaker with lead in the heart", "{side} pacemaker"),
    "chest tube": ("{side} chest tube", "{side} thoracostomy tube"),
}


#: Radiologists have habits: the first of four wordings is chosen 42 % of the time, the last 16 %.
_HABIT = 1.6


def pick(options: tuple, choice: float):
    """One of ``options``, the first ones more often; ``choice`` is a number in [0, 1)."""
    return options[int(choice**_HABIT * len(options))]


def _size(state: FindingState, words: tuple[str, str, str]) -> str:
    return words[0 if state.severity < 0.42 else 1 if state.severity < 0.72 else 2]


#: What a definite statement may add.
_DETAILS = {
    "atelectasis": (" with elevation of the diaphragm", " with volume loss", " with bands at the base"),
    "consolidation": (" with a sharp border", " with straight margins"),
    "edema": (" with perihilar haze", " in a perihilar distribution"),
    "fracture": (" with displacement", " with a visible gap"),
    "lung lesion": (" with smooth margins", " with sharp margins", " with a round shape"),
    "lung opacity": (" with indistinct margins", " with blurred margins"),
    "pleural effusion": (" with blunting of the costophrenic angle", " with a meniscus", " along the wall"),
    "pleural abnormality": (" along the chest wall", " with calcification"),
    "pneumonia": (" with air bronchograms", " with mottled appearance"),
    "pneumothorax": (" with visible pleural line", " with the lung edge seen", " along the chest wall"),
}

_SIZES = ("small", "moderate", "large")
_DEGREES = ("mild", "moderate", "severe")
_ADVERBS = {"mild": "mildly", "moderate": "moderately", "severe": "severely"}


def describe(state: FindingState, wording: float, detail: float) -> Phrase:
    """The noun phrase of one finding; the two numbers in [0, 1) choose the wording and the amount of detail."""
    return _DESCRIBERS[state.finding](state, wording, detail)


def elaborate(state: FindingState, phrase: Phrase, choice: float) -> Phrase:
    """The phrase with a visible detail added."""
    unseen = state.lateral_only or state.prior_only or state.kind == "vertebra"
    details = () if unseen else _DETAILS.get(state.finding, ())
    if not details:
        return phrase
    return Phrase(phrase.text + pick(details, choice), phrase.plural, phrase.countable)


def clause(state: FindingState, choice: float) -> str | None:
    """A sentence of its own for an enlarged heart or mediastinum; None for other findings."""
    adverb = _ADVERBS[_size(state, _DEGREES)]
    sentences = {
        "cardiomegaly": (
            f"The heart is {adverb} enlarged.",
            f"Heart size is {adverb} enlarged.",
            f"The cardiac silhouette is {adverb} enlarged.",
        ),
        "enlarged mediastinum": (f"The mediastinum is {adverb} widened.", f"The mediastinum is {adverb} enlarged."),
    }.get(state.finding)
    return pick(sentences, choice) if sentences else None


def short(state: FindingState, wording: float) -> Phrase:
    """The noun phrase for an impression: no size, no exact place."""
    side = "" if state.side == "central" or state.lateral_only else f"{state.side} "
    if state.finding == "support devices":
        return _device(state, 0.0)
    basilar = "bibasilar" if state.side == "bilateral" else f"{state.side} basilar"
    mass = "nodule" if state.severity < 0.6 else "mass"
    names = {
        "atelectasis": (f"{basilar} atelectasis", "atelectasis"),
        "cardiomegaly": ("cardiomegaly", "cardiomegaly", "cardiac enlargement"),
        "consolidation": (f"{side}lung consolidation", f"{side}consolidation"),
        "edema": ("pulmonary edema", "pulmonary edema", "edema"),
        "enlarged mediastinum": ("mediastinal widening", "widened mediastinum"),
        "fracture": ("vertebral compression fracture" if state.kind == "vertebra" else f"{side}rib fracture",),
        "lung lesion": (f"{side}lung {mass}", f"{side}lung {mass}", f"{side}pulmonary {mass}"),
        "lung opacity": (f"{side}lung opacity", f"{side}opacity"),
        "pleural effusion": (f"{side}pleural effusion", f"{side}pleural effusion", f"{side}effusion"),
        "pleural abnormality": (f"{side}pleural thickening", "pleural thickening"),
        "pneumonia": (f"{side}pneumonia", f"{side}lung pneumonia"),
        "pneumothorax": (f"{side}pneumothorax",),
    }[state.finding]
    name = pick(names, wording)
    if state.finding == "pleural effusion" and state.side == "bilateral" and not state.lateral_only:
        return Phrase(name + "s", plural=True)
    return Phrase(name, countable=state.finding in _COUNTABLE or name == "widened mediastinum")


_COUNTABLE = {"fracture", "lung lesion", "lung opacity", "pleural effusion", "pneumothorax", "consolidation"}


def _place(state: FindingState, choice: float) -> str:
    """Side and height in the lung, as in "right upper lung"."""
    lobe = "zone" if state.zone == "mid" else "lobe"
    return f"{state.side} {state.zone} {pick(('lung', 'lung', lobe), (choice * 5.0) % 1.0)}"


def _atelectasis(state: FindingState, wording: float, detail: float) -> Phrase:
    degree = pick(("", "", _size(state, _DEGREES) + " ", "linear "), detail)
    if state.side == "bilateral":
        names = ("bibasilar atelectasis", "bilateral lower lobe atelectasis", "atelectasis at both bases")
        return Phrase(degree + pick(names, wording), countable=False)
    names = (
        "{} basilar atelectasis",
        "{} lower lobe atelectasis",
        "atelectasis at the {} base",
        "atelectasis in the {} lower lung",
    )
    return Phrase(degree + pick(names, wording).format(state.side), countable=False)


def _cardiomegaly(state: FindingState, wording: float, detail: float) -> Phrase:
    degree = _size(state, _DEGREES)
    if wording < 0.45:
        return Phrase(f"{degree} cardiomegaly" if detail < 0.75 else "cardiomegaly", countable=False)
    if wording < 0.65:
        names = ("enlargement of the cardiac silhouette", "cardiac enlargement", "enlargement of the heart")
        return Phrase(f"{degree} {pick(names, detail)}", countable=False)
    names = ("enlarged heart", "enlarged cardiac silhouette")
    return Phrase(f"{_ADVERBS[degree]} {pick(names, detail)}")


def _consolidation(state: FindingState, wording: float, detail: float) -> Phrase:
    dense = pick(("", "", "dense ", "focal "), detail)
    if state.lateral_only:
        return Phrase(f"{dense}retrocardiac consolidation on the lateral view")
    place = _place(state, detail)
    return Phrase(dense + pick((f"consolidation in the {place}", f"{place} consolidation"), wording))


def _edema(state: FindingState, wording: float, detail: float) -> Phrase:
    degree = _size(state, _DEGREES)
    names = ("pulmonary edema", "pulmonary edema", "interstitial pulmonary edema", "edema", "vascular congestion")
    return Phrase(f"{degree} {pick(names, wording)}", countable=False)


def _enlarged_mediastinum(state: FindingState, wording: float, detail: float) -> Phrase:
    degree = _size(state, _DEGREES)
    if wording > 0.8:
        return Phrase(f"{_ADVERBS[degree]} widened mediastinum")
    names = ("{} mediastinal widening", "{} widening of the mediastinum", "{} mediastinal enlargement")
    return Phrase(pick(names, wording / 0.801).format(degree), countable=False)


def _fracture(state: FindingState, wording: float, detail: float) -> Phrase:
    if state.kind == "vertebra":
        names = ("vertebral compression fracture", "compression fracture of the spine", "thoracic compression fracture")
        return Phrase(pick(names, wording))
    if state.severity > 0.4:
        side = state.side
        names = (f"{side} rib fractures", f"displaced {side} rib fractures", f"fractures of {side} ribs")
        return Phrase(pick(names, wording), plural=True)
    names = (f"{state.side} rib fracture", f"fracture of a {state.side} rib", f"{state.side} lateral rib fracture")
    return Phrase(pick(names, wording))


def _lung_lesion(state: FindingState, wording: float, detail: float) -> Phrase:
    name = "nodule" if state.severity < 0.6 else "mass"
    if state.lateral_only:
        return Phrase(f"retrocardiac lung {name} on the lateral view")
    place, many = _place(state, detail), state.position[2] > 0.7
    name = {"nodule": "nodules", "mass": "masses"}[name] if many else name
    shape = pick(("", "", "round ", "rounded "), detail)
    return Phrase(shape + pick((f"{place} {name}", f"{name} in the {place}"), wording), plural=many)


def _lung_opacity(state: FindingState, wording: float, detail: float) -> Phrase:
    hazy = pick(("", "hazy ", "hazy ", "ill-defined ", "vague "), detail)
    if state.lateral_only:
        return Phrase(f"{hazy}retrocardiac opacity on the lateral view")
    place = _place(state, detail)
    names = (f"opacity in the {place}", f"{place} opacity")
    return Phrase(hazy + pick(names, wording))


def _pleural_effusion(state: FindingState, wording: float, detail: float) -> Phrase:
    size = _size(state, _SIZES)
    if state.lateral_only:
        return Phrase(f"{size} posterior pleural effusion" + (" on the lateral view" if detail > 0.5 else ""))
    if state.side == "bilateral":
        names = (f"{size} bilateral pleural effusions", f"{size} bilateral effusions", f"bilateral {size} effusions")
        return Phrase(pick(names, wording), plural=True)
    names = (
        f"{size} {state.side} pleural effusion",
        f"{size} pleural effusion on the {state.side}",
        f"{size} {state.side} effusion",
    )
    return Phrase(pick(names, wording))


def _pleural_abnormality(state: FindingState, wording: float, detail: float) -> Phrase:
    names = ("{} pleural thickening", "calcified {} pleural thickening", "{} pleural plaques", "{} pleural scarring")
    name = pick(names, wording)
    return Phrase(name.format(state.side), plural=name.endswith("s"), countable=False)


def _pneumonia(state: FindingState, wording: float, detail: float) -> Phrase:
    patchy = pick(("", "", "patchy ", "focal "), detail)
    place = _place(state, detail)
    names = (f"{place} pneumonia", f"pneumonia in the {place}", f"{place} bronchopneumonia")
    return Phrase(patchy + pick(names, wording), countable=False)


def _pneumothorax(state: FindingState, wording: float, detail: float) -> Phrase:
    size = _size(state, _SIZES)
    names = (
        f"{size} {state.side} pneumothorax",
        f"{size} {state.side} apical pneumothorax",
        f"{size} pneumothorax on the {state.side}",
    )
    return Phrase(pick(names, wording))


def _device(state: FindingState, wording: float) -> Phrase:
    names = [pick(_DEVICE_NAMES[device], wording).format(side=state.side) for device in state.devices]
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
