"""README's first picture: one study in the four contexts, with what PACER reads, commits to and
writes in each.

    python bench/four_contexts.py docs/figures/four_contexts.png            two above two python
    bench/four_contexts.py docs/figures/two_contexts.png --narrow    SN above MW, for a small screen

Run it in the root of the repository, on the outputs that the report page was made from. The study
is not chosen by how well its reports are: :func:`chosen_study` has the rule.
"""

import base64
import io
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

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
from pacer.reporting.results import ContextReport, ExampleCase, Results, read_results, study_case

#: Colour behind a finding or phrase, by how it relates to the reference of the same context.
RIGHT, MISSING, WRONG, COMPARES, NEUTRAL = "#d9efdf", "#fdeec2", "#f7dcea", "#dceaf8", "#eef1f4"
OPPOSITE, OTHER_SIDE, LESS_CERTAIN, OTHER_SEVERITY = "#f4b3a2", "#e4d6f2", "#e6d3bc", "#e3e8bd"
MARKS = {
    "opposite": OPPOSITE,
    "wrong-side": OTHER_SIDE,
    "less-certain": LESS_CERTAIN,
    "other-severity": OTHER_SEVERITY,
    "unverified": WRONG,
    "longitudinal": COMPARES,
    "matching": RIGHT,
}
LEGEND = (
    (RIGHT, "in both reports; one may give no severity"),
    (OPPOSITE, "the reference says the opposite"),
    (OTHER_SIDE, "another side there"),
    (OTHER_SEVERITY, "other severity there"),
    (LESS_CERTAIN, "uncertain there"),
    (WRONG, "not in the reference"),
    (MISSING, "missing here"),
    (COMPARES, "compares as the reference does"),
)
#: Size of the two forms in inches; what stays empty below is cut.
WIDE, NARROW = (9.4, 18), (5.2, 18)
#: Findings are shown from this probability on, and if reference or commitment affirm them.
SHOWN = 0.3
#: A word and the colour behind it, or None.
Word = tuple[str, str | None]


def chosen_study(results: Results) -> str:
    """Return the first study, in the order of the test records, that was decoded in all four
    contexts and whose references affirm one finding only where the lateral view is given and
    another only where the previous report is, and compare with an earlier study only there.

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
    raise DataError(
        "no study of this run was decoded in all contexts with references that differ as the "
        "picture needs"
    )


class Column:
    """One context's column: texts are written from the top to the bottom, each below the one
    before.

    Args:
        line: height of a line in inches; text is .6 of it.
    """

    def __init__(self, axes: Axes, line: float):
        self._axes, self._down = axes, 1.0
        self._line = line / (axes.get_position().height * axes.figure.figure.get_figheight())
        self._size = 0.6 * 72 * line
        self._canvas = FigureCanvasAgg(axes.figure.figure)
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.axis("off")

    @property
    def end(self) -> float:
        """Where the texts end, as a share of the figure's height from below."""
        return self._axes.get_position().y0 + self._down * self._axes.get_position().height

    def heading(self, text: str) -> None:
        self._down -= 0.3 * self._line
        self._axes.text(0, self._down, text, fontsize=self._size, va="top", color=LIGHT["--muted"])
        self._down -= self._line

    def write(
        self, words: Iterable[Word], *, lines: int | None = None, style: str = "normal"
    ) -> None:
        """Write words in lines; what does not fit into ``lines`` is cut, with an ellipsis."""
        at, line = 0.0, 1
        for word, colour in words:
            box = None if colour is None else {"facecolor": colour, "edgecolor": "none", "pad": 1.2}
            text = self._axes.text(
                at, self._down, word, fontsize=self._size, va="top", bbox=box, style=style
            )
            width = (
                text.get_window_extent(self._canvas.get_renderer()).width
                / self._axes.get_window_extent().width
            )
            if at + width > 1 and at > 0:
                if line == lines:
                    text.set_text("…")
                    break
                at, line, self._down = 0.0, line + 1, self._down - self._line
                text.set_position((at, self._down))
            at += width + (0.013 if colour is None else 0.02)
        self._down -= self._line

    def bar(self, name: str, share: float, colour: str) -> None:
        """Write a name, a bar of length ``share``, and its value; ``colour`` lies behind the
        name."""
        box = {"facecolor": colour, "edgecolor": "none", "pad": 1.2}
        self._axes.text(0, self._down, name, fontsize=self._size, va="top", bbox=box)
        left, width, height = 0.56, 0.3, 0.45 * self._line
        for length, fill in ((1, NEUTRAL), (share, LIGHT["--series-1"])):
            self._axes.add_patch(
                Rectangle(
                    (left, self._down - 0.56 * self._line), length * width, height, color=fill
                )
            )
        self._axes.text(1, self._down, f"{share:.2f}", fontsize=self._size, va="top", ha="right")
        self._down -= self._line

    def space(self) -> None:
        self._down -= 0.3 * self._line


