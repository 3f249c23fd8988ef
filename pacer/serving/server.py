"""Serving the page, contacting no other machine."""

from __future__ import annotations

import asyncio
import re
import resource
import secrets
import socket
import threading
import time
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pacer.core.errors import ConfigError
from pacer.core.io import open_file
from pacer.serving.decoder import Decoder
from pacer.serving.examples import example_cases
from pacer.serving.guard import Guard, Log
from pacer.serving.page import Page
from pacer.serving.reporter import Reporter

LOOPBACK = ("127.0.0.1", "localhost", "::1")
#: Connections, most of which rest; each takes one of the process's file descriptors.
_CONNECTIONS, _OF_ONE = 512, 64
#: Seconds that a connection may rest, or be in the middle of a request's head.
_REST = 15.0


class _Patient(H11Protocol):
    """Closes a connection that has no request for a while: uvicorn waits for the end of a head for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.set_exception_handler(lambda loop, context: None)  # a line a refused connection would flood the log
        peer = (self.client or ("?",))[0]
        same = sum((other.client or ("?",))[0] == peer for other in self.connections if isinstance(other, _Patient))
        if len(self.connections) > _CONNECTIONS or (same > _OF_ONE and peer not in LOOPBACK):
            transport.abort()
        self.loop.call_later(_REST, self._look, None)

    def _look(self, seen: object) -> None:
        """Args: seen: the request that was there at the last look; None: none."""
        if self.transport.is_closing():
            self.transport.abort()  # what was still to go is not read
            return
        if self.cycle is seen and (seen is None or self.cycle.response_complete):
            self.transport.close()
        self.loop.call_later(_REST, self._look, self.cycle)


def token_for(file: Path | None) -> str:
    """The text in a file, or a new one that nobody can guess.

    Raises:
        ConfigError: the file cannot be read, or holds fewer than 16 characters, or others than an address may.
    """
    if file is None:
        return secrets.token_urlsafe(24)
    try:
        with open_file(file) as content:
            token = content.read(1000).decode().strip()
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"--token-file {file} cannot be read as text") from None
    if not re.fullmatch(r"[\w-]{16,}", token, re.ASCII):
        raise ConfigError(f"--token-file {file} must hold 16 or more letters, digits, - and _, and nothing else")
    return token


@contextmanager
def served(
    reporter: Reporter,
    host: str,
    port: int,
    log: Log,
    *,
    token: str | None = None,
    names: Collection[str] = (),
    certificate: Path | None = None,
    key: Path | None = None,
) -> Generator[str]:
    """Serve the page while the context lasts; gives its address.

    Args:
        token: that a visitor needs; None: none. names: under which the page is reached, beside ``host``.
        certificate, key: PEM files for TLS.

    Raises:
        ConfigError: the port cannot be had, or the certificate cannot be used.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    decoder = Decoder()

    def noted(line: str) -> None:
        with suppress(OSError, SystemExit):  # who reads the log is gone, or the disk full that it goes to
            log(line)

    page = Page(reporter, example_cases(), decoder, noted)
    config = uvicorn.Config(
        Guard(page.app(), {*LOOPBACK, *map(str.lower, (socket.gethostname(), host, *names))}, token, noted),
        http=_Patient,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(f"the certificate {certificate} and its key cannot be used: {error.strerror}") from None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.getaddrinfo(host, port)
    except (UnicodeError, socket.gaierror):
        raise ConfigError(f"--host {host!r} is no address of this machine") from None
    try:
        listening = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise ConfigError(f"port {port} of {host} cannot be had; name another with --port") from error
    server = uvicorn.Server(config)
    running = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    running.start()
    while not server.started and running.is_alive():
        time.sleep(0.01)
    try:
        shown = f"[{host}]" if ":" in host else host
        yield f"http{'s' if certificate else ''}://{shown}:{port}/"
    finally:
        server.should_exit = True
        running.join()
        listening.close()
        decoder.close()
