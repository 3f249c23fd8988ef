"""A loopback server that speaks the chat-completions and Batch APIs, and misbehaves as a test asks for.

Every completed HTTP 200 answer to a labelling request counts as paid, by the SHA-256 of the request: the tests compare
that with what the client's cache says.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from email import message_from_bytes
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pacer.core.io import hash_json


@dataclass
class Reply:
    """What to send: a status, headers, and a body (an object is sent as JSON)."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


class Drop(Exception):
    """Close the connection: after ``sent`` characters of a body announced in full, with a reset or an orderly end."""

    def __init__(self, body: Any = None, sent: int | None = None, reset: bool = False, after: float = 0.0):
        self.body, self.sent, self.reset, self.after = body, sent, reset, after


def answer(asked: dict[str, Any], **changes: Any) -> str:
    """The content of a good answer: one finding in two lists, and one outside the vocabulary."""
    lists = {"positive": ["Edema"], "negative": ["edema", "hernia"], "uncertain": []}
    return json.dumps({"sample_uid": asked["sample_uid"], **lists, "rationale": {}, **changes})


def completion(content: str | None, finish: str = "stop", refusal: str | None = None) -> dict[str, Any]:
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
    """The server. ``replies`` decides about a request: the user message, and how often it was asked before.

    Attributes:
        requests: the bodies that arrived, while ``keep`` is true.
        paid: request hash -> completed answers.
        seen: request hash -> requests that arrived.
        batches, files: what the Batch API holds; ``batch_replies`` makes the lines of an ended batch.
    """

    def __init__(self) -> None:
        self.replies: Callable[[dict[str, Any], int], Reply] = good
        self.requests: list[dict[str, Any]] = []
        self.keep = True
        self.paid: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.keys: set[str] = set()
        self.in_flight = self.most_in_flight = 0
        self.files: dict[str, tuple[str, bytes]] = {}
        self.deleted: list[str] = []
        self.batches: dict[str, dict[str, Any]] = {}
        self.end_batch: Callable[[dict[str, Any], list[dict[str, Any]]], None] = self.complete
        self.polls_until_ended = 1
        self.around: Callable[[str, str], None] = lambda method, path: None  # may raise Drop, or Refuse
        self.afterwards: Callable[[str, str], None] = lambda method, path: None
        self.lock = threading.Lock()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                self.act("POST")

            def do_GET(self) -> None:
                self.act("GET")

            def do_DELETE(self) -> None:
                self.act("DELETE")

            def act(self, method: str) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path, _, query = self.path.removeprefix("/v1").partition("?")
                endpoint.keys.add(self.headers.get("Authorization", ""))
                key = None
                try:
                    if path == "/chat/completions":
                        key, reply = endpoint.chat(json.loads(content))
                    else:
                        endpoint.around(method, path)
                        reply = endpoint.other(method, path, query, content, self.headers)
                        endpoint.afterwards(method, path)
                except Drop as drop:
                    self.drop(drop)
                    return
                finally:
                    with endpoint.lock:
                        endpoint.in_flight -= path == "/chat/completions"
                paid = Counter({key: 1} if key and reply.status == 200 else ())
                with endpoint.lock:
                    endpoint.paid += paid
                try:
                    self.send(reply)
                except OSError:  # the client has gone: the body was not completed
                    self.close_connection = True
                    with endpoint.lock:
                        endpoint.paid -= paid

            def send(self, reply: Reply) -> None:
                payload = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                headers = {"Content-Type": "application/json", "Content-Length": str(len(payload))} | reply.headers
                lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                self.wfile.write(f"HTTP/1.1 {reply.status} Status\r\n{lines}\r\n".encode() + payload)

            def drop(self, drop: Drop) -> None:
                self.close_connection = True
                time.sleep(drop.after)
                if drop.sent is not None:
                    payload = json.dumps(drop.body).encode()
                    head = f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
                    self.wfile.write(b"HTTP/1.1 200 OK\r\n" + head.encode() + payload[: drop.sent])
                if drop.reset:
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

            def log_message(self, *_: Any) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: Any) -> None: ...  # clients that are killed or time out

        self.server = Server(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def asked(self) -> list[str]:
        """Record ids of the requests that arrived."""
        return [json.loads(r["messages"][1]["content"])["sample_uid"] for r in self.requests]

    def chat(self, request: dict[str, Any]) -> tuple[str, Reply]:
        key = hash_json(request)
        with self.lock:
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            before = self.seen[key]
            self.seen[key] += 1
            if self.keep:
                self.requests.append(request)
        return key, self.replies(json.loads(request["messages"][1]["content"]), before)

    def other(self, method: str, path: str, query: str, content: bytes, headers: Any) -> Reply:
        """Files and batches."""
        kind, _, rest = path.strip("/").partition("/")
        name, _, part = rest.partition("/")
        with self.lock:
            if kind == "files" and method == "POST":
                return self.upload(content, headers["Content-Type"])
            if kind == "files" and method == "DELETE":
                self.deleted.append(name)
                return Reply(200 if self.files.pop(name, None) else 404, {"id": name, "deleted": True})
            if kind == "files" and part == "content":
                return Reply(body=self.files[name][1], headers={"Content-Type": "application/octet-stream"})
            if kind == "files":
                objects = [{"id": key, "filename": filename} for key, (filename, _) in self.files.items()]
                return Reply(body=page(objects, query))
            if method == "POST":
                return self.create(json.loads(content))
            if name:
                return self.look(name)
            return Reply(body=page(list(self.batches.values()), query))

    def upload(self, content: bytes, content_type: str) -> Reply:
        form = message_from_bytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + content)
        parts = {part.get_param("name", header="content-disposition"): part for part in form.get_payload()}
        assert parts["purpose"].get_payload() == "batch"
        return Reply(body={"id": self.store(parts["file"].get_filename(), parts["file"].get_payload(decode=True))})

    def store(self, filename: str, content: bytes) -> str:
        file_id = f"file-{len(self.files) + len(self.deleted) + 1}"
        self.files[file_id] = filename, content.strip() + b"\n"
        return file_id

    def create(self, asked: dict[str, Any]) -> Reply:
        if asked["input_file_id"] not in self.files:
            return Reply(400, {"error": {"code": "no_such_file"}})
        batch = {"id": f"batch-{len(self.batches) + 1}", "object": "batch", "status": "in_progress", "polls": 0} | asked
        self.batches[batch["id"]] = batch
        return Reply(body=batch)

    def look(self, name: str) -> Reply:
        batch = self.batches[name]
        batch["polls"] += 1
        if batch["status"] == "in_progress" and batch["polls"] > self.polls_until_ended:
            lines = [json.loads(line) for line in self.files[batch["input_file_id"]][1].splitlines()]
            for line in lines:
                self.seen[hash_json(line["body"])] += 1
            self.end_batch(batch, lines)
        return Reply(body=batch)

    def complete(
        self,
        batch: dict[str, Any],
        lines: list[dict[str, Any]],
        status: str = "completed",
        errors: list[dict[str, Any]] | None = None,
    ) -> None:
        """End a batch: answers for ``lines`` by ``replies``, and ``errors`` in the error file."""
        out, bad = [], list(errors or ())
        for line in lines:
            key = hash_json(line["body"])
            assert key == line["custom_id"]
            reply = self.replies(json.loads(line["body"]["messages"][1]["content"]), self.seen[key] - 1)
            body = reply.body.decode() if isinstance(reply.body, bytes) else reply.body
            entry = {"custom_id": key, "response": {"status_code": reply.status, "body": body}, "error": None}
            (out if reply.status == 200 else bad).append(entry)
            self.paid[key] += reply.status == 200
        batch["status"] = status
        batch["request_counts"] = {"total": len(lines) + len(bad), "completed": len(out), "failed": len(bad)}
        for name, entries in (("output_file_id", out), ("error_file_id", bad)):
            if entries:
                batch[name] = self.store("out.jsonl", b"\n".join(json.dumps(entry).encode() for entry in entries))


