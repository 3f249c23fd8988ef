"""How reports name the 13 findings: surface patterns for text in lower case.

Written for text without commas, colons, slashes and brackets, single blanks between words, so that raw and cleaned
reports look alike. Sources: usage in chest radiography reports and the vocabulary rules of the paper's labelling
prompt (its rules 8 and 11 to 20).
"""

from __future__ import annotations

from pacer.rules.matching import Pattern

#: A few words between two parts of a phrase; they never cross a polarity word or a new subject.
_GAP = r"(?: (?!no\b|not\b|without\b|but\b|with\b|and\b|there\b|heart\b|lungs?\b)[\w-]+){0,%d}? "
_GAP3, _GAP4, _GAP6 = _GAP % 3, _GAP % 4, _GAP % 6

_HEART = r"(?:heart(?: size| shadow| silhouette)?|cardiac (?:silhouette|shadow|size|contours?|outline))"
_MEDIASTINUM = (
    r"(?:(?:hilar and )?(?:cardio-? ?)?mediastin(?:um|al)(?: and hilar| hilar)?"
    r"(?: (?:silhouettes?|contours?|structures|shadow|borders?|width|size))?)"
)
_LARGE = r"(?:enlarged|large|increased|prominent|widened|wide|dilated|enlargement|prominence)"
_NOT_LARGE = (
    r"not (?:(?:significantly|grossly|definitely|overtly|clearly|appreciably|particularly) )?(?:enlarged|widened)"
)
_NORMAL = rf"(?:(?:top-)?normal|unremarkable|{_NOT_LARGE})\b"

#: Further subjects of a statement of normality: "heart size, hila and pulmonary vasculature are normal".
_SUBJECTS = (
    r"(?: (?!(?:is|are|was|were|appears?|remains?|demonstrates?|shows?|but|with|without|no|not|there|enlarged|prominent"
    r"|large|stable|unchanged|mildly|moderately|borderline|increased)\b)[\w-]+){0,%d}?"
)
#: What may stand between the subjects and "normal".
_ADVERBS = (
    r"(?: (?:is|are|was|were|be|appears?|remains?|has|have|been|to|also|both|all|again|still|grossly|overall|stable"
    r"|unchanged and|top|within|at|in|of|the|upper|limits?|essentially|relatively|otherwise|and))* "
)


def _states_normality(subject: str) -> str:
    return rf"{subject}{_SUBJECTS % 8}{_ADVERBS}{_NORMAL}"


_ELSEWHERE = (
    r"(?:pericardial|joint|knee|ankle|hip|elbow) effusions?"
    r"|(?:soft tissue|subcutaneous|peripheral|limb|leg|ankle|pedal|laryngeal|cerebral|bowel wall) o?edema|mass effect"
    r"|(?:osseous|bon[ey]|bony|lytic|blastic|sclerotic|skeletal|ribs?|skin|vertebral|thyroid|breast|renal|adrenal"
    r"|hepatic|liver|splenic|cutaneous|humeral|clavicular) (?:lesions?|mass(?:es)?\b|nodules?)"
    r"|fracture lines?|(?:pleural|septal|fissural) lines?|body mass"
    r"|post-?(?: ?infect\w+)"
    r"|(?:granulomatous|prior|previous|old|remote|healed|past|chronic granulomatous)(?: granulomatous)?"
    r" infect(?:ion|ions|ious)(?: process| disease)?"
)

#: "Pleural effusion or pleural thickening" are two findings.
_ONE_PLEURAL = _GAP3.replace("(?!", r"(?!effusions?\b|fluid\b|or\b|versus\b|vs\b|pleural\b|", 1)

_PLEURAL_ABNORMALITY = (
    rf"pleur(?:al|o-? ?parenchymal){_ONE_PLEURAL}(?:thickening|scar(?:ring|s)?|plaques?|calcifications?|fibrosis"
    r"|abnormalit\w+|disease|changes?|cap(?:ping)?|reaction|irregularit\w+)|apical (?:cap(?:ping)?|thickening)"
    r"|fibrothorax|thickening of the (?:\w+ ){0,3}(?:pleura|fissures?)|thickened (?:\w+ )?(?:pleura|fissures?)"
    r"|fissural thickening|fissure thickening|pleural-based (?:thickening|scar\w*|plaques?)"
)

_PLEURAL_EFFUSION = (
    r"pleural (?:(?:and|or|nor) )+pericardial effusions?|effusions?"
    r"|(?:pleural|loculated|fissural|subpulmonic)(?: pleural)? fluid|pleural (?:fluid )?collections?"
    r"|fluid (?:\w+ )?(?:with)?in the (?:\w+ ){0,3}(?:pleural space|fissures?)|(?:hydro|ha?emo)thora(?:x|ces)|empyemas?"
)

