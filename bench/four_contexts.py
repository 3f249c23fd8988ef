"""README's first picture: one study in the four contexts, with what PACER reads, commits to and writes in each.

    python bench/four_contexts.py docs/figures/four_contexts.png

Run it in the root of the repository, on the outputs that the report page was made from. The study is not chosen by how
well its reports are: :func:`chosen_study` has the rule.
"""

import argparse
import base64
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from pacer.commitments.anchor import Anchor, Attributes
from pacer.commitments.anchor import words as words_of
from pacer.commitments.attributes import read_attributes
from pacer.config import load_params
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.data.findings import FINDINGS
from pacer.reporting.charts import LIGHT
from pacer.reporting.results import ContextReport, ExampleCase, Results, read_results, study_case

#: Colour behind a finding or phrase, by how it relates to the reference of the same context.
RIGHT, MISSING, WRONG, COMPARES, NEUTRAL = "#d9efdf", "#fdeec2", "#f7dcea", "#dceaf8", "#eef1f4"
OPPOSITE, OTHER_SIDE = "#f4b3a2", "#e4d6f2"
MARKS = {
    "opposite": OPPOSITE,
    "wrong-side": OTHER_SIDE,
    "longitudinal": COMPARES,
    "unverified": WRONG,
    "matching": RIGHT,
}
LEGEND = (
    (RIGHT, "as in the reference"),
    (OPPOSITE, "the reference says the opposite"),
    (OTHER_SIDE, "on another side in the reference"),
    (WRONG, "not in the reference"),
    (MISSING, "in the reference, missing here"),
    (COMPARES, "compares with an earlier study"),
)
#: Findings are shown from this probability on, and if reference or commitment affirm them.
SHOWN = 0.3
#: Height of a line of text, as a share of a column.
LINE = 0.0261

#: A word and the colour behind it, or None.
Word = tuple[str, str | None]


def chosen_study(results: Results) -> str:
    """Return the first study, in the order of the test records, that was decoded in all four contexts and whose
    references affirm one finding only where the lateral view is given and another only where the previous report is,
    and compare with an earlier study only there.

    Raises:
        DataError: the run has no such study.
    """
    for study, rows in results.cases.rows_by_key("study_id", named=True, include_key=True).items():
        by_context = {row["context"]: row for row in rows}
        if len(by_context) < len(CONTEXTS):
            continue
        affirmed = {context: set(row["reference_positive"]) for context, row in by_context.items()}
        only_lateral = (affirmed["mn"] & affirmed["mw"]) - affirmed["sn"] - affirmed["sw"]
        only_prior = (affirmed["sw"] & affirmed["mw"]) - affirmed["sn"] - affirmed["mn"]
        compares = {context for context, row in by_context.items() if row["reference_wording"]}
        if only_lateral and only_prior and compares == {"sw", "mw"}:
            return study
    raise DataError("no study of this run was decoded in all contexts with references that differ as the picture needs")


class Column:
    """One context's column: texts are written from the top to the bottom, each below the one before."""

    def __init__(self, axes: Axes):
        self._axes, self._down = axes, 1.0
        self._canvas = FigureCanvasAgg(axes.figure.figure)
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.axis("off")

    def heading(self, text: str) -> None:
        self._down -= 0.3 * LINE
        self._axes.text(0, self._down, text, fontsize=8, va="top", color=LIGHT["--muted"])
        self._down -= LINE

    def write(self, words: Iterable[Word], *, lines: int | None = None, style: str = "normal") -> None:
        """Write words in lines; what does not fit into ``lines`` is cut, with an ellipsis."""
        at, line = 0.0, 1
        for word, colour in words:
            box = None if colour is None else {"facecolor": colour, "edgecolor": "none", "pad": 1.2}
            text = self._axes.text(at, self._down, word, fontsize=8.5, va="top", bbox=box, style=style)
            width = text.get_window_extent(self._canvas.get_renderer()).width / self._axes.get_window_extent().width
            if at + width > 1 and at > 0:
                if line == lines:
                    text.set_text("…")
                    break
                at, line, self._down = 0.0, line + 1, self._down - LINE
                text.set_position((at, self._down))
            at += width + (0.013 if colour is None else 0.02)
        self._down -= LINE

    def bar(self, name: str, share: float, colour: str) -> None:
        """Write a name, a bar of length ``share``, and its value; ``colour`` lies behind the name."""
        box = {"facecolor": colour, "edgecolor": "none", "pad": 1.2}
        self._axes.text(0, self._down, name, fontsize=8.5, va="top", bbox=box)
        left, width, height = 0.56, 0.3, 0.45 * LINE
        for length, fill in ((1, NEUTRAL), (share, LIGHT["--series-1"])):
            self._axes.add_patch(Rectangle((left, self._down - 0.56 * LINE), length * width, height, color=fill))
        self._axes.text(1, self._down, f"{share:.2f}", fontsize=8.5, va="top", ha="right")
        self._down -= LINE

    def space(self) -> None:
        self._down -= 0.3 * LINE


