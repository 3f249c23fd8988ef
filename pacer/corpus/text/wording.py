"""Wording that presupposes a previous examination, found by rules in raw or cleaned chest radiograph reports.

A report written without a previous study should hold none: there is nothing that "unchanged" could refer to. History
is no comparison ("status post sternotomy", "old fracture", "chronic"), nor is the state of the day ("increased
interstitial markings", "decreased lung volumes"), a statement that no earlier study is at hand, or advice on follow-up.

The rules are one alternation in which phrases without comparison come first and so hide the words inside them
("in stable condition" hides "stable").
"""

from __future__ import annotations

import re

_STUDY = (
    r"(?:stud(?:y|ies)|exam(?:ination)?s?|radiographs?|radiograms?|films?|x-?rays?|x-x+|imaging|images?|cxrs?|cts?|scans?"
    r"|tomogra\w+|mri|pet|views?|reports?|evaluations?|priors?|comparisons?)\b"
)
#: What may stand between "prior" and the name of the study.
_KIND = (
    r"(?:(?:available|recent|most|same|day|portable|bedside|outside|chest|abdom\w+|thora\w+|pa|ap|and|or|lateral"
    r"|frontal|upright|supine|semi-?upright|plain|radiographic|diagnostic|ct|pet|mr|cta|two|2|single|one|view|x+|_+"
    r"|\d+)[ /-])*"
)
_EARLIER = r"(?:prior|previous|earlier|preceding|last|most recent|comparison|yesterday's)"
_END = r"(?= ?[.,;:)]|$)"
_SIDE = r"(?:right|left|contralateral|opposite|other side|lateral view)\b"
_DEGREE = (
    r"(?:significant|significantly|substantial|substantially|appreciable|appreciably|relevant|definite|definitely|major"
    r"|notable|obvious|gross|grossly|large|real|further|other|detectable|convincing|radiographic|essential|essentially"
    r"|overall|apparent|clear|visible|much|considerable|suspicious|interval|short-interval|marked|markedly|dramatic"
    r"|dramatically|meaningful|measurable|discernible|great|greatly|x+)"
)
#: Adverbs and auxiliaries between "has" and a change verb.
_ADVERB = r"(?:(?:been|also|now|since|not|all|again|both|otherwise|further|become|\w+ly) )*"
_CHANGED = (
    r"(?:increased|decreased|improved|worsened|resolved|cleared|progressed|regressed|developed|changed|enlarged"
    r"|diminished|grown|lessened|receded|subsided|evolved|appeared|disappeared|declined|redistributed|reaccumulated"
    r"|re-?expanded|reexpanded|migrated|become|(?:been|be) \w*\s?(?:removed|withdrawn|retracted|advanced|pulled"
    r"|repositioned|exchanged|extubated|intubated|drained|evacuated|inserted|placed|replaced by))\b"
)
_PLACE = (
    r"(?:(?:left|right|bilateral|bibasilar|bibasal|basilar|basal|base|upper|lower|mid|middle|lobe|lung|zone|small"
    r"|moderate|large|mild|severe|patchy|focal|pleural|pulmonary|interstitial|alveolar|air|space|airspace"
    r"|in|the|and|of|size) )*"
)
#: Findings of which "increased" says that they were less before; densities and markings are increased by themselves.
_GROWING = (
    r"(?:atelecta\w+|effusions?|pneumothora\w+|consolidations?|edema|cardiomegaly|pneumonia|infiltrates?|disease|nodul\w+"
    r"|mass(?:es)?|lesions?|fractures?|thickening|pneumomediastinum|emphysema)\b"
)
_PURPOSE = (
    r"(?:to|until|till|for|ensure|ensuring|document|documenting|confirm|confirming|assess|assure|evaluate|establish"
    r"|exclude|verify|demonstrate|monitor)"
)
_NOT_NEW = (
    r"(?:york|jersey|england|mexico|zealand|orleans|hampshire|haven|delhi|or|onset|cough|fevers?|symptoms?|pain|chest"
    r" pain|shortness|dyspnea|hypoxia|oxygen|leukocytosis|murmur|weakness|diagnos\w+|patients?|baseline|admission)\b"
)

_WITHOUT = (
    r"(?:no|without|lack of|absence of|not have)(?: (?:any|an|a|relevant|available|recent|old|other|outside|known"
    r"|chest))*"
)
#: "may" alone could be the month.
_ADVISED = (
    r"(?:(?:would|may|could|might) (?:also |well )?(?:be|help|aid|allow|confirm|prove|determine)"
    r"|(?:is|are) (?:recommended|suggested|advised)|if (?:possible|available))\b"
)

