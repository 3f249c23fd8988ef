"""Uploads grow no older than they must, and a killed server leaves nothing for long."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pacer.serving import uploads
from pacer.serving.uploads import upload_folder
from tests.serving.world import ROOT

pytestmark = pytest.mark.slow


def test_old_files_go_and_new_ones_stay(tmp_path: Path) -> None:
    with upload_folder(tmp_path, lifetime=0.6) as folder:
        old, new = folder / "abc" / "film.png", folder / "def" / "film.png"
        for path in (old, new):
            path.parent.mkdir()
            path.write_bytes(b"x")
        os.utime(new, (time.time() + 600,) * 2)
        deadline = time.monotonic() + 10
        while old.parent.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not old.parent.exists() and new.exists()
        assert folder.parent.stat().st_mode & 0o077 == 0
    assert not list(tmp_path.iterdir())


def test_what_a_killed_server_left_goes_when_the_next_one_starts(tmp_path: Path) -> None:
    """But nothing of one that lives, of one that begins, or of another program."""
    names = ("pacer-serve-a", "pacer-serve-b", "pacer-serve-c", "x")
    left, living, begun, foreign = folders = [tmp_path / name for name in names]
    for folder in folders:
        folder.mkdir()
        (folder / "lock").touch()
        (folder / "film.png").touch()
        if folder != begun:
            os.utime(folder, (time.time() - 2 * uploads.LIFETIME,) * 2)
    with open(living / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with upload_folder(tmp_path):
            assert not left.exists() and living.exists() and begun.exists() and foreign.exists()


def test_the_command_serves_and_leaves_nothing(exported: Path, tmp_path: Path) -> None:
    """Until it is asked to end; variables that would open what is closed count for nothing."""
    pytest.importorskip("gradio", reason="Gradio is not installed (extra app)")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    command = [
        sys.executable,
        "-c",
        "from pacer.cli import main; main()",
        "serve",
        "--model",
        str(exported),
        "--device",
        "cpu",
        "--port",
        port,
    ]
    environment = os.environ | {"TMPDIR": str(tmp_path), "GRADIO_ALLOWED_PATHS": "/", "GRADIO_SHARE": "True"}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert f"http://127.0.0.1:{port}" in line and "research" in line
        assert len(list(tmp_path.glob("pacer-serve-*"))) == 1
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0 and rest == ""
    assert not list(tmp_path.glob("pacer-serve-*"))
