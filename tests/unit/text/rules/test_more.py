"""Tables of further findings: the package's by its own examples, and faults in a user's."""

from pathlib import Path

import pytest

from pacer.core.errors import DataError
from pacer.text.rules import extract_anchor, find_mentions, find_more, more, read_more
from pacer.text.rules.more import BUILTIN, with_more_findings

LINES = Path(more.__file__).with_name("more_findings.tsv").read_text(encoding="utf-8").splitlines()
MORE = with_more_findings(BUILTIN)  # which reads every example
#: Findings that radiologists often name beyond the 13.
OFTEN = {
    "low lung volumes",
    "hyperinflation",
    "hernia",
    "degenerative spine",
    "aortic calcification",
    "scarring",
    "peribronchial thickening",
    "vascular prominence",
    "prior surgery",
}


def test_the_table_has_what_radiologists_often_name() -> None:
    assert {line.split("\t")[1] for line in LINES[1:]} >= OFTEN
    assert max(map(len, LINES)) <= 100


@pytest.mark.parametrize(
    "line", [line for line in LINES[1:] if not {"is", "are"} & {*line.split("\t")[3].split()}]
)
def test_every_row_is_read_and_denied(line: str) -> None:
    phrase, name, _, example = line.split("\t")
    read = {} if name == "nothing" else {name: "positive"}
    assert read_more(example, MORE) == read, phrase
    denied = read_more(f"No {example[0].lower()}{example[1:]}", MORE)
    assert denied == dict.fromkeys(read, "negative"), phrase


def test_further_findings_leave_the_13_alone() -> None:
    text = "Hiatal hernia, and a small effusion. No scoliosis or pneumothorax. Possible COPD."
    assert read_more(text, MORE) == {
        "hernia": "positive",
        "scoliosis": "negative",
        "copd": "uncertain",
    }
    found = [
        (text[one.start : one.end], one.finding, one.polarity) for one in find_more(text, MORE)
    ]
    assert found == [
        ("Hiatal hernia", "hernia", "positive"),
        ("scoliosis", "scoliosis", "negative"),
        ("COPD", "copd", "uncertain"),
    ]


def test_a_phrase_of_the_13_can_have_a_further_name(tmp_path: Path) -> None:
    table = tmp_path / "mine.tsv"
    table.write_text("\ufeff# Ours.\neffusion\tour effusion\t\tSmall effusion.\n", encoding="utf-8")
    lexicon, text = with_more_findings(table), "No effusion."
    before = extract_anchor(text), find_mentions(text)
    assert read_more(text, lexicon) == {"our effusion": "negative"}
    assert (extract_anchor(text), find_mentions(text)) == before
    assert before[0].negative == ("pleural effusion",)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("hernia\thernia\tHernia.", "3 columns; a row has a phrase, the name of its finding"),
        ("hernia", "1 column;"),
        ("hernia\thernia\t\t", "a phrase, name or example is empty"),
        ("hernia\thernia \t\tHernia.", "has blanks around it"),
        ("hernia\thernia\t>2\tHernia.", "the third column is not empty"),
        ("hernia\torgan:heart\t\tHernia.", "the name 'organ:heart' has a colon"),
        ("Hernia\thernia\t\tHernia.", "'Hernia' is not in lower case"),
        ("big ~x hernia\thernia\t\tBig hernia.", "a gap without a number"),
        ("{organ} hernia\thernia\t\tHernia.", "unknown group .*organ"),
        ("hernia\tedema\t\tHernia.", "edema is one of the 13 findings"),
        ("hernia\tPleural_Effusions\t\tHernia.", "pleural effusion is one of the 13 findings"),
        ("hernia\thernia + edema\t\tHernia.", "edema is one of the 13 findings"),
        (
            "hernia\thernia\t\tScoliosis.",
            "an example that states positive hernia, but 'Scoliosis.' states no further finding",
        ),
        ("hernia\thernia\t\tNo hernia.", "but 'No hernia.' states negative hernia"),
        (
            "scar\tnothing\t\tScar, cyst.",
            "no further finding, but 'Scar, cyst.' states positive cys",
        ),
    ],
)
def test_a_malformed_row_is_refused_by_its_line(tmp_path: Path, row: str, reason: str) -> None:
    table = tmp_path / "mine.tsv"
    table.write_text(f"# Ours.\ncyst\tcyst\t\tA cyst.\n\n{row}\n", encoding="utf-8")
    with pytest.raises(DataError, match=rf"^{table}, line 4: .*{reason}") as refused:
        with_more_findings(table)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"# only a comment\n", "mine.tsv has no rows"),
        (b"h\xe9rnie\thernia\t\tX.\n", "mine.tsv is not UTF-8"),
        (None, "mine.tsv cannot be read: No such file"),
    ],
)
def test_an_unreadable_table_is_refused(tmp_path: Path, content: bytes | None, reason: str) -> None:
    if content is not None:
        (tmp_path / "mine.tsv").write_bytes(content)
    with pytest.raises(DataError, match=reason):
        with_more_findings(tmp_path / "mine.tsv")
