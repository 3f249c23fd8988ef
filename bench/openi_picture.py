"""Open-I: three test studies with their radiographs, and the scores of every row as a chart.

    python bench/openi_picture.py studies OUT.png    needs Open-I's images at the corpus's paths
    python bench/openi_picture.py scores OUT.svg     from bench/results/openi

The studies come from PACER's first seed in `mn` and have a finding in the reference. One each is chosen, the first by
id, whose commitment affirms exactly the reference's findings, some of them or others too, and none of them.
Radiographs and reference reports are read at run time.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from openi import IMAGES, RECORDS, RESULTS, read_lines
from openi_scores import ANOTHER, COMMITMENT, PACER, REPORT, ROWS, Corpus, System, deals, findings, statistics
from PIL import Image

from pacer.core.io import write_text
from pacer.data.findings import FINDINGS
from pacer.data.radiographs import open_image
from pacer.data.schemas import read_images, read_records
from pacer.metrics.cases import MEAN
from pacer.metrics.statistics.bootstrap import intervals
from pacer.reporting.figures import LIGHT, drawing, legend_above, row_axis

#: Side of a drawn radiograph in pixels, and characters in a line of text.
SIDE, LINE = 400, 62
#: Outcome of a finding, and its colour in the picture.
COLOURS = {"right": "--series-3", "wrong": "--series-6", "missed": "--muted"}


# Three studies


def chosen(texts: pl.DataFrame) -> list[dict[str, Any]]:
    """Return a study of each kind: exactly the reference's findings committed, some or others too, or none of them."""
    there, committed = findings(texts, COMMITMENT)
    agreed, same = (there & committed).sum(1), (there == committed).all(1)
    kinds = (there.any(1) & same, (agreed > 0) & ~same, there.any(1) & (agreed == 0))
    return [texts.row(int(np.flatnonzero(kind)[0]), named=True) for kind in kinds if kind.any()]


def verdicts(there: np.ndarray, written: np.ndarray) -> Iterator[tuple[str, str]]:
    """Yield each finding of either side with its outcome (:data:`COLOURS`), and the colour."""
    for name, expected, given in zip(FINDINGS, there, written, strict=True):
        if expected or given:
            kind = "missed" if not given else "right" if expected else "wrong"
            yield f"{name} ({kind})", LIGHT[COLOURS[kind]]


def draw_study(axes: tuple[Axes, Axes], study: dict[str, Any], radiograph: Image.Image) -> None:
    """Draw the radiograph on the left and the texts on the right, with findings in colour."""
    picture, page = axes
    picture.imshow(radiograph, cmap="gray")
    for one in axes:
        one.axis("off")
    down = 1.0
    texts = pl.DataFrame([study])
    for title, text, what in (
        ("Commitment", "", COMMITMENT),
        ("Report", study["written"], REPORT),
        ("Reference", study["report"], None),
    ):
        page.text(0, down, title, weight="bold", va="top", fontsize=9)
        lines = [(line, LIGHT["--ink"]) for line in textwrap.wrap(" ".join(text.split()), LINE)]
        if what:
            there, written = findings(texts, what)
            lines += list(verdicts(there[0], written[0])) or [("no finding", LIGHT["--muted"])]
        for line, colour in lines:
            down -= 0.062
            page.text(0.02, down, line, color=colour, va="top", fontsize=8)
        down -= 0.085


def draw_studies(corpus: Corpus, out: Path) -> None:
    """Write the picture of three studies."""
    paths = dict(read_images(IMAGES).select("image_id", "path").iter_rows())
    texts = corpus.texts(System(PACER), corpus.replicates(PACER)[0], corpus.test["context"] == "mn").sort("record_id")
    studies = chosen(texts)
    figure = Figure(figsize=(9, 3.3 * len(studies)), layout="constrained")
    grid = figure.subplots(len(studies), 2, squeeze=False, width_ratios=(1, 1.7))
    for axes, study in zip(grid, studies, strict=True):
        radiograph = open_image(paths[study["frontal"]]).convert("L")
        radiograph.thumbnail((SIDE, SIDE))
        draw_study(tuple(axes), study, radiograph)
        axes[0].set_title(study["study_id"], fontsize=9)
    figure.savefig(out, dpi=110)


# Scores


def draw_scores(corpus: Corpus, out: Path) -> None:
    """Write the chart: F1 of each row and seed with its interval, with chance and another patient's radiographs."""
    everything, patients = pl.Series([True] * len(corpus.test)), corpus.patients.max() + 1
    rows = [row for row in ROWS if corpus.replicates(row)]

    def panel(axes: Axes, what: str) -> None:
        for place, row in enumerate(rows):
            replicates = corpus.replicates(row)
            for number, replicate in enumerate(replicates):
                own = corpus.texts(System(row, what), replicate, everything)
                if what == COMMITMENT and own["commitment"].null_count():
                    continue
                height = place + 0.24 * (number - (len(replicates) - 1) / 2)
                score = intervals(statistics(own, what, patients))[MEAN]["f1"]
                if score.low is not None and score.high is not None:
                    axes.hlines(height, score.low, score.high, color=LIGHT["--series-none"], linewidth=3)
                axes.scatter(score.value, height, s=22, color=LIGHT["--ink"], zorder=4)
                axes.scatter(deals(own, what).mean(), height, s=40, marker="|", color=LIGHT["--series-1"], zorder=3)
                if replicate is not None:
                    other = corpus.texts(System(row, what, ANOTHER), replicate, everything)
                    f1 = intervals(statistics(other, what, patients), resamples=1)[MEAN]["f1"].value
                    axes.scatter(f1, height, s=16, marker="x", color=LIGHT["--series-5"], zorder=3)
        row_axis(axes, rows, top=-0.7)
        axes.set_xlim(left=-0.01)
        axes.set_xlabel(f"F1 of {what}s")

    def draw(grid: Any) -> None:
        panels = np.ravel(grid).tolist()
        for axes, what in zip(panels, (COMMITMENT, REPORT), strict=True):
            panel(axes, what)
        panels[0].scatter([], [], s=22, color=LIGHT["--ink"], label="F1, 95 %")
        panels[0].scatter([], [], s=40, marker="|", color=LIGHT["--series-1"], label="chance")
        panels[0].scatter([], [], s=16, marker="x", color=LIGHT["--series-5"], label="another patient's radiographs")
        legend_above(panels[0], 3, handletextpad=0.2, columnspacing=1.0)

    write_text(out, drawing(9.0, 0.9 + 0.5 * len(rows), draw, columns=2, sharey=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("studies", "scores"))
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    corpus = Corpus(read_records(RECORDS), read_lines(RESULTS))
    (draw_studies if options.what == "studies" else draw_scores)(corpus, options.out)


if __name__ == "__main__":
    main()
