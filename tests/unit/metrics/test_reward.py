"""The reward for reinforcement learning: exact F1 of one report, by TRL's convention."""

from typing import Any

import numpy as np
import polars as pl
import pytest

import pacer
from pacer.core.errors import DataError
from pacer.extras.certify.metrics import scores_of
from pacer.phantom.language import sample_texts

TEXTS = [report.text for report in sample_texts(11, 60)]


def test_the_reward_is_exact_f1_of_each_report() -> None:
    pairs = [(one, other) for one in TEXTS[:8] for other in TEXTS[:8]]
    references, texts = map(list, zip(*pairs))
    rewards = pacer.reward(completions=texts, references=references, prompts=[""])
    assert all(type(one) is float for one in rewards)
    ids = list(map(str, range(len(texts))))
    cards = pl.DataFrame({"id": ids, "reference": references, "text": texts})
    exact = scores_of(cards, {}, ["exact_f1"])["exact_f1"]
    assert rewards == [1.0 if np.isnan(one) else pytest.approx(one) for one in exact]
    assert {0.0, 1.0} < {*rewards}


@pytest.mark.parametrize(
    ("completion", "reference", "expected"),
    [
        ("Small left effusion.", "Small left pleural effusion.", 1.0),
        ("Small right effusion.", "Small left pleural effusion.", 0.0),
        ("Effusion. Edema.", "There is edema.", pytest.approx(2 / 3)),
        ("No effusion.", "Lungs are clear.", 1.0),
        ("Possible edema.", "Lungs are clear.", 1.0),
        ("No effusion.", "Edema.", 0.0),
        ("Edema.", "Lungs are clear.", 0.0),
        ("", "Lungs are clear.", 0.0),
        (" \n", "Edema.", 0.0),
    ],
)
def test_values(completion: str, reference: str, expected: float) -> None:
    assert pacer.reward([completion], [reference]) == [expected]


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
