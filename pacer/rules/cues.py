"""What reports say of a finding: surface patterns of uncertainty and negation, for text in lower case.

The kind of a cue is a polarity and the side of the finding on which it stands: a ``_before`` cue stands before the
finding, an ``_after`` cue after it, an ``_around`` cue on either side. Kinds without a side steer the reading;
``polarity.py`` says how. At one place the earlier pattern wins, so exceptions stand first.
"""

from __future__ import annotations

from pacer.rules.matching import Pattern

_DEGREE = (
    r"(?:(?:significant|significantly|interval|appreciable|appreciably|substantial|substantially|definite|definitely"
    r"|definitive|convincing|gross|grossly|obvious|great|greatly|major|acute|further|other|short|term|short-term"
    r"|relevant|marked|markedly|clear|clearly|overall|much|real|really|additional|been|otherwise|considerably"
    r"|material|new) ){0,4}"
)

#: "No change" and its kin speak of a course, not of presence; "not seen on the lateral view" of one view.
_EXCEPTION = (
    rf"(?:no|without|nor) (?:evidence of )?{_DEGREE}(?:changed?|changes|difference|increase|decrease|progression"
    r"|progressive change|improvement|worsening)\b"
    rf"|not {_DEGREE}(?:chang(?:ed?|ing)|different|differ|increas(?:ed?|ing)|decreas(?:ed?|ing)|progress\w*"
    r"|improv\w+|worsen\w*|only|previously|necessarily|well(?!-? ?(?:seen|identified|visuali[sz]ed|demonstrated"
    r"|appreciated|shown)))\b"
    r"|not (?:well |clearly |definitely )?seen (?:previously|(?:on|in) (?:the )?(?:prior|previous|lateral|frontal"
    r"|ap|pa)\b)"
)
_EXCEPTION_STEMS = (
    "chang differ increas decreas progress improv worsen =only previous necessarily =well prior lateral frontal =ap =pa"
)

_NOT_RESOLVED = (
    r"(?:not|incomplete(?:ly)?|partial(?:ly)?|almost|near(?:ly|-complete)?|mostly|largely|document|ensure|confirm"
    r"|demonstrate|until|to|for|following|follow) (?:(?:been|yet|fully|completely|complete|entirely|their|its) )*"
    r"(?:resol(?:ved?|ution)|clear(?:ed|ing|ance))(?: of)?\b|not clear\b(?! of)"
)

