"""Making a table of experiments: what is run, what is not run again, and that nothing of the user's
is lost."""

import os
import re
import shutil
import signal
import subprocess
from contextlib import suppress

import psutil
import pytest

from pacer.core.errors import ConfigError, PacerError
from pacer.extras.studies.repository import Repository
from pacer.extras.studies.run import run_study
from pacer.extras.studies.study import load_study
from pacer.extras.studies.table import build_tables, collect
from tests.support.studies import TinyRepository, working
from tests.support.waiting import PATIENCE, wait_until


def run(tiny: TinyRepository, *rows: str, queue: bool = False, name: str = "tiny") -> list[str]:
    """Run the table, or queue its runs; what it reported, line by line."""
    told: list[str] = []
    study = load_study(tiny.folder / "studies", name)
    run_study(study, Repository(tiny.folder), told.append, frozenset(rows), queue)
    return told


def table(tiny: TinyRepository, name: str = "tiny") -> tuple[dict[str, str], str]:
    """The first column of the table by row, and its notes."""
    study = load_study(tiny.folder / "studies", name)
    [built] = build_tables(study, collect(study, Repository(tiny.folder)))
    return {row[0]: row[1] for row in built.rows}, " ".join(built.notes)


def wait_until_it_hangs(tiny: TinyRepository, process: subprocess.Popen) -> None:
    wait_until((tiny.told / "hanging").exists, lambda: process.poll() is None)


def assert_as_before(tiny: TinyRepository, before: tuple[str, dict[str, bytes]]) -> None:
    """No process works in the repository, and all of the user's files are as they were."""
    status, files = tiny.state()
    assert status == before[0] and working(tiny) == []
    assert {path: files.get(path) for path in before[1]} == before[1]


def test_a_stopped_study_ends_its_dvc(tiny: TinyRepository) -> None:
    assert_it_ends(tiny, signal.SIGTERM)


def stage_works(tiny: TinyRepository) -> bool:
    """Whether a stage is still running."""
    for pid in working(tiny):
        with suppress(psutil.Error):
            if "stages/stage.py" in psutil.Process(pid).cmdline():
                return True
    return False


def assert_it_ends(tiny: TinyRepository, number: int) -> None:
    """Send a signal to `pacer study`, which ends with its DVC; skipped below nohup, where it goes
    on."""
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("below nohup, where it goes on as well")
    (tiny.told / "hang").touch()
    before = tiny.state()
    process = tiny.start("--row", "gated")
    wait_until_it_hangs(tiny, process)
    os.kill(process.pid, number)
    wait_until(lambda: not stage_works(tiny))
    told = process.communicate(timeout=PATIENCE)[0]  # then the user's files are put back
    assert working(tiny) == []
    assert process.returncode == 130
    assert "run the same command again" in told and "Traceback" not in told
    assert_as_before(tiny, before)


def test_a_broken_params_yaml_is_named_with_what_mends_it(tiny: TinyRepository) -> None:
    tiny.write("params.yaml", "decode:\n  controls:  # what the sources contribute\n[]\n  a: 3\n")
    with pytest.raises(ConfigError, match=r"params\.yaml cannot be read .*`pacer use PROFILE --f"):
        run(tiny)


def test_a_failed_row_is_told_and_those_before_it_are_kept(tiny: TinyRepository) -> None:
    begin = "    while (told"
    stage = tiny.read("stages/stage.py")
    tiny.write(
        "stages/stage.py", stage.replace(begin, f"    assert gate == 'none', 'a gate'\n{begin}")
    )
    tiny.commit()
    told = r"dvc exp run --temp --name tiny-gated-10-.* failed \(exit code"
    with pytest.raises(PacerError, match=told):
        run(tiny, "direct", "gated")
    assert run(tiny, "direct")[-1] == "tiny: nothing to do: all 1 runs exist"
    assert table(tiny)[0]["direct"] == "0.310" and table(tiny)[0]["gated"] == "–"


def test_a_run_is_kept_until_code_changes_that_its_stages_depend_on(tiny: TinyRepository) -> None:
    run(tiny, "direct")
    tiny.write("pacer/reporting/page.txt", "edited")
    tiny.commit()
    assert run(tiny, "direct")[-1] == "tiny: nothing to do: all 1 runs exist"
    assert "other code" not in table(tiny)[1]
    tiny.write("pacer/core/words.txt", "edited")
    tiny.commit()
    cells, notes = table(tiny)
    assert cells["direct"] == "0.310"
    assert "Made with other code or parameters than those of now: direct." in notes
    assert "tiny: 1 of 1 runs are missing" in run(tiny, "direct")
    assert "other code" not in table(tiny)[1]


def test_what_cannot_be_run_is_refused_before_any_work(
    tiny: TinyRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="no row 'theirs'; its rows are no gate, direct"):
        run(tiny, "theirs")
    for path in ("stages/more.py", "configs/tiny.txt"):  # the latter as a dependency
        tiny.write(path, "edited")
        told = rf"{re.escape(path)} is not committed \(1 such files\)"
        with pytest.raises(ConfigError, match=told):
            run(tiny)
        tiny.commit()
    monkeypatch.setenv("PATH", os.path.dirname(shutil.which("git") or ""))
    with pytest.raises(ConfigError, match="the command `dvc` is not on the PATH"):
        run(tiny)
    assert not (tiny.told / "runs").exists()
