"""Scoring beside pycocoevalcap and an earlier commit: processor seconds and memory.

    python bench/score.py [--preset cpu] [--out FILE]

Synthetic reports in two wordings are the pairs: each text joins reports of drawn studies until the
reference has 30 words. `pacer score --without meteor` of this tree and of an earlier commit read
the same files as a program that only computes pycocoevalcap's BLEU, ROUGE-L and CIDEr. They take
turns. Processor seconds are those of all processes; memory is the highest sum of the PSS of all
processes, looked at five times a second. The language scores of all sides are compared.
"""

import ctypes
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
from measuring import ROOT, Preset, ratio, run, table

from pacer.core.io import read_json
from pacer.phantom.language import PhantomReport, sample_texts, write_report

SEED, LEAST_WORDS = 7, 30
#: Another wording of the same study.
OTHER_WORDS = 1_000
LANGUAGE = ("bleu1", "bleu2", "bleu3", "bleu4", "rougeL", "cider")
#: Makes this process the parent of processes that have lost theirs, so that all are counted.
PR_SET_CHILD_SUBREAPER = 36
PACKAGE = """
import json, sys
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge
sides = [
    dict(enumerate([json.loads(line)["report"]] for line in open(path))) for path in sys.argv[1:3]
]
scores = [*Bleu(4).compute_score(*sides, verbose=0)[0]]
scores += [Rouge().compute_score(*sides)[0], Cider().compute_score(*sides)[0]]
json.dump([float(score) for score in scores], open(sys.argv[3], "w"))
"""


class Cost(NamedTuple):
    """What a command took: processor seconds, seconds, and MB at the peak."""

    processor: float
    seconds: float
    megabytes: float


def write_pairs(folder: Path, studies: Sequence[tuple[str, str]], count: int) -> list[str]:
    """Write references and hypotheses as JSON lines, and return the paths."""
    draw = random.Random(SEED)
    paths = [folder / f"{side}_{count}.jsonl" for side in ("references", "hypotheses")]
    with open(paths[0], "w") as references, open(paths[1], "w") as hypotheses:
        for number in range(count):
            drawn: list[tuple[str, str]] = []
            while sum(len(reference.split()) for reference, _ in drawn) < LEAST_WORDS:
                drawn.append(draw.choice(studies))
            for file, reports in zip((references, hypotheses), zip(*drawn), strict=True):
                row = {"id": f"r{number}", "report": " ".join(reports)}
                file.write(json.dumps(row) + "\n")
    return [str(path) for path in paths]


def reworded(report: PhantomReport) -> str:
    return write_report(report.study, report.context, report.study.rng(OTHER_WORDS)).text


def measured(command: Sequence[str], tree: Path) -> Cost:
    """Run a command with the package of a tree. Raises a CalledProcessError if it fails."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = os.environ | {"PYTHONPATH": str(tree)}
    process = subprocess.Popen(command, env=environment, cwd=tree, stdout=subprocess.DEVNULL)
    peaks, ended = [0.0], threading.Event()
    watch = threading.Thread(target=watch_memory, args=(process.pid, peaks, ended))
    watch.start()
    status = process.wait()
    seconds = time.perf_counter() - started
    ended.set()
    watch.join()
    while psutil.Process().children():
        os.wait()  # workers that outlive the command
    if status:
        raise subprocess.CalledProcessError(status, command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(processor, seconds, max(peaks))


def watch_memory(pid: int, peaks: list[float], ended: threading.Event) -> None:
    """Note the summed PSS of a process and its descendants, in MB, until it has ended."""
    while not ended.wait(0.2):
        total = 0
        try:
            process = psutil.Process(pid)
            family = [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for member in family:
            try:
                total += member.memory_full_info().pss
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue  # it has just ended
        peaks.append(total / 1e6)


def checked_out(commit: str, folder: Path) -> Path:
    """Write the files of a commit into a folder."""
    archive = subprocess.run(
        ["git", "archive", commit], cwd=ROOT, check=True, capture_output=True
    ).stdout
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return folder


def score_command(paths: Sequence[str], out: Path) -> list[str]:
    references, hypotheses = paths
    files = ["--references", references, "--hypotheses", hypotheses, "--out", str(out)]
    call = "import sys; from pacer.cli import main; sys.exit(main())"
    return [sys.executable, "-c", call, "score", *files, "--without", "meteor", "--force"]


def language_scores(out: Path) -> list[float]:
    scores = read_json(out / "scores.json")["all"]
    return [scores[name] for name in LANGUAGE]


def check_equal(found: Sequence[float], expected: Sequence[float], what: str) -> None:
    """Raise an AssertionError unless two sides have the same language scores; the last digits of
    means depend on the order of their sums."""
    for name, one, other in zip(LANGUAGE, found, expected, strict=True):
        assert abs(one - other) <= 1e-12 * max(1.0, abs(other)), f"{name} differs from {what}"


def measure(preset: Preset) -> list[str]:
    """Measure both sizes; return the results as Markdown. Raises an AssertionError if the language
    scores of the sides differ."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    studies = [(report.text, reworded(report)) for report in sample_texts(SEED, preset.studies)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_pairs(folder, studies, preset.pairs)
        package = [sys.executable, "-c", PACKAGE, *paths, str(folder / "package.json")]
        sides = {
            "this tree": (score_command(paths, folder / "now"), ROOT),
            "pycocoevalcap's BLEU, ROUGE-L and CIDEr alone": (package, ROOT),
        }
        if preset.before:
            tree = checked_out(preset.before, folder / "tree")
            sides[f"commit {preset.before}"] = (score_command(paths, folder / "before"), tree)
        turns = [[measured(*side) for side in sides.values()] for _ in range(preset.repeats)]
        costs = dict(zip(sides, zip(*turns, strict=True), strict=True))
        expected = read_json(folder / "package.json")
        check_equal(language_scores(folder / "now"), expected, "pycocoevalcap")
        if preset.before:
            check_equal(language_scores(folder / "before"), expected, "the earlier commit")
        memory = []
        if preset.many:
            many = write_pairs(folder, studies, preset.many)
            large = measured(score_command(many, folder / "many"), ROOT)
            memory = [
                f"{preset.many:,} pairs in this tree: {large.processor:,.0f} processor seconds, "
                f"{large.seconds:,.0f} seconds, peak {large.megabytes:,.0f} MB."
            ]
    processor = {side: [cost.processor for cost in of_side] for side, of_side in costs.items()}
    rows = []
    for side, of_side in costs.items():
        middle = sorted(of_side)[len(of_side) // 2]
        figures = [f"{middle.processor:,.1f}", f"{middle.seconds:,.1f}"]
        compared = ratio(processor["this tree"], processor[side])
        rows.append([side, *figures, f"{middle.megabytes:,.0f}", compared])
    header = ["", "processor seconds", "seconds", "peak, MB", "this tree over it (range)"]
    return [
        f"{preset.pairs:,} pairs of synthetic reports from {preset.studies:,} studies, the "
        f"references with at least {LEAST_WORDS} words, without METEOR and CheXbert. Language "
        f"scores are equal up to the order of sums. Medians of {preset.repeats} turns by processor "
        "seconds.",
        "",
        *table(header, rows),
        *memory,
    ]


if __name__ == "__main__":
    run("Scoring beside pycocoevalcap", __doc__, measure)
