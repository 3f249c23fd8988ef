"""Running a study: what is run, what is not run again, and that nothing of the user's is lost."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from pacer.core.errors import ConfigError, PacerError
from pacer.core.io import write_json
from pacer.studies.run import results_folder, run_study, stopped
from pacer.studies.study import load_study
from pacer.studies.table import build_table, collect
from pacer.studies.worktree import Dvc, MachineShare, Repository
from tests.support.studies import STUDY, TinyRepository, working


def run(tiny: TinyRepository, *rows: str, jobs: int = 1) -> list[str]:
    """Run the study; what it reported, line by line."""
    told: list[str] = []
    study = load_study(tiny.folder / "studies", "tiny")
    run_study(study, tiny.folder, told.append, rows=frozenset(rows), jobs=jobs)
    return told


def cells(tiny: TinyRepository) -> dict[str, str]:
    study = load_study(tiny.folder / "studies", "tiny")
    table, _ = build_table(
        study, collect(study, Repository(tiny.folder), results_folder(tiny.folder))
    )
    return {row[0]: row[1] for row in table.rows}


def kept_cases(tiny: TinyRepository) -> dict[str, str]:
    """The cases of each run that a table has, by the name of its experiment."""
    study = load_study(tiny.folder / "studies", "tiny")
    runs = collect(study, Repository(tiny.folder), results_folder(tiny.folder))
    return {run.folder.name: (run.folder / "cases.parquet").read_text() for run in runs}


def wait_until_it_hangs(tiny: TinyRepository, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while not (tiny.told / "hanging").exists():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[0]
        time.sleep(0.05)


def test_a_killed_study_goes_on_and_the_users_tree_is_never_touched(tiny: TinyRepository) -> None:
    """Rows, replicates, a baseline, edits that are not committed, a kill, two jobs, and the
    experiments in the end."""
    tiny.write("own/records", "of the user")
    tiny.write(".gitignore", tiny.read(".gitignore") + "/own\n")
    text = tiny.read("params.yaml").replace("root: null", "root: own/records", 1)
    tiny.write("params.yaml", text.replace("weight_decay: 0.01", "weight_decay: 0.02") + "# mine\n")
    before = tiny.state()
    assert "M params.yaml" in before[0]

    (tiny.told / "hang").touch()
    process = tiny.start()
    wait_until_it_hangs(tiny, process)
    assert tiny.state() == before
    process.kill()
    process.communicate()
    assert working(tiny) and tiny.state() == before  # DVC and its stage go on
    [(slot, study, experiment)] = stopped(results_folder(tiny.folder))
    assert (slot, study) == ("0", "tiny") and experiment.startswith("tiny-no_gate-10-")

    half_made = results_folder(tiny.folder) / "slots/0/tree/models/score.scratch/step"
    half_made.write_text("7")

    (tiny.told / "hang").unlink()
    told = run(tiny, jobs=2)
    assert "tiny: released is left out; it needs baselines/params.yaml:llm_rg4.weights" in told
    assert "tiny: 8 of 8 runs are missing" in told
    assert stopped(results_folder(tiny.folder)) == [] and working(tiny) == []
    assert tiny.state() == before
    # the mean over the contexts sn and mw, of which the second has 0.1 more, and over the
    # replicates
    assert cells(tiny) == {
        "no gate": "0.565 ± 0.007",
        "direct": "0.315 ± 0.007",
        "no gate again": "0.565 ± 0.007",
        "gated": "0.815 ± 0.007",
        "SimMLM": "0.130 ± 0.000",
        "released": "–",
    }
    # each stage once, whoever shares it; the killed row's score once more
    assert len(tiny.ran("source")) == 1
    assert sorted(line.split()[0] + line.split()[2] for line in tiny.ran("train")) == [
        "direct10",
        "direct20",
        "stochastic10",
        "stochastic20",
    ]
    assert len(tiny.ran("score")) == 7 and len(tiny.ran("simmlm")) == 2
    assert half_made.exists()

    calls = tiny.told.joinpath("runs").read_text()
    assert (
        run(tiny)[-1] == "tiny: nothing to do: all 8 runs exist"
        and tiny.told.joinpath("runs").read_text() == calls
    )
    # the docs allow to delete the results: the table and what differences need come back
    shown, kept = cells(tiny), kept_cases(tiny)
    assert len(kept) == 8
    shutil.rmtree(results_folder(tiny.folder))
    assert (cells(tiny), kept_cases(tiny)) == (shown, kept)

    names = subprocess.run(
        ["dvc", "exp", "list", "--name-only"],
        cwd=tiny.folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert len(names) == 8 and {name.rsplit("-", 1)[0] for name in names} >= {
        "tiny-gated-20",
        "tiny-simmlm-10",
    }
    [gated] = [name for name in names if name.startswith("tiny-gated-20")]
    # the tree has no reports, which no run makes: DVC says so, and applies the rest
    subprocess.run(
        ["dvc", "exp", "apply", gated], cwd=tiny.folder, capture_output=True, check=False
    )
    assert json.loads(tiny.read("metrics/scores.json"))["sn"]["f1"] == 0.77
    assert "root: own/records" in tiny.read("params.yaml")

    tiny.write("studies/other.yaml", STUDY.replace("name: gated", "name: everything"))
    study = load_study(tiny.folder / "studies", "other")
    told.clear()
    tiny.git("checkout", "--quiet", "HEAD", "--", "params.yaml", "dvc.yaml")
    tiny.write(
        "params.yaml", text.replace("weight_decay: 0.01", "weight_decay: 0.02")
    )  # but for a comment
    run_study(study, tiny.folder, told.append)
    assert told[-1] == "other: nothing to do: all 8 runs exist"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_study_ends_its_dvc_within_three_seconds(
    tiny: TinyRepository, number: int
) -> None:
    assert_it_ends(tiny, number)


def assert_it_ends(tiny: TinyRepository, number: int) -> None:
    """Send a signal to a study, which ends with its DVC; skipped below nohup, where a study goes
    on."""
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("below nohup, where a study goes on as well")
    (tiny.told / "hang").touch()
    before = tiny.state()
    process = tiny.start("--row", "gated")
    wait_until_it_hangs(tiny, process)
    began = time.monotonic()
    os.kill(process.pid, number)
    told = process.communicate(timeout=60)[0]
    assert time.monotonic() - began < 3 and working(tiny) == []
    assert (
        process.returncode == 130
        and "run the same command again" in told
        and "Traceback" not in told
    )
    assert tiny.state() == before
    [(_, _, experiment)] = stopped(results_folder(tiny.folder))
    told = tiny.call("study", "list")
    assert (
        f"{experiment} is unfinished; if no study is running, resume with `pacer study run tiny`"
        in told
    )


def test_a_failed_row_lets_those_beside_it_end_and_is_told(tiny: TinyRepository) -> None:
    begin = "    while (told"
    tiny.write(
        "code/stage.py",
        tiny.read("code/stage.py").replace(begin, f"    assert gate == 'none', 'a gate'\n{begin}"),
    )
    with pytest.raises(PacerError, match=r"dvc repro .*score failed \(exit code 255\)[^$]*a gate"):
        run(tiny, "direct", "gated", jobs=2)
    tiny.write(
        "studies/tiny.yaml",
        STUDY.replace("[{train.seed: 10}, {train.seed: 20}]", "[{train.seed: 10}]"),
    )
    assert run(tiny, "direct")[-1] == "tiny: nothing to do: all 1 runs exist"
    assert cells(tiny)["direct"] == "0.310" and cells(tiny)["gated"] == "–"


def test_what_cannot_be_run_is_refused_before_any_work(
    tiny: TinyRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="no row 'theirs'; its rows are no gate, direct"):
        run(tiny, "theirs")
    tiny.write("code/more.py", "")
    tiny.write("dvc.yaml", tiny.read("dvc.yaml").replace("deps: [code/stage.py]", "deps: [code]"))
    with pytest.raises(
        ConfigError, match=r"code/more\.py, which a row depends on, is not tracked by git"
    ):
        run(tiny)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match="the command `dvc` is not on the PATH"):
        run(tiny)
    assert not (tiny.told / "runs").exists()


def test_the_slot_of_a_stopped_row_is_for_that_row(tiny: TinyRepository) -> None:
    """Of another study too."""
    slots = results_folder(tiny.folder) / "slots"
    for slot, name in enumerate(("tiny-gated-10", "other-gated-10")):
        write_json(
            slots / str(slot) / "row.json", {"study": name[:5], "experiment": f"{name}-0123456789"}
        )
    tiny.write(
        "studies/tiny.yaml",
        STUDY.replace("[{train.seed: 10}, {train.seed: 20}]", "[{train.seed: 10}]"),
    )
    run(tiny, "direct")
    assert [slot for slot, _, _ in stopped(results_folder(tiny.folder))] == ["0", "1"]
    assert (slots / "2" / "tree").is_dir() and not (slots / "0" / "tree").exists()
    run(tiny, "gated")
    assert [slot for slot, _, _ in stopped(results_folder(tiny.folder))] == ["1"]


def test_dvc_and_its_stages_keep_to_the_cores_of_their_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads on each of two cores, waiting for each other, would take several times as
    long."""
    command = tmp_path / "dvc"
    command.write_text("#!/bin/sh\nsleep 0.5\ntaskset -pc $$\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    core = min(os.sched_getaffinity(0))
    log = tmp_path / "log.txt"
    Dvc()("repro", folder=tmp_path, log=log, share=MachineShare(cores=(core,)), report=print)
    assert log.read_text().endswith(f"affinity list: {core}\n")
