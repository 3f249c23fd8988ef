"""Surface patterns for the names of the 13 findings, for lower-case text.

The text has no commas, colons, slashes and brackets, and single blanks between words, so that raw and cleaned reports
look alike. Sources: usage in chest radiography reports and the vocabulary rules of the paper's labelling prompt (its
rules 8 and 11 to 20).
"""

from __future__ import annotations

from pacer.commitments.rules.matching import Pattern, entries

#: A few words between two parts of a phrase, without polarity words and new subjects.
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

#: Additional subjects of a statement of normality: "heart size, hila and pulmonary vasculature are normal".
_SUBJECTS = (
    r"(?: (?!(?:is|are|was|were|appears?|remains?|demonstrates?|shows?|but|with|without|no|not|there|enlarged|prominent"
    r"|large|stable|unchanged|mildly|moderately|borderline|increased)\b)[\w-]+){0,%d}?"
)
#: Words allowed between the subjects and "normal".
_ADVERBS = (
    r"(?: (?:is|are|was|were|be|appears?|remains?|has|have|been|to|also|both|all|again|still|grossly|overall|stable"
    r"|unchanged and|top|within|at|in|of|the|upper|towards?|limits?|essentially|relatively|otherwise|and))* "
)


def _states_normality(subject: str) -> str:
    return rf"{subject}{_SUBJECTS % 8}{_ADVERBS}{_NORMAL}"


#: "Pleural effusion or pleural thickening" names two findings.
_ONE_PLEURAL = _GAP3.replace("(?!", r"(?!effusions?\b|fluid\b|or\b|versus\b|vs\b|pleural\b|", 1)

#: An enlarged atrium or ventricle is not an enlarged heart.
_CHAMBER_FREE = _GAP6.replace("(?!", r"(?!suggest\w*|atri\w*|ventric\w*|chambers?\b|", 1)

#: Words between "normal" and its noun; the noun has no verb after it, which would begin a new statement ("... are
#: normal, the heart is enlarged", without the comma).
_SAME = r"(?:(?!and\b|the\b|but\b|with\b)\w+ ){0,%d}?"
_PROPERTY = r"(?:(?:size|shape|contours?|appearance|configuration)(?: and \w+)? of (?:the )?)?"
_NO_VERB = r"\b(?! (?:\w+ )?(?:is|are|was|appears?|remains?|enlarged|widened|calcifi\w+)\b)"

#: Unnamed devices, and statements that they are unchanged.
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