def page(objects: list[dict[str, Any]], query: str) -> dict[str, Any]:
    """Two objects a page, so that lists have to be followed."""
    after = dict(part.split("=") for part in query.split("&") if part).get("after")
    start = next((i + 1 for i, entry in enumerate(objects) if entry["id"] == after), 0)
    return {"object": "list", "data": objects[start : start + 2], "has_more": len(objects) > start + 2}


class Misbehaviour:
    """Faults by the hash of the record id: none to several troubles, and then an answer of one of many kinds.

    Args:
        stuck: share of requests that fail ten times in a row.
    """

    def __init__(self, seed: int, hang: float, stuck: float = 0.0):
        self.seed, self.hang, self.stuck = seed, hang, stuck

    def troubles(self, record_id: str) -> list[str]:
        draw = random.Random(f"{self.seed}:{record_id}")
        if draw.random() < self.stuck:
            return ["error"] * 10
        lost = draw.choices(("none", "hang", "truncated", "reset", "closed"), (96, 0.4, 1.2, 1.2, 1.2))[0]
        kinds = draw.choices(("limit", "limit_date", "limit_ms", "error", "overloaded"), k=3)
        count = draw.choices((0, 1, 2, 3), (80, 12, 5, 3))[0]
        return kinds[:count] + [lost] * (lost != "none")

    def kind(self, record_id: str) -> str:
        """The kind of answer in the end."""
        names = ("good", "prose", "no_completion", "foreign", "twice", "other", "empty", "refusal", "length", "page")
        weights = (90, 1, 1, 2, 2, 0.5, 0.5, 1, 1, 1)
        return random.Random(f"{self.seed}:kind:{record_id}").choices(names, weights)[0]

    def __call__(self, asked: dict[str, Any], before: int) -> Reply:
        record_id = asked["sample_uid"]
        troubles = self.troubles(record_id)
        if before >= len(troubles):
            return self.final(self.kind(record_id), asked)
        good = completion(answer(asked))
        wait = random.Random(f"{record_id}:{before}").uniform(0.0, 0.02)
        match troubles[before]:
            case "limit":
                return Reply(429, {"error": {"message": asked["report"]}}, {"Retry-After": f"{wait:.3f}"})
            case "limit_date":
                return Reply(429, {"error": {}}, {"Retry-After": formatdate(time.time(), usegmt=True)})
            case "limit_ms":
                return Reply(429, {"error": {}}, {"Retry-After-Ms": f"{1000 * wait:.0f}"})
            case "error":
                return Reply(500, {"error": {"message": asked["report"]}})
            case "overloaded":
                return Reply(503, b"<html>", {"Content-Type": "text/html"})
            case "hang":
                raise Drop(after=self.hang)
            case "truncated":
                raise Drop(good, sent=len(json.dumps(good)) // 2)
            case "reset":
                raise Drop(good, sent=20, reset=True)
            case _:
                raise Drop()

    @staticmethod
    def final(kind: str, asked: dict[str, Any]) -> Reply:
        match kind:
            case "prose":
                return Reply(body=completion("There is no JSON in this answer."))
            case "no_completion":
                return Reply(body={"detail": "no choices here"})
            case "foreign":
                return Reply(body=completion(answer(asked, positive=["Mass", "Edema", "nodule"])))
            case "twice":
                return Reply(body=completion(answer(asked, negative=["edema", "pneumonia"], uncertain=["pneumonia"])))
            case "other":
                return Reply(body=completion(answer({"sample_uid": "sn-other"})))
            case "empty":
                return Reply(body=completion(""))
            case "refusal":
                return Reply(body=completion(None, refusal="I cannot help with that."))
            case "length":
                return Reply(body=completion(answer(asked)[:30], finish="length"))
            case "page":
                return Reply(body=b"<html>an HTTP 200 that is no API answer</html>")
            case _:
                return Reply(body=completion(answer(asked)))
