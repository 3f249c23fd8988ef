"""A private folder for what a page receives; files in it expire."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Seconds after which a file is removed; the page reads it within moments.
LIFETIME = 60.0
_PREFIX, _LOCK = "pacer-serve-", "lock"


@contextmanager
def upload_folder(parent: Path | None = None, lifetime: float = LIFETIME) -> Generator[Path]:
    """A new folder that its owner alone may enter. Files in it are removed when they are ``lifetime`` seconds old, and
    all of it at the end; what a killed process has left beside it is removed at the start.

    Args:
        parent: None: the system's folder for temporary files.
    """
    parent = parent or Path(tempfile.gettempdir())
    _remove_abandoned(parent)
    ended = threading.Event()
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent, ignore_cleanup_errors=True) as name,
        open(Path(name, _LOCK), "w") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        uploads = Path(name, "uploads")
        uploads.mkdir()
        sweeper = threading.Thread(target=_sweep, args=(uploads, lifetime, ended), daemon=True)
        sweeper.start()
        try:
            yield uploads
        finally:
            ended.set()
            sweeper.join()


def environment(uploads: Path) -> dict[str, str]:
    """Variables to set before Gradio is imported: no telemetry, no table of all events after each of them, and where
    uploads go."""
    return {
        "GRADIO_ANALYTICS_ENABLED": "False",
        "GRADIO_ANALYTICS_CACHE_FREQUENCY": str(2**60),
        "GRADIO_ANALYTICS_MAX_EVENTS": "100",
        "GRADIO_TEMP_DIR": str(uploads),
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }


def _sweep(folder: Path, lifetime: float, ended: threading.Event) -> None:
    while not ended.wait(lifetime / 6):
        for path in sorted(folder.rglob("*"), reverse=True):  # files before the folders that hold them
            with suppress(OSError):  # in use again, or gone
                if path.stat().st_mtime < time.time() - lifetime:
                    path.rmdir() if path.is_dir() else path.unlink()


def _remove_abandoned(parent: Path) -> None:
    """Remove folders whose process has ended; the system lets go of a lock however a process ends."""
    for folder in parent.glob(f"{_PREFIX}*"):
        # suppressed: in use, of another user, or gone; a young folder is perhaps not locked yet
        with suppress(OSError):
            if folder.stat().st_mtime < time.time() - LIFETIME:
                with open(folder / _LOCK) as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)
