"""The report in a generated text, and what is counted beside it."""

import re

from pacer.tables.generated import residue_of, without_thoughts
from tests.support.cases import cases


@cases(__file__, "thoughts")
def test_thoughts(kind: str, case: list[str | None]) -> None:
    text, report = case
    assert without_thoughts(text) == (text if report is None else report)


@cases(__file__, "residue", "reports")
def test_residue(kind: str, case: list[str] | str) -> None:
    if kind == "reports":
        assert residue_of(["a"], [case]) == (0, "")
        return
    text, name, mark = case
    count, found = residue_of(["a", "b"], ["clear .", text])
    assert count == 1 and found.startswith(f"{name} (`{mark}`) in 1 (b): ")


def test_a_text_counts_once() -> None:
    texts = ["USER: as an AI", "<|user|>", "I cannot help you", "clear"]
    count, found = residue_of(["a", "b", "c", "d"], texts)
    assert count == 3
    assert [re.findall(r" in (\d) \((.*?)\): ", kind) for kind in found.split("; ")] == [
        [("2", "a, b")],
        [("1", "c")],
    ]
