"""Surface patterns of the 13 findings, of negation and of uncertainty, for reports in lower case.

Written for text without commas, colons, slashes and brackets, so that raw and cleaned reports look alike.
"""

from __future__ import annotations

import re

#: A few words between two parts of a phrase; they never cross a polarity word or a new subject.
_GAP = r"(?:\s+(?!no\b|not\b|without\b|but\b|with\b|and\b|there\b|heart\b|lungs?\b)[\w-]+){0,%d}?\s+"
_GAP3, _GAP4, _GAP6 = _GAP % 3, _GAP % 4, _GAP % 6

_HEART = r"(?:heart(?:\s+size|\s+shadow|\s+silhouette)?|cardiac\s+(?:silhouette|shadow|size|contours?|outline))"
_MEDIASTINUM = (
    r"(?:(?:cardio-?\s?)?mediastin(?:um|al)(?:\s+and\s+hilar|\s+hilar)?"
    r"(?:\s+(?:silhouettes?|contours?|structures|shadow|borders?|width|size))?)"
)
_LARGE = r"(?:enlarged|large|increased|prominent|widened|wide|dilated|enlargement|prominence)"
_NORMAL = r"(?:normal|unremarkable|not\s+enlarged|not\s+widened)\b"

#: Further subjects of a statement of normality: "heart size, hila and pulmonary vasculature are normal".
_SUBJECTS = (
    r"(?:\s+(?!(?:is|are|was|were|appears?|remains?|but|with|without|no|not|there|enlarged|prominent|large|stable"
    r"|unchanged|mildly|moderately|borderline|increased)\b)[\w-]+){0,%d}?"
)
#: What may stand between the subjects and "normal".
_ADVERBS = (
    r"(?:\s+(?:is|are|was|were|be|appears?|remains?|has|have|been|to|also|both|all|again|still|grossly|overall|stable"
    r"|top|within|at|in|of|the|upper|limits?|essentially|relatively|and))*\s+"
)


def _states_normality(subject: str) -> str:
    return rf"{subject}{_SUBJECTS % 8}{_ADVERBS}{_NORMAL}"


