"""Which part of a prompt a generated text repeats."""

from __future__ import annotations

import pytest

from pacer.commitments.rules.echo import prompt_echo


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[INST] Describe the film. [/INST] No effusion.", "turns"),
        ("<s>[INST] Is there an effusion? [/INST] No effusion.</s>", "turns"),
        ("<think>Is it edema?</think>No effusion.", "turns"),
        ("<think>It could be edema, or", "turns"),
        ("<|user|>What do you see?<|assistant|>No effusion.", "turns"),
        ("USER: Describe the image. ASSISTANT: No effusion.", "turns"),
        ("Generate the findings section of a chest X-ray report. No effusion.", "task"),
        ("Please describe this chest radiograph. No effusion.", "task"),
        ("You are an expert radiologist. Heart normal.", "task"),
        ("Given the frontal image, write a report. No effusion.", "task"),
        ("Indication: cough. No effusion.", "indication"),
        ("Clinical history: pneumonia.", "indication"),
        # none of these repeats a prompt
        ("No effusion.", None),
        ("<s>No effusion.</s>", None),
        ("<|assistant|>No effusion.", None),
        ("</think>No effusion.", None),
        ("Comparison is made with the report of the previous image.", None),
        ("Heart normal. " * 30 + "Write a report.", None),  # not at the beginning
        ("Physician assistant: the tube was placed.", None),
        ("", None),
    ],
)
def test_prompt_echo(text: str, part: str | None) -> None:
    assert prompt_echo(text) == part
