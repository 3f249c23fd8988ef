"""A job that is killed (SIGKILL) before each change that it makes to files, one after another.

Children are forks of a fresh process, ``python -m tests.support.kills KIND FOLDER``: a process that has used polars
cannot be forked.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.errors import DataError
from pacer.core.io import atomic_directory
from pacer.metrics.result import Result, read_result, with_run_id, write_result
from pacer.metrics.signature import Signature

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.truncate", "os.symlink"}
#: What a folder is and has in it before the job.
PLACES = ("new", "replaced", "with other files")


def changes_file(event: str, arguments: tuple) -> bool:
    opened = event == "open" and isinstance(arguments[1], str) and bool(set(arguments[1]) & set("wax+"))
    return opened or event in CHANGES


def is_killed(number: int, job: Callable[[], object]) -> bool:
    """Whether a job in a process of its own was killed before its change of this number; False: it had fewer."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    left = number

    def count(event: str, arguments: tuple) -> None:
        nonlocal left
        if changes_file(event, arguments):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    job()
    os._exit(0)


def after(job: Callable[[], Any]) -> Any:
    """What a job returns, in a fork of its own."""
    end, start = os.pipe()
    if child := os.fork():
        os.close(start)
        os.waitpid(child, 0)
        with os.fdopen(end) as answer:
            return json.loads(answer.read())
    with os.fdopen(start, "w") as answer:
        answer.write(json.dumps(job()))
    os._exit(0)


def write(out: Path, value: int) -> None:
    cases = pl.DataFrame({"record_id": ["a", "b"], "value": [value, value]})
    write_result(out, with_run_id(Result({"all": {"n": 2, "value": value}}, cases, Signature())))


def read(out: Path) -> Any:
    """The value in scores and cases, or the reason why there is none."""
    try:
        scores, cases, _ = read_result(out)
    except DataError as error:
        return str(error)
    return [scores["all"]["value"], *cases["value"].unique()]


def write_folder(out: Path, value: int) -> None:
    with atomic_directory(out) as folder:
        for name in ("a", "b"):
            (folder / name).write_text(str(value))


def read_folder(out: Path) -> list[str]:
    return [path.read_text() for path in sorted(out.iterdir())] if out.exists() else []


def runs(kind: str, folder: Path) -> Iterator[tuple[str, int, Any, Any]]:
    """For every place and change: what is there after the kill, and after the job was done again."""
    make, look = {"result": (write, read), "folder": (write_folder, read_folder)}[kind]
    for place in PLACES if kind == "result" else PLACES[:2]:
        number, killed = 0, True
        while killed:
            number += 1
            out = folder / f"{place} {number}"
            earlier, later, seen = partial(make, out, 1), partial(make, out, 2), partial(look, out)
            if place != "new":
                after(earlier)
            if place == "with other files":
                (out / "notes.txt").touch()
            killed = is_killed(number, later)
            remains = after(seen)
            after(later)
            yield place, number, remains, after(seen)


def killed_runs(kind: str, folder: Path) -> list[tuple[str, int, Any, Any]]:
    command = [sys.executable, "-m", "tests.support.kills", kind, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    for run in runs(sys.argv[1], Path(sys.argv[2])):
        print(json.dumps(run), flush=True)
