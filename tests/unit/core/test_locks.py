"""Locks on folders, on file systems with and without them."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pacer.core import locks
from pacer.core.errors import PacerError
from pacer.core.io import publish, scratch_directory
from pacer.core.locks import locked
from tests.support.cases import listed_cases


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    def refuse(*_: object) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.parametrize("without_locks", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP], indirect=True)
def test_a_file_system_without_locks(without_locks: None, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    with scratch_directory(tmp_path / "out", "f") as directory:
        (directory / "file").touch()
        assert "is on a file system without file locks" in capsys.readouterr().err
        with (
            pytest.raises(PacerError, match=rf"^in use\. .*lock\.held names process {os.getpid()} on .*; if that "),
            locked(directory.parent / "lock", "in use"),
        ):
            pass
        publish(directory, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["file"]


@pytest.mark.parametrize("without_locks", [errno.ENOSYS], indirect=True)
@pytest.mark.parametrize(("holder", "taken"), listed_cases(__file__, "holders"))
def test_the_lock_of_a_killed_process_is_taken_over(
    without_locks: None, holder: str, taken: bool, tmp_path: Path
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    marker = tmp_path / "lock.held"
    with locked(tmp_path / "lock", "in use"):
        own = marker.read_text()
    marker.write_text(holder.format(dead=ended.pid, here=own.splitlines()[1]))
    if taken:
        with locked(tmp_path / "lock", "in use"):
            assert marker.read_text() == own
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    else:
        with pytest.raises(PacerError, match="if that process has ended, delete"), locked(tmp_path / "lock", "in use"):
            pass
        assert marker.exists()


def test_without_locks_by_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks._Chosen, "locks", "none")
    monkeypatch.setattr(fcntl, "flock", lambda *_: pytest.fail("locked"))
    with locked(tmp_path / "lock", "in use"), locked(tmp_path / "lock", "in use"):
        assert not list(tmp_path.iterdir())


def test_other_faults_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with locked(tmp_path / "lock", "in use"):
        with pytest.raises(PacerError, match=r"^in use$"), locked(tmp_path / "lock", "in use"):
            pass
        monkeypatch.setattr(fcntl, "flock", refuse)
        with pytest.raises(PacerError, match="cannot be locked: Input/output error"), locked(tmp_path / "lock", "used"):
            pass
