"""README's picture: one study, once with the frontal view alone and once with all sources, with the
reports that two ways of decoding write for it.

`make release` draws it (bench/release.py). The study is not chosen by how well its reports are:
:func:`chosen_study` has the rule.
"""

import base64
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.transforms import Bbox
from PIL import Image

from pacer.config import load_params
from pacer.core.anchor import Anchor
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.findings import FINDINGS
from pacer.reporting.charts import LIGHT
from pacer.reporting.examples import Picture as Radiograph
from pacer.reporting.examples import pictures
from pacer.reporting.marks import beside
from pacer.reporting.results import Results, read_results
from pacer.text.cleaning.wording import prior_wording
from pacer.text.rules import extract_anchor, read_attributes

#: Colour behind a finding or phrase, by how it relates to the reference of the same context.
RIGHT, MISSING, WRONG, NEUTRAL = "#d9efdf", "#fdeec2", "#f7dcea", "#eef1f4"
OTHER_SIDE, PARTLY = "#e4d6f2", "#e3e8bd"
MARKS = {
    "opposite": "#f4b3a2",
    "wrong-side": OTHER_SIDE,
    "partly": PARTLY,
    "invented": WRONG,
    "matching": RIGHT,
}
LEGEND = {
    "agrees": RIGHT,
    "wrong side": OTHER_SIDE,
    "partly": PARTLY,
    "opposite": MARKS["opposite"],
    "not there": WRONG,
    "missing here": MISSING,
}
#: The contexts that are drawn, with their sources.
DRAWN = {
    "sn": "the frontal view alone",
    "mw": "the frontal and the lateral view, and the previous report",
}
#: Inches: widths of the figure and of the one for a small screen; their height, of which the empty
#: part below is cut; and a line. Text is .6 of a line.
WIDE, NARROW, HEIGHT, LINE = 8.6, 4.6, 24, 0.2
#: Where each of the three columns begins and how wide it is, as shares of the wide figure.
PLACES = ((0.012, 0.27), (0.315, 0.34), (0.685, 0.31))
#: Findings are shown from this probability on, and if reference or commitment affirm them.
SHOWN = 0.3
#: A word and the colour behind it, or None.
Word = tuple[str, str | None]


def chosen_study(results: Results) -> str:
    """Return the first study, in the order of the test records, that was decoded in all four
    contexts, whose references all affirm some finding, affirm another one only where the lateral
    view or only where the previous report is given, and compare with an earlier study only where it
    is. Raises a DataError if there is none."""
    for study, rows in results.scored.cases.rows_by_key(
        "study_id", named=True, include_key=True
    ).items():
        found = {row["context"]: set(row["reference_positive"]) for row in rows}
        compares = {row["context"] for row in rows if prior_wording(row["reference"])}
        if len(found) == len(CONTEXTS) and compares == {"sw", "mw"}:
            only_lateral = (found["mn"] & found["mw"]) - found["sn"] - found["sw"]
            only_prior = (found["sw"] & found["mw"]) - found["sn"] - found["mn"]
            if set.intersection(*found.values()) and (only_lateral or only_prior):
                return study
    raise DataError("no study of this run has references that differ as the picture needs")


class ContextReport(NamedTuple):
    """A report of the study: the rows of the corpus, of the predictions and of the scored cases."""

    record: Mapping[str, Any]
    prediction: Mapping[str, Any]
    score: Mapping[str, Any]


