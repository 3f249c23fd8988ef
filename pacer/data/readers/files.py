"""Iteration over the files of a folder or archive, for reports as MIMIC-CXR and Open-I distribute them."""

import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from pacer.core.errors import DataError
from pacer.core.io import files_below
from pacer.core.progress import Ticker


def read_files(path: Path, ending: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file with an ending: sorted by name in a folder, in stored order in an archive.

    Args:
        path: the folder, or a zip or tar archive of it. Hidden files are skipped.

    Raises:
        DataError: the path cannot be read, or has no such file.
    """
    number = 0
    with Ticker("reports", None) as ticker:
        try:
            for name, content in _contents(path):
                if name.lower().endswith(ending) and not Path(name).name.startswith("."):
                    number += 1
                    yield name, content()
                    ticker.advance()
        except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
            reason = str(getattr(error, "strerror", None) or error).partition("\n")[0]
            raise DataError(f"{path} cannot be read as a folder, a zip or a tar archive: {reason}") from None
    if not number:
        raise DataError(f"{path} contains no {ending} files")


def _contents(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    if path.is_dir():
        for file in sorted(files_below(path)):
            yield file.relative_to(path).as_posix(), file.read_bytes
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as packed:
            for name in packed.namelist():
                yield name, partial(packed.read, name)
    else:
        with tarfile.open(path) as packed:
            for member in packed:
                if member.isfile() and (file := packed.extractfile(member)):
                    yield member.name, file.read
