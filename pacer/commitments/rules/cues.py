"""Surface patterns of uncertainty and negation, for lower-case text.

The kind of a cue consists of a polarity and its side of the finding: a ``_before`` cue precedes the finding, an
``_after`` cue follows it, an ``_around`` cue is on either side, and a ``_between`` cue is between two alternatives.
Kinds without a side control the reading (see ``polarity.py``). At the same place the earlier pattern wins, so
exceptions come first.
"""

from __future__ import annotations

from pacer.commitments.rules.matching import Pattern, entries

_DEGREE = (
    r"(?:(?:significant|significantly|interval|appreciable|appreciably|substantial|substantially|definite|definitely"
    r"|definitive|convincing|gross|grossly|obvious|great|greatly|major|acute|further|other|short|term|short-term"
    r"|relevant|marked|markedly|clear|clearly|overall|much|real|really|additional|been|otherwise|considerably"
    r"|material|new) ){0,4}"
)

#: Phrases such as "no change" refer to a course, not to presence; "not seen on the lateral view" refers to one view,
#: "without a comparison" to the examination.
_EXCEPTION = (
    rf"(?:no|without|nor) (?:evidence of )?{_DEGREE}(?:changed?|changes|difference|increase|decrease|progression"
    r"|progressive change|improvement|worsening)\b"
    rf"|not {_DEGREE}(?:chang(?:ed?|ing)|different|differ|increas(?:ed?|ing)|decreas(?:ed?|ing)|progress\w*"
    r"|improv\w+|worsen\w*|only|previously|necessarily|well(?!-? ?(?:seen|identified|visuali[sz]ed|demonstrated"
    r"|appreciated|shown)))\b"
    r"|not (?:well-? ?|clearly |definitely )?(?:seen|identified|visuali[sz]ed|evident|appreciated|demonstrated|present"
    r"|noted) (?:previously\b|(?:on|in) (?:the |a |any )?(?:(?:prior|previous|earlier)\b|(?:lateral|frontal|ap|pa)\b"
    r"(?! (?:or|and|nor)\b)))"
    r"|(?:no|without) (?:an? |any )?(?:(?:prior|previous) (?:stud(?:y|ies)|exam\w*|films?|radiographs?|imag(?:es|ing))"
    r"|(?:(?:prior|previous) )?comparisons?)\b"
)
_EXCEPTION_STEMS = (
    "chang differ increas decreas progress improv worsen =only previous necessarily =well prior earlier lateral frontal =ap"
    " =pa compar"
)

_CANNOT = r"(?:cannot|can not|could not|may not|not|(?:difficult|hard|impossible|unable|not possible|insufficient) to)"
_NOT_EXCLUDED = (
    rf"{_CANNOT} (?:\w+ ){{0,3}}?(?:excluded?|ruled? out)\b"
    r"(?= ?(?:$|(?:on|by|in|given|at|but|no|there|without|with|and|although|though)\b))"
)
_CANNOT_EXCLUDE = rf"{_CANNOT} (?:\w+ ){{0,2}}?(?:exclude|rule out)"

_MAY = (
    r"(?:may|could|might) (?:\w+ )?(?:represent|reflect|be|indicate|suggest|relate|correspond|have|include|signify"
    r"|obscure|mask|hide)\b"
)

_IS = r"(?:is|are|was|were|also|remains?|be)"

#: "Effusion is likely" hedges the effusion; "opacity is likely atelectasis" hedges the atelectasis.
_NO_COMPLEMENT = (
    r"(?= ?(?:$|(?:present|there|here|no|without|but|and|with|though|although|given|because|if|clinically|bilaterally"
    r"|as well|contributing|responsible|the cause|in(?! part\b)|on(?! (?:the|a) (?:basis|background)\b)"
    r"|at(?! least\b))\b))"
)

#: "Pneumonia could look like this" hedges the pneumonia.
_COULD_LOOK = (
    r"(?:may|could|might|can) (?:(?:all|both|also|each|well) )*(?:have|give|lead to|produce|cause|result in)"
    r" (?:this|(?:a |the )?(?:similar|same))\b"
)

