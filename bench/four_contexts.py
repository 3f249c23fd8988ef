"""README's first picture: one study in the four contexts, with what PACER reads, commits to and
writes in each.

    python bench/four_contexts.py docs/figures/four_contexts.png
    python bench/four_contexts.py docs/figures/two_contexts.png sn mw   # for a small screen

Run it in the root of the repository, on the outputs that the report page was made from. The study
is not chosen by how well its reports are: :func:`chosen_study` has the rule.
"""

import base64
import io
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.transforms import Bbox
from measuring import options_of
from PIL import Image

from pacer.commitments.anchor import Anchor, Attributes
from pacer.commitments.anchor import words as words_of
from pacer.commitments.attributes import read_attributes
from pacer.commitments.rules.extract import extract_anchor
from pacer.config import load_params
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.data.findings import FINDINGS
from pacer.reporting.charts import LIGHT
from pacer.reporting.results import CaseImage, ContextReport, Results, read_results, study_case

#: Colour behind a finding or phrase, by how it relates to the reference of the same context.
RIGHT, MISSING, WRONG, NEUTRAL = "#d9efdf", "#fdeec2", "#f7dcea", "#eef1f4"
OTHER_SIDE, LESS_CERTAIN, OTHER_SEVERITY = "#e4d6f2", "#e6d3bc", "#e3e8bd"
MARKS = {
    "opposite": "#f4b3a2",
    "wrong-side": OTHER_SIDE,
    "less-certain": LESS_CERTAIN,
    "other-severity": OTHER_SEVERITY,
    "unverified": WRONG,
    "longitudinal": "#dceaf8",
    "matching": RIGHT,
}
LEGEND = {
    "in both reports; one may give no severity": RIGHT,
    "the reference says the opposite": MARKS["opposite"],
    "another side there": OTHER_SIDE,
    "other severity there": OTHER_SEVERITY,
    "uncertain there": LESS_CERTAIN,
    "not in the reference": WRONG,
    "missing here": MISSING,
    "compares as the reference does": MARKS["longitudinal"],
}
#: Inches of the figure, whose empty part below is cut, and of a line; text is .6 of a line.
WIDTH, HEIGHT, LINE = 4.7, 18, 0.2
#: Findings are shown from this probability on, and if reference or commitment affirm them.
SHOWN = 0.3
#: Width of a picture as a share of its column.
PICTURE = 0.3
#: A word and the colour behind it, or None.
Word = tuple[str, str | None]


def chosen_study(results: Results) -> str:
    """Return the first study, in the order of the test records, that was decoded in all four
    contexts and whose references affirm one finding only where the lateral view is given and
    another only where the previous report is, and compare with an earlier study only there. Raises
    a DataError if there is none."""
    for study, rows in results.scored.cases.rows_by_key(
        "study_id", named=True, include_key=True
    ).items():
        found = {row["context"]: set(row["reference_positive"]) for row in rows}
        compares = {row["context"] for row in rows if row["reference_wording"]}
        if len(found) == len(CONTEXTS) and compares == {"sw", "mw"}:
            only_lateral = (found["mn"] & found["mw"]) - found["sn"] - found["sw"]
            only_prior = (found["sw"] & found["mw"]) - found["sn"] - found["mn"]
            if only_lateral and only_prior:
                return study
    raise DataError("no study of this run has references that differ as the picture needs")


class Column:
    """A column of texts, written from the top to the bottom, each below the one before."""

    def __init__(self, axes: Axes):
        self._axes, self._down = axes, 1.0
        self._line = LINE / (axes.get_position().height * HEIGHT)
        self._renderer = FigureCanvasAgg(axes.figure.figure).get_renderer()
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.axis("off")

    @property
    def end(self) -> float:
        """Where the texts end, as a share of the figure's height from below."""
        return self._axes.get_position().y0 + self._down * self._axes.get_position().height

    def text(self, at: float, text: str, colour: str | None = None, **style: Any) -> float:
        """Write at a place of the current line; return the width."""
        box = None if colour is None else {"facecolor": colour, "edgecolor": "none", "pad": 1.2}
        size = 0.6 * 72 * LINE
        written = self._axes.text(at, self._down, text, size=size, va="top", bbox=box, **style)
        extent = written.get_window_extent(self._renderer)
        width = extent.width / self._axes.get_window_extent().width
        if at > 0 and at + width > 1 and "ha" not in style:
            written.remove()
        return width

    def down(self, lines: float = 1) -> None:
        self._down -= lines * self._line

    def heading(self, text: str) -> None:
        self.down(0.3)
        self.text(0, text, color=LIGHT["--muted"])
        self.down()

    def write(self, words: Iterable[Word], *, lines: int = 99, style: str = "normal") -> None:
        """Write words; what does not fit into ``lines`` is cut, with an ellipsis."""
        at, line = 0.0, 1
        for word, colour in words:
            width = self.text(at, word, colour, style=style)
            if at + width > 1 and at > 0:
                if line == lines:
                    self.text(at, "…", style=style)
                    break
                at, line = 0.0, line + 1
                self.down()
                self.text(at, word, colour, style=style)
            at += width + (0.013 if colour is None else 0.02)
        self.down()

    def bar(self, name: str, share: float, colour: str) -> None:
        """Write a name, a bar of length ``share``, and its value."""
        self.text(0, name, colour)
        for length, fill in ((1, NEUTRAL), (share, LIGHT["--series-1"])):
            place = 0.56, self._down - 0.56 * self._line
            bar = Rectangle(place, 0.3 * length, 0.45 * self._line, color=fill)
            self._axes.add_patch(bar)
        self.text(1, f"{share:.2f}", ha="right")
        self.down()

    def missing(self, names: Iterable[str], mentioned: Collection[str]) -> None:
        """Write the names that are not mentioned."""
        if left := [(name, MISSING) for name in names if name not in mentioned]:
            self.write([("missing:", None), *left])


