"""Running a study: what is run, what is not run again, and that nothing of the user's is lost."""

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress

import psutil
import pytest

from pacer.core.errors import ConfigError, PacerError
from pacer.studies.repository import Repository
from pacer.studies.run import run_study
from pacer.studies.study import load_study
from pacer.studies.table import build_tables, collect
from tests.support.studies import STUDY, TinyRepository, working


def run(tiny: TinyRepository, *rows: str, queue: bool = False, name: str = "tiny") -> list[str]:
    """Run the study, or queue its runs; what it reported, line by line."""
    told: list[str] = []
    study = load_study(tiny.folder / "studies", name)
    run_study(study, Repository(tiny.folder), told.append, frozenset(rows), queue)
    return told


def table(tiny: TinyRepository, name: str = "tiny") -> tuple[dict[str, str], str]:
    """The first column of the table by row, and its notes."""
    study = load_study(tiny.folder / "studies", name)
    [built] = build_tables(study, collect(study, Repository(tiny.folder)))
    return {row[0]: row[1] for row in built.rows}, " ".join(built.notes)


def kept_cases(tiny: TinyRepository) -> dict[str, str]:
    """The cases of each run that a table has, by the name of its experiment."""
    study = load_study(tiny.folder / "studies", "tiny")
    runs = collect(study, Repository(tiny.folder))
    return {run.folder.name: (run.folder / "cases.parquet").read_text() for run in runs}


