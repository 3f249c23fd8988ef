"""What the page's server answers. It keeps nothing of a case: the browser holds the images and sends them each time."""

from __future__ import annotations

import io
import json
import traceback
from asyncio import Semaphore
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from anyio import to_thread
from PIL import Image
from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from pacer.core.contexts import availability
from pacer.core.errors import DataError, PacerError
from pacer.serving import view
from pacer.serving.case import NOTICE, Case, Prepared
from pacer.serving.decoder import Decoder
from pacer.serving.guard import LET_GO, Log
from pacer.serving.line import Line
from pacer.serving.reporter import Reporter
from pacer.serving.sources import MAX_CHARACTERS

#: Characters of its first line: three texts, in JSON at most 12 bytes a character, and what stands around them.
_FIRST = 36 * MAX_CHARACTERS + 10_000
#: Cases whose images are opened at a time: each image is up to 240 MB until the encoder's size is made of it.
_OPENED = 2


class Fields(BaseModel):
    """First line of a request for reports; the bytes of the images follow, the frontal one first."""

    model_config = ConfigDict(extra="forbid", strict=True)

    sizes: Annotated[list[int], FailFast(), Field(max_length=2)]
    prior: str = ""
    indication: str = ""
    history: str = ""
    view: Literal["", "PA", "AP"] = ""
    sections: Literal["", "findings+impression", "findings", "impression"] = ""


class Page:
    """The page of one model.

    Args:
        log: gets a line for every answered request for reports: contexts and seconds, nothing of the case.
    """

    def __init__(self, reporter: Reporter, examples: list[Case], decoder: Decoder, log: Log):
        self._reporter, self._examples, self._decoder, self._log = reporter, examples, decoder, log
        self._line, self._opening = Line(), Semaphore(_OPENED)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/", self._page),
                Route("/page.{ending}", self._file),
                Route("/example/{number}/{place}", self._example),
                Route("/look/{place}", self._look, methods=["POST"]),
                Route("/report/{kind}", self._report, methods=["POST"]),
            ],
            exception_handlers={
                TimeoutError: _sentence(408, "The case did not arrive."),
                ClientDisconnect: _sentence(499, "Nobody waits for this."),
                Exception: _sentence(500, "The server could not answer; its log says where."),
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
            content = await request.body()
            async with self._opened(request):
                image, seen = await self._decoder(content, f"given as {place}")
        except DataError as error:
            return _refused(error)
        caption = f"{image.width:,} × {image.height:,}" + (f", {seen.view}" if seen and seen.view != "other" else "")
        return HTMLResponse(await to_thread.run_sync(view.preview, image, place, caption))

    async def _report(self, request: Request) -> Response:
        """Lines of JSON: ``before``, how many wait in front, as often as it changes; last ``html``."""
        if (kind := request.path_params["kind"]) not in ("own", "contexts"):
            raise HTTPException(404)
        try:
            await request.body()
            async with self._opened(request):
                prepared = await self._prepared(await request.body())
            request._body = b""  # the case may wait for long, and a body counts as long as it is held
            request.scope[LET_GO]()
        except PacerError as error:
            return _refused(error)
        return StreamingResponse(self._answer(kind, prepared), media_type="application/x-ndjson")

    @asynccontextmanager
    async def _opened(self, request: Request) -> AsyncGenerator[None]:
        """One's turn to have images opened.

        Raises:
            ClientDisconnect: nobody waits for it any longer.
        """
        async with self._opening:
            if await request.is_disconnected():
                raise ClientDisconnect
            yield

    async def _prepared(self, body: bytes) -> Prepared:
        if body.find(b"\n", 0, _FIRST) < 0:
            raise DataError("the request is not the page's: its first line does not end")
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
        images = [
            await self._decoder(content, f"{place} of this case")
            for place, content in zip(("frontal", "lateral"), (rest[: sizes[0]], rest[sizes[0] :])[: len(sizes)])
        ]
        case = Case(
            *images,
            prior=fields.prior,
            indication=fields.indication,
            history=fields.history,
            view=fields.view or None,
            sections=fields.sections or None,
            name="this case",
        )
        return await to_thread.run_sync(self._reporter.prepare, case)

    async def _answer(self, kind: str, prepared: Prepared) -> AsyncGenerator[bytes]:
        try:
            async with aclosing(self._line.turn()) as turn:  # Starlette ends this where the client leaves
                async for before in turn:
                    yield _line(before=before)
                    if not before:
                        shown = await to_thread.run_sync(self._written, kind, prepared)
        except PacerError as error:
            shown = view.problem(str(error))
        yield _line(html=shown)

    def _written(self, kind: str, prepared: Prepared) -> str:
        if kind == "own":
            (result,) = self._reporter.generate([prepared], batch_size=1)
            shown, results = view.result_page(result), {result.context: result}
        else:
            results = self._reporter.in_all_contexts(prepared)
            shown = view.contexts_page(results)
        self._log(f"reports {' '.join(results)}, {max(made.timings.total for made in results.values()):.2f} s")
        return shown


def _refused(error: PacerError) -> Response:
    """One sentence; the frames that the error came through hold images, and would until they are collected."""
    traceback.clear_frames(error.__traceback__)
    return HTMLResponse(view.problem(str(error)), 422)


def _sentence(status: int, text: str) -> Callable[[Request, Exception], Response]:
    return lambda request, error: PlainTextResponse(text, status)


def _line(**content: Any) -> bytes:
    return json.dumps(content).encode() + b"\n"