def findings(column: Column, report: ContextReport) -> None:
    """Draw the probabilities of the findings; those that the reference affirms are marked."""
    read = {
        name: values["present"]
        for name, values in (report.prediction.get("findings") or {}).items()
    }
    wanted, committed = (
        report.score["reference_positive"],
        (report.prediction["anchor"] or {}).get("positive", []),
    )
    column.heading("Probability of findings (shaded: affirmed there)")
    for name in FINDINGS:
        if name in wanted or name in committed or read.get(name, 0) >= SHOWN:
            column.bar(name, read.get(name, 0), RIGHT if name in wanted else NEUTRAL)


def described(text: str) -> list[tuple[str, Attributes]]:
    """Return the findings that a text affirms, with their side and severity."""
    known = read_attributes(text)
    return [
        (name, known.get(name, Attributes()).only(["side", "severity"]))
        for name in extract_anchor(text).positive
    ]


def commitment(column: Column, report: ContextReport) -> None:
    """Write the findings that the list affirms, as it describes them, and those of the reference
    that it lacks."""
    anchor, there = (
        Anchor.of_lists(report.prediction["anchor"] or {}),
        dict(described(report.record["report"])),
    )
    suspected = reference(report).uncertain
    column.heading("Commitment, generated: findings present")
    words: list[Word] = []
    for name in anchor.positive:
        here = anchor.attributes.get(name, Attributes()).only(["side", "severity"])
        colour = RIGHT if name in there else LESS_CERTAIN if name in suspected else WRONG
        for kind, mark in (("severity", OTHER_SEVERITY), ("side", OTHER_SIDE)):
            values = [getattr(known, kind) for known in (here, there.get(name, Attributes()))]
            if all(values) and (
                values[0] != values[1] if kind == "side" else values[0].isdisjoint(values[1])
            ):
                colour = mark
        words.append((" ".join((*words_of(here), name)), colour))
    column.write(words or [("none", None)])
    missing(column, report, anchor.positive)


def reference(report: ContextReport) -> Anchor:
    """Return the findings that the reference states."""
    return extract_anchor(report.record["report"])


def missing(column: Column, report: ContextReport, mentioned: Collection[str]) -> None:
    """Write the findings that the reference affirms and that are not mentioned."""
    if names := [name for name in reference(report).positive if name not in mentioned]:
        column.write([("missing:", None), *((name, MISSING) for name in names)])


