"""What becomes of errors at the end of a stage or a command."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest
import torch

from pacer.core.errors import DataError, run_cleanly


def ended(error: BaseException) -> None:
    def fail() -> None:
        raise error

    run_cleanly(fail)


def test_a_full_disk_is_one_line(capsys: pytest.CaptureFixture) -> None:
    """In the system's own error and in a library's."""
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out/a.safetensors")
    for error in (full, RuntimeError("I/O error: No space left on device (os error 28)")):
        with pytest.raises(SystemExit):
            ended(error)
        told = capsys.readouterr().err
        assert told.startswith("error: the disk is full") and told.endswith("run the same command again\n")
        assert told.count("\n") == 1
    with pytest.raises(OSError, match="Permission"):
        ended(OSError(errno.EACCES, "Permission denied"))
    with pytest.raises(SystemExit):
        ended(DataError("what arrived"))
    assert capsys.readouterr().err == "error: what arrived\n"


def test_ctrl_c_is_one_line(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as stopped:
        ended(KeyboardInterrupt())
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "stopped; run the same command again to continue from what was saved\n"


def test_a_file_that_is_gone_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        run_cleanly(lambda: print((tmp_path / "gone").read_text()))
    assert capsys.readouterr().err == (
        f"error: {tmp_path}/gone: No such file or directory; correct this and run the same command again\n"
    )


def test_too_little_memory_is_one_line(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(RuntimeError) as on_cpu:
        torch.empty(1 << 62, dtype=torch.uint8)
    others = (
        RuntimeError("can't start new thread"),
        RuntimeError("CUDA error: out of memory"),
        pa.ArrowException("Unknown error: Failed to launch worker thread: Resource temporarily unavailable"),
    )
    no_memory = (
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        torch.OutOfMemoryError("CUDA out of memory."),
    )
    for error in (*no_memory, *others, on_cpu.value):
        with pytest.raises(SystemExit):
            ended(error)
        told = capsys.readouterr().err
        assert told.startswith("error: out of memory; docs/training.md") and told.count("\n") == 1
