"""Sentences around the noun phrases: statements, hedges, changes, denials, and remarks that state no finding.

A report keeps to one style. ``terse`` leaves out verbs and articles, ``prose`` writes them out, ``plain`` does what
most do, ``numbered`` is plain with a numbered impression.
"""

from __future__ import annotations

from typing import Literal

from pacer.phantom.phrases import Phrase, pick
from pacer.phantom.world import Study

Style = Literal["terse", "plain", "prose", "numbered"]
STYLES: tuple[Style, ...] = ("terse", "plain", "prose", "numbered")
#: Cumulative shares of the styles.
STYLE_SHARES = (0.26, 0.60, 0.88, 1.0)

#: {0} phrase, {a} phrase with its article, {is_} the verb before it, {be} is or are, {have} has or have.
STATEMENTS = {
    "terse": ("{0}.", "{0}.", "{0} noted.", "{0} seen."),
    "plain": ("There {is_} {a}.", "{0} {be} seen.", "{0} {be} present.", "{0}.", "{0} {be} noted."),
    "prose": (
        "There {is_} {a}.",
        "There {is_} {a}.",
        "{0} {be} demonstrated.",
        "{0} {be} identified.",
        "{0} {be} visible.",
        "The study shows {a}.",
        "Note is made of {a}.",
        "The image demonstrates {a}.",
    ),
}
HEDGES = {
    "terse": ("Possible {0}.", "Probable {0}.", "Questionable {0}.", "Suspect {0}.", "Concern for {0}."),
    "plain": (
        "Possible {0}.",
        "Probable {0}.",
        "{0} {be} possible.",
        "{0} {be} suspected.",
        "May represent {0}.",
        "Findings suggest {0}.",
    ),
    "prose": (
        "{0} {be} suspected.",
        "{0} {be} possible.",
        "Appearance may represent {0}.",
        "Findings could represent {0}.",
        "Findings may reflect {0}.",
        "There is possible {0}.",
        "{0} cannot be excluded.",
        "The appearance is concerning for {0}.",
    ),
}
CHANGES = {
    "new": {
        "terse": ("New {0}.", "New {0}.", "Interval {0}, new."),
        "plain": ("New {0}.", "{0} {be} new.", "New {0} since the prior study.", "There {is_} new {0}."),
        "prose": (
            "{0} {have} developed.",
            "Interval development of {0}.",
            "There {is_} new {0}.",
            "{0} {be} new since the prior study.",
        ),
    },
    "worse": {
        "terse": ("Worsening {0}.", "Increased {0}.", "{0}, increased.", "{0}, worse."),
        "plain": ("{0} {have} increased.", "Worsening {0}.", "{0} {have} worsened.", "Interval increase in {0}."),
        "prose": (
            "{0} {have} progressed.",
            "{0} {have} increased since the prior study.",
            "There is worsening {0}.",
            "Interval worsening of {0}.",
        ),
    },
    "stable": {
        "terse": ("Unchanged {0}.", "Stable {0}.", "{0}, unchanged.", "Persistent {0}."),
        "plain": ("Unchanged {0}.", "{0} {be} unchanged.", "{0} {be} stable.", "Again seen {is_} {a}."),
        "prose": (
            "{0} {be} unchanged.",
            "{0} {be} again seen.",
            "There is no change in {0}.",
            "{0} {be} stable since the prior study.",
            "There {is_} persistent {0}.",
        ),
    },
    "improved": {
        "terse": ("Improved {0}.", "Decreased {0}.", "{0}, decreased.", "Improving {0}."),
        "plain": ("{0} {have} decreased.", "Improved {0}.", "{0} {have} improved.", "Interval decrease in {0}."),
        "prose": (
            "{0} {have} improved.",
            "{0} {have} decreased since the prior study.",
            "Interval improvement in {0}.",
            "There is improving {0}.",
        ),
    },
}
HEDGED_CHANGES = {
    "new": ("Possible new {0}.", "Probable new {0}.", "Questionable new {0}.", "This may represent new {0}."),
    "worse": ("Possible {0}, increased.", "Probable worsening {0}.", "This may represent worsening {0}."),
    "stable": ("Possible {0}, unchanged.", "Probable {0}, stable.", "Questionable {0}, unchanged."),
    "improved": ("Possible {0}, decreased.", "Probable {0}, improved.", "Questionable {0}, decreased."),
}
#: Two findings in one sentence; {b} is the second with its article.
JOINT = {
    "terse": ("{0} and {1}.", "{0}, {1}."),
    "plain": ("{0} and {1} are seen.", "There {is_} {a} and {b}.", "{0} and {1} are present.", "{0} and {1}."),
    "prose": (
        "There {is_} {a} as well as {b}.",
        "There {is_} {a} and {b}.",
        "{0} and {1} are identified.",
        "The study shows {a} and {b}.",
        "In addition to {a}, there {is_b} {b}.",
    ),
}
JOINT_CHANGES = {
    "new": ("New {0} and {1}.", "{0} and {1} are new."),
    "worse": ("Worsening {0} and {1}.", "{0} and {1} have increased.", "{0} and {1} have worsened."),
    "stable": ("Unchanged {0} and {1}.", "{0} and {1} are unchanged.", "{0} and {1} are stable."),
    "improved": ("Improved {0} and {1}.", "{0} and {1} have decreased.", "{0} and {1} have improved."),
}
#: A finding and the absence of another; {n} is the absent one.
WITHOUT = {
    "terse": ("{0} without {n}.", "{0}, but no {n}."),
    "plain": ("{0} without {n}.", "There {is_} {a} without {n}.", "{0}, but no {n}."),
    "prose": ("There {is_} {a} without {n}.", "{0} {be} seen, but no {n}.", "{0} {be} present without {n}."),
}

