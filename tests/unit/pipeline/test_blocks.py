"""Tables of the docs are what the scripts write from released results."""

import evidence

from pacer.metrics.result import read_scores
from tests.support import documented_scores
from tests.support.repository import ROOT


def test_all_blocks_are_what_the_scripts_write() -> None:
    marked = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "bench").rglob("*.md")]
    pages = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in marked}
    written = {path: evidence.with_tables(text) for path, text in pages.items()}
    filled = {path for path, text in pages.items() if evidence.BLOCK.search(text)}
    assert filled <= set(evidence.PAGES), "bench/evidence.py writes only the blocks of its PAGES"
    for path, text in documented_scores.written_pages().items():
        written[path.relative_to(ROOT)] = text
    assert [str(path) for path, text in written.items() if text != pages[path]] == [], (
        "run `python bench/evidence.py; python -m tests.support.documented_scores`"
    )


def test_scores_and_signature_of_the_released_run_belong_together() -> None:
    scores, signature = read_scores(ROOT / "bench" / "results" / "default")
    assert signature.run and scores["mean"]["f1"] > 0
