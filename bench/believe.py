"""Which score can be believed? Rows of the study `worlds` and planted faults, ranked by each score and by the truth.

``python bench/believe.py [--study worlds] [--row ROW]`` after `pacer study run worlds`. In each world the systems are
the study's rows and the reports of one row (PACER's) with one fault planted in each of them; every system is scored as
the stage `score` does, and against the latent findings. Written down: for each score, Spearman's correlation with F1
against the truth over the systems (mean and 95 % interval, Student's t over the worlds), and for each fault how much
of the score it costs; a score *misses* a fault whose cost it does not show (interval holds 0, or lies below).
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.stats import spearmanr, t

from pacer.core.io import read_json
from pacer.core.progress import Ticker
from pacer.metrics.cases import Scored, scored_cases
from pacer.metrics.chexbert import CheXbert
from pacer.metrics.inputs import DEFAULTS
from pacer.metrics.meteor import Meteor
from pacer.metrics.scoring import numbers_of
from pacer.metrics.truth import findings_present, truth_f1
from pacer.records.findings import FINDINGS
from pacer.reporting.figures import LIGHT, drawing, row_axis
from pacer.rules.extract import extract_anchor
from pacer.studies.run import folders, results_folder
from pacer.studies.study import load_study

SCORES = {
    "bleu1": "BLEU-1",
    "bleu4": "BLEU-4",
    "rougeL": "ROUGE-L",
    "meteor": "METEOR",
    "cider": "CIDEr",
    "f1": "CheXbert's F1",
    "report_positive_f1": "polarity F1, affirmed",
    "report_negative_f1": "polarity F1, denied",
    "report_agreement": "commitment agreement",
}
TRUTH = "truth"
_SIDES = {"left": "right", "right": "left"}


def _sentences(report: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?])\s+", report) if part]


def _without(report: str, instead: Callable[[str], list[str]]) -> str:
    """The report with other sentences for the first that affirms a finding; ``instead`` is given that finding."""
    sentences = _sentences(report)
    for place, sentence in enumerate(sentences):
        if found := extract_anchor(sentence).positive:
            return " ".join([*sentences[:place], *instead(found[0]), *sentences[place + 1 :]])
    return report


def denied(report: str) -> str:
    """The first affirmed finding is denied."""
    return _without(report, lambda finding: [f"there is no {finding}."])


def dropped(report: str) -> str:
    """The first affirming sentence is left out."""
    return _without(report, lambda _: [])


def invented(report: str, draw: random.Random) -> str:
    """A finding that the report does not affirm is."""
    others = [name for name in FINDINGS if name not in extract_anchor(report).positive]
    return f"{report} there is {draw.choice(others)}." if others else report


def swapped(report: str) -> str:
    """Left is right."""
    return re.sub(r"\b(left|right)\b", lambda found: _SIDES[found[0]], report)


def shuffled(report: str, draw: random.Random) -> str:
    """The words of every sentence in another order."""
    return " ".join(
        " ".join(draw.sample(words := sentence.rstrip(".").split(), len(words))) + "."
        for sentence in _sentences(report)
    )


def planted(own: dict[str, Scored], draw: random.Random) -> dict[str, dict[str, Scored]]:
    """Name of a fault -> the contexts with it in every report that has room for it."""

    def changed(change: Callable[[list[str]], list[str]]) -> dict[str, Scored]:
        return {
            name: replace(
                scored,
                predictions=[
                    replace(prediction, report=report)
                    for prediction, report in zip(scored.predictions, change(scored.hypotheses), strict=True)
                ],
            )
            for name, scored in own.items()
        }

    def each(change: Callable[[str], str]) -> dict[str, Scored]:
        return changed(lambda reports: list(map(change, reports)))

    [(constant, _)] = Counter(text for scored in own.values() for text in scored.references).most_common(1)
    return {
        "a finding denied": each(denied),
        "a finding dropped": each(dropped),
        "a finding invented": each(lambda report: invented(report, draw)),
        "sides swapped": each(swapped),
        "words shuffled": each(lambda report: shuffled(report, draw)),
        "another patient's report": changed(
            lambda reports: [*reports[len(reports) // 2 :], *reports[: len(reports) // 2]]
        ),
        "the most frequent report": changed(lambda reports: [constant] * len(reports)),
    }


def judged(contexts: dict[str, Scored], truth: dict[str, np.ndarray], labeller: CheXbert, meteor: Meteor) -> dict:
    """Every score of :data:`SCORES` and :data:`TRUTH`, means over the contexts."""
    for scored in contexts.values():
        scored.labels, scored.control_labels, scored.external = labeller(scored.hypotheses).numpy(), {}, {}
    found = numbers_of(contexts, DEFAULTS, None, meteor)[0]["mean"]
    against = [truth_f1(truth[name], findings_present(scored.labels)) for name, scored in contexts.items()]
    return {name: found[name] for name in SCORES} | {TRUTH: float(np.mean([value or 0.0 for value in against]))}


def world(rows: dict[str, Path], row: str, scratch: Path) -> dict[str, dict]:
    """System -> its scores, of one world: folders of its rows, one of which has faults planted."""
    experiment = read_json(rows[row] / "run.json")["experiment"]
    labels = scratch / experiment
    subprocess.run(
        ["dvc", "get", "--quiet", "--rev", experiment, "--out", str(labels), ".", "models/backbones"], check=True
    )
    labeller, draw = CheXbert(labels / "chexbert"), random.Random(0)
    systems, truth = {}, {}
    for name, folder in rows.items():
        cases = pl.read_parquet(folder / "cases.parquet")
        systems[name] = scored_cases(cases)
        for (context,), own in cases.group_by("context", maintain_order=True):
            truth[context] = np.array([[finding in found for finding in FINDINGS] for found in own["truth"]])
    systems |= planted(systems[row], draw)
    with Meteor() as meteor:
        return {name: judged(contexts, truth, labeller, meteor) for name, contexts in systems.items()}


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean, and the ends of its 95 % interval."""
    mean, spread = float(np.mean(values)), float(np.std(values, ddof=1) / len(values) ** 0.5)
    reach = float(t.ppf(0.975, len(values) - 1)) * spread
    return mean, mean - reach, mean + reach