IMPRESSION_CHANGES = {
    "new": ("New {0}.", "{0}.", "New {0}."),
    "worse": ("Worsening {0}.", "Increased {0}.", "Worse {0}."),
    "stable": ("Stable {0}.", "Unchanged {0}.", "{0}.", "Persistent {0}."),
    "improved": ("Improved {0}.", "Decreased {0}.", "Improving {0}."),
}
IMPRESSION_HEDGES = ("Possible {0}.", "Probable {0}.", "Possible {0}.", "Suspected {0}.")
COMPARED = (
    "Compared with the prior study",
    "As compared to the previous radiograph",
    "Since the prior study",
    "In comparison with the prior study",
    "Compared to the earlier image",
)
#: For what has ended; {0} is its name.
RESOLVED = {
    "terse": ("No residual {0}.", "No {0}, resolved."),
    "plain": ("There is no longer any {0}.", "No residual {0}.", "No {0}, resolved since the prior study."),
    "prose": ("There is no longer any {0}.", "There is no residual {0}.", "The previous {0} is no longer seen."),
}
CLEAR = {
    "terse": ("Lungs clear.", "Clear lungs."),
    "plain": ("The lungs are clear.", "Lungs are clear.", "Both lungs are clear."),
    "prose": ("The lungs are clear.", "Both lungs are clear.", "The lungs are clear bilaterally."),
}
NORMAL_IMPRESSIONS = {
    "terse": ("No acute process.", "Normal chest.", "No acute abnormality."),
    "plain": ("No acute cardiopulmonary process.", "Normal chest radiograph.", "No acute process."),
    "prose": (
        "No acute cardiopulmonary process.",
        "There is no acute cardiopulmonary abnormality.",
        "The chest radiograph is normal.",
    ),
}

#: Words that compare with an earlier examination; none of them occurs in a report without one.
COMPARISON_WORDS = frozenset(
    {
        "new",
        "since",
        "prior",
        "previous",
        "compared",
        "comparison",
        "earlier",
        "interval",
        "unchanged",
        "change",
        "stable",
        "persistent",
        "again",
        "increased",
        "decreased",
        "increase",
        "decrease",
        "worse",
        "worsening",
        "worsened",
        "progressed",
        "development",
        "developed",
        "improved",
        "improving",
        "improvement",
        "residual",
        "resolved",
        "longer",
    }
)

_DENIED_NAMES = {
    "atelectasis": ("atelectasis", "lung collapse"),
    "cardiomegaly": ("cardiomegaly",),
    "consolidation": ("consolidation", "focal consolidation", "lung consolidation"),
    "edema": ("pulmonary edema", "edema", "vascular congestion"),
    "enlarged mediastinum": ("mediastinal widening",),
    "fracture": ("fracture", "rib fracture", "displaced fracture"),
    "lung lesion": ("lung nodule", "lung lesion", "nodule"),
    "lung opacity": ("lung opacity", "focal opacity"),
    "pleural effusion": ("pleural effusion", "effusion", "pleural effusion", "pleural fluid"),
    "pleural abnormality": ("pleural thickening",),
    "pneumonia": ("pneumonia",),
    "pneumothorax": ("pneumothorax",),
}
_ABSENCES = {
    "cardiomegaly": {
        "terse": ("Heart size normal.", "Normal heart size.", "No cardiomegaly."),
        "plain": ("Heart size is normal.", "No cardiomegaly.", "The cardiac silhouette is normal."),
        "prose": ("The heart is not enlarged.", "The heart is normal in size.", "The cardiac silhouette is normal."),
    },
    "enlarged mediastinum": {
        "terse": ("Mediastinum normal.", "No mediastinal widening.", "Normal mediastinum."),
        "plain": ("No mediastinal widening.", "The mediastinum is normal.", "Mediastinal contours are normal."),
        "prose": ("The mediastinum is not widened.", "The mediastinal contours are unremarkable."),
    },
}
_BOTH_ABSENT = {
    "terse": ("Heart and mediastinum normal.",),
    "plain": ("Heart size and mediastinal contours are normal.", "The heart and mediastinum are normal."),
    "prose": ("The heart size and mediastinal contours are normal.", "The heart and mediastinum are unremarkable."),
}
_DENIALS = {
    "terse": ("No {}.", "No {}.", "Negative for {}."),
    "plain": ("No {}.", "There is no {}.", "No evidence of {}.", "No {} is seen."),
    "prose": ("There is no {}.", "There is no evidence of {}.", "No {} is identified.", "The chest is without {}."),
}