#: Phrases that hold a word of comparison and compare with nothing.
_NO_COMPARISON = (
    # there is no earlier study
    rf"{_WITHOUT} (?:(?:prior|previous|earlier|old|comparison)s? (?:\w+ )?{_KIND}{_STUDY}|comparisons?\b"
    r"|priors?\b(?= ?[.,;]|$| (?:available|are|is|for))|previous\b(?= ?[.,;]|$| for))"
    r"(?: (?:are |is )?(?:available )?for (?:direct )?comparison)?",
    rf"(?:{_EARLIER} {_KIND}{_STUDY}|comparisons?|priors?)(?: (?:is|are|was|were))? ?:? ?"
    r"(?:none|no\b|not? (?:currently )?available|unavailable|n/a|not? (?:submitted|provided))"
    r"(?: for (?:direct )?comparison)?",
    r"(?:none|not|nothing|unavailable)(?: (?:currently|available|present))* for comparison",
    # earlier studies and later ones that are wished for
    rf"(?:if|should)(?: (?:there|are|any|available|prior|previous|old|outside|the))* {_EARLIER}s? {_KIND}{_STUDY}",
    rf"(?:correlat\w+|comparison) (?:to|with) (?:any |the )?(?:{_EARLIER}|old|outside)s? {_KIND}{_STUDY}"
    r"(?: (?:if available|is|are|would|may|could|can|might|should|to)(?! made| demonstrat\w+| show\w*| reveal\w*))",
    rf"{_EARLIER} {_KIND}{_STUDY},?(?: {_STUDY})?,? (?:would|could|might|may) (?:be|help)",
    rf"{_EARLIER} {_KIND}{_STUDY}(?: {_STUDY})? ?,? if (?:any|available|possible|obtainable)",
    rf"comparisons?(?: [\w-]+){{0,7}},? {_ADVISED}",
    rf"(?:recommend\w*|suggest\w*|advise\w*|obtain\w*|consider|request)(?: \w+)? comparison(?: (?:to|with)"
    rf"(?: any| the)? {_EARLIER} {_KIND}{_STUDY})?",
    rf"{_PURPOSE}(?: (?:for|the|its|their|complete|full|radiographic|interval|of|any|ensure|document|confirm|assess))*"
    r" (?:resolution|clearing|improvement|stability|change|changes|progression|worsening)\b",
    r"(?:until|if|unless|once) (?:\w+ )?(?:resolved|cleared|improved|unchanged|stable)",
    r"(?:if|should)(?: [\w/'-]+){1,5} (?:persists?|persisting|worsens?|improves?|remains?)",
    r"(?:short|long|regular|routine|month|week)[ -](?:term[ -]|time[ -])?interval",
    # other senses
    rf"compar\w+ (?:to|with) (?:the |that on the )?{_SIDE}",
    r"(?:hemodynamically|clinically|medically|neurologically) stable\b",
    r"stable (?:condition|vitals?|patient|angina)",
    r"patient (?:is|was|remains|has remained) stable",
    r"(?:high|low|spatial|higher)[ -]resolution",
    r"progressive (?:massive|dyspnea|cough|weakness|shortness|systemic)",
    r"residual (?:oral |enteric )?(?:contrast|barium|scar\w*|limbs?|volumes?|radiopaque|sutures?|calcif\w+)\b",
    r"residual (?:to|of|from)\b",
    r"remains? of\b",
    r"(?:improved|improving) (?:with|by|on|after) (?:deep|repeat|better|full)",
    r"(?:still|not now|now) (?:images?|status post)",
    r"(?:right|for|until) now\b",
    r"(?:worse|greater|more|less|larger|smaller|better|increased|decreased)(?: [\w-]+){0,4} than"
    rf" (?:on |in |that on )?(?:the )?{_SIDE}",
)