_EDEMA = (
    r"o?edema(?:tous)?|(?:vascular|venous|pulmonary|interstitial|hilar|perihilar|vessel) congestion"
    r"|congested (?:pulmonary )?(?:vessels|vasculature|vascularity)"
    r"|vascular (?:engorgement|redistribution|cephali[sz]ation|plethora)|cephali[sz]ation"
    r"|(?:engorged|engorgement of(?: the)?) (?:central )?pulmonary (?:vessels|vasculature|veins)"
    r"|pulmonary (?:vasculature|vascularity|vessels) (?:is|are|appears?) (?:\w+ )?(?:engorged|congested)"
    r"|pulmonary venous (?:hypertension|pressures?)|(?:fluid|volume) overload|(?:congestive )?(?:heart|cardiac) failure"
    r"|(?:(?<= evidence of )|(?<= signs of )|(?:overt|frank|florid|decompensated) )failure"
    r"|\bchf\b|cardiac decompensation|congestive changes?|kerley b? ?lines?"
)

#: An enlarged atrium or ventricle is no enlarged heart.
_CHAMBER_FREE = _GAP6.replace("(?!", r"(?!suggest\w*|atri\w*|ventric\w*|chambers?\b|", 1)

_CARDIOMEGALY = (
    r"cardiomegaly|cardiac enlargement|enlargement of (?:the )?(?:heart|cardiac(?! ?mediast))"
    r"|(?:enlarged|large|prominent|increased) (?:heart|cardiac(?! ?mediast))"
    r"(?: (?:silhouette|shadow|size|contour))?"
    r"|borderline (?:\w+ )?(?:heart|cardiac) (?:size|silhouette|shadow)"
    rf"|{_HEART} (?:is|has|remains) (?:not (?:\w+ )?changed|unchanged|stable) and (?:(?:remains|is|still) )*"
    r"(?:\w+ )?enlarged"
    rf"|{_HEART}{_CHAMBER_FREE}(?:enlarged|increased|prominent|large|enlargement|borderline)\b"
    r"|increase(?:d)? in (?:heart size|size of the (?:heart|cardiac silhouette)|cardiac size)"
)

#: Words between "normal" and what is normal; and no verb after it, with which a new statement begins ("... are normal,
#: the heart is enlarged", without its comma).
_SAME = r"(?:(?!and\b|the\b|but\b|with\b)\w+ ){0,%d}?"
_PROPERTY = r"(?:(?:size|shape|contours?|appearance|configuration)(?: and \w+)? of (?:the )?)?"
_NO_VERB = r"\b(?! (?:\w+ )?(?:is|are|was|appears?|remains?|enlarged|widened)\b)"

_NORMAL_BOTH = (
    rf"(?:{_HEART}|cardiac){_SUBJECTS % 5} {_states_normality(_MEDIASTINUM)}"
    rf"|{_MEDIASTINUM}{_SUBJECTS % 3} {_states_normality(_HEART)}"
    rf"|normal {_PROPERTY}(?:{_HEART}|cardiac){_SUBJECTS % 3} {_MEDIASTINUM}{_NO_VERB}"
    rf"|normal {_MEDIASTINUM} and {_HEART}{_NO_VERB}"
)

_NORMAL_HEART = (
    rf"{_states_normality(_HEART)}"
    rf"|(?:(?:top-)?normal|unremarkable) {_SAME % 2}(?:heart|cardiac)(?: (?:size|silhouette|contours?))?{_NO_VERB}"
    rf"|normal {_PROPERTY}{_HEART}{_NO_VERB}|normal-sized heart"
)

_MEDIASTINUM_LARGE = (
    rf"{_MEDIASTINUM}{_GAP4}{_LARGE}\b|(?:widen(?:ed|ing)|enlarge(?:d|ment)|prominen(?:t|ce)|wide) (?:of )?(?:the )?"
    rf"(?:\w+ )?{_MEDIASTINUM}|mediastinal (?:widening|enlargement)"
)

_OPACITY = (
    r"opaci(?:ty|ties|fication\w*|fied)|infiltrat\w+|air-? ?space (?:disease|process|opacit\w+|abnormalit\w+)"
    r"|(?:lung|pulmonary|basilar|basal|hazy|patchy|parenchymal|increased|interstitial|streaky|retrocardiac|linear)"
    r" densit(?:y|ies)|interstitial (?:(?:lung )?(?:markings?|disease)|prominence|abnormalit\w+|changes|process"
    r"|thickening|pattern)|reticul(?:ar|onodular|o-nodular) (?:pattern|markings?|changes|abnormalit\w+)|ground-? ?glass"
    r"|haziness"
)

