"""The page: a case on the left, what the model says about it on the right."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr
from PIL import Image

from pacer.core.contexts import availability, context_of
from pacer.core.errors import DataError, PacerError
from pacer.reporting.images import data_uri
from pacer.serving import view
from pacer.serving.case import Case, Prepared
from pacer.serving.examples import Example
from pacer.serving.reporter import Reporter
from pacer.serving.sources import ImageSource, load_image, load_text
from pacer.serving.terminal import NOTICE

CSS = Path(view.OWN, "page.css")
#: Requests that may wait for the model; later ones are told that the queue is full.
MAX_WAITING = 256
#: Seconds for which the images of a page that stays open are kept in memory.
_KEPT = 3600
_NAME = "this case"
#: Events that wait in one line for the model, and those that need no model.
_MODEL: dict[str, Any] = {
    "concurrency_id": "model",
    "concurrency_limit": 1,
    "show_progress": "minimal",
    "api_visibility": "private",
}
_QUICK: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
_EMPTY = (
    "<p class='empty'>The report will stand here: its findings, its sentences, and where on the radiograph the "
    "evidence was taken from.</p>"
)
_EMPTY_CONTEXTS = "<p class='empty'>The same case with every source, and with each of them left out.</p>"

#: In a narrow window the results stand below the case, out of sight.
_INTO_VIEW = """() => { const results = document.querySelector('#results'), top = results.getBoundingClientRect().top;
  if (top < 0 || top > innerHeight / 2) results.scrollIntoView(); }"""

#: Writes one line.
Log = Callable[[str], None]


class Slot(NamedTuple):
    """Where an image is handed in: the image, its picture, the place to drop it, and the button that removes it."""

    image: gr.State
    shown: gr.HTML
    drop: gr.File
    remove: gr.Button


def build_page(reporter: Reporter, examples: list[Example], log: Log) -> gr.Blocks:
    """The page, not yet served.

    Args:
        log: is told of every report: a number, the context and the seconds; nothing of the case.
    """
    laterals, priors = (any(availability(c)[place] for c in reporter.contexts) for place in (0, 1))
    numbers = count(1)
    with gr.Blocks(title="PACER", analytics_enabled=False, fill_width=True) as page:
        gr.HTML(view.render("header.html", notice=NOTICE), elem_id="top")
        with gr.Row(elem_id="desk", equal_height=False):
            with gr.Column(scale=2, min_width=320, elem_id="case"):
                with gr.Row(elem_classes="slots", equal_height=False):
                    frontal = _slot("Frontal", True)
                    lateral = _slot("Lateral", laterals)
                with gr.Group(elem_classes="source", visible=priors):
                    prior = gr.Textbox(
                        label="Previous report",
                        lines=4,
                        max_lines=10,
                        elem_id="prior",
                        placeholder="Paste its findings and impression, or leave it empty",
                    )
                    remove_prior = gr.Button("Remove", size="sm", elem_id="remove-prior")
                with gr.Row(elem_classes="toggles", visible=laterals or priors):
                    with_lateral = gr.Checkbox(
                        True,
                        label="Use lateral view",
                        visible=laterals,
                        container=False,
                        elem_id="with-lateral",
                        min_width=140,
                    )
                    with_prior = gr.Checkbox(
                        True,
                        label="Use previous report",
                        visible=priors,
                        container=False,
                        elem_id="with-prior",
                        min_width=140,
                    )
                with gr.Accordion("Indication, history, view and sections", open=False, elem_id="clinical"):
                    indication = gr.Textbox(label="Indication", elem_id="indication", max_lines=3)
                    history = gr.Textbox(label="History", elem_id="history", max_lines=3)
                    projection = gr.Radio(
                        [("as the file says", ""), ("PA", "PA"), ("AP", "AP")],
                        value="",
                        label="View of the frontal image",
                        elem_id="view",
                    )
                    sections = gr.Radio(
                        [
                            ("as the model was trained", ""),
                            ("both", "findings+impression"),
                            ("findings", "findings"),
                            ("impression", "impression"),
                        ],
                        value="",
                        label="Sections of the report",
                        elem_id="sections",
                    )
                context = gr.HTML(view.context_line(None), elem_id="context")
                with gr.Row(elem_classes="actions"):
                    write = gr.Button("Write the report", variant="primary", elem_id="write", min_width=140)
                    compare = gr.Button("Compare contexts", elem_id="compare", min_width=140)
                if examples:
                    gr.HTML("<h2>Examples</h2><p class='quiet'>Generated, not of a patient.</p>")
                chosen = []
                with gr.Row(elem_classes="examples"):
                    for number, example in enumerate(examples):
                        chosen.append(gr.Button(example.title, elem_id=f"example-{number}", min_width=70))
            with gr.Column(scale=5, min_width=320, elem_id="results"), gr.Tabs(selected="report") as tabs:
                with gr.Tab("Report", id="report"):
                    report = gr.HTML(_EMPTY, elem_id="report")
                with gr.Tab("All contexts", id="contexts"):
                    contexts = gr.HTML(_EMPTY_CONTEXTS, elem_id="contexts")

        use = [frontal.image, lateral.image, with_lateral, prior, with_prior]
        case = [*use, indication, history, projection, sections]
        results = [report, contexts]

        for slot, name in ((frontal, "frontal"), (lateral, "lateral")):
            changes = [*slot, *results]
            slot.drop.upload(partial(_take, name), slot.drop, changes, **_QUICK).then(
                _context_line, use, context, **_QUICK
            )
            slot.remove.click(_removed, None, changes, **_QUICK).then(_context_line, use, context, **_QUICK)
        remove_prior.click(lambda: ["", _EMPTY, _EMPTY_CONTEXTS], None, [prior, *results], **_QUICK).then(
            _context_line, use, context, **_QUICK
        )
        for switch in (with_lateral, with_prior):
            switch.input(_context_line, use, context, **_QUICK)
        prior.change(_context_line, use, context, trigger_mode="always_last", **_QUICK)
        for button, example in zip(chosen, examples, strict=True):
            button.click(
                partial(_example, example, laterals, priors),
                None,
                [
                    *frontal,
                    *lateral,
                    prior,
                    with_lateral,
                    with_prior,
                    indication,
                    history,
                    projection,
                    sections,
                    *results,
                ],
                **_QUICK,
            ).then(_context_line, use, context, **_QUICK)
        asked = ((write, "report", report, _write), (compare, "contexts", contexts, _compare))
        for button, tab, shown, answer in asked:
            button.click(partial(gr.Tabs, selected=tab), None, tabs, **_QUICK).then(
                partial(_answer, reporter, answer, numbers, log), case, shown, **_MODEL
            ).then(None, js=_INTO_VIEW)

        def forget(request: gr.Request) -> None:
            """A page that was closed: its images, texts and results leave the memory."""
            page.app.state_holder.session_data.pop(str(request.session_hash), None)

        page.unload(forget)
    page.queue(max_size=MAX_WAITING)
    return page


def example_style(examples: list[Example]) -> str:
    """CSS that draws each example's radiograph on its button."""
    rules = []
    for number, example in enumerate(examples):
        small = Image.fromarray(example.frontal).resize((192, 192), Image.Resampling.LANCZOS)
        rules.append(f"#example-{number} {{ background-image: url({data_uri(small)}) }}")
    return "\n".join(rules)


