"""Running a study: what is run, what is not run again, and that nothing of the user's is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from dvc.fs import localfs
from dvc.rwlock import rwlock

from pacer.core.errors import ConfigError, PacerError
from pacer.core.io import read_json
from pacer.studies.run import restore_workspace, results_folder
from pacer.studies.study import load_study
from pacer.studies.table import build_table, collect
from tests.studies.conftest import STUDY, FakeRepository


def cells(repository: FakeRepository, name: str = "tiny") -> dict[str, str]:
    study = load_study(repository.folder / "studies", name)
    table = build_table(study, collect(study, repository.folder, results_folder(repository.folder)))
    return {line.label: line.cells[0].text for block in table.blocks for line in block.lines}


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
    assert told[0] == "tiny: 3 of 3 runs to make"


def test_rows_share_what_the_run_cache_has(repository: FakeRepository, run) -> None:
    told = run()
    assert [line for line in repository.lines("runs") if line.startswith("train")] == [
        "train stochastic none 1",
        "train direct none 1",
    ]
    assert "  train: made before" in told


def test_a_second_call_does_nothing(repository: FakeRepository, run) -> None:
    run()
    calls, before = repository.lines("calls"), repository.state()
    assert run() == ["tiny: nothing to do, all 3 runs are there"]
    assert repository.lines("calls") == calls and repository.state() == before


def test_studies_share_runs(repository: FakeRepository, run) -> None:
    run()
    repository.write("studies/other.yaml", STUDY.replace("name: gated", "name: everything"))
    assert run("other") == ["other: nothing to do, all 3 runs are there"]
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
    assert not (results_folder(repository.folder) / "backup").exists()


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


@pytest.mark.parametrize("change", ["params", "code", "command"])
def test_a_change_of_parameters_or_code_runs_again(repository: FakeRepository, run, change: str) -> None:
    run()
    if change == "params":
        text = repository.read("params.yaml")
        repository.write("params.yaml", text.replace("lambda_cons: 0.05", "lambda_cons: 0.06"))
    elif change == "code":
        repository.write("code/train.py", "# other\n")
    else:
        repository.write(
            "dvc.yaml", repository.read("dvc.yaml").replace("cmd: python code/score.py", "cmd: python -O code/score.py")
        )
    assert run()[0] == "tiny: 3 of 3 runs to make"


@pytest.mark.parametrize("path", ["params.yaml", "code/report.py", "code/__pycache__/train.cpython-311.pyc"])
def test_what_no_score_depends_on_runs_nothing(repository: FakeRepository, run, path: str) -> None:
    """A comment, the code of the report page, byte-code."""
    run()
    before = repository.read(path) if (repository.folder / path).exists() else ""
    repository.write(path, before + "# a comment\n")
    assert run() == ["tiny: nothing to do, all 3 runs are there"]


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


def test_a_study_that_does_not_fit_the_parameters_fails_before_any_work(repository: FakeRepository, run) -> None:
    repository.write("studies/tiny.yaml", STUDY.replace("gate_inputs: hze", "gate_inputs: eh"))
    with pytest.raises(ConfigError, match=r"study tiny, row gated: calibrate\.gate_inputs = 'eh'"):
        run()
    assert repository.lines("calls") == []


def test_without_dvc_the_error_says_where_to_look(repository: FakeRepository, run, monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match="the command 'dvc' is not found"):
        run()


def test_an_experiment_left_by_a_kill_is_replaced(repository: FakeRepository, run) -> None:
    run()
    for record in (results_folder(repository.folder) / "runs").glob("*/run.json"):
        if read_json(record)["row"] == "gated":
            record.unlink()
    run()
    names = (repository.fake / "experiments").read_text().split()
    assert len(names) == len(set(names)) == 3
    assert any(call.startswith("exp remove tiny-gated") for call in repository.lines("calls"))


# A study that is killed


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
    wait(lambda: (repository.fake / "hanging").exists(), process)
    (repository.fake / "hang").unlink()
    return process


def wait(condition, process: subprocess.Popen | None = None) -> None:
    for _ in range(1200):
        if condition():
            return
        assert process is None or process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    raise AssertionError("waited a minute")


def alive(pid: int) -> bool:
    with suppress(FileNotFoundError):
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return False


def test_a_killed_study_continues_and_gives_the_workspace_back(repository: FakeRepository, run) -> None:
    repository.dvc("repro", "score")
    repository.write("params.yaml", repository.read("params.yaml") + "# mine\n")
    before = repository.state()
    process = start(repository)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    orphan = int((repository.fake / "hanging").read_text())
    assert alive(orphan)
    assert repository.state() != before  # params.yaml is the row's, weights are away
    assert "gate_inputs: hze" in repository.read("params.yaml") and "# mine" in repository.read("params.yaml")

    told = run()
    assert not alive(orphan)
    assert told[:2] == ["a study was killed here: putting the workspace back first", "tiny: 1 of 3 runs to make"]
    assert repository.state() == before
    assert scored(repository).count("direct none 1") == 1
    assert cells(repository)["gated"] == "0.800"
    assert run()[0].startswith("tiny: nothing to do")


def test_a_terminated_study_ends_its_dvc_and_gives_the_workspace_back(repository: FakeRepository, run) -> None:
    repository.dvc("repro", "score")
    before = repository.state()
    process = start(repository)
    orphan = int((repository.fake / "hanging").read_text())
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode not in (0, None) and not alive(orphan)
    assert repository.state() == before
    assert run()[0] == "tiny: 1 of 3 runs to make"


def test_restore_alone_brings_the_workspace_back(repository: FakeRepository, run) -> None:
    repository.dvc("repro", "score")
    before = repository.state()
    process = start(repository)
    process.kill()
    process.communicate()
    told: list[str] = []
    restore_workspace(repository.folder, told.append)
    restore_workspace(repository.folder, told.append)
    assert told == ["the workspace is as it was before the study", "nothing to restore: no study was killed"]
    assert repository.state() == before


def test_an_edit_after_a_kill_is_not_overwritten(repository: FakeRepository, run) -> None:
    process = start(repository)
    process.kill()
    process.communicate()
    edited = repository.read("params.yaml") + "# an edit after the kill\n"
    repository.write("params.yaml", edited)
    with pytest.raises(ConfigError, match="was edited after a study was killed"):
        run()
    assert repository.read("params.yaml") == edited


def test_what_a_kill_in_dvcs_own_stash_takes_comes_back(repository: FakeRepository, run) -> None:
    """DVC names an experiment with all changes stashed and HEAD detached; a kill then leaves the last commit."""
    repository.dvc("repro", "score")
    repository.write("params.yaml", repository.read("params.yaml") + "# mine\n")
    repository.write("code/report.py", "# edited, not committed\n")
    repository.write("code/score.py", "# edited, and edited again after the kill\n")
    before = repository.state()
    process = start(repository)
    process.kill()
    process.communicate()
    repository.git("checkout", "--quiet", "--detach", "--force", "HEAD")
    repository.write("code/score.py", "# edited again after the kill\n")
    run()
    assert repository.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert repository.state() == before | {"code/score.py": b"# edited again after the kill\n"}


def test_what_a_dead_dvc_still_holds_is_released(repository: FakeRepository, run, orphans_stay: None) -> None:
    """Nobody waits for the orphan, so its number stays in use: DVC itself would take its locks for held."""
    lock = repository.folder / ".dvc" / "tmp"
    lock.mkdir(parents=True)
    process = start(repository)
    orphan = int((repository.fake / "hanging").read_text())
    other = os.getpid()
    with rwlock(str(lock), localfs, "dvc", [], [], False):
        held = {
            "write": {"a": {"pid": orphan, "cmd": "dvc"}, "b": {"pid": other, "cmd": "dvc"}},
            "read": {
                "a": [{"pid": orphan, "cmd": "dvc"}, {"pid": other, "cmd": "dvc"}],
                "c": [{"pid": orphan, "cmd": "dvc"}],
            },
        }
    (lock / "rwlock").write_text(json.dumps(held))
    process.kill()
    process.communicate()
    run()
    assert psutil.Process(orphan).status() == psutil.STATUS_ZOMBIE
    assert read_json(lock / "rwlock") == {
        "write": {"b": {"pid": other, "cmd": "dvc"}},
        "read": {"a": [{"pid": other, "cmd": "dvc"}]},
    }
    with rwlock(str(lock), localfs, "dvc", [], ["c"], False):
        pass


def test_a_stage_that_outlives_its_dvc_is_waited_for(repository: FakeRepository, run) -> None:
    process = start(repository)
    orphan = int((repository.fake / "hanging").read_text())
    slow = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import signal, time; signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), exit()));"
            "print('ready', flush=True); time.sleep(60)",
        ],
        process_group=orphan,
        stdout=subprocess.PIPE,
    )
    assert slow.stdout is not None and slow.stdout.readline() == b"ready\n"
    process.kill()
    process.communicate()
    restore_workspace(repository.folder, lambda _: None)
    assert slow.poll() == 0
    slow.stdout.close()


def test_two_studies_at_once_are_refused(repository: FakeRepository, run) -> None:
    process = start(repository)
    with pytest.raises(PacerError, match="another `pacer study` is running"):
        run()
    process.terminate()
    process.communicate(timeout=60)


def test_code_that_changes_under_a_run_is_not_recorded(repository: FakeRepository) -> None:
    from pacer.studies.run import run_study

    def edit(line: str) -> None:
        if line == "  score: runs":
            repository.write("code/score.py", "# edited meanwhile\n")

    study = load_study(repository.folder / "studies", "tiny")
    with pytest.raises(PacerError, match="was edited while no gate ran"):
        run_study(study, repository.folder, edit)
    assert not list((results_folder(repository.folder) / "runs").glob("*/run.json"))


@pytest.mark.parametrize("path", ["code/score.py", "dvc.yaml"])
def test_code_that_changes_between_two_rows_is_not_taken_for_the_planned_one(
    repository: FakeRepository, path: str
) -> None:
    """The keys of all rows stand for the code at the start."""
    from pacer.studies.run import run_study

    def edit(line: str) -> None:
        if line.startswith("[2/3]"):
            repository.write(
                path,
                repository.read(path).replace("cmd: python code/score.py\n", "cmd: python -O code/score.py\n")
                + "# later\n",
            )

    study = load_study(repository.folder / "studies", "tiny")
    with pytest.raises(PacerError, match="was edited while direct ran"):
        run_study(study, repository.folder, edit)
    assert [read_json(record)["row"] for record in (results_folder(repository.folder) / "runs").glob("*/run.json")] == [
        "no gate"
    ]
