"""What a stage or a command says, without report text or ids: errors at its end, progress without a
terminal."""

import errno
import io
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
import torch

from pacer.core import progress
from pacer.core.errors import DataError, run_cleanly
from pacer.core.io import atomic_directory, atomic_path, scratch_directory
from pacer.core.progress import Ticker

STOPPED = "stopped; run the same command again to continue from what was saved\n"
FULL = "the disk is full; free some space and run the same command again\n"
LEFT = (
    "error: another process of this run exited; see its output for the cause; "
    "run the same command again to continue from what was saved\n"
)
NO_MEMORY = (
    "error: out of memory; docs/training.md lists how much each phase needs and how to reduce it\n"
)


def fail(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("work", "code", "told"),
    [
        (lambda: fail(DataError("what arrived")), 1, "error: what arrived\n"),
        (lambda: fail(KeyboardInterrupt()), 130, STOPPED),
        (
            lambda: Path("/gone").read_text(),
            1,
            "error: /gone: No such file or directory; fix this and run the same command again\n",
        ),
        (
            lambda: fail(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out/a.parquet")),
            1,
            f"error: out/a.parquet: {FULL}",
        ),
        (
            lambda: fail(RuntimeError("I/O error: No space left on device (os error 28)")),
            1,
            f"error: {FULL}",
        ),
        (
            lambda: fail(pl.exceptions.ComputeError("Invalid thrift: transport error")),
            1,
            f"error: {FULL}",
        ),
        (
            lambda: fail(
                RuntimeError(
                    "Connection closed by peer. Typically caused by a remote worker crashing"
                )
            ),
            1,
            LEFT,
        ),
        (lambda: torch.save({"weights": torch.zeros(20_000)}, "/dev/full"), 1, f"error: {FULL}"),
        (lambda: torch.empty(1 << 62, dtype=torch.uint8), 1, NO_MEMORY),
        (lambda: fail(MemoryError()), 1, NO_MEMORY),
        (lambda: fail(torch.OutOfMemoryError("CUDA out of memory.")), 1, NO_MEMORY),
        (lambda: fail(RuntimeError("can't start new thread")), 1, NO_MEMORY),
        (
            lambda: fail(
                pa.ArrowException("Unknown error: Failed to launch worker thread: Resource ")
            ),
            1,
            NO_MEMORY,
        ),
    ],
)
def test_what_a_user_can_act_on_is_one_line(
    work: Callable[[], None], code: int, told: str, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit) as ended:
        run_cleanly(work)
    assert ended.value.code == code and capsys.readouterr().err == told


@pytest.mark.parametrize(
    "writing", [atomic_path, atomic_directory, partial(scratch_directory, fingerprint="0" * 64)]
)
def test_a_full_disk_names_what_was_to_be_written(
    writing: Callable[[Path], AbstractContextManager[Path]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    """Neither a write nor the errors of safetensors, pyarrow and polars name a file."""

    def work() -> None:
        with writing(tmp_path / "out"), open("/dev/full", "wb", buffering=0) as file:
            file.write(b"text")

    with pytest.raises(SystemExit):
        run_cleanly(work)
    assert capsys.readouterr().err == f"error: writing {tmp_path / 'out'}: {FULL}"


def test_a_refused_rename_names_the_file_that_was_to_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not its temporary name, which nobody knows; a file that is read has its own."""

    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(source), None, str(target))

    monkeypatch.setattr(os, "replace", refuse)

    def write() -> None:
        with atomic_path(tmp_path / "out"):
            pass

    def read() -> None:
        with scratch_directory(tmp_path / "out", "f"), open(tmp_path / "none", "rb"):
            pass

    for work, words in (
        (write, f"writing {tmp_path / 'out'}: Operation not permitted"),
        (read, f"{tmp_path / 'none'}: No such file or directory"),
    ):
        with pytest.raises(SystemExit):
            run_cleanly(work)
        told = capsys.readouterr().err
        assert told == f"error: {words}; fix this and run the same command again\n"


def test_an_error_of_native_code_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """polars raises its panics as an error that is no Exception."""

    def panic() -> None:
        raise pl.exceptions.PanicException("index out of bounds")

    with pytest.raises(SystemExit, match="1"):
        run_cleanly(panic)
    told = capsys.readouterr().err
    assert told.startswith("error: a library failed in its native code; what was finished is kept")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("utf-8", "R\xf6ntgen \u2013 ?"), ("latin-1", "R\xf6ntgen ? ?"), ("ascii", "R?ntgen ? ?")],
)
def test_what_a_terminal_cannot_show_is_a_question_mark(
    encoding: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a character, from a file name that is not UTF-8, is in no encoding."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    run_cleanly(lambda: print("R\xf6ntgen \u2013 \udce9", end="", flush=True))
    assert written.getvalue().decode(encoding) == shown


def missing(name: str | None) -> ModuleNotFoundError:
    return ModuleNotFoundError("No module", name=name)


@pytest.mark.parametrize(
    "error", [OSError(errno.EACCES, "Permission denied"), *map(missing, ("pacer.gone", None))]
)
def test_other_errors_keep_their_traceback(error: Exception) -> None:
    with pytest.raises(type(error)):
        run_cleanly(lambda: fail(error))


def test_a_log_file_has_a_line_from_time_to_time_and_one_at_the_end(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LOG_INTERVAL", 0.0)
    with Ticker("images", 4, done=2) as ticker:
        ticker.advance(note="loss 1.2")
        ticker.advance()
    start, first, second, last = capsys.readouterr().err.splitlines()
    assert start.startswith("images:  50% 2/4 [")
    assert first.startswith("images:  75% 3/4 [") and first.endswith("loss 1.2]")
    assert second.startswith("images: 100% 4/4 [") and last.startswith("images: 100% 4/4 [")