class Column:
    """A column of texts, written from the top to the bottom, each below the one before."""

    def __init__(self, axes: Axes, colours: set[str]):
        self._axes, self._down, self._colours = axes, 1.0, colours
        self._line = LINE / (axes.get_position().height * HEIGHT)
        self._renderer = FigureCanvasAgg(axes.figure.figure).get_renderer()
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.axis("off")

    @property
    def end(self) -> float:
        """Where the texts end, as a share of the figure's height from below."""
        return self._axes.get_position().y0 + self._down * self._axes.get_position().height

    def text(
        self, at: float, text: str, colour: str | None = None, right: float = 1, **style: Any
    ) -> float:
        """Write at a place of the current line, unless the text would end beyond ``right``; return
        the width."""
        if colour is not None:
            self._colours.add(colour)
        box = None if colour is None else {"facecolor": colour, "edgecolor": "none", "pad": 1.2}
        size = 0.6 * 72 * LINE
        written = self._axes.text(at, self._down, text, size=size, va="top", bbox=box, **style)
        extent = written.get_window_extent(self._renderer)
        width = extent.width / self._axes.get_window_extent().width
        if at > 0 and at + width > right and "ha" not in style:
            written.remove()
        return width

    def down(self, lines: float = 1) -> None:
        self._down -= lines * self._line

    def title(self, text: str, note: str) -> None:
        """Write what the column is, in bold, and a note below it."""
        self.text(0, text, weight="bold")
        self.down()
        self.text(0, note, color=LIGHT["--muted"])
        self.down()

    def heading(self, text: str) -> None:
        self.down(0.3)
        self.text(0, text, color=LIGHT["--muted"])
        self.down()

    def write(self, words: Iterable[Word], *, lines: int = 99, style: str = "normal") -> None:
        """Write words; what does not fit into ``lines`` is cut, with an ellipsis."""
        at, line = 0.0, 1
        for word, colour in words:
            right = 0.96 if line == lines else 1  # leaves room for the ellipsis
            width = self.text(at, word, colour, right, style=style)
            if at + width > right and at > 0:
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


def sided(report: str) -> Anchor:
    """Return the findings that a text states, with their sides."""
    return extract_anchor(report).with_sides(read_attributes(report))


def mark(name: str, listed: Anchor, reference: Anchor) -> str:
    """Return the colour of a finding that a list affirms."""
    if name not in reference.positive:
        return PARTLY if name in reference.uncertain else WRONG
    sides = {side for side in (listed.side(name), reference.side(name)) if side}
    return OTHER_SIDE if len(sides) > 1 else RIGHT


def write_sources(column: Column, report: ContextReport) -> None:
    """Write what the model is given beside the images, and what the reference affirms."""
    if prior := report.record["prior_report"]:
        column.heading("Previous report")
        column.write(((word, None) for word in prior.split()), lines=3, style="italic")
    column.heading("Findings of the reference")
    reference = sided(report.record["report"])
    texts = [reference.text(name) for name in reference.positive]
    texts += [f"possible {reference.text(name)}" for name in reference.uncertain]
    column.write((text, NEUTRAL) for text in texts)


def write_probabilities(column: Column, report: ContextReport) -> None:
    """Write how probable the classifier takes each finding to be."""
    column.heading("Probability of findings, by the classifier")
    read, wanted = report.prediction["findings"], report.score["reference_positive"]
    for name in FINDINGS:
        chance = read[name]["present"] if name in read else 0
        if name in wanted or chance >= SHOWN:
            column.bar(name, chance, RIGHT if name in wanted else NEUTRAL)


def write_report(column: Column, report: ContextReport) -> None:
    """Write the list of findings and the report, marked by how they relate to the reference."""
    reference = sided(report.record["report"])
    anchor = Anchor.of_lists(report.prediction["anchor"] or {})
    column.heading("List of findings")
    words: list[Word] = [
        (anchor.text(name), mark(name, anchor, reference)) for name in anchor.positive
    ]
    column.write(words or [("none", None)])
    column.missing(reference.positive, anchor.positive)
    column.heading("Report")
    words = []
    _, spans = beside(report.record["report"], report.prediction["report"])
    for span in spans:
        colour = next((MARKS[mark] for mark in span.marks if mark in MARKS), None)
        words += [(word, colour) for word in span.text.split()]
    column.write(words)
    written = extract_anchor(report.prediction["report"])
    mentioned = [*written.positive, *written.negative, *written.uncertain]  # these are marked
    column.missing(reference.positive, mentioned)


def draw(axes: Axes, image: Radiograph, report: ContextReport) -> None:
    axes.axis("off")
    if report.record[image.name] is None:
        axes.add_patch(Rectangle((0, 0), 1, 1, color=NEUTRAL, transform=axes.transAxes))
        axes.text(0.5, 0.5, "no lateral\nview", ha="center", va="center", size=8)
        return
    address = image.overlay.address if image.overlay else image.address
    content = io.BytesIO(base64.b64decode(address.split(",", 1)[1]))
    axes.imshow(Image.open(content).convert("L"), cmap="gray")


