"""The page of one model, for one user of this machine. Its server keeps nothing of a case: the browser holds the images
and sends them with each request."""

from __future__ import annotations

import io
import json
import os
import select
import socket
import sys
import traceback
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from threading import Lock
from typing import Any

from PIL import Image

from pacer.core.contexts import availability
from pacer.core.errors import ConfigError, DataError, PacerError
from pacer.serving import view
from pacer.serving.case import NOTICE, Case
from pacer.serving.examples import example_cases
from pacer.serving.reporter import Reporter
from pacer.serving.sources import MAX_BYTES, MAX_CHARACTERS, load_image

#: Names of this machine that no other machine can reach.
LOOPBACK = ("127.0.0.1", "localhost")
#: Bytes of a request: two images and three texts, in JSON at most 12 bytes a character.
MAX_BODY = 2 * MAX_BYTES + 36 * MAX_CHARACTERS + 10_000
#: Paths that take an image or a case.
_POSTS = ("/look/frontal", "/look/lateral", "/report/own", "/report/contexts")
#: Digits of a Content-Length.
_LONGEST_LENGTH = 12
_HTML = "text/html; charset=utf-8"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Page(ThreadingTCPServer):
    """Serves the page on the loopback interface alone; reports are written one at a time.

    Args:
        log: gets a line for an unexpected error.

    Attributes:
        files: content and type of what a browser may get, by path.

    Raises:
        ConfigError: the port cannot be had.
    """

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, reporter: Reporter, port: int, log: Callable[[str], None]):
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise ConfigError(
                f"port {port} cannot be used ({os.strerror(error.errno or 0)}); choose another with --port"
            ) from error
        self.reporter, self.log, self.writing = reporter, log, Lock()
        examples = example_cases()
        self.files: dict[str, tuple[bytes, str]] = {
            "/": (_page(reporter, examples).encode(), _HTML),
            "/page.js": (Path(view.TEMPLATES, "page.js").read_bytes(), "text/javascript"),
        }
        for number, example in enumerate(examples):
            for place, image in example.images().items():
                assert isinstance(image, Image.Image)
                content = io.BytesIO()
                image.save(content, "PNG")
                self.files[f"/example/{number}/{place}"] = content.getvalue(), "image/png"

    def handle_error(self, request: object, client_address: object) -> None:
        """Log type and place of an unexpected error; its message may quote the case."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.log(f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}")

    def look(self, place: str, body: bytes) -> str:
        """A picture of an image that was handed in.

        Raises:
            DataError: the image cannot be used.
        """
        image, seen = load_image(body, f"given as {place}")
        caption = f"{image.width:,} × {image.height:,}" + (f", {seen.view}" if seen and seen.view != "other" else "")
        return view.preview(image, place, caption)

    def report(self, kind: str, body: bytes) -> str:
        """The report of a request's case, or with ``kind`` ``contexts`` those of all its contexts.

        Raises:
            DataError: the case cannot be used.
        """
        prepared = self.reporter.prepare(read_case(body))
        if kind == "contexts":
            return view.contexts_page(self.reporter.in_all_contexts(prepared))
        (result,) = self.reporter.generate([prepared])
        return view.result_page(result)


class _Handler(BaseHTTPRequestHandler):
    """Answers what the page asks, and nothing that another site's page could ask."""

    server: Page  # ty: ignore[incompatible-mutable-override]
    timeout = 60  # seconds without a byte from the browser

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if refusal := self._refusal():
            self._send(*refusal)
        elif path in self.server.files:
            self._send(200, *self.server.files[path])
        else:
            self._send(404, b"Not found.")

    def do_POST(self) -> None:
        if refusal := self._refusal():
            return self._send(*refusal)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            status, html = 200, self._answer(body)
        except PacerError as error:
            status, html = 422, view.problem(str(error))
        except Exception:
            self._send(500, b"The server could not answer; see its terminal.")
            raise
        if html is not None:
            self._send(status, html.encode(), _HTML)

    def _answer(self, body: bytes) -> str | None:
        """The HTML that was asked for; None where nobody waits for it any more."""
        what = self.path.rpartition("/")[2]
        if self.path.startswith("/look/"):
            return self.server.look(what, body)
        with self.server.writing:
            return None if self._left() else self.server.report(what, body)

    def _left(self) -> bool:
        """Whether the browser has closed the connection, as it does when a case is edited."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    def _refusal(self) -> tuple[int, bytes] | None:
        """Status and sentence for a request that the page does not make."""
        host = self.headers.get("Host", "")
        if host.partition(":")[0] not in LOOPBACK:
            return 421, b"The page is served to this machine alone, as localhost."
        if self.command == "GET":
            return None
        if self.headers.get("Origin") != f"http://{host}":
            return 403, b"The request does not come from the page."
        if self.path not in _POSTS:
            return 404, b"Not found."
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or len(length) > _LONGEST_LENGTH or "Transfer-Encoding" in self.headers:
            return 411, b"The request must state its length."
        if int(length) > MAX_BODY:
            return 413, f"The case has more than {MAX_BODY:,} bytes.".encode()
        return None

    def _send(self, status: int, content: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Requests are not logged."""


def read_case(body: bytes) -> Case:
    """The case of a request for reports: a line of JSON with texts and ``sizes``, then the bytes of the images.

    Raises:
        DataError: it has no image, or is not a request that the page makes.
    """
    first, _, images = body.partition(b"\n")
    try:
        fields = json.loads(first)
        texts = {name: fields[name] or None for name in ("prior", "indication", "history", "view", "sections")}
        if not (sizes := fields["sizes"]):
            raise DataError("There is no frontal radiograph yet; drop one on the left, or choose an example")
        if len(sizes) > 2 or min(sizes) < 0 or sum(sizes) != len(images):
            raise ValueError("sizes do not fit the images")
        frontal, lateral = images[: sizes[0]], images[sizes[0] :]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise DataError("the request is not the page's; expected a line of JSON, then one or two images") from None
    return Case(frontal, lateral if len(sizes) > 1 else None, **texts, name="this case")


def _page(reporter: Reporter, cases: list[Case]) -> str:
    """The page itself; it asks for no source that the model was not trained on."""
    laterals, priors = (any(availability(context)[place] for context in reporter.contexts) for place in (0, 1))
    examples = [
        {
            "name": case.name,
            "fields": {
                "images": ["frontal", "lateral"] if laterals else ["frontal"],
                "prior": case.prior if priors else "",
                "indication": case.indication,
                "history": case.history,
                "view": case.view,
            },
        }
        for case in cases
    ]
    return view.render(
        "page.html", notice=NOTICE, notes=reporter.notes, examples=examples, laterals=laterals, priors=priors
    )
