"""The web page of one model, for a single user of this machine, and its results as HTML.

The server stores no data of a case: the browser keeps the images and sends them with each request.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from select import select
from socket import MSG_PEEK
from socketserver import ThreadingTCPServer
from threading import Lock
from typing import Any

from markupsafe import Markup
from PIL import Image

from pacer.core.anchor import FINDINGS, POLARITIES, Anchor
from pacer.core.contexts import SOURCES, availability
from pacer.core.errors import ConfigError, DataError, PacerError
from pacer.reporting import html
from pacer.reporting.examples import Picture, Reading
from pacer.reporting.html import LONGEST_EDGE, data_uri, routing_overlay
from pacer.reporting.marks import Span, departures
from pacer.serving.case import MAX_BYTES, MAX_CHARACTERS, NOTICE, Case, Result, load_image, notes_of
from pacer.serving.reporter import Reporter

TEMPLATES = Path(__file__).parent / "templates"
render = partial(html.render, folder=TEMPLATES)
#: Host names of the loopback interface, which no other machine can reach.
LOOPBACK = ("127.0.0.1", "localhost")
#: Maximum number of bytes in a request: two images, and three texts with at most 12 bytes per
#: character in JSON.
MAX_BODY = 2 * MAX_BYTES + 36 * MAX_CHARACTERS + 10_000
#: A finding that is not in the list is shown beside it if its probability is at least this.
SHOWN = 0.1
#: Paths that accept an image or a case.
_POSTS = ("/look/frontal", "/look/lateral", "/report")
_HTML = "text/html; charset=utf-8"
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def problem(sentence: str) -> str:
    """Return the HTML of a refusal, shown instead of the requested content."""
    return Markup('<p class="problem" role="alert">{}</p>').format(sentence)


def preview(image: Image.Image, name: str, caption: str) -> str:
    """Return the HTML of an uploaded radiograph, reduced in size."""
    small = image.copy()
    small.thumbnail((LONGEST_EDGE, LONGEST_EDGE), Image.Resampling.LANCZOS)
    figure = Markup(
        '<figure class="preview"><img src="{}" alt="{} radiograph as '
        'uploaded"><figcaption>{}</figcaption></figure>'
    )
    return figure.format(data_uri(small), name, caption)


def result_page(result: Result, commits: bool = True, notes_of_model: Collection[str] = ()) -> str:
    """Return the HTML of one report: the report, its list of findings, which a person may change if
    the model ``commits``, its notes without those of the model, and the maps of the encoder."""
    commitment = result.commitment
    reading = Reading(
        title="Report",
        sources=f"written from: {SOURCES[result.context]}",
        report=[Span(result.report)],
        commitment=commitment,
        contradicted=result.contradictions(),
        gate=result.gate,
    )
    has_both = commitment is not None and not result.fallback
    pictures = []
    for name, routing in result.routing().items():
        image = Image.fromarray(routing.image)
        overlay = routing_overlay(image, routing.weights, routing.depths)
        pictures.append(Picture(name, overlay.address, overlay))
    own_notes = tuple(note for note in result.notes if note not in notes_of_model)
    # what the report does not state of a person's list is among the departures
    notes = notes_of([replace(result, given=False, notes=own_notes)])
    return render(
        "result.html",
        result=result,
        reading=reading,
        pictures=pictures,
        departures=departures(commitment, result.report) if has_both else [],
        has_both=has_both,
        notes=[note.removeprefix(f"{result.context.upper()}: ") for note in notes],
        likeliest=_likeliest(result),
        shown_from=SHOWN,
        listed=_as_typed(commitment or Anchor()) if commits else None,
        findings=FINDINGS,
        saved=json.dumps(result.as_dict(), indent=2, ensure_ascii=False),
    )


def _as_typed(commitment: Anchor) -> str:
    """Return a list of findings as a person types it."""
    fields = {
        polarity: ", ".join(map(commitment.text, getattr(commitment, polarity))) or "none"
        for polarity in POLARITIES
    }
    return ";\n".join(f"{polarity}: {findings}" for polarity, findings in fields.items())


def _likeliest(result: Result) -> list[tuple[str, float]]:
    """Return the findings with a probability of at least :data:`SHOWN`, the most probable first."""
    if result.probabilities is None:
        return []
    ranked = sorted(zip(result.probabilities.positive, FINDINGS, strict=True), reverse=True)
    return [(finding, chance) for chance, finding in ranked if chance >= SHOWN]


class Page(ThreadingTCPServer):
    """Serves the page on the loopback interface only, and handles one report request at a time.
    Raises a ConfigError if the port cannot be used.

    Args:
        log: receives one line for each unexpected error.
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128  # with the default of 5, further connections are reset

    def __init__(self, reporter: Reporter, port: int, log: Callable[[str], None]):
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise ConfigError(
                f"port {port} cannot be used ({os.strerror(error.errno or 0)}); choose a different "
                "one with --port"
            ) from error
        self.reporter = reporter
        self.log = log
        self.writing = Lock()
        sources = [availability(context) for context in reporter.contexts]
        page = render(
            "page.html",
            notice=NOTICE,
            notes=[note.removeprefix("this model: ") for note in reporter.notes],
            laterals=any(has_lateral for has_lateral, _ in sources),
            priors=any(has_prior for _, has_prior in sources),
        )
        self.files = {  # content and MIME type by path
            "/": (page.encode(), _HTML),
            "/page.js": (Path(TEMPLATES, "page.js").read_bytes(), "text/javascript"),
        }

    def handle_error(self, request: object, client_address: object) -> None:
        """Log only the type and location of an unexpected error, because its message may quote the
        case."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.log(f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}")


class _Handler(BaseHTTPRequestHandler):
    """Answers requests from the page, and refuses any that another site's page could send."""

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
        status = 200
        try:
            content = self._answer(body)
        except ConnectionError:
            raise
        except PacerError as error:
            status = 422
            content = problem(str(error))
        except Exception:
            self._send(500, b"The server could not answer; see its terminal.")
            raise
        self._send(status, content.encode(), _HTML)

    def _answer(self, body: bytes) -> str:
        """Return the HTML of an image's preview or of a case's report."""
        if self.path.startswith("/look/"):
            place = self.path.rpartition("/")[2]
            image, view = load_image(body, f"given as {place}")
            caption = f"{image.width:,} × {image.height:,}"
            if view and view.view != "other":
                caption += f", {view.view}"
            return preview(image, place, caption)
        reporter = self.server.reporter
        case = read_case(body)
        with self.server.writing:
            if select([self.connection], [], [], 0)[0] and not self.connection.recv(1, MSG_PEEK):
                raise ConnectionAbortedError  # the browser disconnected while the request waited
            [result] = reporter.generate([case])
            return result_page(result, reporter.commit, reporter.notes)

    def _refusal(self) -> tuple[int, bytes] | None:
        """Return a status and a sentence for a request that the page would not send, else None."""
        host = self.headers.get("Host", "")
        if host.partition(":")[0] not in LOOPBACK:
            return 421, b"The page is served only to this machine, as localhost."
        if self.command == "GET":
            return None
        if self.headers.get("Origin") != f"http://{host}":
            return 403, b"The request does not come from the page."
        if self.path not in _POSTS:
            return 404, b"Not found."
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY:
            refusal = f"The request does not state its length, or has more than {MAX_BODY:,} bytes."
            return 413, refusal.encode()
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
        """Do nothing; requests are not logged."""


def read_case(body: bytes) -> Case:
    """Read the case from a request for a report: a line of JSON with texts and ``sizes``, then the
    bytes of the images. Raises a DataError if the request has no image, or the page would not send
    it."""
    first, _, images = body.partition(b"\n")
    try:
        fields = json.loads(first)
        texts = {
            name: fields[name] or None
            for name in ("prior", "indication", "history", "view", "commitment")
        }
        if any(not isinstance(text, str | None) for text in texts.values()):
            raise ValueError("a text field is not a string")
        sizes = fields["sizes"]
        if not sizes:
            raise DataError("There is no frontal radiograph yet; drop or choose one on the left")
        if len(sizes) > 2 or min(sizes) < 0 or sum(sizes) != len(images):
            raise ValueError("sizes do not match the images")
        frontal = images[: sizes[0]]
        lateral = images[sizes[0] :] if len(sizes) > 1 else None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise DataError(
            "the request did not come from the page; expected a line of JSON, then one or two "
            "images"
        ) from None
    return Case(frontal, lateral, **texts, name="this case")