def described(report: str) -> dict[str, Attributes]:
    """Return the findings that a text affirms, with their side and severity."""
    known = read_attributes(report)
    return {
        name: known.get(name, Attributes()).only(["side", "severity"])
        for name in extract_anchor(report).positive
    }


def mark(here: Attributes, there: Attributes | None, suspected: bool) -> str:
    """Return the colour of a listed finding, from its attributes and those of the reference."""
    if there is None:
        return LESS_CERTAIN if suspected else WRONG
    if here.side and there.side and here.side != there.side:
        return OTHER_SIDE
    severities = here.severity and there.severity
    return OTHER_SEVERITY if severities and here.severity.isdisjoint(there.severity) else RIGHT


def write_context(column: Column, report: ContextReport) -> None:
    """Write all of a context below its pictures."""
    reference, there = extract_anchor(report.record["report"]), described(report.record["report"])
    anchor = Anchor.of_lists(report.prediction["anchor"] or {})
    prior = report.record["prior_report"]
    column.heading("Previous report" if prior else "No previous report")
    column.write(((word, None) for word in (prior or " ").split(" ")), lines=1, style="italic")
    column.heading("Probability of findings (shaded: affirmed there)")
    read, wanted = report.prediction.get("findings") or {}, report.score["reference_positive"]
    for name in FINDINGS:
        chance = read[name]["present"] if name in read else 0
        if name in wanted or name in anchor.positive or chance >= SHOWN:
            column.bar(name, chance, RIGHT if name in wanted else NEUTRAL)
    column.down(0.3)
    column.heading("Commitment, generated: findings present")
    words: list[Word] = []
    for name in anchor.positive:
        here = anchor.attributes.get(name, Attributes()).only(["side", "severity"])
        colour = mark(here, there.get(name), name in reference.uncertain)
        words.append((" ".join((*words_of(here), name)), colour))
    column.write(words or [("none", None)])
    column.missing(reference.positive, anchor.positive)
    column.down(0.3)
    column.heading("Report")
    column.write(
        (word, next((MARKS[mark] for mark in MARKS if mark in span.marks), None))
        for span in report.generated
        for word in span.text.split()
    )
    written = extract_anchor(report.prediction["report"])
    mentioned = [*written.positive, *written.negative, *written.uncertain]  # these are marked
    column.missing(reference.positive, mentioned)
    column.down(0.3)
    column.heading("The reference affirms (?: suspects)")
    texts = [" ".join((*words_of(known), name)) for name, known in there.items()]
    texts += [f"{name}?" for name in reference.uncertain]
    column.write(((text, NEUTRAL) for text in texts), style="italic")


def draw(axes: Axes, image: CaseImage, report: ContextReport) -> None:
    axes.axis("off")
    if report.record[image.name] is None:
        axes.add_patch(Rectangle((0, 0), 1, 1, color=NEUTRAL, transform=axes.transAxes))
        axes.text(0.5, 0.5, "no lateral\nview", ha="center", va="center", size=8)
        return
    address = image.overlay.address if image.overlay else image.address
    content = io.BytesIO(base64.b64decode(address.split(",", 1)[1]))
    axes.imshow(Image.open(content).convert("L"), cmap="gray")


def main() -> None:
    shown = {"nargs": "*", "help": "contexts, one below the other; none: all, two above two"}
    options = options_of(__doc__, out={"type": Path}, contexts=shown)
    data = [Path("data") / name for name in ("corpus", "anchors", "emphasis", "pictures")]
    results = read_results(*data, Path("predictions"), Path("metrics"), load_params())
    case = study_case(results, chosen_study(results))
    wanted, count = options.contexts or CONTEXTS, 1 if options.contexts else 2
    reports = [report for report in case.reports if report.record["context"] in wanted]
    wide = WIDTH * count
    figure = Figure(figsize=(wide, HEIGHT), dpi=160)
    legend = Column(figure.add_axes((0.014, 0, 0.986, 1 - 0.1 / HEIGHT)))
    legend.write(LEGEND.items())
    upper = legend.end - LINE / HEIGHT
    for start in range(0, len(reports), count):
        ends = []
        for place, report in enumerate(reports[start : start + count]):
            left, side = (place + 0.05) / count, PICTURE / count
            name = report.record["context"].upper()
            figure.text(left, upper, name, weight="bold", va="top", size=11)
            muted: dict[str, Any] = {"size": 9, "color": LIGHT["--muted"]}
            figure.text(left + 0.4 / wide, upper, report.sources, va="top", **muted)
            high = side * wide / HEIGHT
            below = upper - 0.25 / HEIGHT - high
            for number, image in enumerate(case.images):
                at = left + number * 1.05 * side
                draw(figure.add_axes((at, below, side, high)), image, report)
            box = (left, 0, 0.9 / count, below - 0.1 / HEIGHT)
            column = Column(figure.add_axes(box))
            write_context(column, report)
            ends.append(column.end)
        upper = min(ends) - 0.15 / HEIGHT
    figure.savefig(options.out, bbox_inches=Bbox.from_extents(0, upper * HEIGHT, wide, HEIGHT))
    print(f"study {case.study_id}")


if __name__ == "__main__":
    main()