#: Each rule's name and phrases. All follow a word boundary.
_RULES: dict[str, tuple[str, ...]] = {
    "comparison": (
        r"compared\b",
        r"compar(?:ing|ison) (?:to|with|is|was)\b",
        r"(?:in|by|for|on|direct) comparison\b",
        r"comparison(?= ?:| x+\b| _| \d)",
        rf"comparisons? (?:made|{_KIND}{_STUDY})",
        r"comparable (?:to|with|in)\b",
        r"(?:is|are|appears?|remains?|overall|essentially|grossly|relatively|very|fairly) similar\b"
        rf"(?! to (?:the )?{_SIDE})",
        r"similar(?:ly)? (?:appear\w+|to before|in (?:appearance|size|extent|degree|configuration|position"
        r"|distribution))",
        # "similar" at the beginning of a sentence
        r"similar(?<![a-z,\d] similar)\b",
        r"on (?:the )?comparison\b",
        r"(?:the )?same (?:position|location|appearance|configuration|size as|as (?:before|on))",
        r"(?:from|to|than|at) (?:the |patient's |his |her )?(?:known |usual )?baseline\b",
    ),
    "prior study": (
        rf"(?:prior|previous|earlier|preceding|yesterday's|last) {_KIND}{_STUDY}",
        rf"most recent {_KIND}{_STUDY}",
        r"(?:from|to|than|with|since|on|in|over|versus|the|multiple|several) (?:(?:the|most|recent|immediate"
        r"|immediately|last|multiple|several) )*"
        r"(?:priors\b|(?:prior|previous)(?= ?[.,;:)]|$| (?:from|dated|on|of|at|and|x+|_+|\d)))",
        r"earlier (?:today|in the day|this|that|the same|same|on)\b",
        r"yesterday\b",
        r"(?:one|two|\d+) (?:hours?|days?|weeks?) (?:prior|earlier)\b",
        r"the day (?:before|prior)\b",
    ),
    "since": (
        r"since (?:the |an? |that |this |at |at least )*(?:prior|previous|last|earlier|most|preceding|yesterday|stud"
        r"|exam|radiograph|film|(?:\w+ )?ct\b|x+\b|_|\d|january|february|march|april|may|june|july|august|september"
        r"|october|november|december|removal|placement|extubation|intubation|admission|then|before|morning|time)",
        rf"since{_END}",
        r"dating back\b",
        r"(?:as far|going) back\b",
    ),
    "unchanged": (
        r"unchanged\b",
        r"unaltered\b",
        rf"not (?:{_DEGREE} )*changed\b",
        rf"(?:no|without|little|minimal)(?: (?:{_DEGREE}|if any|or|new))* change\b(?! of (?:the )?(?:spine|copd))",
        rf"no (?:{_DEGREE} )+changes\b",
        r"nothing has changed",
        r"no different\b",
        r"chang(?:ed?|es) (?:since|compared|when compared|in comparison)\b",
        rf"changed? from (?:the |that of )?(?:{_EARLIER}|exam|stud|before|baseline|x+\b|_|\d)",
    ),
    "interval": (
        r"interval\b(?! (?:follow|repeat|imaging|surveillance|radiograph|chest|ct\b|of\b))",
        r"intervening (?:time|period)",
    ),
    "stable": (
        r"stable\b",
        r"(?:long-?term|long standing|given|interval|demonstrat\w+|show\w*|indicat\w+) (?:the )?stability\b",
    ),
    "change verb": (
        rf"(?:has|have|had) {_ADVERB}{_CHANGED}",
        r"(?:increas|decreas|worsen|improv|resolv|progress|diminish|enlarg)ing\b",
        r"(?:is|are) developing\b",
        r"improved\b",
        r"improvements?\b",
        r"worsened\b",
        r"(?:is|are|appears?|appear|slightly|somewhat|markedly|mildly|minimally|now|much|significantly|become) worse\b"
        r"(?! (?:on|at|in|than)\b)",
        r"(?:slight|mild|some|further|marked|moderate|minimal|definite|apparent|significant|partial)"
        r" (?:progression|regression|clearing)\b",
        r"progress(?:ed|ive|ively)\b",
        r"progression of\b",
        r"(?:increased?|decreased?|reduction|reduced) (?:from|since|compared|when compared|in comparison)\b",
        r"(?:increased?|decreased?|reduction) in (?:the )?(?:overall )?(?:size|extent|degree|number|amount|severity"
        r"|conspicuity)\b",
        rf"(?:increased|decreased|reduced) {_PLACE}{_GROWING}",
        r"increased(?<!is increased)(?<!are increased)(?<!be increased)(?<!ly increased)(?= ?[.;]|$)",
        r"decreased(?<!is decreased)(?<!are decreased)(?<!be decreased)(?<!ly decreased)(?= ?[.;]|$)",
        r"(?:was|were|been) (?:\w+ )?removed\b",
        r"removed since\b",
        r"re-?expan(?:ded|sion)\b",
        r"returned to\b",
    ),
    "again": (
        r"again\b",
        r"re-?demonstrat\w*",
        r"re-?(?:identified|visuali[sz]ed|noted|seen)\b",
        r"as before\b",
        r"(?:from|than|seen|noted|described|present) before\b",
    ),
    "persistence": (
        r"persist(?:s|ent|ently|ing|ed|ence)?\b",
        r"remains?\b",
        r"has remained\b",
        r"have remained\b",
        r"continu(?:es?|ing) to\b",
        r"continued (?!follow|surveillance|attention|clinical|concern|monitoring|evaluation|imaging|radiograph"
        r"|observation)",
        r"residual\b",
        r"still\b",
        r"pre-?existing\b",
    ),
    "new": (r"no new\b", rf"new\b(?! {_NOT_NEW})(?![-/])", r"newly\b(?! diagnosed)", r"now\b"),
    "resolution": (
        r"no longer\b",
        r"resolved\b",
        r"resolution (?:of|since|from)\b",
        r"(?:interval|partial|partially|complete|near|near-complete|incomplete|further) (?:\w+ )?resolution\b",
        r"disappeared\b",
        r"disappearance\b",
    ),
    "size": (
        r"(?:larger|smaller|bigger|greater|lesser|more|less|better|worse|wider|denser|higher|lower)(?: [\w-]+){0,3}"
        r" than (?:on |in |at |was |were |that |seen |it |they |the )*(?:prior|previous|before|earlier|last|recent"
        r"|comparison|yesterday|stud|exam|x+\b|_|\d)",
        r"(?:is|are|appears?|now|slightly|minimally|somewhat|mildly|much|significantly) (?:larger|smaller|bigger)\b"
        r"(?! (?:than|on|in|at|right|left)\b)",
        r"(?:more|less) (?:prominent|pronounced|conspicuous|apparent|dense|confluent|extensive|evident|marked|distinct)"
        rf"{_END}",
        r"better (?:aerated|aeration|expanded|inflated|expansion|inspir\w+)\b",
    ),
    "previously": (
        r"previously (?:\w+ly )?(?:seen|noted|described|identified|demonstrated|visuali[sz]ed|mentioned|reported"
        r"|questioned|present|referenced|measur\w+|observed|placed|shown|imaged|suggested|documented|suspected|was|were|x+)\b",
        rf"previously{_END}",
        r"(?:as|than|was|were|measured|not) previously\b",
        r"formerly\b",
    ),
}


