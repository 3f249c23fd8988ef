"""A job that is killed (SIGKILL) before each change that it makes to files, one after another.

Children are forks of a fresh process, ``python -m tests.support.kills KIND FOLDER``: a process that has used polars
cannot be forked.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.errors import DataError
from pacer.core.io import atomic_directory
from pacer.metrics.signature import Result, Signature, read_result, with_run_id, write_result

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.truncate", "os.symlink"}
#: What a folder is and has in it before the job.
PLACES = ("new", "replaced", "with other files")


def changes_file(event: str, arguments: tuple) -> bool:
    opened = event == "open" and isinstance(arguments[1], str) and bool(set(arguments[1]) & set("wax+"))
    return opened or event in CHANGES


def is_killed(job: Callable[[], object], number: int = 0) -> bool:
    """Do a job in a process of its own; whether it was killed before its change of this number, the first being 1."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    changes = 0

    def watch(event: str, arguments: tuple) -> None:
        nonlocal changes
        if changes_file(event, arguments):
            changes += 1
            if changes == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    job()
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


KINDS = {"result": (write, read), "folder": (write_folder, read_folder)}


def kill_everywhere(kind: str, folder: Path) -> None:
    """In every place and before every change: kill the job, copy what there is, and do the job again."""
    make = KINDS[kind][0]
    for place in PLACES if kind == "result" else PLACES[:2]:
        for number in count(1):
            out = folder / f"{place} {number}"
            if place != "new":
                is_killed(partial(make, out, 1))
            if place == "with other files":
                (out / "notes.txt").touch()
            killed = is_killed(partial(make, out, 2), number)
            if out.exists():
                shutil.copytree(out, f"{out} killed")
            is_killed(partial(make, out, 2))
            if not killed:
                break


def killed_runs(kind: str, folder: Path) -> Iterator[tuple[str, Any, Any]]:
    """For every place and change: the place, what is there after the kill, and after the job was done again."""
    command = [sys.executable, "-m", "tests.support.kills", kind, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    for out in folder.glob("*[0-9]"):
        yield out.name.rpartition(" ")[0], KINDS[kind][1](Path(f"{out} killed")), KINDS[kind][1](out)


if __name__ == "__main__":
    kill_everywhere(sys.argv[1], Path(sys.argv[2]))
