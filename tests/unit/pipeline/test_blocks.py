"""Figures in the docs are what the scripts write from released results."""

import re

import default_run
import evidence
import pytest
import release

from pacer.core.io import hash_file, read_json
from pacer.metrics.result import read_scores
from tests.support import documented_scores
from tests.support.repository import ROOT

#: What a sentence about the default run says, a figure, and the commit of an older run.
SUBJECT = re.compile(r"(?:default|released) (?:run|corpus|dataset)")
FIGURE, COMMIT = re.compile(r"\d[.,]\d\d|\d%"), re.compile(r"commit [0-9a-f]{7}")


def pages() -> dict:
    marked = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "bench").rglob("*.md")]
    return {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in marked}


def test_all_blocks_are_what_the_scripts_write() -> None:
    found = pages()
    written = {path: evidence.with_tables(text) for path, text in found.items()}
    filled = {path for path, text in found.items() if evidence.BLOCK.search(text)}
    assert filled == {*evidence.PAGES}, "bench/evidence.py writes only the blocks of its PAGES"
    for path, text in documented_scores.written_pages().items():
        written[path.relative_to(ROOT)] = evidence.with_tables(text)
    assert [str(path) for path, text in written.items() if text != found[path]] == [], (
        "run `python bench/evidence.py; python -m tests.support.documented_scores`"
    )


def test_no_sentence_has_a_figure_of_the_default_run_by_hand() -> None:
    by_hand = []
    for path, text in pages().items():
        if path.parts[0] != "bench":
            prose = evidence.BLOCK.sub("\n\n", text)
            prose = re.sub(r"```.*?```|^\|.*?$", "\n\n", prose, flags=re.DOTALL | re.MULTILINE)
            for part in re.split(r"\n\n|\n- |(?<=[.:;])\s", prose):
                sentence = " ".join(part.split())
                if (
                    SUBJECT.search(sentence)
                    and FIGURE.search(sentence)
                    and not COMMIT.search(sentence)
                ):
                    by_hand.append(f"{path}: {sentence}")
    assert by_hand == []


def test_scores_and_signature_of_the_released_run_belong_together() -> None:
    scores, signature = read_scores(ROOT / default_run.FOLDER)
    assert signature.run and scores["mean"]["f1"] > 0


def test_released_files_are_as_they_were_written() -> None:
    released = read_json(ROOT / release.RELEASE)["files"]
    found = {str(path): hash_file(ROOT / path) for path in release.FILES}
    assert released == found, "only `make release` writes them"
    first = read_json(ROOT / release.FIRST)
    assert (ROOT / default_run.F1).read_text() == default_run.f1_file(first)


@pytest.mark.parametrize("kind", ["size", "reports"])
def test_counts_of_the_default_corpus_are_sentences(kind: str) -> None:
    block = f"<!-- table: default {kind} -->\n<!-- end -->\n"
    assert len(evidence.with_tables(block)) > 100 + len(block)


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0%"), (0.0025, "0.25%"), (0.0133, "1%"), (0.8237, "82%")]
)
def test_shares(share: float, text: str) -> None:
    assert default_run.percent(share) == text
