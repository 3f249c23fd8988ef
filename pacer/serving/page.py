"""The page: a case on the left, what the model says about it on the right."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr
import numpy as np
from PIL import Image

from pacer.core.contexts import Context, availability, context_of
from pacer.core.errors import DataError, PacerError
from pacer.reporting.images import data_uri
from pacer.serving import view
from pacer.serving.case import NOTICE, Case, Prepared, Result
from pacer.serving.reporter import Reporter
from pacer.serving.sources import ImageSource, load_image, load_text

CSS = Path(view.OWN, "page.css")
#: Requests that may wait for the model; later ones are refused because the queue is full.
MAX_WAITING = 256
#: Seconds for which the images of a page that stays open are kept in memory.
_KEPT = 3600
#: Events that wait in one line for the model, and those that need no model.
_MODEL: dict[str, Any] = {
    "concurrency_id": "model",
    "concurrency_limit": 1,
    "show_progress": "minimal",
    "api_visibility": "private",
}
_QUICK: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
#: The report and the comparison before there are any.
_EMPTY = [
    "<p class='empty'>The report will stand here: its findings, its sentences, and where on the radiograph the "
    "evidence was taken from.</p>",
    "<p class='empty'>The same case with every source, and with each of them left out.</p>",
]

#: In a narrow window the results stand below the case, out of sight.
_INTO_VIEW = """() => { const results = document.querySelector('#results'), top = results.getBoundingClientRect().top;
  if (top < 0 || top > innerHeight / 2) results.scrollIntoView(); }"""

#: Writes one line.
Log = Callable[[str], None]
Results = dict[Context, Result]


class Slot(NamedTuple):
    """Where an image is handed in: the image, its picture, the place to drop it, and the button that removes it."""

    image: gr.State
    shown: gr.HTML
    drop: gr.File
    remove: gr.Button


class Fields(NamedTuple):
    """What an open page knows of a case, in the order of its inputs; the first five decide about the context."""

    frontal: ImageSource | None
    lateral: ImageSource | None
    with_lateral: bool
    prior: str
    with_prior: bool
    indication: str = ""
    history: str = ""
    view: str = ""
    sections: str = ""

    def case(self) -> Case:
        """The case, without the sources that are switched off."""
        if self.frontal is None:
            raise DataError("There is no frontal radiograph yet; drop one on the left, or choose an example")
        return Case(
            self.frontal,
            self.lateral if self.with_lateral else None,
            self.prior if self.with_prior else None,
            self.indication,
            self.history,
            self.view or None,
            self.sections or None,
            name="this case",
        )


def build_page(reporter: Reporter, examples: list[Case], log: Log) -> gr.Blocks:
    """The page, not yet served.

    Args:
        log: gets a line for every report: a number, the context and the seconds; nothing of the case.
    """
    laterals, priors = (any(availability(c)[place] for c in reporter.contexts) for place in (0, 1))
    numbers = count(1)
    with gr.Blocks(title="PACER", analytics_enabled=False, fill_width=True) as page:
        gr.HTML(view.render("header.html", notice=NOTICE, notes=reporter.notes), elem_id="top")
        with gr.Row(elem_id="desk", equal_height=False):
            with gr.Column(scale=2, min_width=320, elem_id="case"):
                with gr.Row(elem_classes="slots", equal_height=False):
                    frontal, lateral = _slot("Frontal", True), _slot("Lateral", laterals)
                with gr.Group(elem_classes="source", visible=priors):
                    hint = "Paste its findings and impression, or leave it empty"
                    prior = gr.Textbox(
                        label="Previous report", lines=4, max_lines=10, elem_id="prior", placeholder=hint
                    )
                    remove_prior = gr.Button("Remove", size="sm", elem_id="remove-prior")
                with gr.Row(elem_classes="toggles", visible=laterals or priors):
                    with_lateral = _switch("Use lateral view", "with-lateral", laterals)
                    with_prior = _switch("Use previous report", "with-prior", priors)
                with gr.Accordion("Indication, history, view and sections", open=False, elem_id="clinical"):
                    indication = gr.Textbox(label="Indication", elem_id="indication", max_lines=3)
                    history = gr.Textbox(label="History", elem_id="history", max_lines=3)
                    views = [("as the file says", ""), "PA", "AP"]
                    projection = gr.Radio(views, value="", label="View of the frontal image", elem_id="view")
                    asked = [
                        ("as the model was trained", ""),
                        ("both", "findings+impression"),
                        "findings",
                        "impression",
                    ]
                    sections = gr.Radio(asked, value="", label="Sections of the report", elem_id="sections")
                context = gr.HTML(view.context_line(None), elem_id="context")
                with gr.Row(elem_classes="actions"):
                    write = gr.Button("Write the report", variant="primary", elem_id="write", min_width=140)
                    compare = gr.Button("Compare contexts", elem_id="compare", min_width=140)
                if examples:
                    gr.HTML("<h2>Examples</h2><p class='quiet'>Generated, not of a patient.</p>")
                with gr.Row(elem_classes="examples"):
                    chosen = [gr.Button(e.name, elem_id=f"example-{n}", min_width=70) for n, e in enumerate(examples)]
            with gr.Column(scale=5, min_width=320, elem_id="results"), gr.Tabs(selected="report") as tabs:
                with gr.Tab("Report", id="report"):
                    report = gr.HTML(_EMPTY[0], elem_id="report")
                with gr.Tab("All contexts", id="contexts"):
                    contexts = gr.HTML(_EMPTY[1], elem_id="contexts")

        use = [frontal.image, lateral.image, with_lateral, prior, with_prior]
        texts = [indication, history, projection, sections]
        results = [report, contexts]

        def changes(event: Callable, do: Callable, inputs: Any, outputs: list) -> None:
            """An event that changes the case: its results go, and its context is named anew."""
            done = event(lambda *values: [*do(*values), *_EMPTY], inputs, [*outputs, *results], **_QUICK)
            done.then(_context_line, use, context, **_QUICK)

        for button, example in zip(chosen, examples, strict=True):
            fields = [*frontal, *lateral, prior, with_lateral, with_prior, *texts]
            changes(button.click, partial(_example, example, laterals, priors), None, fields)
        for slot, name in ((frontal, "frontal"), (lateral, "lateral")):
            changes(slot.drop.upload, partial(_take, name), slot.drop, [*slot])
            changes(slot.remove.click, _emptied, None, [*slot])
        changes(remove_prior.click, lambda: [""], None, [prior])
        for switch in (with_lateral, with_prior):
            switch.input(_context_line, use, context, **_QUICK)
        prior.change(_context_line, use, context, trigger_mode="always_last", **_QUICK)
        answers = ((write, "report", report, _report), (compare, "contexts", contexts, _comparison))
        for button, tab, shown, answer in answers:
            button.click(partial(gr.Tabs, selected=tab), None, tabs, **_QUICK).then(
                partial(_answer, reporter, answer, numbers, log), [*use, *texts], shown, **_MODEL
            ).then(None, js=_INTO_VIEW)

        def forget(request: gr.Request) -> None:
            """A page that was closed: its images, texts and results leave the memory."""
            page.app.state_holder.session_data.pop(str(request.session_hash), None)

        page.unload(forget)
    page.queue(max_size=MAX_WAITING)
    return page


def example_style(examples: list[Case]) -> str:
    """CSS that draws each example's radiograph on its button."""
    rules = []
    for number, example in enumerate(examples):
        small = Image.fromarray(np.asarray(example.frontal)).resize((192, 192), Image.Resampling.LANCZOS)
        rules.append(f"#example-{number} {{ background-image: url({data_uri(small)}) }}")
    return "\n".join(rules)