#: Mentions: ``(name, findings that it states, pattern)``. The first alternative that matches at a place wins.
MENTIONS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    # look-alikes that state none of the findings
    ("elsewhere", (),
     r"(?:pericardial|joint)\s+effusions?|(?:soft\s+tissue|subcutaneous|peripheral|limb|leg)\s+o?edema|mass\s+effect"
     r"|(?:osseous|bony?|lytic|blastic|sclerotic|skeletal|rib|skin|vertebral)\s+lesions?|fracture\s+lines?"
     r"|(?:pleural|septal|fissural)\s+lines?"),
    ("hydropneumothorax", ("pneumothorax", "pleural effusion"), r"h(?:ydro|a?emo)-?pneumothora(?:x|ces)(?:es)?"),
    ("pneumothorax", ("pneumothorax",), r"pneumo-?thora(?:x|ces)(?:es)?"),
    ("pleural_abnormality", ("pleural abnormality",),
     rf"pleur(?:al|o-?parenchymal){_GAP3}(?:thickening|scar(?:ring|s)?|plaques?|calcifications?|fibrosis|abnormalit\w+"
     r"|disease|changes?|cap(?:ping)?|reaction)|apical\s+(?:cap(?:ping)?|thickening)|fibrothorax"
     r"|thickening\s+of\s+the\s+(?:\w+\s+){0,2}pleura|thickened\s+pleura"),
    ("pleural_effusion", ("pleural effusion",),
     r"effusions?|pleural\s+fluid|(?:hydro|ha?emo)thora(?:x|ces)"),
    ("edema", ("edema",),
     r"o?edema(?:tous)?|(?:vascular|venous|pulmonary|interstitial|hilar|perihilar|vessel)\s+congestion"
     r"|vascular\s+(?:engorgement|redistribution|cephali[sz]ation)|cephali[sz]ation|pulmonary\s+venous\s+(?:hypertension"
     r"|pressures?)|(?:fluid|volume)\s+overload|(?:congestive\s+)?(?:heart|cardiac)\s+failure|chf|congestive\s+changes"
     r"|kerley\s+b?\s*lines?"),
    ("cardiomegaly", ("cardiomegaly",),
     rf"cardiomegaly|cardiac\s+enlargement|enlargement\s+of\s+(?:the\s+)?(?:heart|cardiac)"
     rf"|(?:enlarged|large|prominent|increased)\s+(?:heart|cardiac(?!\s*mediast))(?:\s+(?:silhouette|shadow|size|contour))?"
     rf"|{_HEART}{_GAP6}(?:enlarged|increased|prominent|large|enlargement)\b"),
    ("normal_heart_and_mediastinum", ("cardiomegaly", "enlarged mediastinum"),
     rf"{_HEART}{_SUBJECTS % 5}\s+{_states_normality(_MEDIASTINUM)}"
     rf"|{_MEDIASTINUM}{_SUBJECTS % 3}\s+{_states_normality(_HEART)}"
     rf"|normal\s+{_HEART}{_SUBJECTS % 3}\s+{_MEDIASTINUM}"),
    ("normal_heart", ("cardiomegaly",),
     rf"{_states_normality(_HEART)}|normal\s+(?:\w+\s+){{0,2}}?(?:heart|cardiac)(?:\s+(?:size|silhouette|contours?))?"
     rf"|normal\s+size\s+(?:and\s+\w+\s+)?of\s+(?:the\s+)?{_HEART}|normal-sized\s+heart"),
    ("mediastinum", ("enlarged mediastinum",),
     rf"{_MEDIASTINUM}{_GAP4}{_LARGE}\b|(?:widen(?:ed|ing)|enlarge(?:d|ment)|prominen(?:t|ce)|wide)\s+(?:of\s+)?(?:the\s+)?"
     rf"(?:\w+\s+)?{_MEDIASTINUM}|mediastinal\s+(?:widening|enlargement)"),
    ("normal_mediastinum", ("enlarged mediastinum",),
     rf"{_states_normality(_MEDIASTINUM)}|normal\s+(?:\w+\s+){{0,3}}?{_MEDIASTINUM}"),
    ("nodular_opacity", ("lung lesion",), r"nodular\s+(?:opacit\w+|densit\w+|opacification\w*|lesions?)"),
    ("lung_lesion", ("lung lesion",),
     r"nodul(?:es?|ar(?:ity)?)|mass(?:es|-?\s?like)?\b|lesions?|metasta(?:s[ei]s|tic)|neoplas\w+|tumou?rs?|carcinoma|malignan\w+"),
    ("lung_opacity", ("lung opacity",),
     r"opaci(?:ty|ties|fication\w*|fied)|infiltrat\w+|air-?\s?space\s+(?:disease|process|opacit\w+|abnormalit\w+)"
     r"|(?:lung|pulmonary|basilar|basal|hazy|patchy|parenchymal|increased|interstitial|streaky|retrocardiac|linear)"
     r"\s+densit(?:y|ies)|interstitial\s+(?:markings?|prominence|disease|abnormalit\w+|changes|process|thickening)"),
    ("consolidation", ("consolidation",), r"consolidat\w+"),
    ("pneumonia", ("pneumonia",), r"(?:broncho)?pneumonias?|infect(?:ion|ions|ious)|pneumonitis"),
    ("atelectasis", ("atelectasis",),
     r"atelecta(?:s[ei]s|tic)|(?:lobar|lobe|lung|segmental|basilar|basal|plate-?like|pulmonary)\s+collapse"
     r"|collapse\s+of\s+the\s+(?:\w+\s+){0,3}(?:lobe|lung)|collapsed\s+(?:\w+\s+){0,2}(?:lobe|lung)"),
    ("fracture", ("fracture",), r"fractur\w+|broken\s+ribs?"),
    ("device", ("support devices",),
     r"support\s+(?:and\s+monitoring\s+)?devices?|(?:pacemakers?|pacers?|pacing)(?:\s+(?:devices?|leads?|wires?))?"
     r"|(?:aicd|icd|defibrillators?)(?:\s+leads?)?|generator\s+pack|\bleads?\b(?!\s+to\b)"
     r"|\b(?:tubes?|catheters?|picc|piccs|devices?|cannulas?|mediports?|port-?\s?a-?\s?caths?|portacaths?"
     r"|infusaports?|chest\s+ports?|infusion\s+ports?|ports?(?=\s+(?:tip|catheter|reservoir))|ett|ngt|ogt|cvl|cvc|iabp"
     r"|lvad|impella|ecmo|dobb?-?hoffs?|swan-?\s?ganz|pigtails?|drains?)\b|(?:prosthetic|artificial|replaced)\s+(?:\w+\s+)?valves?|valve\s+prosthesis"
     r"|(?:central|picc|jugular|ij|subclavian|femoral|venous|arterial|dialysis|support|monitoring|access)"
     r"(?:\s+(?:venous|access|central))*\s+lines?|lines\s+and\s+tubes|(?:sternotomy|sternal|cerclage)\s+wires?"),
)  # fmt: skip

#: Mention names that state normality, that is, that deny their findings.
NORMAL_MENTIONS = frozenset({"normal_heart", "normal_mediastinum", "normal_heart_and_mediastinum"})

_MODIFIERS = (
    r"(?:(?:significant|interval|appreciable|substantial|definite|definitive|convincing|gross|obvious|great|major|acute"
    r"|further|other|short|term|short-term|relevant|marked|clear|overall|much|real|additional|new)\s+){0,4}"
)