def wait_until_it_hangs(tiny: TinyRepository, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while not (tiny.told / "hanging").exists():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[0]
        time.sleep(0.05)


def wait_until_gone(numbers: tuple[int, ...]) -> None:
    """Wait for killed processes: until init has reaped them, DVC respects their locks."""
    deadline = time.monotonic() + 60
    while any(map(psutil.pid_exists, numbers)):
        assert time.monotonic() < deadline, numbers
        time.sleep(0.05)


def assert_as_before(tiny: TinyRepository, before: tuple[str, dict[str, bytes]]) -> None:
    """No process works in the repository, and all of the user's files are as they were."""
    status, files = tiny.state()
    assert status == before[0] and working(tiny) == []
    assert {path: files.get(path) for path in before[1]} == before[1]


#: What the table of the tiny study has at its end: the mean over the contexts sn and mw, of which
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
    tiny.write("own/records", "of the user")
    tiny.write(".gitignore", tiny.read(".gitignore") + "/own\n")
    text = tiny.read("params.yaml").replace("root: null", "root: own/records", 1)
    tiny.write("params.yaml", text + "# mine\n")
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
    half_made = tiny.folder / "models/score.scratch/step"
    half_made.write_text("7")
    killed = (process.pid, *working(tiny))
    for number in killed:
        os.kill(number, signal.SIGKILL)
    process.communicate()
    wait_until_gone(killed)
    (tiny.told / "hang").unlink()
    with pytest.raises(ConfigError, match=r"if a study was killed here, `git reset --hard` and"):
        run(tiny)
    tiny.git("reset", "--hard")
    tiny.told.joinpath("runs").unlink()

    told = run(tiny)
    assert "tiny: 4 of 4 runs are missing" in told
    assert_as_before(tiny, before)
    assert half_made.exists()
    cells, notes = table(tiny)
    assert cells == FULL
    assert "released: not run yet with 10 (it needs baselines/params.yaml:llm_rg4.weights)" in notes
    # each stage once, whoever shares it; source and the training of the other rows were there
    assert tiny.ran("source") == []
    assert [line.split()[0] for line in tiny.ran("train")] == ["direct"]
    assert len(tiny.ran("score")) == 3 and len(tiny.ran("simmlm")) == 1

    calls = tiny.told.joinpath("runs").read_text()
    assert run(tiny) == ["tiny: nothing to do: all 4 runs exist"]
    # the docs allow to delete the results: the table and what differences need come back
    shown, kept = table(tiny), kept_cases(tiny)
    assert len(kept) == 4
    shutil.rmtree(tiny.folder / "studies" / "results")
    assert (table(tiny), kept_cases(tiny)) == (shown, kept)
    # another study with the same rows needs no run
    tiny.write("studies/other.yaml", STUDY.replace("name: gated", "name: everything"))
    assert run(tiny, name="other")[-1] == "other: nothing to do: all 4 runs exist"
    assert tiny.told.joinpath("runs").read_text() == calls

    names = subprocess.run(
        ["dvc", "exp", "list", "--name-only"],
        cwd=tiny.folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert len(names) == 4
    assert {name.rsplit("-", 1)[0] for name in names} >= {"tiny-gated-10", "tiny-simmlm-10"}
    [gated] = [name for name in names if name.startswith("tiny-gated-10")]
    subprocess.run(["dvc", "exp", "apply", gated], cwd=tiny.folder, check=True)
    assert json.loads(tiny.read("metrics/scores.json"))["sn"]["f1"] == 0.76
    tiny.git("reset", "--hard")

    # with other code the table says that its runs are older
    assert "other code" not in table(tiny)[1]
    tiny.write("pacer/code.txt", "changed")
    tiny.commit()
    cells, notes = table(tiny)
    assert cells == FULL | {"no gate again": "–"}  # the experiment has the name of another row
    assert "Made with other code or parameters than those of now: SimMLM, direct, gated" in notes


def test_a_stopped_study_ends_its_dvc_within_three_seconds(tiny: TinyRepository) -> None:
    assert_it_ends(tiny, signal.SIGTERM)


def stage_works(tiny: TinyRepository) -> bool:
    """Whether a stage is still running."""
    for pid in working(tiny):
        with suppress(psutil.Error):
            if "stages/stage.py" in psutil.Process(pid).cmdline():
                return True
    return False


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
    while stage_works(tiny):
        assert time.monotonic() - began < 3
        time.sleep(0.05)
    told = process.communicate(timeout=60)[0]  # then the user's files are put back
    assert working(tiny) == []
    assert process.returncode == 130
    assert "run the same command again" in told and "Traceback" not in told
    assert_as_before(tiny, before)


def test_a_failed_row_is_told_and_those_before_it_are_kept(tiny: TinyRepository) -> None:
    begin = "    while (told"
    stage = tiny.read("stages/stage.py")
    tiny.write(
        "stages/stage.py", stage.replace(begin, f"    assert gate == 'none', 'a gate'\n{begin}")
    )
    tiny.commit()
    with pytest.raises(PacerError, match=r"dvc exp run --name tiny-gated-10-.* failed \(exit code"):
        run(tiny, "direct", "gated")
    assert run(tiny, "direct")[-1] == "tiny: nothing to do: all 1 runs exist"
    assert table(tiny)[0]["direct"] == "0.310" and table(tiny)[0]["gated"] == "–"


def test_the_list_has_studies_that_do_not_fit_the_parameters(tiny: TinyRepository) -> None:
    tiny.write("studies/wrong.yaml", STUDY.replace("{commit.route: direct", "{commit.rout: direct"))
    told = tiny.call("study", "list")
    assert "0 of 6" in told and "wrong" in told and "needs other parameters" in told


def test_what_cannot_be_run_is_refused_before_any_work(
    tiny: TinyRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="no row 'theirs'; its rows are no gate, direct"):
        run(tiny, "theirs")
    tiny.write("stages/more.py", "")
    with pytest.raises(ConfigError, match=r"stages/more\.py is not committed \(1 such files\)"):
        run(tiny)
    tiny.commit()
    monkeypatch.setenv("PATH", os.path.dirname(shutil.which("git") or ""))
    with pytest.raises(ConfigError, match="the command `dvc` is not on the PATH"):
        run(tiny)
    assert not (tiny.told / "runs").exists()
