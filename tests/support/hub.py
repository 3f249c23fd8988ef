"""A hub of models on the local host: as much of the Hugging Face API as a download needs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

from pacer.core.io import hash_bytes, hash_file


@contextmanager
def hub_of(revisions: dict[str, Path]) -> Iterator[str]:
    """Serve folders as the revisions of the model ``lab/pacer``, and yield the address."""
    commits = {hash_bytes(name.encode())[:40]: folder for name, folder in revisions.items()}
    named = dict(zip(revisions, commits, strict=True))

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            _, _, rest = path.partition("lab/pacer/")
            kind, _, rest = rest.partition("/")
            revision, _, file = rest.partition("/")
            commit = named.get(revision, revision)
            if "lab/pacer/" not in path or commit not in commits:
                error = "RevisionNotFound" if "lab/pacer/" in path else "RepoNotFound"
                self.answer(404, b"", {"X-Error-Code": error})
            elif kind == "revision":
                self.answer(200, json.dumps({"id": "lab/pacer", "sha": commit, "siblings": []}).encode())
            elif kind == "tree":
                files = [p for p in commits[commit].rglob("*") if p.is_file()]
                entries = [
                    {
                        "type": "file",
                        "path": p.relative_to(commits[commit]).as_posix(),
                        "size": p.stat().st_size,
                        "oid": hash_file(p)[:40],
                    }
                    for p in files
                ]
                self.answer(200, json.dumps(entries).encode())
            else:
                content = (commits[commit] / file).read_bytes()
                self.answer(200, content, {"ETag": f'"{hash_bytes(content)[:40]}"', "X-Repo-Commit": commit})

        def answer(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
