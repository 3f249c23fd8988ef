"""METEOR's counts are the program's; where it fails, that is one clear error and no process is left."""

import time
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import psutil
import pytest
from pycocoevalcap.meteor import meteor as original_meteor

from pacer.metrics.nlg import JAVA, MeteorError, meteor, meteor_beside, meteor_counts, meteor_statistics
from tests.support.cases import listed_cases
from tests.support.metrics import random_texts


def script(folder: Path, text: str) -> Path:
    program = folder / "java"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


def test_scores_of_any_resample_equal_the_original_package(monkeypatch):
    """Line breaks and letters outside ASCII change nothing, and neither does a foreign locale."""
    monkeypatch.setenv("PATH", str(Path(JAVA).parent))
    references, hypotheses = random_texts(1), random_texts(2)
    hypotheses[:8] = references[:8]  # perfect matches are counted in a way of their own
    hypotheses[8] += " épanchement"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Duser.language=de -Duser.country=DE")
    rows = meteor_statistics(meteor_counts([text.replace(" ", "\n") for text in references], hypotheses))
    monkeypatch.delenv("JAVA_TOOL_OPTIONS")
    draw = np.random.default_rng(1)
    theirs = original_meteor.Meteor()
    try:
        for chosen in (np.arange(40), *(draw.integers(0, 40, 25) for _ in range(4))):
            pairs = ({place: [side[row]] for place, row in enumerate(chosen)} for side in (references, hypotheses))
            total, each = theirs.compute_score(*pairs)
            assert meteor(rows[chosen].sum(axis=0)) == pytest.approx(total, abs=1e-12)
            assert meteor(rows[chosen]) == pytest.approx(each, abs=1e-12)
    finally:
        for stream in (theirs.meteor_p.stdout, theirs.meteor_p.stderr):
            stream.close()
        theirs.meteor_p.kill()


@pytest.mark.parametrize(("text", "problem"), listed_cases(__file__, "failing"))
def test_a_program_that_fails_or_talks_nonsense_is_an_error(tmp_path, text, problem):
    with pytest.raises(MeteorError, match=problem) as error:
        meteor_counts(["a"], ["a"], script(tmp_path, text))
    assert "SECRET" not in str(error.value)
    with pytest.raises(MeteorError, match="make setup"):
        meteor_counts(["a"], ["a"], tmp_path / "nowhere")


@pytest.mark.parametrize(("text", "limits", "problem"), listed_cases(__file__, "endless"))
def test_what_does_not_end_is_killed(tmp_path, monkeypatch, text, limits, problem):
    for name, limit in limits.items():
        monkeypatch.setattr(f"pacer.metrics.nlg.{name}", limit)
    pid = tmp_path / "pid"
    with pytest.raises(MeteorError, match=problem):
        meteor_counts(["a"], ["a"], script(tmp_path, f"trap '' TERM INT HUP; echo $$ > {pid}; {text}"))
    until = time.monotonic() + 10  # the system needs a moment to bury a killed process
    while psutil.pid_exists(int(pid.read_text())) and time.monotonic() < until:
        time.sleep(0.05)
    assert not psutil.pid_exists(int(pid.read_text()))


def test_no_program_outlives_the_scores_beside_it(tmp_path, monkeypatch):
    program = script(tmp_path, f"echo $$ > {tmp_path / 'pid'}; exec sleep 60")
    monkeypatch.setattr("pacer.metrics.nlg.meteor_counts", partial(meteor_counts, java=program))
    pairs = pl.DataFrame({"reference": ["a"], "hypothesis": ["a"]})
    with pytest.raises(KeyboardInterrupt), meteor_beside(pairs) as running:
        while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text():
            time.sleep(0.05)
        raise KeyboardInterrupt
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
    with pytest.raises(MeteorError, match="stopped"):
        running.result()


def test_a_busy_machine_takes_no_budget(tmp_path, monkeypatch):
    """What waits for a processor for longer than its budget of processor seconds is not stopped."""
    monkeypatch.setattr("pacer.metrics.nlg.STARTUP_SECONDS", 0.1)
    with pytest.raises(MeteorError, match=r"METEOR failed \(exit status 0\)"):
        meteor_counts(["a"], ["a"], script(tmp_path, "sleep 2"))
