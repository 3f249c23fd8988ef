"""What the page's server answers: the requests that the page itself makes, and nothing else that Gradio offers."""

from __future__ import annotations

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: No file of the server (``/file=``), no proxy, no interface description, no saved runs, no links to states.
_ALLOWED = {
    "GET": re.compile(
        r"/|/config/?|/(gradio_api/)?theme\.css|/favicon\.ico|/robots\.txt|/manifest\.json"
        r"|/(assets|static)/[\w./-]+|/gradio_api/(queue/data|startup-events|upload_progress|app_id"
        r"|heartbeat/\w+)"
    ),
    "HEAD": re.compile(r"/"),
    "POST": re.compile(r"/gradio_api/(queue/join|run/predict|upload|cancel)/?"),
}
#: Bytes of a request other than an upload: texts that are too long get their sentence, and floods end here.
_MAX_BODY = 2_000_000
_HEADERS = {
    "content-security-policy": "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Guard:
    """ASGI middleware: refuses all other paths and tells the browser to ask no other server for anything."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        if scope["type"] != "http":
            return
        status = _refusal(scope)
        if status is not None:
            while (await receive()).get("more_body"):
                pass  # who still sends would not hear the answer
            await PlainTextResponse("not available\n", status, _HEADERS)(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self.app(scope, receive, answer)


def _refusal(scope: Scope) -> int | None:
    method, path = scope["method"], scope["path"]
    if method not in _ALLOWED or ".." in path or not _ALLOWED[method].fullmatch(path):
        return 404
    if method == "POST" and not path.startswith("/gradio_api/upload"):
        length = Headers(scope=scope).get("content-length", "")
        if not length.isdigit():
            return 411
        if int(length) > _MAX_BODY:
            return 413
    return None
