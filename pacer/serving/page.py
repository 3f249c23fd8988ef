"""The web page of one model, for a single user of this machine, and its results as HTML.

The server stores no data of a case: the browser keeps the images and sends them with each request.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Collection, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from select import select
from socket import MSG_PEEK
from socketserver import ThreadingTCPServer
from threading import Lock
from typing import Any, NamedTuple

from markupsafe import Markup
from PIL import Image

from pacer.core.anchor import FINDINGS, POLARITIES, Anchor, Attributes, read_list, words
from pacer.core.contexts import SOURCES, availability
from pacer.core.errors import ConfigError, DataError, PacerError
from pacer.decoding.lists.maps import CLASSES
from pacer.reporting import html, marks
from pacer.reporting.html import LONGEST_EDGE, data_uri, routing_overlay
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


class Choice(NamedTuple):
    """A kind of attribute of a finding (side, severity or course)."""

    #: Its words in the model's commitment.
    model: str
    #: Its words in the person's commitment.
    person: str
    #: The labels of the options, by their words.
    options: Mapping[str, str]


def result_page(
    result: Result, model: Anchor | None = None, commits: bool = True, kinds: Collection[str] = ()
) -> str:
    """Return the HTML of one report: commitment, marked report, gate, routing maps and notes.

    Args:
        model: the model's own commitment, if a person changed it.
        commits: whether the model writes for a commitment.
        kinds: kinds of attributes in its commitments.
    """
    overlays = [
        routing_overlay(name, Image.fromarray(routing.image), routing.weights, routing.depths)
        for name, routing in result.routing().items()
    ]
    # none if there is no commitment, or no report after it
    commitment = None if result.fallback else result.commitment
    lists = {} if commitment is None else {"": marks.statements_in(commitment)}
    marked = marks.spans(result.report, "commitment", lists, commitment=commitment)
    uncommitted = [
        (finding, row["report_state"])
        for own in lists.values()
        for finding, row in marks.verdicts(own, marks.statements_of(result.report)).items()
        if row["report_state"] not in (None, row["reference_state"])
    ]
    states_of_person = result.findings()
    generated = model or result.commitment or Anchor()
    rows = {
        finding: {
            "model": generated.polarity(finding) or "",
            "person": states_of_person.get(finding, ""),
        }
        for finding in FINDINGS
    }
    attribute_chances: dict[str, dict[str, float]] = {}
    if result.attributes is not None:
        attribute_chances = result.attributes.as_dict()
        if result.given:
            # the person's commitment was completed with the attributes that were predicted
            # from the sources; to be comparable, the model's must be completed as well
            generated = generated.completed(result.attributes.stated())
    person = result.commitment or Anchor()
    choices = {
        finding: {
            kind: _choice(finding, kind, generated, person, attribute_chances.get(finding, {}))
            for kind in kinds
        }
        for finding in FINDINGS
    }
    changed = _changed(rows, choices)
    return render(
        "result.html",
        result=result,
        rows=rows,
        choices=choices,
        changed=changed,
        kinds=kinds,
        saved=json.dumps(result.as_dict() | {"changed": changed}, indent=2, ensure_ascii=False),
        states=POLARITIES,
        commits=commits,
        overlays=overlays,
        spans=[_without_agreement(span) for span in marked],
        described_otherwise=any(
            {"wrong-side", "other-severity"}.intersection(span.marks) for span in marked
        ),
        sources=SOURCES[result.context],
        likeliest=_likeliest(result),
        shown_from=SHOWN,
        unlisted=sorted(uncommitted),
        notes=notes_of([result]),
    )


def _without_agreement(span: marks.Span) -> marks.Span:
    """Remove the mark of a phrase that agrees with the report's own list of findings, which does
    not make it right."""
    kept = [mark for mark in span.marks if mark != "matching"]
    return span._replace(marks=kept)


def _likeliest(result: Result) -> list[tuple[str, float]]:
    """Return the findings with a probability of at least :data:`SHOWN`, the most probable first."""
    if result.probabilities is None:
        return []
    ranked = sorted(zip(result.probabilities.positive, FINDINGS, strict=True), reverse=True)
    return [(finding, chance) for chance, finding in ranked if chance >= SHOWN]


def _changed(
    states: Mapping[str, dict[str, str]], choices: Mapping[str, Mapping[str, Choice]]
) -> dict[str, dict[str, Any]]:
    """Return the findings whose state or attributes a person has changed: the states of the model
    and of the person, and the changed ``attributes``."""
    changed: dict[str, dict[str, Any]] = {}
    for finding, of_finding in states.items():
        attributes = {
            kind: {"model": choice.model, "person": choice.person}
            for kind, choice in choices[finding].items()
            if choice.model != choice.person
        }
        if attributes:
            changed[finding] = {**of_finding, "attributes": attributes}
        elif of_finding["model"] != of_finding["person"]:
            changed[finding] = dict(of_finding)
    return changed


def _choice(
    finding: str, kind: str, model: Anchor, person: Anchor, chances: Mapping[str, float]
) -> Choice:
    """Return the choice for one kind of attribute of a finding. The label of an option includes its
    probability, if there is one."""
    by_model = " ".join(words(model.attributes.get(finding, Attributes()).only([kind])))
    by_person = " ".join(words(person.attributes.get(finding, Attributes()).only([kind])))
    classes = {
        word: f"{word} {chances[word]:.2f}" if word in chances else word for word in CLASSES[kind]
    }
    # the generator completes a person's commitment with the predicted attributes
    default = "as predicted" if chances.keys() & classes else "none"
    options = {"": f"{kind}: {default}"} | classes
    options.setdefault(by_person, by_person)  # such as two severities
    return Choice(by_model, by_person, options)


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
            notes=reporter.notes,
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
        case, model_commitment = read_case(body, reporter.attributes)
        with self.server.writing:
            if select([self.connection], [], [], 0)[0] and not self.connection.recv(1, MSG_PEEK):
                raise ConnectionAbortedError  # the browser disconnected while the request waited
            [result] = reporter.generate([case])
            return result_page(result, model_commitment, reporter.commit, reporter.attributes)

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


def read_case(body: bytes, kinds: Collection[str] = ()) -> tuple[Case, Anchor | None]:
    """Read the case from a request for a report: a line of JSON with texts and ``sizes``, then the
    bytes of the images. If a person has changed the ``commitment``, also return that of the
    ``model``. ``kinds``: kinds of attributes in the model's commitments. Raises a DataError if the
    request has no image, or the page would not send it."""
    first, _, images = body.partition(b"\n")
    try:
        fields = json.loads(first)
        texts = {
            name: fields[name] or None
            for name in ("prior", "indication", "history", "view", "sections")
        }
        commitment = fields.get("commitment")
        model_text = fields.get("model")
        if any(
            not isinstance(text, str | None) for text in (*texts.values(), commitment, model_text)
        ):
            raise ValueError("a text field is not a string")
        model = None if commitment is None else read_list(model_text, kinds)
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
    return Case(frontal, lateral, **texts, name="this case", commitment=commitment), model