_NOT_SEEN = (
    r"not (?:(?:been|clearly|definitely|definitively|confidently|readily|well|well-|convincingly|currently|now"
    r"|again) )*(?:well-? ?)?(?:seen|identified|present|evident|demonstrated|visuali[sz]ed|visible|appreciated|detected"
    r"|apparent|noted|found|observed|shown|suspected|delineated)\b"
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

#: Earlier time, aims of an examination, conditions: nothing is said of the finding.
_SILENT = (
    r"(?:(?:known |prior |clinical )?history of|h o|r o|in (?:a )?patients? with"
    r"|to (?:better )?(?:(?:evaluate|assess|look|check) for|exclude|rule out)(?: any| an underlying| underlying)?"
    r"|(?:evaluat(?:e|ion|ing)|assess(?:ment|ing)?) for(?: any)?"
    r"|if (?:there (?:is|are|remains) |clinical |high |further |persistent |continued )*"
    r"(?:concern|suspicion|suspect\w*)(?: (?:for|of))?)\b"
    r"|(?<=^ )(?:indications?|clinical (?:history|information|indication)"
    r"|reason for (?:the )?(?:exam|examination|study)|history)\b"
)

_IS = r"(?:is|are|was|were|also|remains?|be)"

#: "Effusion is likely" hedges the effusion, "opacity is likely atelectasis" what follows.
_NO_COMPLEMENT = (
    r"(?= ?(?:$|(?:present|there|here|no|without|but|and|with|though|although|given|because|if|clinically|bilaterally"
    r"|as well|contributing|responsible|the cause|in(?! part\b)|on(?! (?:the|a) (?:basis|background)\b)"
    r"|at(?! least\b))\b))"
)

#: "Pneumonia could look like this": hedges the finding that could.
_COULD_LOOK = (
    r"(?:may|could|might|can) (?:(?:all|both|also|each|well) )*(?:have|give|lead to|produce|cause|result in)"
    r" (?:this|(?:a |the )?(?:similar|same))\b"
)


def _cues(*rows: tuple[str, str, str]) -> tuple[Pattern, ...]:
    """Cues begin with a word, question marks end one."""
    return tuple(
        Pattern(kind, tuple(stems.split()), expression if stems == "?" else f" (?:{expression})")
        for kind, stems, expression in rows
    )


#: The cues that the paper names, in the forms in which reports inflect them, and the wording of uncertainty that its
#: labelling prompt names.
PAPER_CUES = _cues(
    ("exception", _EXCEPTION_STEMS, _EXCEPTION),
    ("uncertain_after", "?", r"\?$"),
    ("uncertain_before", "?", r"\?(?= ?\w)"),
    (
        "uncertain_after",
        "exclu ruled rule possible probable suspect question",
        rf"{_NOT_EXCLUDED}|(?:is|are|was|were|be) (?:possible|probable|suspected|questioned|questionable)\b",
    ),
    ("uncertain_around", "versus =vs", r"(?:versus|vs)\b"),
    (
        "uncertain_before",
        "possib probab question suspect suspic concern worrisome =may could might exclude rule",
        r"(?:possibl[ey]|possibility of|probabl[ey]|questionable|question(?: of|ed)?|suspect(?:ed|s)?"
        r"|suspicio(?:us|n) (?:for|of)|concern(?:ing|s)? (?:for|of)|worrisome for"
        rf"|(?:may|could|might) (?:represent|reflect|be)|could be seen with|{_CANNOT_EXCLUDE})\b",
    ),
    ("negative_around", "=not absent", r"(?:not|absent)\b"),
    (
        "negative_before",
        "=no =nor without negative absence =free =clear",
        r"(?:no|without|negative for|absence of|free of|clear of|nor)\b",
    ),
)

#: The cues of the version ``scoped``.
SCOPED_CUES = _cues(
    (
        "silent_before",
        "=new newly",
        r"(?:no|without) (?:(?:evidence|signs?|development) of )?(?:any )?(?:definite |significant |other )?"
        r"new(?:ly)?\b",
    ),
    ("exception", _EXCEPTION_STEMS, _EXCEPTION),
    ("exception", "resol clear", _NOT_RESOLVED),
    (
        "exception",
        "longer",
        r"no longer(?= (?:(?:in|at|within)\b(?! (?:place|situ|evidence|use)\b)|coil|kink|loop|curl|project|terminat|point"
        r"|extend))",
    ),
    (
        "silent_before",
        "history patient rule evaluat assess exclude indication reason clinical concern suspicion suspect look check =h "
        "=r",
        _SILENT,
    ),
    ("uncertain_after", "?", r"\?$"),
    ("uncertain_before", "?", r"\?(?= ?\w)"),
    (
        "uncertain_after",
        "exclu rule possib probab suspect question suggest equivocal consider likely differential presum concern =may "
        "could might =can",
        rf"{_NOT_EXCLUDED}|{_IS} (?:also |both |all )?(?:(?:likely|suspected)\b{_NO_COMPLEMENT}|(?:possible|probable"
        r"|questioned|questionable|suggested|equivocal|considered|presumed|in question|a (?:possibility|consideration)"
        r"|of (?:some |clinical )?concern)\b)|in the differential\b|(?:may|could|might) be (?:present|there|seen)\b"
        r"|(?:likely|probably|possibly) present\b"
        rf"|{_COULD_LOOK}|(?:(?:is|are|seems?|appears?|felt|thought|considered|to|be) )+less likely\b|less likely$",
    ),
    (
        "uncertain_around",
        "versus =vs setting context =if",
        r"(?:versus|vs|if any|if present)\b|in the (?:appropriate|proper|correct|right) (?:clinical )?"
        r"(?:setting|context)\b",
    ),
    (
        "uncertain_before",
        "possib probab question suspect potential presum equivocal maybe =may could might exclude rule perhaps "
        "differential likely consider correlate favo",
        r"(?:possibl[ey]|possibilit\w+|probabl[ey]|questionable|question(?: of|ed)?"
        r"|(?<!not )(?<!no reason to )suspect\w*|potential(?:ly)?|presum\w+|equivocal|maybe|perhaps|differential|likely"
        r"|favou?r(?:ed|s|ing)?|rule out|consider"
        rf"|correlate (?:clinically )?for|{_CANNOT_EXCLUDE})\b|{_MAY}",
    ),
    # hints: uncertain, unless the hint itself is denied ("no consolidation concerning for pneumonia")
    (
        "hint_before",
        "suspicio concern worrisome suggest",
        r"(?:suspicio(?:us|n) (?:for|of)|concern(?:ing|s)? (?:for|of)|worrisome|suggest\w*)\b",
    ),
    (
        "negative_around",
        "longer absent unlikely",
        r"(?:no longer|absent|unlikely(?! (?:that|to (?:be|represent|reflect))\b))\b",
    ),
    ("negative_after", "=not", _NOT_SEEN),
    (
        "negative_after",
        "=none excluded ruled negative",
        r"none\b|(?:is|are|been) (?:ruled out|excluded)\b|(?:is |are )?negative$",
    ),
    (
        "negative_after",
        "resolved cleared gone disappeared removed removal",
        r"(?:(?:has|have|had|is|are|was|were|now|since|been|completely|entirely|essentially|fully) )+"
        r"(?:resolved|cleared|gone|disappeared|removed)\b"
        r"|(?<=[a-z] )(?<!with )(?<!now )(?<!the )(?<!of )(?:resolved|cleared|removed)\b"
        r"|(?:(?<=tube )|(?<=tubes )|(?<=line )|(?<=lines )|(?<=catheter )|(?<=drain )|(?<=picc )|(?<=pigtail ))"
        r"removal\b(?! of\b)",
    ),
    (
        "negative_before",
        "=no =not without absence negative =free =clear =neither =nor =deny =denies =denied =lack =never resol remov "
        "clearing clearance disappearance fail unlikely",
        r"(?:no|not|without|absence of|negative for|free (?:of|from)|clear of|neither|nor|den(?:y|ies|ied)|lack of|never"
        r"|fails? to (?:show|demonstrate)|resolved|unlikely (?:that|to (?:be|represent|reflect))"
        r"|(?:interval |complete |full )*(?:resolution|clearing|clearance|removal|disappearance) of)\b",
    ),
    # "atelectasis rather than pneumonia": what was said before holds no longer, and what follows is denied
    ("instead", "rather instead opposed", r"(?:rather than|instead of|as opposed to)\b"),
    # earlier cues never reach over a new clause
    (
        "clause",
        "=but however though except otherwise whereas while =yet =there aside apart other which =with besides placement "
        "insertion",
        r"(?:but|however|although|though|except|otherwise|whereas|while|yet|(?<!that )(?<!any )there (?:is|are|has|have)"
        r"|aside from|apart from|other than|besides|which(?! (?:was|were) (?:present|seen|noted|identified|described)\b)"
        r"|and (?:interval )?(?:re)?(?:placement|insertion) of)\b"
        r"|with\b(?<!consistent with)(?<!compatible with)(?<!associated with)(?<!keeping with)(?! (?:no|evidence)\b)",
    ),
    # nor over the start of a new statement, once they have met a finding
    (
        "statement",
        "stable unchanged persistent small tiny trace mild minimal moderate severe bibasilar redemonstrat =new",
        r"(?<!\bno )(?<!\bor )(?<!\bnor )(?<!\bnot )(?<!of )(?<!\ba )(?<!\bany )(?<!other )(?<!definite )(?:stable"
        r"|unchanged|persistent|small|tiny|trace|mild|mildly|minimal|moderate|moderately|severe|bibasilar|redemonstrat\w+"
        r"|new)\b(?! if (?:any|present)\b)",
    ),
    (
        "statement",
        "=the",
        r"the\b(?<!\bor the)(?<!of the)(?<!\bin the)(?<!for the)(?<!\bat the)(?<!\bto the)(?<!\bon the)"
        r"(?<!\bby the)(?<!with the)(?<!from the)(?<!within the)(?<!along the)(?<!without the)",
    ),
)