def findings(column: Column, report: ContextReport) -> None:
    """Draw the probabilities of the findings; those that the reference affirms are marked."""
    read = {name: values["present"] for name, values in (report.prediction.get("findings") or {}).items()}
    wanted, committed = report.score["reference_positive"], (report.prediction["anchor"] or {}).get("positive", [])
    column.heading("Probability of findings, read from the tokens")
    for name in FINDINGS:
        if name in wanted or name in committed or read.get(name, 0) >= SHOWN:
            column.bar(name, read.get(name, 0), RIGHT if name in wanted else NEUTRAL)


def commitment(column: Column, report: ContextReport) -> None:
    """Write the findings that the list affirms, as it describes them, and those of the reference that it lacks."""
    anchor, sides = Anchor.of_lists(report.prediction["anchor"] or {}), read_attributes(report.record["report"])
    wanted, committed = report.score["reference_positive"], anchor.positive
    column.heading("Commitment, generated: findings present")
    words: list[Word] = []
    for name in committed:
        described = anchor.attributes.get(name, Attributes())
        colour = RIGHT if name in wanted else WRONG
        if name in sides and described.side and sides[name].side not in (frozenset(), described.side):
            colour = OTHER_SIDE
        words.append((" ".join((*words_of(described), name)), colour))
    column.write(words or [("none", None)])
    if missing := [(name, MISSING) for name in wanted if name not in committed]:
        column.write([("missing:", None), *missing])


def context(column: Column, report: ContextReport) -> None:
    """Write all of a context below its pictures."""
    prior = report.record["prior_report"]
    column.heading("Previous report")
    column.write(
        ((word, None) for word in (prior or "not available").split()), lines=2, style="italic" if prior else "normal"
    )
    if not prior:
        column.write([(" ", None)])
    findings(column, report)
    column.space()
    commitment(column, report)
    column.space()
    column.heading("Report")
    words = [(word, span.marks) for span in report.generated for word in span.text.split()]
    column.write((word, next((MARKS[mark] for mark in MARKS if mark in marks), None)) for word, marks in words)
    column.space()
    column.heading("Reference of this context")
    column.write(((word, None) for word in report.record["report"].split()), style="italic")
    column.space()
    gate = report.prediction["gate"]
    column.write([] if gate is None else [(f"gate of Calibrate {gate:.3f}", None)])


def pictures(axes: Sequence[Axes], case: ExampleCase, report: ContextReport) -> None:
    for place, image in zip(axes, case.images, strict=True):
        place.axis("off")
        if report.record[image.name] is not None:
            address = image.overlay.address if image.overlay else image.address
            place.imshow(Image.open(io.BytesIO(base64.b64decode(address.split(",", 1)[1]))).convert("L"), cmap="gray")
        else:
            place.add_patch(Rectangle((0, 0), 1, 1, color=NEUTRAL, transform=place.transAxes))
            place.text(0.5, 0.5, "no lateral\nview", ha="center", va="center", fontsize=8, transform=place.transAxes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    data = [Path("data") / name for name in ("corpus", "anchors", "emphasis", "pictures")]
    results = read_results(*data, Path("predictions"), Path("metrics"), load_params())
    case = study_case(results, chosen_study(results))
    figure = Figure(figsize=(13, 10.5), dpi=120)
    width = 1 / len(case.reports)
    for place, report in enumerate(case.reports):
        left = place * width + 0.012
        figure.text(left, 0.985, report.record["context"].upper(), weight="bold", va="top", fontsize=11)
        figure.text(left + 0.03, 0.983, report.sources, va="top", fontsize=9, color=LIGHT["--muted"])
        halves = [figure.add_axes((left + half * 0.108, 0.81, 0.1, 0.138)) for half in range(len(case.images))]
        pictures(halves, case, report)
        context(Column(figure.add_axes((left, 0.04, width - 0.03, 0.76))), report)
    left, canvas = 0.014, FigureCanvasAgg(figure)
    for colour, meaning in LEGEND:
        box = {"facecolor": colour, "edgecolor": "none", "pad": 2}
        text = figure.text(left, 0.012, meaning, fontsize=8, bbox=box)
        left += text.get_window_extent(canvas.get_renderer()).width / figure.bbox.width + 0.014
    figure.savefig(parser.parse_args().out)
    print(f"study {case.study_id}")


if __name__ == "__main__":
    main()