#: Name, its findings (none for look-alikes), stems, expression; in order of precedence at the same place. Mentions
#: begin at the start of a word. Those with a star can follow another word directly, because the cleaner joins words
#: ("atelectasis/infiltrate" becomes one word).
_TABLE = entries(rf"""
elsewhere | | pericardial joint knee ankle hip elbow tissue subcutaneous peripheral limb leg pedal laryngeal cerebral wall effect osseous bone bony lytic blastic sclerotic skeletal rib skin vertebral thyroid breast renal adrenal hepatic liver splenic cutaneous humeral clavicular =line =lines body infect
    (?:pericardial|joint|knee|ankle|hip|elbow) effusions?
    |(?:soft tissue|subcutaneous|peripheral|limb|leg|ankle|pedal|laryngeal|cerebral|bowel wall) o?edema|mass effect
    |(?:osseous|bon[ey]|bony|lytic|blastic|sclerotic|skeletal|ribs?|skin|vertebral|thyroid|breast|renal|adrenal|hepatic
    |liver|splenic|cutaneous|humeral|clavicular) (?:lesions?|mass(?:es)?\b|nodules?)|fracture lines?
    |(?:pleural|septal|fissural) lines?|body mass|post-?(?: ?infect\w+)
    |(?:granulomatous|prior|previous|old|remote|healed|past|chronic granulomatous)(?: granulomatous)? infect(?:ion|ions
    |ious)(?: process| disease)?
hydropneumothorax* | pneumothorax, pleural effusion | opneumothora o-pneumothora
    h(?:ydro|a?emo)-?pneumothora(?:x|ces)(?:es)?
pneumothorax* | pneumothorax | neumothora neumo-thora ptx
    pneumo-?thora(?:x|ces)(?:es)?|\bptx\b
pleural_abnormality | pleural abnormality | pleur cap thick fibrothorax
    pleur(?:al|o-? ?parenchymal){_ONE_PLEURAL}(?:thickening|scar(?:ring|s)?|plaques?|calcifications?|fibrosis
    |abnormalit\w+|disease|changes?|cap(?:ping)?|reaction|irregularit\w+)|apical (?:cap(?:ping)?|thickening)|fibrothorax
    |thickening of the (?:\w+ ){{0,3}}(?:pleura|fissures?)|thickened (?:\w+ )?(?:pleura|fissures?)|fissural thickening
    |fissure thickening|pleural-based (?:thickening|scar\w*|plaques?)
pleural_effusion* | pleural effusion | effusion fluid collection hydrothora emothora empyema
    pleural (?:(?:and|or|nor) )+pericardial effusions?|effusions?
    |(?:pleural|loculated|fissural|subpulmonic)(?: pleural)? fluid|pleural (?:fluid )?collections?
    |fluid (?:\w+ )?(?:with)?in the (?:\w+ ){{0,3}}(?:pleural space|fissures?)|(?:hydro|ha?emo)thora(?:x|ces)|empyemas?
edema | edema | edema congest vascular engorge cephali venous overload failure chf decompensation kerley
    o?edema(?:tous)?|(?:vascular|venous|pulmonary|interstitial|hilar|perihilar|vessel) congestion
    |congested (?:pulmonary )?(?:vessels|vasculature|vascularity)
    |vascular (?:engorgement|redistribution|cephali[sz]ation|plethora)|cephali[sz]ation
    |(?:engorged|engorgement of(?: the)?) (?:central )?pulmonary (?:vessels|vasculature|veins)
    |pulmonary (?:vasculature|vascularity|vessels) (?:is|are|appears?) (?:\w+ )?(?:engorged|congested)
    |pulmonary venous (?:hypertension|pressures?)|(?:fluid|volume) overload|(?:congestive )?(?:heart|cardiac) failure
    |(?:(?<= evidence of )|(?<= evidence for )|(?<= signs of )|(?:overt|frank|florid|decompensated|acute) )failure
    |\bchf\b|cardiac decompensation|congestive changes?|kerley b? ?lines?
cardiomegaly | cardiomegaly | cardi heart
    cardiomegaly|cardiac enlargement|enlargement of (?:the )?(?:heart|cardiac(?! ?mediast))
    |(?:enlarged|large|prominent|increased) (?:heart|cardiac(?! ?mediast))(?: (?:silhouette|shadow|size|contour))?
    |borderline (?:\w+ )?(?:heart|cardiac) (?:size|silhouette|shadow)
    |{_HEART} (?:is|has|remains) (?:not (?:\w+ )?changed|unchanged
    |stable) and (?:(?:remains|is|still) )*(?:\w+ )?enlarged
    |{_HEART}{_CHAMBER_FREE}(?:enlarged|increased|prominent|large|enlargement|borderline)\b
    |increase(?:d)? in (?:heart size|size of the (?:heart|cardiac silhouette)|cardiac size)
normal_heart_and_mediastinum | cardiomegaly, enlarged mediastinum | mediastin
    (?:{_HEART}|cardiac){_SUBJECTS % 5} {_states_normality(_MEDIASTINUM)}
    |{_MEDIASTINUM}{_SUBJECTS % 3} {_states_normality(_HEART)}
    |normal {_PROPERTY}(?:{_HEART}|cardiac){_SUBJECTS % 3} {_MEDIASTINUM}{_NO_VERB}
    |normal {_MEDIASTINUM} and {_HEART}{_NO_VERB}
normal_heart | cardiomegaly | heart cardiac
    {_states_normality(_HEART)}|(?:(?:top-)?normal|unremarkable) {_SAME % 2}(?:heart
    |cardiac)(?: (?:size|silhouette|contours?))?{_NO_VERB}|normal {_PROPERTY}{_HEART}{_NO_VERB}|normal-sized heart
mediastinum | enlarged mediastinum | mediastin
    {_MEDIASTINUM}{_GAP4}{_LARGE}\b|(?:widen(?:ed|ing)|enlarge(?:d|ment)|prominen(?:t|ce)
    |wide) (?:of )?(?:the )?(?:\w+ )?{_MEDIASTINUM}|mediastinal (?:widening|enlargement)
normal_mediastinum | enlarged mediastinum | mediastin
    {_states_normality(_MEDIASTINUM)}|(?:normal|unremarkable) (?:{_PROPERTY}|{_SAME % 3}){_MEDIASTINUM}{_NO_VERB}
nodular_opacity | lung lesion | nodular
    nodular (?:opacit\w+|densit\w+|opacification\w*|lesions?)
lung_lesion | lung lesion | nodul mass lesion metasta neoplas tumo carcinoma malignan
    nodul(?:es?|ar(?:ity)?)|mass(?:es|-? ?like)?\b|lesions?|metasta(?:s[ei]s|tic)|neoplas\w+|tumou?rs?|carcinoma
    |malignan\w+
lung_opacity* | lung opacity | opaci infiltrat space densit interstitial reticul glass haziness
    opaci(?:ty|ties|fication\w*|fied)|infiltrat\w+|air-? ?space (?:disease|process|opacit\w+|abnormalit\w+)
    |(?:lung|pulmonary|basilar|basal|hazy|patchy|parenchymal|increased|interstitial|streaky|retrocardiac
    |linear) densit(?:y|ies)|interstitial (?:(?:lung )?(?:markings?|disease)|prominence|abnormalit\w+|changes|process
    |thickening|pattern)|reticul(?:ar|onodular|o-nodular) (?:pattern|markings?|changes|abnormalit\w+)|ground-? ?glass
    |haziness
consolidation* | consolidation | consolidat
    consolidat\w+
pneumonia* | pneumonia | pneumoni infect
    (?:broncho)?pneumoni(?:as?|c)|infect(?:ion|ions|ious)|pneumonitis
atelectasis* | atelectasis | atelecta collapse
    atelecta(?:s[ei]s|tic)|(?:lobar|lobe|lung|segmental|basilar|basal|plate-?like|pulmonary) collapse
    |collapse of (?:the )?(?:\w+ ){{0,5}}(?:lobes?|lungs?)\b|collapsed (?:\w+ ){{0,3}}(?:lobe|lung)
    |(?<= no )collapse\b(?! of\b)
fracture* | fracture | fractur broken fx
    fractur\w+|broken ribs?|\bfxs?\b
# devices of which none is named, and what leaves them as they were
devices_as_before | | device apparatus hardware equipment =line =lines =tube =tubes cathet
    (?:(?:unchanged|stable|similar|constant|no (?:\w+ ){{0,3}}changes? (?:in|to|of)) (?:(?:appearance|positions?
    |positioning|location|of|the|all|various|indwelling) )*{_UNNAMED}|{_UNNAMED}{_AS_BEFORE})
# "other lines and tubes" are beside some that are named, so they are devices whatever their course
device | support devices | device apparatus hardware equipment pacem pacer pacing =icd aicd defib generator =lead =leads =tube =tubes cath picc cannula mediport =port =ports infus porta =ett =ngt =ogt =cvl =cvc iabp pump lvad impella ecmo dob swan pigtail =drain =drains tracheostom hickman broviac groshong quinton cordis introducer stimulator recorder valve =line =lines sheath
    (?:other|otherwise|remaining|additional)(?: the| all)* {_UNNAMED}|support (?:and monitoring )?devices?
    |(?:pacemakers?|pacers?|pacing)(?: (?:devices?|leads?|wires?))?|(?:aicd|icd|defibrillators?)(?: leads?)?
    |generator(?: pack)?|\bleads?\b(?! to\b)|\b(?:tubes?|catheters?|picc|piccs|devices?|cannulas?|mediports?
    |port-? ?a-? ?caths?|portacaths?|infus-?a-?ports?|(?:chest|infusion|subclavian|jugular|ij|access)(?: wall)? ports?
    |ports?(?= (?:tip|catheter|reservoir|is|are|remains?|terminat\w+|ends?|project\w*|in place|with)\b)|ports?$|ett|ngt
    |ogt|cvl|cvc|iabp|balloon pump|lvad|impella|ecmo|dobb?-?hoff?s?|swan-? ?ganz|pigtails?|drains?|tracheostom(?:y|ies)
    |perma-?caths?|hickman|broviac|groshong|quinton|cordis|introducers?|(?:neuro|nerve |vagal |cord )stimulators?
    |loop recorders?)\b|(?:prosthetic|artificial|mechanical|bioprosthetic|replaced) (?:\w+ )?valves?
    |valve (?:prosthes[ie]s|replacements?)|(?:central|picc|jugular|ij|subclavian|femoral|venous|arterial
    |(?:ha?emo)?dialysis|support|monitoring|access)(?: (?:venous|access|central|approach))* lines?|lines and tubes
    |(?:vascular|venous|arterial|femoral|jugular|ij|subclavian|introducer
    |access)(?: (?:venous|vascular|access|introducer))* sheaths?
""")

MENTIONS: tuple[Pattern, ...] = tuple(
    Pattern(name.rstrip("*"), tuple(stems.split()), f"{'' if name.endswith('*') else ' '}(?:{expression})")
    for name, _, stems, expression in _TABLE
)

#: The findings that a mention names.
FINDINGS_OF: dict[str, tuple[str, ...]] = {
    name.rstrip("*"): tuple(findings.split(", ")) if findings else () for name, findings, _, _ in _TABLE
}

#: Mentions that state normality, and so deny their findings.
NORMALITY = frozenset({"normal_heart", "normal_mediastinum", "normal_heart_and_mediastinum"})
