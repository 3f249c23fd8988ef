"""Running a study: what is run, what is not run again, and that nothing of the user's is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from pacer.core.errors import ConfigError, DataError, PacerError
from pacer.studies.dvc import Dvc, Share
from pacer.studies.run import results_folder, shares
from pacer.studies.study import load_study
from pacer.studies.table import build_table, collect
from tests.support.studies import STUDY, FakeRepository


def cells(repository: FakeRepository, name: str = "tiny") -> dict[str, str]:
    study = load_study(repository.folder / "studies", name)
    table = build_table(study, collect(study, repository.folder, results_folder(repository.folder)))
    return {row[0]: row[1] for row in table.scores.rows}


def scored(repository: FakeRepository) -> list[str]:
    """Route, gate and seed of every time the stage `score` ran."""
    return [line.removeprefix("score ") for line in repository.lines("runs") if line.startswith("score")]


def test_each_different_row_runs_once_and_is_an_experiment(repository: FakeRepository, run) -> None:
    told = run()
    assert scored(repository) == ["stochastic none 1", "direct none 1", "stochastic hze 1"]
    names = (repository.fake / "experiments").read_text().split()
    assert [name.rsplit("-", 1)[0] for name in names] == ["tiny-no_gate-1", "tiny-direct-1", "tiny-gated-1"]
    # mean over the contexts sn and mw, of which the second has 0.1 more
    assert cells(repository) == {"no gate": "0.550", "direct": "0.300", "no gate again": "0.550", "gated": "0.800"}
    assert told[0] == "tiny: 3 of 3 runs to make" and "  train: made before" in told


def test_studies_share_runs(repository: FakeRepository, run) -> None:
    run()
    calls = repository.lines("calls")
    repository.write("studies/other.yaml", STUDY.replace("name: gated", "name: everything"))
    assert run("other") == ["other: nothing to do, all 3 runs exist"] and repository.lines("calls") == calls
    assert cells(repository, "other")["everything"] == "0.800"


def test_the_workspace_is_as_before(repository: FakeRepository, run) -> None:
    repository.dvc("repro", "score")
    text = repository.read("params.yaml").replace("weight_decay: 0.01", "weight_decay: 0.02")
    repository.write("params.yaml", text + "# mine\n")
    repository.write("code/report.py", "# edited, not committed\n")
    repository.write("metrics/mine.txt", "of the user")
    before = repository.state()
    run()
    assert repository.state() == before
    assert repository.git("symbolic-ref", "HEAD") == "refs/heads/main"


def test_a_workspace_without_any_run_stays_without_lock_and_metrics(repository: FakeRepository, run) -> None:
    run()
    assert not (repository.folder / "dvc.lock").exists()
    assert not (repository.folder / "metrics" / "scores.json").exists()
    assert not list((results_folder(repository.folder) / "worktrees").iterdir())


def test_a_failed_row_keeps_those_before_it_and_the_workspace(repository: FakeRepository, run) -> None:
    repository.dvc("repro", "score")
    before = repository.state()
    (repository.fake / "fail").write_text("hze")
    with pytest.raises(PacerError, match=r"dvc repro score failed \(exit code 255\)[^$]*failed to reproduce 'score'"):
        run()
    assert repository.state() == before
    assert cells(repository) == {"no gate": "0.550", "direct": "0.300", "no gate again": "0.550", "gated": "–"}
    (repository.fake / "fail").unlink()
    assert run()[0] == "tiny: 1 of 3 runs to make"
    assert cells(repository)["gated"] == "0.800"


def test_a_change_of_a_command_runs_again(repository: FakeRepository, run) -> None:
    run()
    text = repository.read("dvc.yaml").replace("cmd: python code/score.py", "cmd: python -O code/score.py")
    repository.write("dvc.yaml", text)
    assert run()[0] == "tiny: 3 of 3 runs to make"


@pytest.mark.parametrize("path", ["params.yaml", "code/report.py", "code/__pycache__/train.cpython-311.pyc"])
def test_what_no_score_depends_on_runs_nothing(repository: FakeRepository, run, path: str) -> None:
    """A comment, the code of the report page, byte-code."""
    run()
    before = repository.read(path) if (repository.folder / path).exists() else ""
    repository.write(path, before + "# a comment\n")
    assert run() == ["tiny: nothing to do, all 3 runs exist"]


def test_other_files_behind_the_source_run_again(repository: FakeRepository, run) -> None:
    repository.dvc("repro", "score")
    run()
    lock = repository.read("dvc.lock")
    assert run()[0].startswith("tiny: nothing to do")
    repository.write("dvc.lock", lock.replace('"md5": "first"', '"md5": "second"'))  # as after `dvc repro -f source`
    (repository.fake / "data").write_text("second")
    assert run()[0] == "tiny: 3 of 3 runs to make"
    assert run()[0].startswith("tiny: nothing to do")


def test_several_seeds_are_runs_of_their_own(repository: FakeRepository, run) -> None:
    repository.write("studies/tiny.yaml", STUDY.replace("[1]", "[1, 2]"))
    run()
    assert scored(repository) == [
        f"{row} {seed}" for seed in (1, 2) for row in ("stochastic none", "direct none", "stochastic hze")
    ]
    assert cells(repository)["gated"] == "0.800 ± 0.000"


def test_without_dvc_the_error_says_where_to_look(repository: FakeRepository, run, monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match="the command `dvc` is not on the PATH"):
        run()


def start(repository: FakeRepository) -> subprocess.Popen:
    """`pacer study run tiny` as a process of its own, with the stage `score` of the last row under way."""
    (repository.fake / "hang").write_text("hze")
    process = subprocess.Popen(
        [sys.executable, "-c", "from pacer.cli import main; main()", "study", "run", "tiny"],
        cwd=repository.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    hanging = repository.fake / "hanging"
    wait(lambda: hanging.exists() and hanging.read_text() != "", process)
    (repository.fake / "hang").unlink()
    return process


def wait(condition, process: subprocess.Popen | None = None) -> None:
    for _ in range(3600):
        if condition():
            return
        assert process is None or process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    raise AssertionError("waited three minutes")


def alive(pid: int) -> bool:
    with suppress(FileNotFoundError):
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return False


def test_a_killed_study_goes_on_and_the_workspace_is_never_touched(
    repository: FakeRepository, run, orphans_stay: None
) -> None:
    """Nobody waits for the orphan, so its number stays in use after its end."""
    repository.dvc("repro", "score")
    repository.write("params.yaml", repository.read("params.yaml") + "# mine\n")
    before = repository.state()
    process = start(repository)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    orphan = int((repository.fake / "hanging").read_text())
    assert alive(orphan)
    assert repository.state() == before

    began = time.monotonic()
    assert run()[0] == "tiny: 1 of 3 runs to make"
    assert psutil.Process(orphan).status() == psutil.STATUS_ZOMBIE and time.monotonic() - began < 25
    assert repository.state() == before
    assert scored(repository).count("direct none 1") == 1
    assert cells(repository)["gated"] == "0.800"
    assert run()[0].startswith("tiny: nothing to do")


def test_two_studies_at_once_are_refused(repository: FakeRepository, run) -> None:
    process = start(repository)
    with pytest.raises(PacerError, match="another `pacer study` is running"):
        run()
    process.terminate()
    process.communicate(timeout=60)


def test_code_that_git_ignores_is_refused(repository: FakeRepository, run) -> None:
    repository.write("dvc.yaml", repository.read("dvc.yaml").replace("[code/score.py,", "[code/score.py, code/own,"))
    repository.write("code/own/a.py", "")
    repository.write("code/own/.gitignore", "b.py\n")
    repository.write("code/own/b.py", "")
    with pytest.raises(DataError, match="code/own holds files that git ignores"):
        run()


def test_rows_side_by_side_make_what_they_share_once(repository: FakeRepository, run) -> None:
    (repository.fake / "meet").write_text("2")
    before = repository.state()
    reported = run(jobs=2)
    assert sorted(line for line in repository.lines("runs") if not line.startswith("score")) == [
        "source stochastic none 1",
        "train direct none 1",
        "train stochastic none 1",
    ]
    assert sorted(scored(repository)) == ["direct none 1", "stochastic hze 1", "stochastic none 1"]
    assert cells(repository) == {"no gate": "0.550", "direct": "0.300", "no gate again": "0.550", "gated": "0.800"}
    assert "  gated, seed 1, train: made before" in reported
    assert repository.state() == before
    assert run(jobs=2) == ["tiny: nothing to do, all 3 runs exist"]


def test_jobs_share_out_the_devices_and_the_cores() -> None:
    assert shares("0,1,2", 1) == [Share()]
    assert [share.devices for share in shares("", 2)] == [None, None]
    assert [share.devices for share in shares("0,1,2", 2)] == ["0,2", "1"]
    assert [share.devices for share in shares("0", 2)] == ["0", "0"]
    cores = os.sched_getaffinity(0)
    for jobs in range(2, 2 * len(cores) + 1):
        given = [core for share in shares("", jobs) for core in share.cores or ()]
        assert set(given) == cores and len(given) == max(len(cores), jobs)


def test_dvc_and_its_stages_keep_to_the_cores_of_their_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads on each of two cores, waiting for each other, would take several times as long."""
    command = tmp_path / "dvc"
    command.write_text("#!/bin/sh\nsleep 0.5\ntaskset -pc $$\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    core = min(os.sched_getaffinity(0))
    Dvc(tmp_path)("repro", folder=tmp_path, log=tmp_path / "log.txt", share=Share(cores=(core,)))
    assert (tmp_path / "log.txt").read_text().endswith(f"affinity list: {core}\n")


@pytest.mark.parametrize("again", [False, True])
def test_code_that_prepares_data_changes_no_key_when_the_data_are_the_same(
    repository: FakeRepository, run, again: bool
) -> None:
    """Whether or not `dvc repro` has run again since the edit."""
    repository.dvc("repro", "score")
    run()
    repository.write("code/source.py", "# reworded\n")
    if again:
        repository.dvc("repro", "score")
    assert run() == ["tiny: nothing to do, all 3 runs exist"]