#: After these words, a word of course or degree does not begin a statement.
_NO_ITEM = (
    r"(?<!\bno )(?<!\bor )(?<!\bnor )(?<!\bnot )(?<!of )(?:(?<!\ba )|(?<=\band a ))(?<!\bany )(?<!other )(?<!definite )"
)
_IF_ANY = r"(?! if (?:any|present)\b)"


def _cues(table: str) -> tuple[Pattern, ...]:
    """Parse a table of cues. Cues begin at the start of a word, but question marks end a word."""
    return tuple(
        Pattern(kind, tuple(stems.split()), expression if stems == "?" else f" (?:{expression})")
        for kind, stems, expression in entries(table)
    )


#: Kind, stems, expression.
CUES = _cues(rf"""
silent_before | =new newly
    (?:no|without) (?:(?:evidence|signs?|development) of )?(?:any )?(?:definite |significant |other )?new(?:ly)?\b
exception | {_EXCEPTION_STEMS}
    {_EXCEPTION}
exception | resol clear
    (?:not|incomplete(?:ly)?|partial(?:ly)?|almost|near(?:ly|-complete)?|mostly|largely|document|ensure|confirm
    |demonstrate|until|to|for|following|follow) (?:(?:been|yet|fully|completely|complete|entirely|their
    |its) )*(?:resol(?:ved?|ution)|clear(?:ed|ing|ance))(?: of)?\b|not clear\b(?! of)
exception | longer
    no longer(?= (?:(?:in|at|within)\b(?! (?:place|situ|evidence|use)\b)|coil|kink|loop|curl|project|terminat|point
    |extend))
# earlier time, aims of an examination, conditions: nothing is said of the finding
silent_before | history patient rule evaluat assess exclude indication reason clinical concern suspicion suspect look check =h =r
    (?:(?:known |prior |clinical )?history of|h o|r o|in (?:a )?patients? with
    |to (?:better )?(?:(?:evaluate|assess|look|check) for|exclude|rule out)(?: any| an underlying| underlying)?
    |(?:evaluat(?:e|ion|ing)|assess(?:ment|ing)?) for(?: any)?
    |if (?:there (?:is|are|remains) |clinical |high |further |persistent |continued )*(?:concern|suspicion
    |suspect\w*)(?: (?:for|of))?)\b|(?<=^ )(?:indications?|clinical (?:history|information|indication)
    |reason for (?:the )?(?:exam|examination|study)|history)\b
uncertain_after | ?
    \?$
uncertain_before | ?
    \?(?= ?\w)
uncertain_after | exclu rule possib probab suspect question suggest equivocal consider likely differential presum concern =may could might =can
    {_NOT_EXCLUDED}|{_IS} (?:also |both |all )?(?:(?:likely|suspected)\b{_NO_COMPLEMENT}
    |(?:possible|probable|questioned|questionable|suggested|equivocal|considered|presumed|in question
    |a (?:possibility|consideration)|of (?:some |clinical )?concern)\b)|in the differential\b
    |(?:may|could|might) be (?:present|there|seen)\b|(?:likely|probably|possibly) present\b|{_COULD_LOOK}
    |(?:(?:is|are|seems?|appears?|felt|thought|considered|to|be) )+less likely\b|less likely$
uncertain_between | versus =vs
    (?:versus|vs)\b
uncertain_around | setting context =if
    if (?:any|present)\b|in the (?:appropriate|proper|correct|right) (?:clinical )?(?:setting|context)\b
uncertain_before | possib probab question suspect potential presum equivocal maybe =may could might exclude rule perhaps differential likely consider correlate favo
    (?:possibl[ey]|possibilit\w+|probabl[ey]|questionable|question(?: of|ed)?|(?<!not )(?<!no reason to )suspect\w*
    |potential(?:ly)?|presum\w+|equivocal|maybe|perhaps|differential|likely|favou?r(?:ed|s|ing)?|rule out|consider
    |correlate (?:clinically )?for|{_CANNOT_EXCLUDE})\b|{_MAY}
# uncertain, unless the hint itself is denied ("no consolidation concerning for pneumonia")
hint_before | suspicio concern worrisome suggest
    (?:suspicio(?:us|n) (?:for|of)|concern(?:ing|s)? (?:for|of)|worrisome|suggest\w*)\b
negative_around | longer absent unlikely
    (?:no longer|absent|unlikely(?! (?:that|to (?:be|represent|reflect))\b))\b
negative_after | =not
    not (?:(?:been|clearly|definitely|definitively|confidently|readily|well|well-|convincingly|currently|now
    |again) )*(?:well-? ?)?(?:seen|identified|present|evident|demonstrated|visuali[sz]ed|visible|appreciated|detected
    |apparent|noted|found|observed|shown|suspected|delineated)\b
negative_after | =none excluded ruled negative
    none\b|(?:is|are|been) (?:ruled out|excluded)\b|(?:is |are )?negative$
negative_after | resolved cleared gone disappeared removed removal
    (?:(?:has|have|had|is|are|was|were|now|since|been|completely|entirely|essentially|fully) )+(?:resolved|cleared|gone
    |disappeared|removed)\b|(?<=[a-z] )(?<!with )(?<!now )(?<!the )(?<!of )(?:resolved|cleared|removed)\b
    |(?:(?<=tube )|(?<=tubes )|(?<=line )|(?<=lines )|(?<=catheter )|(?<=drain )|(?<=picc )
    |(?<=pigtail ))removal\b(?! of\b)
negative_before | =no =not without =neither =nor =never
    (?:no|not|without|neither|nor|never)\b
negative_before | absence negative =free =clear =deny =denies =denied =lack resol remov clearing clearance disappearance fail unlikely
    (?:absence of|negative for|free (?:of|from)|clear of|den(?:y|ies|ied)|lack of
    |fails? to (?:show|demonstrate)|resolved|unlikely (?:that|to (?:be|represent|reflect))
    |(?:interval |complete |full )*(?:resolution|clearing|clearance|removal|disappearance) of)\b
# "atelectasis rather than pneumonia": what was said before holds no longer, and what follows is denied
instead | rather instead opposed
    (?:rather than|instead of|as opposed to)\b
# earlier cues never reach over a new clause
clause | =but however though except otherwise whereas while =yet given =there aside apart other which =with besides placement insertion
    (?:but(?! (?:is |are )?{_CANNOT} (?:\w+ ){{0,2}}?(?:excluded?|ruled? out)\b)|however|although|though|except|otherwise
    |whereas|while|yet|given|(?<!that )(?<!any )there (?:is|are|has|have)
    |aside from|apart from|other than|besides|which(?! (?:was|were) (?:present|seen|noted|identified|described)\b)
    |and (?:interval )?(?:re)?(?:placement|insertion) of)\b
    |with\b(?<!consistent with)(?<!compatible with)(?<!associated with)(?<!keeping with)(?! (?:no|evidence)\b)
# nor over the start of a new statement, once they have met a finding
statement | stable unchanged persistent bibasilar redemonstrat decreas improv
    {_NO_ITEM}(?:stable|unchanged|persistent|bibasilar|redemonstrat\w+|(?:decreas|improv)(?:ed|ing))\b{_IF_ANY}
# these also stand in lists that are denied ("no consolidation, small effusion, or pneumothorax")
degree | small tiny trace mild minimal moderate severe definite increas worsen residual enlarging =new
    {_NO_ITEM}(?:small|tiny|trace|mild|mildly|minimal|moderate|moderately|severe|definite|definitely
    |(?:increas|worsen)(?:ed|ing)|residual|enlarging|new)\b{_IF_ANY}
statement | seen identified noted evident demonstrated visuali appreciated detected
    (?<!which )(?<!that )(?:is|are) (?:seen|identified|noted|evident|demonstrated|visuali[sz]ed|appreciated|detected)\b
    (?! (?:or|nor)\b)
statement | =the
    the\b(?<!\bor the)(?<!of the)(?<!\bin the)(?<!for the)(?<!\bat the)(?<!\bto the)(?<!\bon the)(?<!\bby the)
    (?<!with the)(?<!from the)(?<!within the)(?<!along the)(?<!without the)
""")
