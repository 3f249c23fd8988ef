"""The rules by ``cases.yaml``, by ``sentences.tsv``, and every row of the tables by its own
example."""

import re
import textwrap
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pacer.commitments.attributes import TABLE as ATTRIBUTES
from pacer.commitments.rules.extract import (
    extract_anchor,
    find_mentions,
    read_report,
    segment_readings,
)
from pacer.commitments.rules.plain import without_prompt
from pacer.commitments.rules.segments import (
    expand_abbreviations,
    located_segments,
)
from pacer.commitments.rules.table import CUES, NAMES, Match, Patterns, Rule, lines

from pacer.core.anchor import POLARITIES, Anchor
from pacer.core.io import yaml_beside
from pacer.data.cleaning import clean_report
from tests.support.sentences import anchor_of


class Sentence(NamedTuple):
    """A sentence and its reading; ``cleaned``: the cleaned sentence says the same."""

    source: str
    cleaned: bool
    reading: str
    text: str


def _sentence(line: str) -> Sentence:
    source, text, reading, sentence = line.split("\t")
    return Sentence(source, text == "both", reading, sentence)


SENTENCES = [
    _sentence(line)
    for line in Path(__file__).with_name("sentences.tsv").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
CASES: dict[str, Any] = yaml_beside(__file__, "cases.yaml")
SOME = ("pleural effusion", "pneumothorax", "pneumonia", "consolidation", "atelectasis", "fracture")
TEXTS = st.one_of(
    st.lists(st.sampled_from([*CASES["words"].split(), "\n", "\n\n"]), max_size=30).map(" ".join),
    st.lists(
        st.sampled_from(
            [*(sentence.text for sentence in SENTENCES), *chain(*CASES["names"].values())]
        ),
        max_size=4,
    ).map(" ".join),
    st.text(alphabet="no effusion.İß\n?;/-5,()ﬁ|=:•½", max_size=60),
)


def said(report: str) -> dict[str, str]:
    """Polarity of the findings that the anchor names."""
    anchor = extract_anchor(report)
    return {finding: name for name in POLARITIES for finding in getattr(anchor, name)}


@pytest.mark.parametrize("finding", CASES["names"])
def test_names(finding: str) -> None:
    for name in CASES["names"][finding]:
        for sentence, polarity in (
            ("There is {}.", "positive"),
            ("No {}.", "negative"),
            ("Possible {}.", "uncertain"),
        ):
            assert said(sentence.format(name)) == {finding: polarity}, name
        assert said(f"Stable {name}.") == {finding: "positive"}, name
        assert said(clean_report(f"Stable {name}.")) == {finding: "positive"}, name


@pytest.mark.parametrize("kind", CASES["cues"])
def test_cues(kind: str) -> None:
    polarity = None if kind == "silent" else kind
    for sentence, finding in product(CASES["cues"][kind], SOME):
        text = sentence.format(finding)
        assert said(text).get(finding) == polarity, text
        assert said(f"{text.upper()}  Lungs\n are  clear.").get(finding) == polarity, text


def test_words_joined_by_the_cleaner() -> None:
    cleaned = clean_report("Bibasilar atelectasis/infiltrate. Pleura: no effusion.")
    assert "atelectasisinfiltrate" in cleaned
    assert extract_anchor(cleaned) == Anchor.of(
        ["atelectasis", "lung opacity"], ["pleural effusion"]
    )


def test_windows_are_local() -> None:
    near, far = "quite " * 20, "quite " * 30
    assert said(f"No {near} effusion.") == {"pleural effusion": "negative"}
    assert said(f"No {far} effusion.") == {"pleural effusion": "positive"}
    assert said(f"Effusion {near} is absent.") == {"pleural effusion": "positive"}


#: What is read of a text, by kind of case.
READ: dict[str, Callable[[str], Any]] = {
    "prompts": without_prompt,  # null: the text itself
    "orders": lambda text: extract_anchor(text).polarity("pleural effusion"),
    "segments": lambda text: [" ".join(one.split()) for one, _ in located_segments(text)],
}


@pytest.mark.parametrize(("kind", "case"), [(kind, case) for kind in READ for case in CASES[kind]])
def test_what_is_read(kind: str, case: list) -> None:
    text, expected = case
    assert READ[kind](text) == (text if kind == "prompts" and expected is None else expected)


@pytest.mark.parametrize(("report", "lines"), CASES["mentions"])
def test_what_is_shown(report: str, lines: list[str]) -> None:
    shown = [
        (report[m.start : m.end], m.finding, m.polarity, m.cue and report[slice(*m.cue)])
        for m in find_mentions(report)
    ]
    assert [", ".join(map(str, line)) for line in shown] == lines


@given(text=TEXTS)
@example(text="An opacity (the pleura has no effusion) and edema.")
def test_mentions_explain_the_anchor(text: str) -> None:
    mentions = [*find_mentions(text)]
    stated = {
        (mention.finding, mention.polarity) for mention in mentions if mention.polarity is not None
    }
    anchor = extract_anchor(text)
    decided = {(finding, name) for name in POLARITIES for finding in getattr(anchor, name)}
    assert decided <= stated and {finding for finding, _ in decided} == {
        finding for finding, _ in stated
    }
    assert sorted(mentions, key=lambda mention: mention.start) == mentions


@given(text=TEXTS)
@example(text="Right effusion has resolved, left has increased.")
def test_spans_are_places_in_the_report(text: str) -> None:
    for mention in find_mentions(text):
        named = text[mention.start : mention.end]
        assert named.strip() == named
        # the name is a mention by itself: of this finding, whatever surrounds it ("evidence of
        # failure", "no collapse") (or refers to one: "left has increased"; or is one beside
        # "inserted" or "none": "line")
        alone = {m.finding for m in find_mentions(named)}
        refers = (
            r"pleur|failure|collapse|clear| one|the |^(?:left|right|other|larger|smaller) "
            r"(?:(?:has|is|was) )?\w+$|^(?:but|and|yet|though) "
            r"|\b(?:it|they|this|that|these|those|none|neither|one|not?|such|absent|gone|so|some)\b"
        )
        assert mention.finding in alone or re.search(rf"{refers}|^lines?$", named.lower())
        if mention.cue is not None:
            start, end = mention.cue
            assert 0 <= start < end <= len(text)
            assert text[start:end].strip() == text[start:end]


def test_no_span_has_blanks_at_its_ends() -> None:
    # every cue, whatever the property draws
    texts = {sentence.text for sentence in SENTENCES} | {row.example for row in (*NAMES, *CUES)}
    for text in texts:
        for mention in find_mentions(text):
            for span in (slice(mention.start, mention.end), slice(*mention.cue or (0, 0))):
                assert text[span] == text[span].strip()


@given(st.text(alphabet="ab.;!?\n /,(1İ-", max_size=80))
@example(" - -")  # a value, before which the rules write a sign of their own
def test_segments_know_their_places(text: str) -> None:
    for segment, places in located_segments(text):
        assert segment == segment.strip() != ""
        assert len(segment) == len(places)
        expanded, inside, _ = expand_abbreviations(segment)
        assert len(expanded) == len(inside)
        assert all(0 <= place < len(segment) for place in inside)
        for letter, place in zip(segment, places, strict=True):
            original = text[place].lower()
            read = {**dict.fromkeys("-()", ","), **dict.fromkeys("0123456789", "0")}.get(
                original, original
            )
            assert letter in (original, text[place], " ", "=", read)


#: What the rules still misread, and why.
MISREAD = {
    "Small rounded bilateral axillary "
    "densities": "the hedge speaks of artifacts, no finding, and no denial ends it",
    "Blunting of the lateral and posterior "
    "left": '"pleural-parenchymal scarring" is no name of the rules',
    "A small right-sided pleural effusion versus thickening.": 'nor is "thickening" alone',
    "No support devices mentioned.": "the rules take it for a denial of devices",
}


@pytest.mark.parametrize("row", [*NAMES, *CUES], ids=lambda row: row.example)
def test_every_row_reads_its_example(row: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example says what the row's reading says, and the row itself is found in it."""
    assert extract_anchor(row.example) == anchor_of(row.reading)
    found: list[Match] = []
    find = Patterns.find
    monkeypatch.setattr(Patterns, "find", lambda *text: found.extend(find(*text)) or find(*text))
    read_report.cache_clear()
    segment_readings.cache_clear()
    find_mentions(row.example)
    assert any(match.row is row for match in found)


@pytest.mark.parametrize("row", lines("markup.tsv"), ids=lambda row: row["example"])
def test_every_markup_reads_its_example(row: dict[str, str]) -> None:
    assert extract_anchor(row["example"]) == anchor_of(row["reading"])


@pytest.mark.parametrize("row", lines("abbreviations.tsv"), ids=lambda row: row["short"])
def test_every_abbreviation_reads_its_example(row: dict[str, str]) -> None:
    """So does each other spelling in its place."""
    spellings = row["short"].split(", ")
    written = re.compile("|".join(map(re.escape, sorted(spellings, reverse=True))), re.IGNORECASE)
    assert written.search(row["example"])
    for short in spellings:
        assert extract_anchor(written.sub(short, row["example"])) == anchor_of(row["reading"]), (
            short
        )


def test_a_cue_says_how_far_it_reaches() -> None:
    for row in CUES:
        assert bool(row.side) == any(row.reach) == (row.says in SAYS), row.example


SAYS = ("negative", "uncertain", "hint", "silent", "instead")


@pytest.mark.parametrize("source", dict.fromkeys(sentence.source for sentence in SENTENCES))
def test_sentences(source: str) -> None:
    wrong = []
    for sentence in (sentence for sentence in SENTENCES if sentence.source == source):
        misread = any(sentence.text.startswith(beginning) for beginning in MISREAD)
        texts = [sentence.text]
        if sentence.cleaned and not re.search(r"\.[A-Z]", sentence.text):
            # the cleaner joins what no blank parts
            texts.append(clean_report(sentence.text))
        expected = anchor_of(sentence.reading)
        wrong += [text for text in texts if (extract_anchor(text) == expected) == misread]
    assert wrong == []


@pytest.mark.parametrize("indent", ["", " "])
def test_wrapped_lines_read_the_same(indent: str) -> None:
    """A sentence reads the same where an editor has wrapped it at 40 columns."""
    for text in {sentence.text for sentence in SENTENCES}:
        wrapped = textwrap.fill(text, 40, break_long_words=False, break_on_hyphens=False)
        assert extract_anchor(wrapped.replace("\n", f"\n{indent}")) == extract_anchor(text), wrapped


def plain_matches(
    rows: Sequence[Rule], patterns: Sequence[re.Pattern[str]], text: str
) -> list[Match]:
    """Every pattern searched for in the text; of overlapping matches the earlier one, then the
    earlier pattern."""
    padded, matches = f" {text}", []
    for rank, pattern in enumerate(patterns):
        for match in pattern.finditer(padded):
            start = match.start() if padded[match.start()] == " " else match.start() - 1
            matches.append((start, rank, match.end() - 1))
    free, chosen = 0, []
    for start, rank, end in sorted(matches):
        if start >= free:
            chosen.append(Match(start, end, rows[rank]))
            free = end
    return chosen


#: Rows, their patterns (compiled once: Python keeps no more than 512), and the fast search.
TABLES = [
    (
        rows,
        [re.compile(f"{'' if row.anywhere else ' '}(?:{row.words})") for row in rows],
        Patterns(rows),
    )
    for rows in (NAMES, CUES)
]


def assert_found(report: str) -> None:
    """Both tables of patterns in every statement of the report."""
    for statement, _ in located_segments(report):
        segment = expand_abbreviations(statement)[0].replace("/", " ")
        words = segment.split()
        segment = " ".join(words)
        for rows, patterns, fast in TABLES:
            assert fast.find(segment, words) == plain_matches(rows, patterns, segment), segment


@given(text=TEXTS)
def test_any_text(text: str) -> None:
    assert_found(text)


#: The parser of the standard library's regular expressions, which has no public name.
PARSER: Any = import_module("re._parser")


def shortest(pieces: frozenset[str]) -> float:
    """The letters of the shortest piece; the start of a word counts as half a letter."""
    return min((len(piece) - piece.startswith("_") / 2 for piece in pieces), default=0)


def required(items: Any, starts: bool, run: str = "") -> list[frozenset[str]]:
    """Sets of pieces of words: every match of the parsed items contains a piece of each. The items
    stand at the start of a word if ``starts``, and directly after the letters ``run``."""
    sets = []
    for operation, value in [*items, (None, None)]:
        letter = chr(value) if operation is PARSER.LITERAL else ""
        if letter.strip(" -"):
            run += f"_{letter}" if starts and letter.isalnum() else letter
            starts = False
            continue
        if operation in (PARSER.SUBPATTERN, PARSER.BRANCH):  # its letters go on with the word
            inside = [value[-1]] if operation is PARSER.SUBPATTERN else value[1]
            branches = [sorted(required(one, starts, run), key=shortest)[::-1] for one in inside]
            # the best set of every alternative together, then the second best, and so on
            united = [frozenset().union(*alike) for alike in zip(*branches)]
            sets += united
            if any(all(run in piece for piece in pieces) for pieces in united):
                run = ""  # those pieces begin with it
        if run:
            letters = run.removeprefix("_")
            sets.append(frozenset((run if letters.isalnum() else letters,)))
            run = ""
        if operation is PARSER.ASSERT:
            sets += required(value[1], starts and value[0] > 0)
        elif operation in (PARSER.MAX_REPEAT, PARSER.MIN_REPEAT) and value[0] > 0:
            sets += required(value[2], starts)
        if operation not in (PARSER.ASSERT, PARSER.ASSERT_NOT, PARSER.AT):
            starts = letter == " "
    return sets


def pieces_of(rule: Rule) -> list[frozenset[str]]:
    """The three best sets, without those that contain another one."""
    starts = not rule.anywhere or rule.words.startswith(r"\b")
    sets = required(PARSER.parse(rule.words.removeprefix(r"\b")), starts)
    chosen: list[frozenset[str]] = []
    for pieces in sorted(filter(None, sets), key=shortest, reverse=True):
        if not any(other <= pieces for other in chosen):
            chosen.append(pieces)
    return chosen[:3]


@pytest.mark.parametrize("rules", [NAMES, CUES, ATTRIBUTES], ids=["names", "cues", "attributes"])
def test_the_pieces_of_a_row_are_those_of_its_words(rules: tuple[Rule, ...]) -> None:
    for rule in rules:
        column = " & ".join(", ".join(sorted(pieces)) for pieces in pieces_of(rule))
        assert list(rule.pieces) == pieces_of(rule), (
            f"the last cell of {rule.example!r} must be: {column}"
        )


def test_earlier_start_then_earlier_row_wins() -> None:
    one, two, three, four = (Rule("names", words, "", "") for words in ("b c", "b", "c d", "d"))
    words = ["a", "b", "c", "d"]
    found = Patterns([one, two, three._replace(anywhere=True), four]).find(" ".join(words), words)
    assert found == [Match(2, 5, one), Match(6, 7, four)]