#: Devices of which none is named, and what leaves them as they were.
_UNNAMED = (
    r"(?:(?:(?:monitoring|support(?:ing|ive)?|life[- ]support|medical|and) )+(?:devices?|apparatus|hardware|equipment"
    r"|lines?|tubes?|catheters?)(?:(?: and)? (?:lines|tubes|drains|catheters|devices))*|lines(?: and)? tubes"
    r"(?: and (?:drains|catheters|devices))?|tubes(?: and)? lines)"
)
_AS_BEFORE = (
    r"(?: (?:is|are|was|were|has|have|been|be|also|all|again|otherwise|overall|appears?|continues?|to|essentially"
    r"|grossly|relatively|largely|still|in|the|same|good|standard|appropriate|satisfactory|expected|adequate))*"
    r" (?:unchanged|stable|constant|similar|remains?|unaltered|(?<= in )(?:\w+ )?place|(?:\w+ )?(?:position(?:s|ed)?"
    r"|location))\b"
)
_UNNAMED_AS_BEFORE = (
    rf"(?:(?:unchanged|stable|similar|constant|no (?:\w+ ){{0,3}}changes? (?:in|to|of)) (?:(?:appearance|positions?"
    rf"|positioning|location|of|the|all|various|indwelling) )*{_UNNAMED}|{_UNNAMED}{_AS_BEFORE})"
)

#: "Other lines and tubes" are beside some that are named, so they are devices whatever their course.
_DEVICE = (
    rf"(?:other|otherwise|remaining|additional)(?: the| all)* {_UNNAMED}"
    r"|support (?:and monitoring )?devices?|(?:pacemakers?|pacers?|pacing)(?: (?:devices?|leads?|wires?))?"
    r"|(?:aicd|icd|defibrillators?)(?: leads?)?|generator(?: pack)?|\bleads?\b(?! to\b)"
    r"|\b(?:tubes?|catheters?|picc|piccs|devices?|cannulas?|mediports?|port-? ?a-? ?caths?|portacaths?"
    r"|infus-?a-?ports?|(?:chest|infusion|subclavian|jugular|ij|access)(?: wall)? ports?|ports?(?= (?:tip|catheter"
    r"|reservoir|is|are|remains?|terminat\w+|ends?|project\w*|in place|with)\b)|ports?$|ett|ngt|ogt|cvl"
    r"|cvc|iabp|balloon pump|lvad|impella|ecmo|dobb?-?hoff?s?|swan-? ?ganz"
    r"|pigtails?|drains?|tracheostom(?:y|ies)|perma-?caths?|hickman|broviac|groshong|quinton|cordis|introducers?"
    r"|(?:neuro|nerve |vagal |cord )stimulators?|loop recorders?)\b"
    r"|(?:prosthetic|artificial|mechanical|bioprosthetic|replaced) (?:\w+ )?valves?"
    r"|valve (?:prosthes[ie]s|replacements?)"
    r"|(?:central|picc|jugular|ij|subclavian|femoral|venous|arterial|(?:ha?emo)?dialysis|support|monitoring|access)"
    r"(?: (?:venous|access|central|approach))* lines?|lines and tubes"
    r"|(?:vascular|venous|arterial|femoral|jugular|ij|subclavian|introducer|access)(?: (?:venous|vascular|access"
    r"|introducer))* sheaths?"
)

_LESION = (
    r"nodul(?:es?|ar(?:ity)?)|mass(?:es|-? ?like)?\b|lesions?|metasta(?:s[ei]s|tic)|neoplas\w+|tumou?rs?|carcinoma"
    r"|malignan\w+"
)

_ATELECTASIS = (
    r"atelecta(?:s[ei]s|tic)|(?:lobar|lobe|lung|segmental|basilar|basal|plate-?like|pulmonary) collapse"
    r"|collapse of (?:the )?(?:\w+ ){0,5}(?:lobes?|lungs?)\b|collapsed (?:\w+ ){0,3}(?:lobe|lung)"
)

#: No mention begins inside a word, except those that the cleaner can glue to another ("atelectasis/infiltrate"
#: becomes one word).
_BOUNDARY = " "


def _mention(name: str, stems: str, expression: str, glued: bool = False) -> Pattern:
    return Pattern(name, tuple(stems.split()), f"(?:{expression})" if glued else f"{_BOUNDARY}(?:{expression})")