@dataclass(frozen=True)
class Way:
    """A way of decoding, with the study's reports by context and its radiographs."""

    title: str
    note: str
    reports: Mapping[str, ContextReport]
    images: Sequence[Radiograph]


def way_of(title: str, note: str, results: Results, study: str) -> Way:
    records = results.decoded.filter(study_id=study).to_dicts()
    scores = results.scored.cases.rows_by_key("record_id", named=True, unique=True)
    reports = {
        record["context"]: ContextReport(
            record, results.predictions[record["record_id"]], scores[record["record_id"]]
        )
        for record in records
    }
    images = pictures(records, results.image_paths, results.routing, results.decoding["depths"])
    return Way(title, note, reports, images)


class Picture:
    """The figure, filled from the top to the bottom."""

    def __init__(self, is_narrow: bool):
        self._width = NARROW if is_narrow else WIDE
        self._places = [(0.025, 0.95)] * 3 if is_narrow else PLACES
        self._is_narrow = is_narrow
        self._figure = Figure(figsize=(self._width, HEIGHT), dpi=160)
        self._upper = 1 - 0.1 / HEIGHT
        #: The colours in use.
        self.colours: set[str] = set()

    def column(self, place: int, upper: float) -> Column:
        left, width = self._places[place]
        return Column(self._figure.add_axes((left, 0, width, upper)), self.colours)

    def legend(self, colours: Collection[str]) -> None:
        """Write the marks of these colours."""
        left = self._places[0][0]
        column = Column(self._figure.add_axes((left, 0, 1 - left, self._upper)), self.colours)
        marks = [(text, colour) for text, colour in LEGEND.items() if colour in colours]
        column.write([("Compared with the reference:", None), *marks])
        self._upper = column.end - 0.1 / HEIGHT

    def context(self, context: str, ways: Sequence[Way]) -> None:
        """Draw the sources of a context, and beside them, or below, what each way writes."""
        report, images = ways[0].reports[context], ways[0].images
        left, width = self._places[0]
        style: dict[str, Any] = {"va": "top", "size": 10.5}
        self._figure.text(left, self._upper, context.upper(), weight="bold", **style)
        place = left + 0.42 / self._width
        self._figure.text(place, self._upper, DRAWN[context], **style)
        upper = self._upper - 0.26 / HEIGHT
        side = 0.485 * width * (0.7 if self._is_narrow else 1)
        high = side * self._width / HEIGHT
        for number, image in enumerate(images):
            box = (left + number * side / 0.97, upper - high, side, high)
            draw(self._figure.add_axes(box), image, report)
        column = self.column(0, upper - high - 0.05 / HEIGHT)
        write_sources(column, report)
        ends = [column.end]
        for number, way in enumerate(ways, 1):
            column = self.column(number, ends[-1] - 0.15 / HEIGHT if self._is_narrow else upper)
            column.title(way.title, way.note)
            if number == 1 and not self._is_narrow:
                write_probabilities(column, way.reports[context])
            write_report(column, way.reports[context])
            ends.append(column.end)
        self._upper = min(ends) - 0.2 / HEIGHT

    def save(self, out: Path) -> None:
        box = Bbox.from_extents(0, self._upper * HEIGHT, self._width, HEIGHT)
        self._figure.savefig(out, bbox_inches=box)


def draw_example(default: Path, read: Path, out: Path, is_narrow: bool) -> None:
    """Draw the picture from the folders ``predictions`` and ``metrics`` below ``default``, of the
    default run, and below ``read``, of the other way of decoding."""
    data = [Path("data") / name for name in ("corpus", "anchors", "emphasis", "pictures")]
    both = [
        read_results(*data, folder / "predictions", folder / "metrics", load_params())
        for folder in (read, default)
    ]
    study = chosen_study(both[1])
    titles = (
        ("With read and agreement", "the list is read from the image"),
        ("Default run", "the list is generated"),
    )
    ways = [way_of(*title, results, study) for title, results in zip(titles, both, strict=True)]
    colours: Collection[str] = LEGEND.values()
    for _ in range(2):  # the second time, the legend has only the colours in use
        picture = Picture(is_narrow)
        picture.legend(colours)
        picture.colours.clear()
        for context in DRAWN:
            picture.context(context, ways)
        colours = picture.colours
    picture.save(out)
