"""A loopback server that speaks the chat-completions API, and misbehaves as a test asks for.

Every complete chat completion counts as paid, by the SHA-256 of the request: the tests compare that
with what the client's cache says.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pacer.core.io import hash_json


@dataclass
class Reply:
    """What to send: a status, headers, and a body (an object is sent as JSON)."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Drop:
    """Close the connection after ``sent`` characters of a body announced in full."""

    body: Any = None
    sent: int | None = None
    after: float = 0.0


def answer(asked: dict[str, Any], **changes: Any) -> str:
    """The content of a good answer: one finding in two lists, and one outside the vocabulary."""
    lists = {"positive": ["Edema"], "negative": ["edema", "hernia"], "uncertain": []}
    return json.dumps({"sample_uid": asked["sample_uid"], **lists, "rationale": {}, **changes})


def completion(
    content: str | None, finish: str = "stop", refusal: str | None = None
) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "refusal": refusal}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "served-1",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
    }


def good(asked: dict[str, Any], _: int = 0) -> Reply:
    """A good answer, as what ``Endpoint.replies`` says."""
    return Reply(body=completion(answer(asked)))


class Endpoint:
    """The server. ``replies`` decides about a request: the user message, and how often it was asked
    before.

    Attributes:
        requests: the bodies that arrived, while ``keep`` is true.
        paid: request hash -> completed answers.
        seen: request hash -> requests that arrived.
    """

    def __init__(self) -> None:
        self.replies: Callable[[dict[str, Any], int], Reply | Drop] = good
        self.requests: list[dict[str, Any]] = []
        self.keep = True
        self.paid: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.keys: set[str] = set()
        self.lock = threading.Lock()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                endpoint.keys.add(self.headers.get("Authorization", ""))
                key, reply = endpoint.chat(json.loads(content))
                if isinstance(reply, Drop):
                    self.drop(reply)
                    return
                is_completion = isinstance(reply.body, dict) and "choices" in reply.body
                paid = Counter({key: 1} if reply.status == 200 and is_completion else ())
                with endpoint.lock:
                    endpoint.paid += paid
                try:
                    self.send(reply)
                except OSError:  # the client has gone: the body was not completed
                    self.close_connection = True
                    with endpoint.lock:
                        endpoint.paid -= paid

            def send(self, reply: Reply) -> None:
                payload = (
                    reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                )
                headers = {
                    "Content-Type": "application/json",
                    "Content-Length": str(len(payload)),
                } | reply.headers
                lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                content = f"HTTP/1.1 {reply.status} Status\r\n{lines}\r\n".encode() + payload
                self.wfile.write(content)

            def drop(self, drop: Drop) -> None:
                self.close_connection = True
                time.sleep(drop.after)
                if drop.sent is not None:
                    payload = json.dumps(drop.body).encode()
                    head = (
                        f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
                    )
                    self.wfile.write(b"HTTP/1.1 200 OK\r\n" + head.encode() + payload[: drop.sent])

            def log_message(self, *_: Any) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: Any) -> None: ...  # clients that are killed or time out

        self.server = Server(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def asked(self) -> list[str]:
        """Record ids of the requests that arrived."""
        return [json.loads(r["messages"][1]["content"])["sample_uid"] for r in self.requests]

    def chat(self, request: dict[str, Any]) -> tuple[str, Reply | Drop]:
        key = hash_json(request)
        with self.lock:
            before = self.seen[key]
            self.seen[key] += 1
            if self.keep:
                self.requests.append(request)
        return key, self.replies(json.loads(request["messages"][1]["content"]), before)