#: Mentions also found at the end of a longer word: the cleaner turns "atelectasis/infiltrate" into one word.
GLUED = frozenset({
    "hydropneumothorax", "pneumothorax", "pleural_effusion", "lung_opacity", "consolidation", "pneumonia",
    "atelectasis", "fracture",
})  # fmt: skip

_UNCHANGED = (
    r"(?:changed?|changes|changing|difference|increased?|decreased?|enlargement|progress\w*|improve\w*|worsen\w*"
    r"|significantly|only|previously|necessarily|well)\b"
)

#: Cues: ``(name, pattern)``; the first alternative that matches at a place wins, so exceptions stand first.
CUES: tuple[tuple[str, str], ...] = (
    # "no change" and its kin say nothing about presence
    ("exception",
     rf"\b(?:no|without|not|nor)\s+{_MODIFIERS}{_UNCHANGED}|\bnot\s+seen\s+(?:previously|on\s+(?:the\s+)?prior)"),
    ("uncertain_after",
     r"\b(?:cannot|can\s+not|could\s+not|may\s+not|not|difficult\s+to|hard\s+to)\s+(?:\w+\s+){0,3}?excluded?\b"
     r"(?=\s*(?:$|(?:on|by|in|given|at|but|without|with|and)\b))"
     r"|\b(?:is|are|was|were|also|remains?|be)\s+(?:also\s+)?(?:possible|probable|suspected|questioned|questionable"
     r"|suggested|equivocal|considered|likely)\b|\bin\s+the\s+differential\b|\?$"),
    ("uncertain_around", r"\b(?:versus|vs)\b"),
    ("uncertain_before",
     r"\b(?:possibl[ey]|possibilit\w+|probabl[ey]|questionable|question(?:\s+of|ed)?|(?<!not\s)suspect\w*|potential(?:ly)?|presum\w+"
     r"|equivocal"
     r"|(?:may|could|might)\s+(?:\w+\s+)?(?:represent|reflect|be|indicate|suggest|relate|correspond|have)"
     r"|(?:cannot|can\s+not|could\s+not|not|difficult\s+to|hard\s+to)\s+(?:\w+\s+){0,2}?(?:exclude|rule\s+out)"
     r"|perhaps|differential|likely|borderline|rule\s+out|consider)\b|\?(?=\s*\w)"),
    # hints: uncertain, unless the hint itself is denied ("no consolidation concerning for pneumonia")
    ("hint_before",
     r"\b(?:suspicio(?:us|n)\s+(?:for|of)|concern(?:ing|s)?\s+(?:for|of)|worrisome|suggest\w*)\b"),
    ("negative_around", r"\bno\s+longer\b|\babsent\b"),
    ("negative_after",
     r"\bnot\s+(?:(?:been|clearly|definitely|definitively|well|well-)\s+)?(?:seen|identified|present|evident|demonstrated"
     r"|visuali[sz]ed|appreciated|detected|apparent|noted|found|observed|shown|suspected)\b"
     r"|\bunlikely\b|\bnone\b|\b(?:is|are)\s+(?:ruled\s+out|excluded)\b"),
    ("negative_before",
     r"\b(?:no|not|without|absence\s+of|negative\s+for|free\s+of|clear\s+of|neither|nor|den(?:y|ies)|lack\s+of"
     r"|rather\s+than|never)\b"),
    # earlier cues never reach over a new clause
    ("clause",
     r"\b(?:but|however|although|though|except|otherwise|whereas|while|yet|there\s+(?:is|are|has|have)|aside\s+from"
     r"|apart\s+from|other\s+than|which)\b"
     r"|(?<!consistent\s)(?<!compatible\s)(?<!associated\s)(?<!keeping\s)\bwith\b(?!\s+(?:no|evidence)\b)"),
    # nor over the start of a new statement, once they have met a finding
    ("statement",
     r"(?<!\bno\s)(?<!\bor\s)(?<!\bnor\s)(?<!\bnot\s)(?<!of\s)(?<!\ba\s)\b(?:stable|unchanged|persistent"
     r"|small|tiny|trace|mild|mildly|minimal|moderate|moderately|severe|bibasilar|redemonstrat\w+)\b"
     r"|(?<!\bor\s)(?<!of\s)(?<!\bin\s)(?<!for\s)(?<!\bat\s)(?<!\bto\s)(?<!\bon\s)(?<!\bby\s)(?<!with\s)"
     r"(?<!from\s)(?<!within\s)(?<!along\s)(?<!without\s)\bthe\b"),
)  # fmt: skip


def compile_mentions() -> re.Pattern[str]:
    """All mention patterns as one, a named group each."""
    boundary = r"(?<![\w-])"
    return re.compile(
        "|".join(f"(?P<{name}>{'' if name in GLUED else boundary}(?:{pattern}))" for name, _, pattern in MENTIONS)
    )


def compile_cues() -> re.Pattern[str]:
    """All cue patterns as one, a named group each."""
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in CUES))