def _slot(name: str, visible: bool) -> Slot:
    with gr.Column(min_width=130, elem_classes="slot", visible=visible, elem_id=f"slot-{name.lower()}"):
        gr.HTML(f"<h2>{name}</h2>")
        drop = gr.File(
            label=f"{name} radiograph: JPEG, PNG or DICOM",
            type="binary",
            height=170,
            show_label=False,
            elem_id=f"drop-{name.lower()}",
        )
        shown = gr.HTML("", elem_id=f"shown-{name.lower()}")
        remove = gr.Button("Remove", size="sm", visible=False, elem_id=f"remove-{name.lower()}")
        return Slot(gr.State(None, time_to_live=_KEPT), shown, drop, remove)


def _filled(source: ImageSource, image: Image.Image, name: str, caption: str) -> list[Any]:
    return [source, view.preview(image, name, caption), gr.File(value=None, visible=False), gr.Button(visible=True)]


def _emptied(message: str = "") -> list[Any]:
    return [None, message, gr.File(value=None, visible=True), gr.Button(visible=False)]


def _removed() -> list[Any]:
    return [*_emptied(), _EMPTY, _EMPTY_CONTEXTS]


def _take(name: str, content: bytes | None) -> list[Any]:
    """An upload becomes bytes in memory and a picture; the file itself is not needed any more."""
    content = content or b""
    try:
        image, seen = load_image(content, f"given as {name}")
    except DataError as error:
        return [*_emptied(view.problem(str(error))), _EMPTY, _EMPTY_CONTEXTS]
    caption = f"{image.width:,} × {image.height:,}" + (f", {seen.view}" if seen and seen.view != "other" else "")
    return [*_filled(content, image, name, caption), _EMPTY, _EMPTY_CONTEXTS]


