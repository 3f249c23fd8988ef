"""METEOR's process when its parent is killed, and under another locale."""

from __future__ import annotations

import subprocess
import sys

from pacer.metrics.meteor import Meteor
from tests.integration.metrics.test_meteor import HYPOTHESES, REFERENCES, gone


def test_a_process_that_is_killed_takes_java_with_it():
    # Java looks for the end of its input once it has loaded its tables, so the killed process lets it get there
    code = (
        "import os, signal\nfrom pacer.metrics.meteor import Meteor\nrunning = Meteor()\n"
        "print(running.process.pid, flush=True)\nrunning.score(['a'], ['a'])\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    assert gone(int(done.stdout))


def test_a_foreign_locale_changes_nothing(meteor, monkeypatch):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Duser.language=de -Duser.country=DE")
    with Meteor() as german:
        assert german.score(REFERENCES, HYPOTHESES) == meteor.score(REFERENCES, HYPOTHESES)
