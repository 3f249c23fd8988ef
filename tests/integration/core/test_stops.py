"""Stages that are stopped, jobs that are killed before any change to a file, and strange
environments.

The killed jobs run in forks of a fresh process, this file as a script: one that has used polars
cannot be forked. ``tests/thorough`` has all stages with all signals.
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
import psutil
import pytest

from pacer.cli.command import app
from pacer.core.errors import DataError
from pacer.core.io import atomic_directory, yaml_beside
from pacer.metrics.result import Result
from pacer.metrics.signature import Signature
from tests.support.waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parents[3]
LINE = "stopped; run the same command again to continue from what was saved\n"
TEXTS = yaml_beside(__file__, "stops.yaml")
#: Scripts of stages: one that works; one in a loop that a stop does not interrupt; and one that is
#: still importing.
STAGE, FINISHING = (TEXTS[name] for name in ("stage", "finishing"))
IMPORTING = f"{STAGE}\nmain()\n"


@pytest.fixture(autouse=True)
def signals_are_not_ignored() -> Iterator[None]:
    """Stages do not inherit from the tests that signals are ignored, as under nohup or in a
    script's background."""
    defaults = {signal.SIGHUP: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    before = {number: signal.signal(number, handler) for number, handler in defaults.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


RUN, LAUNCH = (str(ROOT / "stages" / name) for name in ("run.py", "launch.py"))
LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells a process that its parent died"
)
CONFIGURATION = TEXTS["configuration"]


def gone(pid: int) -> bool:
    """Whether a process has ended; nobody waits for an adopted one, which stays as a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def start(
    folder: Path, *command: str, stage: str = STAGE, shell: str = "/bin/sh"
) -> subprocess.Popen:
    """Start a command in a session of its own; return when the stage works."""
    (folder / "stage.py").write_text(stage)
    shutil.copy(ROOT / "configs" / "phantom.yaml", folder / "params.yaml")
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "HF_HOME": str(folder),
        "CUDA_VISIBLE_DEVICES": "",
    }
    environment |= {"DVC_NO_ANALYTICS": "1", "ACCELERATE_USE_CPU": "true", "SHELL": shell}
    with (folder / "printed").open("w") as printed:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=printed,
            stderr=printed,
            start_new_session=True,
        )
    wait_until((folder / "ready").exists, lambda: process.poll() is None)
    return process


def stop(folder: Path, process: subprocess.Popen, sent: signal.Signals) -> tuple[int, str]:
    """Send a signal to the process alone, or Ctrl-C and the end of its terminal to all that this
    reaches; its exit code as a shell tells it, and what was printed."""
    if sent in (signal.SIGINT, signal.SIGHUP):
        os.killpg(process.pid, sent)
    elif process.poll() is None:
        process.send_signal(sent)
    code = process.wait(PATIENCE)
    wait_until(lambda: gone(int((folder / "pid").read_text())))
    return 128 - code if code < 0 else code, (folder / "printed").read_text()


@pytest.mark.parametrize(
    ("starter", "stage", "sent"),
    [
        (RUN, STAGE, signal.SIGTERM),
        (RUN, STAGE, signal.SIGHUP),
        (RUN, STAGE, signal.SIGUSR1),
        (LAUNCH, STAGE, signal.SIGINT),
        (LAUNCH, IMPORTING, signal.SIGTERM),
    ],
)
def test_a_stage(stage: str, starter: str, sent: signal.Signals, tmp_path: Path) -> None:
    process = start(tmp_path, sys.executable, starter, "stage.py", stage=stage)
    assert stop(tmp_path, process, sent) == (128 + sent, LINE)


@pytest.mark.parametrize("kind", ["alone", "NO", "MULTI_GPU"])
def test_a_second_ctrl_c_ends_what_the_first_let_finish(kind: str, tmp_path: Path) -> None:
    if kind != "alone":
        configure(tmp_path, kind)
    process = start(tmp_path, sys.executable, LAUNCH, "stage.py", stage=FINISHING)
    os.killpg(process.pid, signal.SIGINT)
    wait_until((tmp_path / "stopping").exists, lambda: process.poll() is None)
    code, printed = stop(tmp_path, process, signal.SIGINT)
    assert code == 130 and LINE in printed and not (tmp_path / "finished").exists(), printed


def configure(folder: Path, kind: str) -> None:
    """Write accelerate's configuration for one process or two."""
    (folder / "accelerate").mkdir()
    configuration = CONFIGURATION.format(kind=kind, processes=1 + (kind != "NO"))
    (folder / "accelerate" / "default_config.yaml").write_text(configuration)


@LINUX
@pytest.mark.parametrize(
    ("stage", "sent"), [(STAGE, signal.SIGTERM), (STAGE, signal.SIGHUP), (STAGE, signal.SIGUSR1)]
)
def test_a_launcher_of_two(stage: str, sent: signal.Signals, tmp_path: Path) -> None:
    """One process with a configuration is stopped above, by a second Ctrl-C."""
    configure(tmp_path, "MULTI_GPU")
    process = start(tmp_path, sys.executable, LAUNCH, "stage.py", stage=stage)
    code, printed = stop(tmp_path, process, sent)
    assert code == 128 + sent and LINE in printed and "Traceback" not in printed, printed


@LINUX
@pytest.mark.parametrize(
    ("sent", "shell"),
    [
        (signal.SIGTERM, "/bin/sh"),
        (signal.SIGKILL, "/bin/bash"),
        (signal.SIGINT, "/bin/sh"),
        (signal.SIGHUP, "/bin/sh"),
    ],
)
def test_dvc(sent: signal.Signals, shell: str, tmp_path: Path) -> None:
    dvc = shutil.which("dvc")
    if dvc is None:
        pytest.skip("dvc is not installed")
    subprocess.run([dvc, "init", "--no-scm", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / "dvc.yaml").write_text(f"stages:\n  work:\n    cmd: exec python {RUN} stage.py\n")
    process = start(tmp_path, dvc, "repro", shell=shell)
    code, printed = stop(tmp_path, process, sent)
    assert printed.count(LINE) == 1, printed
    if sent == signal.SIGINT:  # DVC waits for the stage, and tells its exit code
        assert code == 255 and "exited with 130" in printed, printed
    else:
        assert code == 128 + sent


EXAMPLES = ROOT / "docs" / "examples"
#: What other people's machines, notebooks and clusters set.
STRANGE = TEXTS["environment"]


def run(code: str, *arguments: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_scores_are_the_same_bytes(tmp_path: Path) -> None:
    """As in this process; METEOR's are in test_scoring.py."""
    arguments = ["score", "--references", str(EXAMPLES / "references.csv"), "--without", "meteor"]
    arguments += ["--hypotheses", str(EXAMPLES / "pacer.csv"), "--out"]
    plain, strange = (tmp_path / name / "scores" for name in ("plain", "strange"))
    for out in (plain, strange):
        out.parent.mkdir()
    app([*arguments, str(plain)], standalone_mode=False)
    run("from pacer.cli import main; main()", *arguments, str(strange), **STRANGE)
    files = [
        {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        for out in (plain, strange)
    ]
    assert files[0] and files[0] == files[1]


@pytest.mark.parametrize("module", ["charts", "html"])
def test_pictures_need_no_backend(module: str) -> None:
    run(f"import pacer.reporting.{module}", **STRANGE)


def test_a_stage_starts(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("NUMBER = 3\n")
    (tmp_path / "stage.py").write_text(
        "from neighbour import NUMBER\n\n\ndef main():\n    print(NUMBER)\n"
    )
    for starter in ("run.py", "launch.py"):
        command = [sys.executable, str(ROOT / "stages" / starter), str(tmp_path / "stage.py")]
        environment = os.environ | STRANGE | {"PYTHONPATH": str(ROOT), "HF_HOME": str(tmp_path)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells a process that its parent died"
)
def test_a_killed_process_leaves_no_java(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 300\n")
    java.chmod(0o755)
    code = (
        "from pacer.metrics.meteor import meteor_run\n"
        f"with meteor_run(['a'], ['a'], {str(java)!r}) as counts: counts()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    pid = tmp_path / "pid"
    wait_until(lambda: pid.exists() and pid.read_text(), lambda: process.poll() is None)
    child = psutil.Process(int(pid.read_text()))
    process.send_signal(signal.SIGKILL)
    process.wait()
    child.wait(PATIENCE)


CHANGES = {
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.mkdir",
    "os.chmod",
    "os.truncate",
    "os.symlink",
}
#: What a folder is and has in it before the job.
PLACES = ("new", "replaced", "with other files")


def changes_file(event: str, arguments: tuple) -> bool:
    opened = (
        event == "open" and isinstance(arguments[1], str) and bool(set(arguments[1]) & set("wax+"))
    )
    return opened or event in CHANGES


def is_killed(job: Callable[[], object], number: int = 0) -> bool:
    """Do a job in a process of its own; whether it was killed before its change of this number, the
    first being 1."""
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
    cases = pl.DataFrame({"record_id": ["a", "b"], "value": value, "hypothesis_labels": None})
    scores = {"all": {"n": 2, "value": value}}
    Result.signed(scores, cases, Signature(), cases.rename({"value": "found"}).lazy()).write(out)


def read(out: Path) -> Any:
    """The value in scores, cases and findings, or the reason why there is none."""
    try:
        result = Result.read(out)
    except DataError as error:
        return str(error)
    values = [*result.cases["value"].unique(), *result.findings["found"].unique()]
    return [result.scores["all"]["value"], *values]


def write_folder(out: Path, value: int) -> None:
    with atomic_directory(out) as folder:
        for name in ("a", "b"):
            (folder / name).write_text(str(value))


def read_folder(out: Path) -> list[str]:
    return [path.read_text() for path in sorted(out.iterdir())] if out.exists() else []


KINDS = {"result": (write, read), "folder": (write_folder, read_folder)}


def kill_everywhere(kind: str, folder: Path) -> None:
    """In every place and before every change: kill the job, copy what there is, and do the job
    again."""
    make, before = KINDS[kind][0], folder / "before"
    is_killed(partial(make, before, 1))
    for place in PLACES if kind == "result" else PLACES[:2]:
        for number in count(1):
            out = folder / f"{place} {number}"
            if place != "new":
                shutil.copytree(before, out)
            if place == "with other files":
                (out / "notes.txt").touch()
            killed = is_killed(partial(make, out, 2), number)
            if out.exists():
                shutil.copytree(out, f"{out} killed")
            is_killed(partial(make, out, 2))
            if not killed:
                break


def killed_runs(kind: str, folder: Path) -> Iterator[tuple[str, Any, Any]]:
    """For every place and change: the place, what is there after the kill, and after the job was
    done again."""
    command = [sys.executable, "-m", "tests.integration.core.test_stops", kind, str(folder)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[3]
    )
    assert done.returncode == 0, done.stderr
    for out in folder.glob("*[0-9]"):
        yield (
            out.name.rpartition(" ")[0],
            KINDS[kind][1](Path(f"{out} killed")),
            KINDS[kind][1](out),
        )


#: By what is written: the old and the new content, and how a reader refuses the rest.
CASES = {
    "folder": (["1", "1"], ["2", "2"], ()),
    "result": ([1, 1, 1], [2, 2, 2], ("has no cases.parquet", "come from different runs")),
}


@pytest.mark.parametrize("kind", CASES)
def test_no_mixture_is_left_and_the_job_can_be_done_again(tmp_path: Path, kind: str) -> None:
    old, new, refusals = CASES[kind]
    seen = set()
    for place, remains, again in killed_runs(kind, tmp_path):
        assert again == new, place
        words = next(
            (words for words in refusals if isinstance(remains, str) and words in remains), None
        )
        state = {str(old): "old", str(new): "new", "[]": "none"}.get(str(remains), words)
        assert state is not None, (place, remains)
        seen.add((place, state))
    # while a folder is replaced there is a moment without one; the old one lies aside, and the next
    # run puts it back
    missing = "none" if kind == "folder" else refusals[0]
    expected = {
        ("new", missing),
        ("new", "new"),
        *(("replaced", state) for state in ("old", "new", missing)),
    }
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
