"""A process that is killed before any of its changes to files leaves the old output, the new one, or a refusal.

The job runs in forks of a fresh process, this file as a script: a process that has used polars cannot be forked.
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
import pytest

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
    command = [sys.executable, "-m", "tests.integration.core.test_killed_writes", kind, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr
    for out in folder.glob("*[0-9]"):
        yield out.name.rpartition(" ")[0], KINDS[kind][1](Path(f"{out} killed")), KINDS[kind][1](out)


#: By what is written: the old and the new content, and how a reader refuses the rest.
CASES = {
    "folder": (["1", "1"], ["2", "2"], ()),
    "result": ([1, 1], [2, 2], ("has no cases.parquet", "come from different runs")),
}


@pytest.mark.parametrize("kind", CASES)
def test_no_mixture_is_left_and_the_job_can_be_done_again(tmp_path: Path, kind: str) -> None:
    old, new, refusals = CASES[kind]
    seen = set()
    for place, remains, again in killed_runs(kind, tmp_path):
        assert again == new, place
        words = next((words for words in refusals if isinstance(remains, str) and words in remains), None)
        state = {str(old): "old", str(new): "new", "[]": "none"}.get(str(remains), words)
        assert state is not None, (place, remains)
        seen.add((place, state))
    # while a folder is replaced there is a moment without one; the old one lies aside, and the next run puts it back
    missing = "none" if kind == "folder" else refusals[0]
    expected = {("new", missing), ("new", "new"), *(("replaced", state) for state in ("old", "new", missing))}
    if kind == "result":
        expected |= {(PLACES[2], state) for state in ("old", "new", refusals[1])}
    assert seen == expected


def test_a_folder_that_was_put_aside_is_put_back(tmp_path: Path) -> None:
    out, scratch = tmp_path / "out", tmp_path / "out.scratch"
    with atomic_directory(out) as folder:
        (folder / "old").touch()
    scratch.mkdir()
    out.rename(scratch / "replaced")
    with pytest.raises(ZeroDivisionError), atomic_directory(out):
        _ = 1 / 0
    assert [path.name for path in out.iterdir()] == ["old"] and not scratch.exists()


if __name__ == "__main__":
    kill_everywhere(sys.argv[1], Path(sys.argv[2]))
