import pytest
from transformers import AutoTokenizer

from pacer.data.prompt import build_prompt, instruction, task
from tests.support.cases import listed_cases

RECORD = {"view": "PA", "sections": "findings+impression", "indication": None, "history": None, "commit": False}


@pytest.fixture(scope="module")
def tokenizer(backbones):
    return AutoTokenizer.from_pretrained(backbones / "language")


DIRECT = (
    "</Img> Write radiological finding and impression for this posterior anterior chest X-ray visual feature. "
    "\nAssistant:"
)
COMMITMENT = (
    "visual feature. First output <ANCHOR> positive, negative and uncertain findings, then output the final report "
    "in <REPORT>. \nAssistant:"
)


def test_the_instruction_is_upstreams_and_the_commitment_suffix_part_of_it() -> None:
    known = RECORD | {"indication": "Cough.", "history": "Smoker."}
    assert instruction(**known) == ("Human: INDICATION: Cough. HISTORY: Smoker. <Img>", DIRECT)
    assert instruction(**RECORD)[0] == "Human:  <Img>"
    assert instruction(**RECORD | {"commit": True})[1].endswith(COMMITMENT)


@pytest.mark.parametrize(("view", "sections", "unknown_view", "expected"), listed_cases(__file__, "tasks"))
def test_task_strings(view: str, sections: str, unknown_view, expected: str) -> None:
    assert task(view, sections, unknown_view) == "\n" * (view == "other") + f"Write radiological {expected}"


def test_as_upstream_a_long_history_takes_the_image_marker_with_it(tokenizer) -> None:
    record = {**RECORD, "history": "pain " * 100}
    text = instruction(**record)[0]
    upstreams = tokenizer(text, add_special_tokens=False, truncation=True, max_length=20)["input_ids"]
    ids = build_prompt(tokenizer, record, commit=False, before_tokens=20, truncation="upstream").before
    assert len(ids) == 20 and ids == upstreams
    for short in (RECORD, {**RECORD, "history": "pain"}):
        assert build_prompt(tokenizer, short, commit=False, truncation="upstream") == build_prompt(
            tokenizer, short, commit=False
        )
