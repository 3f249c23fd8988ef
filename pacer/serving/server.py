"""Serving the page to this machine alone, contacting no other."""

from __future__ import annotations

import os
import socket
import threading
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pacer.core.errors import ConfigError
from pacer.serving.examples import example_cases
from pacer.serving.page import Page
from pacer.serving.reporter import Reporter
from pacer.serving.sources import MAX_BYTES, MAX_CHARACTERS

#: Writes one line.
Log = Callable[[str], None]
#: Names of this machine that no other machine can reach.
LOOPBACK = ("127.0.0.1", "localhost", "::1")
#: Bytes of a request: two images and three texts, in JSON at most 12 bytes a character.
MAX_BODY = 2 * MAX_BYTES + 36 * MAX_CHARACTERS + 10_000
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """ASGI middleware: lets through what the page asks, and nothing that another site's page could ask."""

    def __init__(self, app: ASGIApp, log: Log):
        self._app, self._log = app, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        try:
            await (_refusal(scope) or self._app)(scope, receive, answer)
        except Exception as error:  # it was answered; what it says may be of a case, so its type and place are told
            place = traceback.extract_tb(error.__traceback__)[-1]
            self._log(f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}")


def _refusal(scope: Scope) -> Response | None:
    headers = Headers(scope=scope)
    host = headers.get("host", "")
    if _name(host) not in LOOPBACK:
        return PlainTextResponse("The page is served to this machine alone, as localhost.", 421)
    if "transfer-encoding" in headers:
        return PlainTextResponse("The request must state its length.", 411)
    if int(headers.get("content-length", "0")) > MAX_BODY:
        return PlainTextResponse(f"The case has more than {MAX_BODY:,} bytes.", 413, {"connection": "close"})
    if scope["method"] == "POST" and headers.get("origin") != f"http://{host}":
        return PlainTextResponse("The request does not come from the page.", 403)
    return None


def _name(host: str) -> str | None:
    """A host without its port; None where it is malformed."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


@contextmanager
def served(reporter: Reporter, port: int, log: Log) -> Generator[str]:
    """Serve the page on the loopback interface while the context lasts; gives its address.

    Args:
        log: gets a line for an error that nobody foresaw.

    Raises:
        ConfigError: the port cannot be had.
    """
    try:
        listening = socket.create_server(("127.0.0.1", port), backlog=128)
    except OSError as error:
        raise ConfigError(
            f"port {port} cannot be used ({os.strerror(error.errno or 0)}); choose another with --port"
        ) from error
    config = uvicorn.Config(
        Guard(Page(reporter, example_cases()).app(), log),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
    )
    server = uvicorn.Server(config)
    running = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    running.start()
    while not server.started and running.is_alive():
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        running.join()
        listening.close()