def _example(example: Example, laterals: bool, priors: bool) -> list[Any]:
    """All fields of an example, without the sources that the model does not know."""
    frontal, lateral = (Image.fromarray(pixels) for pixels in (example.frontal, example.lateral))
    return [
        *_filled(example.frontal, frontal, "frontal", "generated"),
        *(_filled(example.lateral, lateral, "lateral", "generated") if laterals else _emptied()),
        example.prior if priors else "",
        True,
        True,
        example.indication,
        example.history,
        example.view,
        "",
        _EMPTY,
        _EMPTY_CONTEXTS,
    ]


def _context_line(
    frontal: ImageSource | None, lateral: ImageSource | None, with_lateral: bool, prior: str, with_prior: bool
) -> str:
    """Without a look at the images, which were checked when they came."""
    if frontal is None:
        return view.context_line(None)
    try:
        text = load_text(prior, "previous report") if with_prior else None
    except DataError as error:
        return view.problem(str(error))
    context = context_of(lateral is not None and with_lateral, text is not None)
    return view.context_line(context)


def _prepared(
    reporter: Reporter,
    frontal: ImageSource | None,
    lateral: ImageSource | None,
    with_lateral: bool,
    prior: str,
    with_prior: bool,
    indication: str,
    history: str,
    projection: str,
    sections: str,
) -> Prepared:
    if frontal is None:
        raise DataError("There is no frontal radiograph yet; drop one on the left, or choose an example")
    return reporter.prepare(
        Case(
            frontal,
            lateral if with_lateral else None,
            prior if with_prior else None,
            indication,
            history,
            projection or None,
            sections or None,
            name=_NAME,
        )
    )


def _write(reporter: Reporter, prepared: Prepared) -> tuple[str, float, str]:
    result = reporter.generate([prepared], batch_size=1)[0]
    return view.result_page(result), result.timings.total, result.context


def _compare(reporter: Reporter, prepared: Prepared) -> tuple[str, float, str]:
    results = reporter.in_all_contexts(prepared)
    return view.contexts_page(results), max(r.timings.total for r in results.values()), " ".join(results)


def _answer(
    reporter: Reporter,
    write: Callable[[Reporter, Prepared], tuple[str, float, str]],
    numbers: count,
    log: Log,
    *values: Any,
) -> str:
    """HTML: the results, or one sentence why there are none."""
    number = next(numbers)
    try:
        shown, seconds, contexts = write(reporter, _prepared(reporter, *values))
    except PacerError as error:
        log(f"{number}: refused")
        return view.problem(str(error))
    except Exception as error:  # an open page tells of it, and the log where it was: no text of the case
        place = traceback.extract_tb(error.__traceback__)[-1]
        log(f"{number}: {type(error).__name__} at {Path(place.filename).name}:{place.lineno}")
        return view.problem(f"The server could not finish this case ({type(error).__name__}); its log says where")
    log(f"{number}: {contexts}, {seconds:.2f} s")
    return shown
