"""Write the words that ``pacer/commitments/rules/doubt.tsv`` lists as seen beside findings without
effect: all words of reports whose readings were looked at.

    python bench/doubt.py openi/records.parquet phantom/records.parquet

The files are those of the profiles openi (with ``corpus.target: findings_and_impression``; its
train split is read) and phantom.
"""

import re
import sys
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from pacer.commitments.rules.segments import expand_abbreviations, located_segments

TABLE = Path(__file__).parents[1] / "pacer/commitments/rules/doubt.tsv"


def seen_words(reports: Iterable[str]) -> set[str]:
    """Return the words of some reports as the rules see them, without single letters."""
    read = (
        expand_abbreviations(segment)[0]
        for report in reports
        for segment, _ in located_segments(report)
    )
    return {word for text in read for word in re.findall(r"[a-z']{2,}", text)}


def with_words(table: str, words: set[str]) -> str:
    """Return the table with these words as the last row, the seen ones."""
    *rows, _ = table.splitlines()
    return "\n".join([*rows, f"seen\t\t{' '.join(sorted(words))}"]) + "\n"


if __name__ == "__main__":
    openi, phantom = map(pl.read_parquet, sys.argv[1:])
    words = seen_words([*openi.filter(split="train")["report_raw"], *phantom["report_raw"]])
    TABLE.write_text(with_words(TABLE.read_text(encoding="utf-8"), words), encoding="utf-8")
