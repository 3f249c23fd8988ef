"""What is left of a generated text that repeats its prompt."""

from __future__ import annotations

import pytest

from pacer.commitments.rules.echo import without_prompt

#: Text, and the report in it; None: the text as it is.
CASES: list[tuple[str, str | None]] = [
    ("[INST] Describe the film. [/INST] No effusion.", "No effusion."),
    ("<s>[INST] Is there an effusion? [/INST] No effusion.</s>", "No effusion.</s>"),
    ("<think>Is it edema?</think>No effusion.", "No effusion."),
    ("<think>It could be edema, or", ""),
    ("<|user|>What do you see?<|assistant|>No effusion.", "No effusion."),
    ("USER: Describe the image. ASSISTANT: No effusion.", "No effusion."),
    ("[INST] Describe the film. [/INST] Indication: cough. No effusion.", "No effusion."),
    # a task ends at a mark; without one nobody can tell where
    ("Please describe this chest radiograph. Findings: No effusion.", "Findings: No effusion."),
    ("Given the frontal image, write a report. ### Response: No effusion.", "No effusion."),
    ("Generate the findings section of a chest X-ray report. No effusion.", ""),
    ("You are an expert radiologist. Heart normal.", ""),
    # an indication ends with its sentence or at the next heading
    ("Indication: cough. No effusion.", "No effusion."),
    ("INDICATION: Cough\nFINDINGS: No effusion.", "FINDINGS: No effusion."),
    ("Clinical history: pneumonia.", ""),
    # none of these repeats a prompt
    ("No effusion.", None),
    ("<s>No effusion.</s>", None),
    ("<|assistant|>No effusion.", None),
    ("</think>No effusion.", None),
    ("Based on the provided image, the heart is normal.", None),
    ("Comparison is made with the report of the previous image.", None),
    ("Heart normal. " * 30 + "Write a report.", None),  # not at the beginning
    ("Physician assistant: the tube was placed.", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "report"), CASES)
def test_the_report_without_its_prompt(text: str, report: str | None) -> None:
    assert without_prompt(text) == (text if report is None else report)
