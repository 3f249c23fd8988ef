"""The reward for reinforcement learning: right findings of one report, by TRL's convention."""

from typing import Any

import pytest

import pacer
from pacer.core.errors import DataError
from pacer.phantom.language import sample_texts

TEXTS = [report.text for report in sample_texts(11, 60)]


def test_only_copies_of_what_is_stated_earn_all_and_nothing_earns_zero() -> None:
    pairs = [(one, other) for one in TEXTS[:16] for other in TEXTS[:16]]
    references, texts = map(list, zip(*pairs))
    rewards = pacer.reward(completions=texts, references=references, prompts=[""])
    assert all(type(one) is float for one in rewards)
    assert 0 < min(rewards) < 0.2 and max(rewards) == 1 and len({*rewards}) >= 15
    assert pacer.reward(TEXTS, TEXTS) == [1.0] * len(TEXTS)


def test_repeating_a_report_changes_nothing() -> None:
    references = [*TEXTS[1:], TEXTS[0]]
    once = pacer.reward(TEXTS, references)
    for between in (" ", "\n"):
        assert pacer.reward([f"{text}{between}{text}" for text in TEXTS], references) == once


@pytest.mark.parametrize(
    ("completion", "reference", "expected"),
    [
        ("Small left effusion.", "Small left pleural effusion.", 1.0),
        ("Small right effusion.", "Small left pleural effusion.", 2 / 3),
        ("Small right effusion.", "Small left effusion. Edema.", 1 / 2.5),
        ("Possible edema.", "Edema.", 2 / 3),
        ("Possible edema.", "Possible edema.", 1.0),
        ("Effusion. Edema.", "There is edema.", 1.5 / 2.5),
        ("Edema. No effusion.", "There is edema.", 1.0),
        ("No effusion.", "Lungs are clear.", 1.0),
        ("Pneumothorax.", "Hips are normal.", 1 / 3),
        ("No edema.", "Edema.", 1 / 3),
        ("Edema.", "No edema.", 1 / 3),
        ("Compare with the prior study.", "Edema. Effusion.", 0.5 / 2.5),
        ("", "Lungs are clear.", 0.0),
        (" \n", "Edema.", 0.0),
        ("...", "Lungs are clear.", 0.0),
    ],
)
def test_values(completion: str, reference: str, expected: float) -> None:
    assert pacer.reward([completion], [reference]) == [pytest.approx(expected)]


def test_messages_count_by_their_last_content() -> None:
    messages = [
        [{"role": "assistant", "content": "Edema."}],
        [
            {"role": "assistant", "content": "Thinking."},
            {"role": "assistant", "content": "Effusion."},
        ],
    ]
    assert pacer.reward(messages, ["Edema.", "Effusion."]) == [1.0, 1.0]


def test_other_columns_are_ignored() -> None:
    assert pacer.reward(["Edema."], ["Edema."], image=["a.png"], trainer_state=None) == [1.0]


@pytest.mark.parametrize(
    ("completions", "references", "message"),
    [
        (["Edema."], ["Edema.", "Edema."], "as many completions as references"),
        ("Edema.", "Edema.", "as many completions as references, each in a list"),
        (["Edema."], [None], "reference 0 is None"),
        ([[]], ["Edema."], "completion 0 is a list of length 0"),
        ([[{"role": "assistant"}]], ["Edema."], "completion 0 is a list of length 1"),
    ],
)
def test_what_is_no_text_is_refused(completions: Any, references: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        pacer.reward(completions, references)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("<think>Left pneumothorax?</think>Small effusion.", 1.0),
        ([{"type": "text", "text": "Small"}, {"type": "text", "text": "effusion."}], 1.0),
        (None, 0.0),
    ],
)
def test_forms_of_a_message(content: Any, expected: float) -> None:
    assert pacer.reward([[{"content": content}]], ["Small effusion."]) == [expected]
