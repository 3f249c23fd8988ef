"""Who may ask the page for what: hosts, origins, a token, and a bound to what one client and all together may hold."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pacer.serving.sources import MAX_BYTES, MAX_CHARACTERS

#: Writes one line.
Log = Callable[[str], None]
#: Two images and three texts, in JSON at most 12 bytes a character.
MAX_BODY = 2 * MAX_BYTES + 36 * MAX_CHARACTERS + 10_000
#: Bytes of bodies that all requests together may hold, and requests that one client may have at a time.
ALL_BODIES, MOST_OF_ONE = 400_000_000, 16
#: Seconds in which the next piece of a body has to come, or to go; and bytes a second of a whole body.
PATIENCE, RATE = 30.0, 500_000
#: Key of the scope: called, the request's body does not count any longer.
LET_GO = "pacer.let_go"
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
#: Answers the link with the token: the next request comes from the page itself, and its address holds no token.
_ENTER = '<!doctype html><title>PACER</title><meta http-equiv="refresh" content="0;url=./"><a href="./">PACER</a>'


class Guard:
    """ASGI middleware.

    Args:
        hosts: names that the page was started under. An address in digits is always allowed: no name that somebody
            else controls leads there. token: None: whoever reaches the page may use it.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], token: str | None, log: Log):
        self._app, self._hosts, self._token, self._log = app, frozenset(hosts), token, log
        self._asking: Counter[str] = Counter()
        self._held: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started, client, status = time.monotonic(), _address((scope.get("client") or ("?",))[0]), 0
        refusal = self._refusal(scope, client)
        size = 0 if refusal else int(Headers(scope=scope).get("content-length", 0))
        arriving = size > 0

        def let_go() -> None:
            nonlocal size
            self._held[client] -= size
            size = 0

        scope[LET_GO] = let_go
        self._asking[client] += 1
        self._held[client] += size

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(_HEADERS)
            async with asyncio.timeout(PATIENCE):  # else who does not read would keep a place in the line
                await send(message)

        async def body() -> Message:
            nonlocal arriving
            left = started + PATIENCE + size / RATE - time.monotonic()
            async with asyncio.timeout(min(PATIENCE, left) if arriving else None):
                message = await receive()
            arriving = arriving and message.get("more_body", False)
            return message

        try:
            await (refusal or self._app)(scope, body, answer)
        except Exception as error:  # it was answered; what it says may be of a case, so its type and place are told
            place = traceback.extract_tb(error.__traceback__)[-1]
            self._log(f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}")
        finally:
            let_go()
            self._asking[client] -= 1
            if not self._asking[client]:
                del self._asking[client], self._held[client]
            path = scope["path"] if re.fullmatch(r"/[a-z0-9/.-]{0,40}", scope["path"]) else "?"
            self._log(f"{client} {scope['method']:.8} {path} {status} {time.monotonic() - started:.2f} s")

    def _refusal(self, scope: Scope, client: str) -> Response | None:
        headers = Headers(scope=scope)
        host, length = headers.get("host", ""), headers.get("content-length", "0")
        if not self._known(host):
            return _no(421, "The page was not started under this name; `pacer serve --name` adds one.")
        if self._asking[client] >= MOST_OF_ONE:
            return _no(429, f"{MOST_OF_ONE} requests of yours are being answered; wait for one of them.")
        if "transfer-encoding" in headers or not (length.isascii() and length.isdigit()):
            return _no(411, "A request states its length.")
        if int(length) > MAX_BODY:
            return _no(413, f"The case has more than {MAX_BODY:,} bytes.")
        if self._held[client] + int(length) > MAX_BODY:
            return _no(429, "Another case of yours is being received; wait for it.")
        if self._held.total() + int(length) > ALL_BODIES:
            return _no(503, "Other cases are being received; try again in a moment.")
        if scope["method"] == "POST" and headers.get("origin") not in (f"http://{host}", f"https://{host}"):
            return _no(403, "The request does not come from the page.")
        return None if self._token is None else self._entry(scope, headers, self._token)

    def _known(self, host: str) -> bool:
        with suppress(ValueError):
            name = urlsplit(f"//{host}").hostname or ""
            if name in self._hosts:
                return True
            ipaddress.ip_address(name)
            return True
        return False

    def _entry(self, scope: Scope, headers: Headers, token: str) -> Response | None:
        """A cookie for the link with the token; None where the cookie is there."""
        cookie = f"pacer-{scope['server'][1] if scope.get('server') else 0}"
        # other services of this machine are sent the cookie too, so it is not the token
        own = hmac.digest(token.encode(), b"cookie", "sha256").hex()
        given = cookie_parser(headers.get("cookie", "")).get(cookie, "")
        if hmac.compare_digest(given.encode(), own.encode()):
            return None
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["method"] == "GET" and hmac.compare_digest(asked.encode(), token.encode()):
            entry = HTMLResponse(_ENTER)
            entry.set_cookie(cookie, own, httponly=True, samesite="strict", secure=scope["scheme"] == "https")
            return entry
        return _no(401, "Open the link that `pacer serve` printed when the page was started; it holds a token.")


def _address(client: str) -> str:
    """A client as the log shows it: a proxy on this machine may pass on any text."""
    with suppress(ValueError):
        return str(ipaddress.ip_address(client.partition("%")[0]))
    return "?"


def _no(status: int, sentence: str) -> Response:
    return PlainTextResponse(sentence, status, {"connection": "close"})
