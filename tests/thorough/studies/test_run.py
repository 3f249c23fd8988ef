"""The workers of DVC's queue make the rows of a study, and a study ends with its terminal."""

import signal
import subprocess
import time

import pytest

from pacer.studies.repository import Repository
from tests.integration.studies.test_run import assert_it_ends, run, table
from tests.support.studies import TinyRepository


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
    deadline = time.monotonic() + 300
    while len(Repository(tiny.folder).experiments()) < 3 and time.monotonic() < deadline:
        time.sleep(1)
    status, files = tiny.state()  # idle workers stay for some seconds
    assert status == before[0] and {path: files.get(path) for path in before[1]} == before[1]
    cells, _ = table(tiny)
    assert (cells["gated"], cells["direct"], cells["SimMLM"]) == ("0.810", "0.310", "0.210")
    assert len(tiny.ran("source")) == 1
    assert run(tiny, "gated", queue=True)[-1] == "tiny: nothing to do: all 1 runs exist"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_study_ends_with_ctrl_c_and_with_its_terminal(tiny: TinyRepository, number: int) -> None:
    assert_it_ends(tiny, number)