class Judgement(NamedTuple):
    """What a score says: correlation with the truth over the systems; what each fault costs, with intervals; those
    that it misses."""

    rank: tuple[float, float, float]
    costs: dict[str, tuple[float, float, float]]
    own: float
    missed: list[str]


def judgements(worlds: list[dict[str, dict]], row: str, faults: Sequence[str]) -> dict[str, Judgement]:
    """By the title of the score."""
    found = {}
    falls = {fault: interval([one[row][TRUTH] - one[fault][TRUTH] for one in worlds]) for fault in faults}
    for score, title in (SCORES | {TRUTH: "F1 against the truth"}).items():
        ranks = [spearmanr([s[score] for s in one.values()], [s[TRUTH] for s in one.values()])[0] for one in worlds]
        costs = {fault: interval([one[row][score] - one[fault][score] for one in worlds]) for fault in faults}
        missed = [fault for fault in faults if falls[fault][1] > 0 and costs[fault][1] <= 0]
        own = float(np.mean([one[row][score] for one in worlds]))
        found[title] = Judgement(interval(ranks), costs, own, missed)
    return found


def table(found: dict[str, Judgement], faults: Sequence[str]) -> str:
    """Both questions as Markdown."""
    heads = ["Score", "Spearman's correlation with the truth", *faults, "misses"]
    lines = [f"| {' | '.join(heads)} |", "|:---|:---|" + "---:|" * len(faults) + ":---|"]
    for title, one in found.items():
        mean, low, high = one.rank
        cells = [title, f"{mean:.2f} ({low:.2f} to {high:.2f})", *(f"{one.costs[fault][0]:+.3f}" for fault in faults)]
        lines.append(f"| {' | '.join([*cells, ', '.join(one.missed) or 'none'])} |")
    return "\n".join(lines)


def chart(found: dict[str, Judgement], faults: Sequence[str]) -> str:
    """SVG: correlations with intervals; and what each fault costs, as a share of the score, missed ones marked."""
    titles = list(found)

    def draw(grid: Any) -> None:
        ranks, costs = grid
        for place, one in enumerate(found.values()):
            mean, low, high = one.rank
            ranks.hlines(place, low, min(high, 1.0), color=LIGHT["--series-none"], linewidth=4)
            ranks.scatter(mean, place, s=36, color=LIGHT["--ink"], zorder=4)
            for across, fault in enumerate(faults):
                colour = "--series-6" if fault in one.missed else "--series-3" if one.costs[fault][1] > 0 else "--muted"
                text = f"{'✗ ' if fault in one.missed else ''}{100 * one.costs[fault][0] / one.own:+.0f} %"
                costs.text(across, place, text, ha="center", va="center", fontsize=8.5, color=LIGHT[colour])
        row_axis(ranks, titles)
        ranks.set_xlim(right=1.03)
        ranks.set_xlabel("rank correlation with the truth")
        costs.set_xlim(-0.6, len(faults) - 0.4)
        costs.set_xticks(range(len(faults)), [fault.replace(" ", "\n") for fault in faults], fontsize=7.5)
        costs.grid(axis="x", visible=False)
        costs.set_title("lost by the fault: green is shown, ✗ is missed", fontsize=8.5)

    return drawing(9.5, 0.8 + 0.34 * len(titles), draw, columns=2, sharey=True, width_ratios=[1, 2.2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="worlds")
    parser.add_argument("--row", default="PACER (+ Calibrate)", help="the row whose reports get the faults")
    parser.add_argument("--chart", type=Path, help="SVG file")
    options = parser.parse_args()
    study = load_study(Path("studies"), options.study)
    made: dict[int, dict[str, Path]] = {}
    for place, seed, folder in folders(study, results_folder(Path.cwd())):
        made.setdefault(seed, {})[study.rows[place].name] = folder
    whole = [rows for rows in made.values() if len(rows) == len(study.rows)]
    if len(whole) < 2:
        raise SystemExit(f"{len(whole)} of {len(study.seeds)} worlds are whole; `pacer study run {study.name}` first")
    with tempfile.TemporaryDirectory() as scratch, Ticker("worlds", len(whole)) as ticker:
        worlds = []
        for rows in whole:
            worlds.append(world(rows, options.row, Path(scratch)))
            ticker.advance()
    print(f"# Which score can be believed?\n\n{len(worlds)} worlds, {len(worlds[0])} systems each.\n")
    faults = [name for name in worlds[0] if name not in whole[0]]
    found = judgements(worlds, options.row, faults)
    print(table(found, faults))
    if options.chart:
        options.chart.write_text(chart(found, faults))


if __name__ == "__main__":
    main()