def _slot(name: str, visible: bool) -> Slot:
    key = name.lower()
    with gr.Column(min_width=130, elem_classes="slot", visible=visible, elem_id=f"slot-{key}"):
        gr.HTML(f"<h2>{name}</h2>")
        label = f"{name} radiograph: JPEG, PNG or DICOM"
        drop = gr.File(label=label, type="binary", height=170, show_label=False, elem_id=f"drop-{key}")
        shown = gr.HTML("", elem_id=f"shown-{key}")
        remove = gr.Button("Remove", size="sm", visible=False, elem_id=f"remove-{key}")
        return Slot(gr.State(None, time_to_live=_KEPT), shown, drop, remove)


def _switch(label: str, name: str, visible: bool) -> gr.Checkbox:
    return gr.Checkbox(True, label=label, visible=visible, container=False, elem_id=name, min_width=140)


def _filled(source: ImageSource, image: Image.Image, name: str, caption: str) -> list[Any]:
    """The parts of a slot with an image in it."""
    return [source, view.preview(image, name, caption), gr.File(value=None, visible=False), gr.Button(visible=True)]


def _emptied(message: str = "") -> list[Any]:
    return [None, message, gr.File(value=None, visible=True), gr.Button(visible=False)]


def _take(name: str, content: bytes | None) -> list[Any]:
    """An upload becomes bytes in memory and a picture; the file itself is not needed any more."""
    content = content or b""
    try:
        image, seen = load_image(content, f"given as {name}")
    except DataError as error:
        return _emptied(view.problem(str(error)))
    caption = f"{image.width:,} × {image.height:,}" + (f", {seen.view}" if seen and seen.view != "other" else "")
    return _filled(content, image, name, caption)


def _example(example: Case, laterals: bool, priors: bool) -> list[Any]:
    """All fields of an example, without the sources that the model does not know."""
    slots = {
        name: _filled(pixels, Image.fromarray(np.asarray(pixels)), name, "generated")
        for name, pixels in example.images().items()
    }
    prior = example.prior if priors else ""
    texts = [example.indication, example.history, example.view, ""]
    return [*slots["frontal"], *(slots["lateral"] if laterals else _emptied()), prior, True, True, *texts]


def _context_line(*values: Any) -> str:
    """Without a look at the images, which were checked when they came."""
    fields = Fields(*values)
    if fields.frontal is None:
        return view.context_line(None)
    case = fields.case()
    try:
        return view.context_line(context_of(case.lateral is not None, bool(load_text(case.prior, "previous report"))))
    except DataError as error:
        return view.problem(str(error))


def _report(reporter: Reporter, prepared: Prepared) -> tuple[str, Results]:
    (result,) = reporter.generate([prepared], batch_size=1)
    return view.result_page(result), {result.context: result}


def _comparison(reporter: Reporter, prepared: Prepared) -> tuple[str, Results]:
    results = reporter.in_all_contexts(prepared)
    return view.contexts_page(results), results


def _answer(
    reporter: Reporter,
    answer: Callable[[Reporter, Prepared], tuple[str, Results]],
    numbers: count,
    log: Log,
    *values: Any,
) -> str:
    """HTML: the results, or one sentence why there are none."""
    number = next(numbers)
    try:
        shown, results = answer(reporter, reporter.prepare(Fields(*values).case()))
    except PacerError as error:
        log(f"{number}: refused")
        return view.problem(str(error))
    except Exception as error:  # an open page names it, and the log where it was: no text of the case
        place = traceback.extract_tb(error.__traceback__)[-1]
        log(f"{number}: {type(error).__name__} at {Path(place.filename).name}:{place.lineno}")
        return view.problem(f"The server could not finish this case ({type(error).__name__}); its log says where")
    log(f"{number}: {' '.join(results)}, {max(result.timings.total for result in results.values()):.2f} s")
    return shown
