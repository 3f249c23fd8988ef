"""``pacer certify`` as a user types it: from no data to a certificate of a metric of her own."""

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from pacer.core.io import hash_file
from pacer.extras.certify.cards import COLUMNS, FAULTS, REPEATED, WORDS, make_cards, of_synthetic
from tests.support.cli import Outcome
from tests.support.repository import ROOT

Run = Callable[..., Outcome]
MINE = """
import subprocess

print("imported")

def overlap(references, texts):
    words = [(set(a.split()), set(b.split())) for a, b in zip(references, texts)]
    return [len(a & b) / max(1, len(a | b)) for a, b in words]

def brevity(references, texts):
    return [-len(text) for text in texts]

def broken(references, texts):
    return [1.0]

def other_order(predictions, references):
    print("scoring")
    subprocess.run(["echo", "scored"])
    return overlap(references, predictions)

def unclear(predictions, outputs):
    return [1.0] * len(predictions)
"""


@pytest.fixture(scope="module")
def texts() -> str:
    return make_cards(of_synthetic(3, 24)).write_csv()


@pytest.fixture
def cards(texts: str, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Cards of 24 references beside ``mine.py``, in the working directory."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (repository / "mine.py").write_text(MINE)
    (repository / "cards").mkdir()
    (repository / "cards" / "texts.csv").write_text(texts)
    return repository / "cards"


def test_cards_are_made(pacer: Run, repository: Path, texts: str) -> None:
    made = pacer("certify", "make", "--out", "cards", "--limit", 24, "--seed", 3)
    assert made.code == 0 and "`pacer certify score cards TABLE`" in made.out, made.error
    assert (repository / "cards" / "texts.csv").read_text() == texts


def test_functions_are_certified_side_by_side(pacer: Run, cards: Path) -> None:
    metrics = ("--metric", "mine:overlap", "--metric", "mine:brevity", "--metric", "exact_f1")
    done = pacer("certify", "score", "cards", *metrics)
    assert done.code == 0, done.error
    heading, *lines = done.out.splitlines()
    assert heading.split()[-3:] == ["mine:overlap", "mine:brevity", "exact_f1"]
    assert [line.split("  ")[0] for line in lines[: len(FAULTS)]] == [*FAULTS]
    dropped = next(line for line in lines if line.startswith("finding dropped"))
    assert "rewards" in dropped and dropped.split()[-5] == "sees"
    assert "sees: both shares are above 0.5" in done.out
    folder = cards.parent / "certificate"
    text = (folder / "table.md").read_text()
    assert text.startswith("| Verdict, share of pairs")
    assert text.splitlines()[-1].endswith(hash_file(cards / "texts.csv"))
    assert "<svg" in (folder / "certificate.svg").read_text()


def test_a_table_of_scores_is_certified(pacer: Run, cards: Path) -> None:
    """Errors are counted, so lower is better; the user has added a column to the texts."""
    with (cards / "texts.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [*rows[0]] == [*COLUMNS]
    repeats = [{**row, "score": row["kind"].count(REPEATED)} for row in rows]
    pl.DataFrame(repeats).write_csv("mine.csv")
    options = ("--lower-is-better", "REPEATS", "--json", "--out", "elsewhere")
    done = pacer("certify", "score", "cards", "REPEATS=mine.csv", *options)
    assert done.code == 0, done.error
    found = json.loads(done.out)["REPEATS"]
    assert [kind for kind in FAULTS if found[kind]["verdict"] == "sees"] == [REPEATED]
    assert not any(found[kind]["verdict"] == "rewards" for kind in FAULTS)
    assert found[REPEATED]["below"]["value"] == 1
    assert found["other order"]["in faults"]["value"] == 0
    assert (cards.parent / "elsewhere" / "table.md").is_file()


@pytest.mark.usefixtures("cards")
def test_a_metric_that_prints_leaves_json_alone() -> None:
    """It is called by the names of its parameters, too."""
    metrics = ("--metric", "mine:other_order", "--metric", "mine:overlap")
    code = "from pacer.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "certify", "score", "cards", *metrics, "--json"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    one, other = json.loads(done.stdout).values()
    assert one == other
    assert {"imported", "scoring", "scored"} <= {*done.stderr.split()}


def test_own_references_are_read_by_their_columns(pacer: Run, repository: Path) -> None:
    texts = ["Mild edema. Tumor on the left. No effusion.", "Lungs are clear. Heart is large."]
    texts.append("1. Lungs are clear. 2. Heart is large.")  # alike without the numbers
    ids = {"study": ["a", "b", "c"], "patient_id": ["p", "q", "q"]}
    pl.DataFrame({**ids, "findings": texts, "text": texts}).write_csv("own.csv")
    refused = pacer("certify", "make", "--references", "own.csv", "--id", "study")
    assert refused.code == 1 and "--reference-text" in refused.error
    columns = ("--id", "study", "--reference-text", "findings")
    assert pacer("certify", "make", "--references", "own.csv", *columns, "--out", "own").code == 0
    again = pacer("certify", "make", "--out", "own")
    assert again.code == 1 and "texts.csv, which would be lost" in again.error
    made = pl.read_csv("own/texts.csv")
    assert {*made["kind"]} == {"unchanged", *WORDS[:3]}
    assert {*made["patient_id"]} == {"p", "q"}
    done = pacer("certify", "score", "own", "--metric", "rougeL")
    assert done.code == 0 and "Cost of one text" in done.out and "Verdict" not in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--metric", "mine:broken"],
            "expected .* numbers, one for each pair of reports, got list",
        ),
        (["--metric", "mine:absent"], "mine:absent .* cannot be imported"),
        (["--metric", "mine:"], "mine: is unknown; expected module:function"),
        (["--metric", "re:I"], "re:I is no function"),
        (["--metric", "mine:unclear"], "takes predictions, outputs; expected two parameters"),
        (["--metric", "f1"], "needs --chexbert"),
        (["absent.csv"], "absent.csv"),
        (["--lower-is-better", "mine"], "mine: there is no such .*; name one of exact_f1"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    pacer: Run, cards: Path, arguments: list[str], message: str
) -> None:
    file = cards / "texts.csv"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:4]))
    done = pacer("certify", "score", "cards", *arguments)
    assert done.code == 1
    assert re.search(message, done.error), done.error


def test_no_package_of_the_pipeline_is_needed() -> None:
    code = """
import sys
sys.modules |= dict.fromkeys(("torch", "tokenizers", "transformers", "dvc"))
from pacer.extras.certify.cards import make_cards, of_synthetic
from pacer.extras.certify.metrics import scores_of
from pacer.extras.certify.verdicts import judge
cards = make_cards(of_synthetic(0, 3))
judge(cards, scores_of(cards, {}, ["exact_f1"])["exact_f1"])
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