def context(column: Column, report: ContextReport) -> None:
    """Write all of a context below its pictures."""
    prior = report.record["prior_report"]
    column.heading("Previous report" if prior else "No previous report")
    column.write(((word, None) for word in (prior or " ").split(" ")), lines=1, style="italic")
    findings(column, report)
    column.space()
    commitment(column, report)
    column.space()
    column.heading("Report")
    words = [(word, span.marks) for span in report.generated for word in span.text.split()]
    column.write(
        (word, next((MARKS[mark] for mark in MARKS if mark in marks), None))
        for word, marks in words
    )
    written = extract_anchor(report.prediction["report"])
    missing(
        column, report, [*written.positive, *written.negative, *written.uncertain]
    )  # these are marked
    column.space()
    column.heading("The reference affirms (?: suspects)")
    texts = [
        " ".join((*words_of(known), name)) for name, known in described(report.record["report"])
    ]
    texts += [f"{name}?" for name in reference(report).uncertain]
    column.write(((text, NEUTRAL) for text in texts), style="italic")


def pictures(axes: Sequence[Axes], case: ExampleCase, report: ContextReport) -> None:
    for place, image in zip(axes, case.images, strict=True):
        place.axis("off")
        if report.record[image.name] is not None:
            address = image.overlay.address if image.overlay else image.address
            place.imshow(
                Image.open(io.BytesIO(base64.b64decode(address.split(",", 1)[1]))).convert("L"),
                cmap="gray",
            )
        else:
            place.add_patch(Rectangle((0, 0), 1, 1, color=NEUTRAL, transform=place.transAxes))
            place.text(
                0.5,
                0.5,
                "no lateral\nview",
                ha="center",
                va="center",
                fontsize=8,
                transform=place.transAxes,
            )


def main() -> None:
    narrow = {"action": "store_true", "help": "two contexts, one above the other"}
    options = options_of(__doc__, ("out", {"type": Path}), ("--narrow", narrow))
    data = [Path("data") / name for name in ("corpus", "anchors", "emphasis", "pictures")]
    results = read_results(*data, Path("predictions"), Path("metrics"), load_params())
    case = study_case(results, chosen_study(results))
    reports = [
        report
        for report in case.reports
        if not options.narrow or report.record["context"] in ("sn", "mw")
    ]
    columns, line, size, share = (1, 0.235, NARROW, 0.3) if options.narrow else (2, 0.2, WIDE, 0.3)
    figure = Figure(figsize=size, dpi=160)
    wide, high = size
    upper = legend(figure, line)
    for start in range(0, len(reports), columns):
        ends = []
        for place, report in enumerate(reports[start : start + columns]):
            left, side = (place + 0.05) / columns, share / columns
            figure.text(
                left, upper, report.record["context"].upper(), weight="bold", va="top", fontsize=11
            )
            figure.text(
                left + 0.4 / wide,
                upper,
                report.sources,
                va="top",
                fontsize=9,
                color=LIGHT["--muted"],
            )
            below = upper - 0.25 / high - side * wide / high
            boxes = [
                (left + half * 1.05 * side, below, side, side * wide / high)
                for half in range(len(case.images))
            ]
            pictures([figure.add_axes(box) for box in boxes], case, report)
            column = Column(figure.add_axes((left, 0, 0.9 / columns, below - 0.1 / high)), line)
            context(column, report)
            ends.append(column.end)
        upper = min(ends) - 0.15 / high
    figure.savefig(options.out, bbox_inches=Bbox.from_extents(0, upper * high, wide, high))
    print(f"study {case.study_id}")


def legend(figure: Figure, line: float) -> float:
    """Write the legend at the top, in as many lines as it needs; return where it ends, as a share
    of the height."""
    canvas, high = FigureCanvasAgg(figure), figure.get_figheight()
    left, down = 0.014, 1 - 0.1 / high
    for colour, meaning in LEGEND:
        box = {"facecolor": colour, "edgecolor": "none", "pad": 2}
        text = figure.text(left, down, meaning, fontsize=0.58 * 72 * line, va="top", bbox=box)
        width = text.get_window_extent(canvas.get_renderer()).width / figure.bbox.width
        if left + width > 1:
            left, down = 0.014, down - 1.2 * line / high
            text.set_position((left, down))
        left += width + 0.014
    return down - 1.9 * line / high


if __name__ == "__main__":
    main()
