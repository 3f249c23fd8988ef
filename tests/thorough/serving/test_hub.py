"""A model on the hub is downloaded, checked and kept."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest

from pacer.core.io import hash_bytes, hash_file, read_jsonl
from tests.support.world import ROOT, World


@contextmanager
def hub_of(revisions: dict[str, Path]) -> Iterator[str]:
    """Serve folders as the revisions of the model ``lab/pacer``, and yield the address."""
    commits = {hash_bytes(name.encode())[:40]: folder for name, folder in revisions.items()}
    named = dict(zip(revisions, commits, strict=True))

    class Hub(BaseHTTPRequestHandler):
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
                self.answer(
                    200, json.dumps({"id": "lab/pacer", "sha": commit, "siblings": []}).encode()
                )
            elif kind == "tree":
                files = {
                    str(p.relative_to(commits[commit])): p
                    for p in commits[commit].rglob("*")
                    if p.is_file()
                }
                facts = [
                    {"path": n, "size": p.stat().st_size, "oid": hash_file(p)[:40]}
                    for n, p in files.items()
                ]
                self.answer(200, json.dumps([{"type": "file"} | fact for fact in facts]).encode())
            else:
                content = (commits[commit] / file).read_bytes()
                self.answer(
                    200, content, {"ETag": f'"{hash_bytes(content)[:40]}"', "X-Repo-Commit": commit}
                )

        do_HEAD = do_GET

        def answer(
            self, status: int, content: bytes, headers: dict[str, str] | None = None
        ) -> None:
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


#: Writes the report of a case, or what is said, with each of some models; then decodes with the
#: first.
CODE = """
import json, sys
from pacer import Reporter
from pacer.cli.command import app
from pacer.core.errors import PacerError

models, case, arguments = map(json.loads, sys.argv[1:])
said = {}
for model in models:
    try:
        said[model] = Reporter(model, device="cpu")(**case).generated
    except PacerError as error:
        said[model] = str(error)
app(["decode", "--model", models[0], *arguments], standalone_mode=False)
print(json.dumps(said))
"""


def ran(
    folder: Path, endpoint: str, code: str, *arguments: str, **more: str
) -> subprocess.CompletedProcess[str]:
    known = {
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(folder / "hf"),
        "HF_HUB_OFFLINE": "0",
        "NO_PROXY": "127.0.0.1",
    }
    environment = dict(os.environ) | known | more
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def changed(exported: Path, tmp_path: Path) -> Path:
    """An exported model with another file than its manifest says."""
    folder = Path(shutil.copytree(exported, tmp_path / "changed"))
    with open(folder / "config.json", "a") as file:
        file.write("\n")
    return folder


def test_a_model_on_the_hub_is_used_by_name_and_revision(
    world: World, exported: Path, changed: Path, tmp_path: Path
) -> None:
    """What arrives is compared with the manifest, and kept: later the hub need not be there."""
    shutil.copy(ROOT / "configs" / "phantom.yaml", tmp_path / "params.yaml")
    line = world.predictions("sn")[0]
    case = world.case(line["record_id"])
    sources = {"frontal": str(case.frontal), "indication": case.indication, "history": case.history}
    sources |= {"view": case.view, "sections": case.sections}
    options = ["--records", str(world.inputs["records"]), "--out", "decoded", "--context", "sn"]
    models = ["lab/pacer@v1", "lab/pacer@changed", "lab/pacer@v2", "lab/other@v1"]
    with hub_of({"v1": exported, "changed": changed}) as endpoint:
        done = ran(tmp_path, endpoint, CODE, *map(json.dumps, (models, sources, options)))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said.pop("lab/pacer@v1") == line["generated"]
    assert "config.json has changed since it was exported" in said.pop("lab/pacer@changed")
    for model, message in said.items():
        assert f"{model} is not in the Hugging Face cache and cannot be downloaded (" in message
        assert "NotFoundError); check the name, the revision" in message
    assert read_jsonl(tmp_path / "decoded" / "sn.jsonl") == world.predictions("sn")
    code = (
        "from pacer.serving.layout import located; print(located('lab/pacer@v1') / 'manifest.json')"
    )
    for more in ({}, {"HF_HUB_OFFLINE": "1"}):
        later = ran(tmp_path, endpoint, code, **more)
        assert later.returncode == 0 and Path(later.stdout.strip()).exists(), later.stderr
