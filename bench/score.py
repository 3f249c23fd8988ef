"""Scoring beside pycocoevalcap, in one run: processor seconds, and the memory of many pairs.

    python bench/score.py REPORTS [--pairs 12000] [--many 200000] [--out FILE]

REPORTS is a table of real reports, such as those of Open-I, with the columns id and report. The
references are these reports, and sentences of them mixed anew if there are too few; the other side
has as many of either. A second workload repeats eight sentences. `pacer score --without meteor`
reads both sides from CSV files. The other side is a program that only computes pycocoevalcap's
BLEU, ROUGE-L and CIDEr, which must be equal.
"""

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

import polars as pl
from measuring import hardware, table

from pacer.core.io import read_json
from pacer.tables.reports import REPORTS, reports_of

SEED, SENTENCES = 1, (4, 9)
EIGHT = (
    "no pleural effusion or pneumothorax",
    "the heart is mildly enlarged",
    "small left effusion has increased",
    "right basilar atelectasis",
    "stable lines",
    "lungs are clear",
    "the mediastinum is normal",
    "no acute findings",
)
LANGUAGE = ("bleu1", "bleu2", "bleu3", "bleu4", "rougeL", "cider")
PACKAGE = """
import csv, json, sys
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge
rows = [list(csv.DictReader(open(path))) for path in sys.argv[1:3]]
sides = [{row["id"]: [row["report"]] for row in side} for side in rows]
scores = [*Bleu(4).compute_score(*sides, verbose=0)[0]]
scores += [Rouge().compute_score(*sides)[0], Cider().compute_score(*sides)[0]]
json.dump([float(score) for score in scores], open(sys.argv[3], "w"))
"""
#: What a workload gives: references, and the reports beside them.
Pairs = tuple[list[str], list[str]]


def real(reports: Sequence[str], count: int) -> Pairs:
    """Return pairs of real reports and of their sentences, mixed anew."""
    draw = random.Random(SEED)
    parts = [part.strip() for report in reports for part in report.split(".")]
    sentences = [f"{part}." for part in parts if len(part) > 5]

    def mixed() -> str:
        return " ".join(draw.choice(sentences) for _ in range(draw.randint(*SENTENCES)))

    references = [reports[at] if at < len(reports) else mixed() for at in range(count)]
    return references, [draw.choice([mixed(), draw.choice(reports)]) for _ in range(count)]


def repeated(count: int) -> Pairs:
    """Return pairs of reports made of eight sentences."""
    draw = random.Random(SEED)
    drawn: list[str] = [" . ".join(draw.choice(EIGHT) for _ in range(7)) for _ in range(2 * count)]
    return drawn[:count], drawn[count:]


def measured(command: Sequence[str]) -> tuple[float, float, float]:
    """Run a command and its processes; return processor seconds, seconds, and the peak of the
    largest process so far in MB. Raises a CalledProcessError if it fails."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return processor, time.perf_counter() - started, after.ru_maxrss / 1024


def write_pairs(folder: Path, pairs: Pairs) -> list[str]:
    """Write both sides as CSV, and return the paths."""
    paths = [folder / name for name in ("references.csv", "reports.csv")]
    for path, texts in zip(paths, pairs, strict=True):
        ids = [f"r{number}" for number in range(len(texts))]
        pl.DataFrame({"id": ids, "report": texts}).write_csv(path)
    return [str(path) for path in paths]


def score_command(paths: Sequence[str], out: Path) -> list[str]:
    sides = ["--references", paths[0], "--hypotheses", paths[1], "--out", str(out)]
    call = "import sys; from pacer.cli import main; sys.exit(main())"
    return [sys.executable, "-c", call, "score", *sides, "--without", "meteor"]


def row(name: str, pairs: Pairs) -> list[str]:
    """Measure a workload, and return its row of the table. Raises an AssertionError if language
    scores differ; the last digits of means depend on the order of their sums."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        paths = write_pairs(folder, pairs)
        theirs = measured([sys.executable, "-c", PACKAGE, *paths, str(folder / "package.json")])
        own = measured(score_command(paths, folder / "out"))
        found = read_json(folder / "out" / "scores.json")["all"]
        expected = json.loads((folder / "package.json").read_text())
    for key, value in zip(LANGUAGE, expected, strict=True):
        assert abs(found[key] - value) <= 1e-12 * max(1.0, abs(value)), f"{key} differs"
    figures = [f"{own[0]:.1f}", f"{theirs[0]:.1f}", f"{own[0] / theirs[0]:.2f}", f"{own[1]:.1f}"]
    return [name, *figures]


def main() -> None:
    """Measure both workloads and the memory; print the results as Markdown."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("reports")
    parser.add_argument("--pairs", type=int, default=12_000)
    parser.add_argument("--many", type=int, default=200_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    texts = reports_of(options.reports, REPORTS).rows["text"].drop_nulls()
    reports = [text for text in texts if len(text) > 20]
    rows = [
        row("real", real(reports, options.pairs)),
        row("repeated", repeated(options.pairs)),
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_pairs(folder, real(reports, options.many))
        processor, seconds, peak = measured(score_command(paths, folder / "out"))
    header = ["", "`pacer score`, processor s", "pycocoevalcap, processor s", "ratio", "elapsed s"]
    lines = [
        "# Scoring beside pycocoevalcap",
        "",
        f"`bench/score.py` with {len(reports):,} reports, {time.strftime('%Y-%m-%d')}. "
        f"{hardware('cpu')}.",
        f"{options.pairs:,} pairs, without METEOR and CheXbert; the language scores are equal.",
        "",
        *table(header, rows),
        f"{options.many:,} pairs: {processor:,.0f} processor seconds, {seconds:,.0f} elapsed, peak "
        f"of the largest process {peak:,.0f} MB.",
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
