"""What the page's server answers. It keeps nothing of a case: the browser holds the images and sends them each time."""

from __future__ import annotations

import io
from asyncio import Lock
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from anyio import to_thread
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from pacer.core.contexts import availability
from pacer.core.errors import DataError, PacerError
from pacer.serving import view
from pacer.serving.case import NOTICE, Case, Prepared
from pacer.serving.reporter import Reporter
from pacer.serving.sources import load_image


class Fields(BaseModel):
    """First line of a request for reports; the bytes of the images follow, the frontal one first."""

    model_config = ConfigDict(extra="forbid", strict=True)

    sizes: Annotated[list[int], Field(max_length=2)]
    prior: str = ""
    indication: str = ""
    history: str = ""
    view: Literal["", "PA", "AP"] = ""
    sections: Literal["", "findings+impression", "findings", "impression"] = ""


class Page:
    """The page of one model, which writes for one request at a time."""

    def __init__(self, reporter: Reporter, examples: list[Case]):
        self._reporter, self._examples, self._writing = reporter, examples, Lock()

    def app(self) -> Starlette:
        """The ASGI application: page, examples, images and reports."""
        return Starlette(
            routes=[
                Route("/", self._page),
                Route("/page.{ending}", self._file),
                Route("/example/{number}/{place}", self._example),
                Route("/look/{place}", self._look, methods=["POST"]),
                Route("/report/{kind}", self._report, methods=["POST"]),
            ],
            exception_handlers={
                ClientDisconnect: _sentence(499, "Nobody waits for this."),
                Exception: _sentence(500, "The server could not answer; see its terminal."),
            },
        )

    async def _page(self, request: Request) -> Response:
        laterals, priors = (any(availability(c)[place] for c in self._reporter.contexts) for place in (0, 1))
        examples = [
            {
                "name": example.name,
                "fields": {
                    "images": ["frontal", "lateral"] if laterals else ["frontal"],
                    "prior": example.prior if priors else "",
                    "indication": example.indication,
                    "history": example.history,
                    "view": example.view,
                },
            }
            for example in self._examples
        ]
        notes = self._reporter.notes
        return HTMLResponse(
            view.render("page.html", notice=NOTICE, notes=notes, examples=examples, laterals=laterals, priors=priors)
        )

    async def _file(self, request: Request) -> Response:
        if (ending := request.path_params["ending"]) not in ("css", "js"):
            raise HTTPException(404)
        return FileResponse(Path(view.OWN, f"page.{ending}"))

    async def _example(self, request: Request) -> Response:
        places = {str(number): example.images() for number, example in enumerate(self._examples)}
        images, place = places.get(request.path_params["number"], {}), request.path_params["place"]
        if place not in images:
            raise HTTPException(404)
        buffer = io.BytesIO()
        Image.fromarray(np.asarray(images[place])).save(buffer, "PNG")
        return Response(buffer.getvalue(), media_type="image/png")

    async def _look(self, request: Request) -> Response:
        """A picture of an image that was handed in, or one sentence why it cannot be used."""
        place = request.path_params["place"]
        if place not in ("frontal", "lateral"):
            raise HTTPException(404)
        try:
            image, seen = await to_thread.run_sync(load_image, await request.body(), f"given as {place}")
        except DataError as error:
            return _refused(error)
        caption = f"{image.width:,} × {image.height:,}" + (f", {seen.view}" if seen and seen.view != "other" else "")
        return HTMLResponse(await to_thread.run_sync(view.preview, image, place, caption))

    async def _report(self, request: Request) -> Response:
        if (kind := request.path_params["kind"]) not in ("own", "contexts"):
            raise HTTPException(404)
        try:
            prepared = await to_thread.run_sync(self._reporter.prepare, _case(await request.body()))
            async with self._writing:
                if await request.is_disconnected():
                    raise ClientDisconnect
                return HTMLResponse(await to_thread.run_sync(self._written, kind, prepared))
        except PacerError as error:
            return _refused(error)

    def _written(self, kind: str, prepared: Prepared) -> str:
        if kind == "contexts":
            return view.contexts_page(self._reporter.in_all_contexts(prepared))
        (result,) = self._reporter.generate([prepared], batch_size=1)
        return view.result_page(result)


def _case(body: bytes) -> Case:
    """The case of a request for reports.

    Raises:
        DataError: it has no image, or is not a request that the page makes.
    """
    first, _, rest = body.partition(b"\n")
    try:
        fields = Fields.model_validate_json(first)
    except ValidationError as error:
        first_error = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise DataError(f"the request is not the page's: {first_error['msg']}") from None
    sizes = fields.sizes
    if not sizes:
        raise DataError("There is no frontal radiograph yet; drop one on the left, or choose an example")
    if min(sizes) < 0 or sum(sizes) != len(rest):
        raise DataError("the request is not the page's: its images are not of the sizes that it names")
    return Case(
        frontal=rest[: sizes[0]],
        lateral=rest[sizes[0] :] if len(sizes) > 1 else None,
        prior=fields.prior,
        indication=fields.indication,
        history=fields.history,
        view=fields.view or None,
        sections=fields.sections or None,
        name="this case",
    )


def _refused(error: PacerError) -> Response:
    return HTMLResponse(view.problem(str(error)), 422)


def _sentence(status: int, text: str) -> Callable[[Request, Exception], Response]:
    return lambda request, error: PlainTextResponse(text, status)