def style_of(choice: float) -> Style:
    """The style that a number in [0, 1) stands for."""
    return next(style for style, share in zip(STYLES, STYLE_SHARES, strict=True) if choice < share)


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


def absence(finding: str, style: Style, choice: float) -> str:
    """A sentence of its own that denies cardiomegaly or a wide mediastinum."""
    return pick(_ABSENCES[finding][_plain(style)], choice)


def both_absent(style: Style, choice: float) -> str:
    """A sentence that denies cardiomegaly and a wide mediastinum together."""
    return pick(_BOTH_ABSENT[_plain(style)], choice)


def denied_name(finding: str, choice: float) -> str:
    """What a denial calls a finding."""
    return pick(_DENIED_NAMES[finding], choice)


def denial(findings: list[str], style: Style, choice: float) -> str:
    """One sentence that denies all ``findings`` (one or more)."""
    names = [denied_name(finding, (choice * 7.0 + 0.37 * i) % 1.0) for i, finding in enumerate(findings)]
    if len(names) == 1:
        listed = names[0]
    elif len(names) == 2:
        listed = f"{names[0]} or {names[1]}"
    else:
        listed = f"{', '.join(names[:-1])}, or {names[-1]}"
    frames = _DENIALS[_plain(style)]
    # what follows a long list stands too far from its first member
    return pick(frames[:3] if len(names) > 2 else frames, choice).format(listed)


def by_style(frames: dict, style: Style) -> tuple:
    """The frames of a style."""
    return frames[_plain(style)]


def _plain(style: Style) -> str:
    return "plain" if style == "numbered" else style


def remarks(study: Study, style: Style) -> list[str]:
    """True remarks about body and exposure, and neutral ones; none of them states or denies a finding.

    They depend on the study alone, so the reports of its contexts agree.
    """
    body, exposure = study.anatomy, study.exposure
    known = [
        (body.diaphragm < 0.44, ("Low lung volumes.", "Lung volumes are low.", "The lung volumes are low.")),
        (body.diaphragm > 0.54, ("Lungs well expanded.", "Lungs are well expanded.", "The lungs are well expanded.")),
        (body.knob > 0.95, ("Tortuous aorta.", "The aorta is tortuous.", "The thoracic aorta is tortuous.")),
        (body.bone < 0.78, ("Bones osteopenic.", "Bones are osteopenic.", "The bones are diffusely osteopenic.")),
        (abs(body.scoliosis) > 0.025, ("Scoliosis.", "Scoliosis is noted.", "There is scoliosis of the spine.")),
        (abs(body.turned) > 0.035, ("Rotated.", "The patient is rotated.", "The patient is rotated on this image.")),
        (exposure.distractor == "skin fold", ("Skin fold.", "Skin fold is noted.", "A skin fold is noted.")),
        (study.view == "AP", ("Portable technique.", "Portable technique.", "The image is portable.")),
        (
            "fracture" not in study.findings,
            ("Bones intact.", "The bones are intact.", "The osseous structures are intact."),
        ),
        (True, ("Hila unremarkable.", "The hila are unremarkable.", "The hilar contours are unremarkable.")),
        (
            True,
            (
                "Upper abdomen unremarkable.",
                "The upper abdomen is unremarkable.",
                "The visualized upper abdomen is unremarkable.",
            ),
        ),
        (True, ("Trachea midline.", "The trachea is midline.", "The trachea is midline.")),
    ]
    column = {"terse": 0, "plain": 1, "prose": 2}[_plain(style)]
    return [texts[column] for holds, texts in known if holds]