def _branches(phrase: str) -> list[str]:
    """A phrase that begins with alternatives as several phrases, each beginning with a letter.

    Phrases must not have alternatives outside parentheses.
    """
    if not phrase.startswith("(?:"):
        return [phrase]
    depth, cuts, end = 0, [2], 0
    for end, sign in enumerate(phrase):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            break
        if sign == "|" and depth == 1:
            cuts.append(end)
    options = [phrase[start + 1 : stop] for start, stop in zip(cuts, [*cuts[1:], end])]
    rest = phrase[end + 1 :]
    if rest.startswith("?"):
        options, rest = [*options, ""], rest[1:]
    return [branch for option in options for branch in _branches(option + rest)]


def _tree(phrases: list[str]) -> str:
    """One pattern for phrases in order of preference, those with a common beginning together.

    At every word only the few phrases are tried that begin like it, which makes the search several times faster.
    """
    if len(phrases) == 1:
        return phrases[0]
    by_letter: dict[str, list[str]] = {}
    for phrase in phrases:
        literal = re.match(r"[a-z](?![?*+{])", phrase)
        by_letter.setdefault(literal[0] if literal else "", []).append(phrase)
    others = by_letter.pop("", [])
    parts = [letter + _tree([phrase[1:] for phrase in group]) for letter, group in by_letter.items()]
    return f"(?:{'|'.join(parts + others)})"


def _compile() -> tuple[re.Pattern[str], dict[str, str]]:
    """The pattern, and the rule that each of its groups stands for; phrases without comparison have no group."""
    rules: dict[str, str] = {}
    phrases: list[str] = []
    for name, own in _RULES.items():
        for branch in (branch for phrase in own for branch in _branches(phrase)):
            group = f"g{len(rules)}"
            rules[group] = name
            phrases.append(f"{branch}(?P<{group}>)")
    hidden = [branch for phrase in _NO_COMPARISON for branch in _branches(phrase)]
    return re.compile(rf"\b(?:{_tree(hidden)}|{_tree(phrases)})"), rules


_PATTERN, _RULE_OF_GROUP = _compile()


def prior_wording(text: str) -> tuple[str, ...]:
    """The rules that fire in a report, each once, in the order in which they do.

    Args:
        text: report text, raw or cleaned.

    Returns:
        Names such as "comparison", "unchanged" or "again"; empty when nothing presupposes a previous examination.
    """
    groups = (match.lastgroup for match in _PATTERN.finditer(_normal(text)))
    return tuple(dict.fromkeys(_RULE_OF_GROUP[group] for group in groups if group))


def compares_with_prior(text: str) -> bool:
    """Whether wording of a report, raw or cleaned, presupposes a previous examination."""
    return any(match.lastgroup for match in _PATTERN.finditer(_normal(text)))


def _normal(text: str) -> str:
    """Lower case, single blanks: what the rules are written for."""
    return " ".join(text.lower().split())
