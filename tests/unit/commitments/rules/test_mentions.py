"""What the rules saw and why: spans in the report, cues, and what decides between mentions."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pacer.commitments.anchor import POLARITIES
from pacer.commitments.rules.extract import extract_anchor, find_mentions
from pacer.commitments.rules.segments import located_segments, segments
from tests.support.sentences import SENTENCES
from tests.unit.commitments.rules.test_names_and_cues import NAMED

#: Words that begin, carry and break cues and mentions, for texts that no report has.
_WORDS = """no not without new effusion pleural thickening pneumothorax or and nor the with but rather than there is
    heart size normal enlarged mediastinum contours mass lesion nodular opacity consistent possible may represent cannot
    exclude excluded change resolved has have unchanged stable small versus vs. ? . ; , seen history of evaluate for
    concern edema blunting costophrenic angle removed tube line port 1.5 cm chest infection prior granulomatous
    tip of in stomach likely picc removal placement complication support devices remain right side if any less given
    definite andor prior study addendum: w/o pna pl eff and/or / : absent, none - • <p> &nbsp; {"a": 0} | Ø ﬁ
    mentioned increased intubated beyond history:
    comparison on lateral view identified probably failure collapse opacity"""
TEXTS = st.one_of(
    st.lists(st.sampled_from([*_WORDS.split(), "\n", "\n\n"]), max_size=30).map(" ".join),
    st.lists(
        st.sampled_from([*(sentence.text for sentence in SENTENCES), *(name for _, name in NAMED)]), max_size=4
    ).map(" ".join),
    st.text(alphabet="no effusion.İß\n?;/-5,()ﬁ|=:•½", max_size=60),
)


@given(text=TEXTS)
def test_mentions_explain_the_anchor(text: str) -> None:
    mentions = find_mentions(text)
    stated = {(mention.finding, mention.polarity) for mention in mentions if mention.polarity is not None}
    anchor = extract_anchor(text)
    decided = {(finding, name) for name in POLARITIES for finding in getattr(anchor, name)}
    assert decided <= stated and {finding for finding, _ in decided} == {finding for finding, _ in stated}
    assert sorted(mentions, key=lambda mention: mention.start) == mentions


@given(text=TEXTS)
def test_spans_are_places_in_the_report(text: str) -> None:
    for mention in find_mentions(text):
        named = text[mention.start : mention.end]
        assert named.strip() == named
        # the name is a mention by itself: of this finding, whatever surrounds it ("evidence of failure", "no collapse")
        # (or refers to one: "a small one", "the left")
        alone = {m.finding for m in find_mentions(named)}
        parts = ("pleur", "failure", "collapse", " one", "the ")
        assert mention.finding in alone or any(part in named.lower() for part in parts)
        if mention.cue is not None:
            start, end = mention.cue
            assert 0 <= start < end <= len(text)
            assert text[start:end].strip() == text[start:end]


#: Reports, and of each mention: words, finding, polarity, cue.
SHOWN = {
    "Heart normal. No  evidence of\n pneumothorax or EFFUSION.": """
        Heart normal, cardiomegaly, negative, None
        pneumothorax, pneumothorax, negative, No
        EFFUSION, pleural effusion, negative, No""",
    "Opacity (1.5 cm), which may represent pneumonia.": """
        Opacity, lung opacity, positive, None
        pneumonia, pneumonia, uncertain, may represent""",
    "History of pneumonia. No new edema.": """
        pneumonia, pneumonia, None, History of
        edema, edema, None, No new""",
    "Atelectasis rather than pneumonia; İ; the effusion has resolved.": """
        Atelectasis, atelectasis, positive, None
        pneumonia, pneumonia, negative, rather than
        effusion, pleural effusion, negative, has resolved""",
    "Right hydropneumothorax suggested.": """
        hydropneumothorax, pneumothorax, positive, None
        hydropneumothorax, pleural effusion, positive, None""",
    "Findings suggest edema.": "edema, edema, uncertain, suggest",
    "Pericardial effusion.": "",
}


@pytest.mark.parametrize("report", SHOWN)
def test_what_is_shown(report: str) -> None:
    shown = [
        (report[m.start : m.end], m.finding, m.polarity, m.cue and report[slice(*m.cue)]) for m in find_mentions(report)
    ]
    assert [", ".join(map(str, line)) for line in shown] == [line.strip() for line in SHOWN[report].split("\n") if line]


@pytest.mark.parametrize(
    ("report", "polarity"),
    [
        ("No effusion. No effusion. Effusion. Possible effusion.", "positive"),
        ("No effusion. No effusion.", "negative"),
        ("Possible effusion. Effusion.", "uncertain"),
        ("No new effusion. No effusion.", "negative"),
        ("No new effusion.", None),
    ],
)
def test_the_first_mention_that_does_not_deny_decides(report: str, polarity: str | None) -> None:
    assert extract_anchor(report).polarity("pleural effusion") == polarity


@given(st.text(alphabet="ab.;!?\n /,(1İ-", max_size=80))
@example(" - -")  # a value, before which the rules write a sign of their own
def test_segments_know_their_places(text: str) -> None:
    located = list(located_segments(text))
    assert [segment for segment, _ in located] == [" ".join(s.split()) for s in segments(text) if s.strip()]
    for segment, places in located:
        assert len(segment) == len(places)
        for letter, place in zip(segment, places, strict=True):
            original = text[place].lower()
            assert letter in (original, text[place], " ", "=") or (letter == "0" and original.isdecimal())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Edema. Clear.", ["edema", "clear"]),
        ("Edema; clear", ["edema", "clear"]),
        ("1.5 cm, 2.5 cm", ["0.0 cm 0.0 cm"]),
        ("Edema? Clear", ["edema?", "clear"]),
        ("A vs. B", ["a vs. b"]),
        ("Per Dr. Roe", ["per dr. roe"]),
        ("A\nB", ["a b"]),
        ("A\n\nB", ["a", "b"]),
        ("A\n- B\n2) C", ["a", "b", "0 c"]),
        (" . ", []),
    ],
)
def test_segmentation(text: str, expected: list[str]) -> None:
    assert [segment for segment, _ in located_segments(text)] == expected