#: In the order of precedence at one place.
MENTIONS: tuple[Pattern, ...] = (
    _mention(
        "elsewhere",
        "pericardial joint knee ankle hip elbow tissue subcutaneous peripheral limb leg pedal laryngeal cerebral "
        "wall effect osseous bone bony lytic blastic sclerotic skeletal rib skin vertebral thyroid breast renal "
        "adrenal hepatic liver splenic cutaneous humeral clavicular =line =lines body infect",
        _ELSEWHERE,
    ),
    _mention(
        "hydropneumothorax", "opneumothora o-pneumothora", r"h(?:ydro|a?emo)-?pneumothora(?:x|ces)(?:es)?", glued=True
    ),
    _mention("pneumothorax", "neumothora neumo-thora ptx", r"pneumo-?thora(?:x|ces)(?:es)?|\bptx\b", glued=True),
    _mention("pleural_abnormality", "pleur cap thick fibrothorax", _PLEURAL_ABNORMALITY),
    _mention(
        "pleural_effusion", "effusion fluid collection hydrothora emothora empyema", _PLEURAL_EFFUSION, glued=True
    ),
    _mention(
        "costophrenic_blunting",
        "blunt",
        rf"blunt(?:ing|ed){_GAP6}(?:costophrenic|cp) (?:angles?|sulc(?:us|i)|recess(?:es)?)"
        rf"|(?:costophrenic|cp)(?: (?:angles?|sulc(?:us|i)|recess(?:es)?|xxxx))?{_GAP4}blunt(?:ing|ed)",
    ),
    _mention(
        "edema", "edema congest vascular engorge cephali venous overload failure chf decompensation kerley", _EDEMA
    ),
    _mention("cardiomegaly", "cardi heart", _CARDIOMEGALY),
    _mention("normal_heart_and_mediastinum", "mediastin", _NORMAL_BOTH),
    _mention("normal_heart", "heart cardiac", _NORMAL_HEART),
    _mention("mediastinum", "mediastin", _MEDIASTINUM_LARGE),
    _mention(
        "normal_mediastinum",
        "mediastin",
        rf"{_states_normality(_MEDIASTINUM)}"
        rf"|(?:normal|unremarkable) (?:{_PROPERTY}|{_SAME % 3}){_MEDIASTINUM}{_NO_VERB}",
    ),
    _mention("nodular_opacity", "nodular", r"nodular (?:opacit\w+|densit\w+|opacification\w*|lesions?)"),
    _mention("lung_lesion", "nodul mass lesion metasta neoplas tumo carcinoma malignan", _LESION),
    _mention("lung_opacity", "opaci infiltrat space densit interstitial reticul glass haziness", _OPACITY, glued=True),
    _mention("consolidation", "consolidat", r"consolidat\w+", glued=True),
    _mention(
        "pneumonia", "pneumoni infect", r"(?:broncho)?pneumoni(?:as?|c)|infect(?:ion|ions|ious)|pneumonitis", glued=True
    ),
    _mention("atelectasis", "atelecta collapse", _ATELECTASIS, glued=True),
    _mention("fracture", "fractur broken fx", r"fractur\w+|broken ribs?|\bfxs?\b", glued=True),
    _mention(
        "devices_as_before", "device apparatus hardware equipment =line =lines =tube =tubes cathet", _UNNAMED_AS_BEFORE
    ),
    _mention(
        "device",
        "device apparatus hardware equipment pacem pacer pacing =icd aicd defib generator =lead =leads =tube "
        "=tubes cath picc cannula mediport =port =ports "
        "infus porta =ett =ngt =ogt =cvl =cvc iabp pump lvad impella ecmo dob swan pigtail "
        "=drain =drains tracheostom hickman broviac groshong quinton cordis introducer stimulator recorder valve "
        "=line =lines sheath",
        _DEVICE,
    ),
)

#: The findings that a mention names; none for look-alikes.
FINDINGS_OF: dict[str, tuple[str, ...]] = {
    "elsewhere": (),
    "hydropneumothorax": ("pneumothorax", "pleural effusion"),
    "pneumothorax": ("pneumothorax",),
    "pleural_abnormality": ("pleural abnormality",),
    "pleural_effusion": ("pleural effusion",),
    "costophrenic_blunting": ("pleural effusion",),
    "edema": ("edema",),
    "cardiomegaly": ("cardiomegaly",),
    "normal_heart_and_mediastinum": ("cardiomegaly", "enlarged mediastinum"),
    "normal_heart": ("cardiomegaly",),
    "mediastinum": ("enlarged mediastinum",),
    "normal_mediastinum": ("enlarged mediastinum",),
    "nodular_opacity": ("lung lesion",),
    "lung_lesion": ("lung lesion",),
    "lung_opacity": ("lung opacity",),
    "consolidation": ("consolidation",),
    "pneumonia": ("pneumonia",),
    "atelectasis": ("atelectasis",),
    "fracture": ("fracture",),
    "devices_as_before": (),
    "device": ("support devices",),
}

#: Mentions that state normality, that is, that deny their findings.
NORMALITY = frozenset({"normal_heart", "normal_mediastinum", "normal_heart_and_mediastinum"})

#: Mentions of a sign that has other causes as well: the finding is uncertain unless it is also named.
SIGNS = frozenset({"costophrenic_blunting"})

#: What the version ``paper`` does not know: signs, and the prompt's rule 9, that unchanged devices of which none is
#: named affirm nothing.
SCOPED_ALONE = SIGNS | {"devices_as_before"}
