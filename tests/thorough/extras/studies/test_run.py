"""A table of experiments that is killed goes on, the workers of DVC's queue make its rows, and it
ends with its terminal."""

import json
import os
import shutil
import signal
import subprocess

import psutil
import pytest

from pacer.core.errors import ConfigError
from pacer.extras.studies.repository import Repository
from pacer.extras.studies.study import load_study
from pacer.extras.studies.table import collect
from tests.integration.extras.studies.test_run import (
    assert_as_before,
    assert_it_ends,
    run,
    table,
    wait_until_it_hangs,
)
from tests.support.studies import STUDY, TinyRepository, working
from tests.support.waiting import wait_until


def kept_cases(tiny: TinyRepository) -> dict[str, str]:
    """The cases of each run that a table has, by the name of its experiment."""
    study = load_study(tiny.folder / "studies", "tiny")
    runs = collect(study, Repository(tiny.folder))
    return {run.folder.name: (run.folder / "cases.parquet").read_text() for run in runs}


def wait_until_gone(numbers: tuple[int, ...]) -> None:
    """Wait for killed processes: until init has reaped them, DVC respects their locks."""
    wait_until(lambda: not any(map(psutil.pid_exists, numbers)))


#: What the table `tiny` has at its end: the mean over the contexts sn and mw, of which
#: the second has 0.1 more.
FULL = {
    "no gate": "0.560",
    "direct": "0.310",
    "no gate again": "0.560",
    "gated": "0.810",
    "SimMLM": "0.130",
    "released": "–",
}


def test_a_killed_study_goes_on_and_the_users_tree_is_as_before(tiny: TinyRepository) -> None:
    """Rows, replicates, a baseline, a kill, and the experiments in the end."""
    tiny.write("params.yaml", tiny.read("params.yaml") + "# mine\n")
    with pytest.raises(ConfigError, match=r"params\.yaml is not committed"):
        run(tiny)
    tiny.commit()
    subprocess.run(["dvc", "repro", "--quiet"], cwd=tiny.folder, check=True)
    tiny.commit()
    before = tiny.state()
    tiny.told.joinpath("runs").unlink()

    (tiny.told / "hang").touch()
    process = tiny.start("--row", "gated")
    wait_until_it_hangs(tiny, process)
    killed = (process.pid, *working(tiny))
    for number in killed:
        os.kill(number, signal.SIGKILL)
    process.communicate()
    wait_until_gone(killed)
    (tiny.told / "hang").unlink()
    tiny.told.joinpath("runs").unlink()

    told = run(tiny)
    assert "tiny: 5 of 5 runs are missing" in told
    assert_as_before(tiny, before)
    cells, notes = table(tiny)
    assert cells == FULL
    assert "released: not run yet with 10 (it needs baselines/params.yaml:llm_rg4.weights)" in notes
    # each training once, whoever shares it; source and the training of the other rows were there
    assert tiny.ran("source") == []
    assert [line.split()[0] for line in tiny.ran("train")] == ["direct"]
    assert len(tiny.ran("score")) == 4 and len(tiny.ran("simmlm")) == 1

    assert run(tiny) == ["tiny: nothing to do: all 5 runs exist"]
    # the docs allow to delete the results: the table and what differences need come back
    shown, kept = table(tiny), kept_cases(tiny)
    assert len(kept) == 5
    shutil.rmtree(tiny.folder / "studies" / "results")
    assert (table(tiny), kept_cases(tiny)) == (shown, kept)
    # for another table with the same rows, only the scoring is repeated
    tiny.write("studies/other.yaml", STUDY.replace("name: gated", "name: everything"))
    assert "other: 1 of 1 runs are missing" in run(tiny, "everything", name="other")
    assert [line.split()[0] for line in tiny.ran("train")] == ["direct"]
    assert len(tiny.ran("score")) == 5

    [gated] = [name for name in Repository(tiny.folder).experiments() if "tiny-gated-10" in name]
    subprocess.run(["dvc", "exp", "apply", gated], cwd=tiny.folder, check=True)
    assert json.loads(tiny.read("metrics/scores.json"))["sn"]["f1"] == 0.76
    tiny.git("reset", "--hard")

    # with other code the table says that its runs are older
    assert "other code" not in table(tiny)[1]
    tiny.write("pacer/core/words.txt", "changed")
    tiny.commit()
    cells, notes = table(tiny)
    assert cells == FULL
    made = "SimMLM, direct, gated, no gate, no gate again"
    assert f"Made with other code or parameters than those of now: {made}" in notes


def test_two_workers_make_the_same_runs_in_dvcs_queue(tiny: TinyRepository) -> None:
    """A baseline and an edit of code that is not installed anywhere among them."""
    tiny.write("stages/stage.py", tiny.read("stages/stage.py").replace("rank / 100", "rank / 50"))
    tiny.commit()
    subprocess.run(["dvc", "repro", "--quiet"], cwd=tiny.folder, check=True)
    tiny.commit()
    before = tiny.state()
    told = run(tiny, "gated", "direct", "SimMLM", queue=True)
    assert "tiny: 3 of 3 runs are missing" in told
    assert tiny.state() == before
    # workers keep the output open, so it must not be a pipe, which this process would wait for
    subprocess.run(
        ["dvc", "queue", "start", "--jobs", "2"],
        cwd=tiny.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    wait_until(lambda: len(Repository(tiny.folder).experiments()) == 3)
    wait_until(lambda: not [*(tiny.folder / ".dvc" / "tmp" / "exps").glob("tmp*")])  # their copies
    status, files = tiny.state()  # idle workers stay for some seconds
    assert status == before[0] and {path: files.get(path) for path in before[1]} == before[1]
    cells, _ = table(tiny)
    assert (cells["gated"], cells["direct"], cells["SimMLM"]) == ("0.810", "0.310", "0.210")
    assert len(tiny.ran("source")) == 1
    assert run(tiny, "gated", queue=True)[-1] == "tiny: nothing to do: all 1 runs exist"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_study_ends_with_ctrl_c_and_with_its_terminal(tiny: TinyRepository, number: int) -> None:
    assert_it_ends(tiny, number)
