"""What the page's server answers: the requests that the page itself makes, and nothing else that Gradio offers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

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
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        b"img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'self'; "
        b"form-action 'self'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


class Guard:
    """ASGI middleware: refuses all other paths and tells the browser to ask no other server for anything."""

    def __init__(self, app: App):
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        status = self._refusal(scope)
        if status is not None:
            while (await receive()).get("more_body"):
                pass  # who still sends would not hear the answer
            await send(
                {
                    "type": "http.response.start",
                    "status": status,
                    "headers": [(b"content-type", b"text/plain"), *_HEADERS],
                }
            )
            await send({"type": "http.response.body", "body": b"not available\n"})
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in _HEADERS}
                kept = [(name, value) for name, value in message.get("headers", []) if name.lower() not in own]
                message = {**message, "headers": [*kept, *_HEADERS]}
            await send(message)

        await self.app(scope, receive, answer)

    @staticmethod
    def _refusal(scope: Message) -> int | None:
        method, path = scope["method"], scope["path"]
        if method not in _ALLOWED or ".." in path or not _ALLOWED[method].fullmatch(path):
            return 404
        if method == "POST" and not path.startswith("/gradio_api/upload"):
            length = dict(scope["headers"]).get(b"content-length", b"")
            if not length.isdigit():
                return 411
            if int(length) > _MAX_BODY:
                return 413
        return None
