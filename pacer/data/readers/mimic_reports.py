"""PhysioNet's report files of MIMIC-CXR (``p10/p10000032/s50414267.txt``), one at a time, in a folder or their archive.

No more than one text is held.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pacer.core.errors import DataError
from pacer.core.io import files_below
from pacer.core.progress import track

_FILE = re.compile(r"(?:^|/)(?:p([0-9]+)/)?s([0-9]+)\.txt\Z")


class ReportFile(NamedTuple):
    """One report. ``subject`` is empty where its folder does not name it; ids are without MIMIC's letters."""

    subject: str
    study: str
    text: str


def read_report_files(path: Path, what: str) -> Iterator[ReportFile]:
    """The report files by study, so that what comes first does not depend on the source; other files are passed over.

    Args:
        path: a folder that holds them at any depth, or their archive. what: the name of the work, for its progress.

    Raises:
        DataError: there are none, or one cannot be read.
    """
    if path.is_dir():
        for subject, study, name in _tracked((file.as_posix() for file in files_below(path)), path, what):
            try:
                with open(name, "rb") as file:
                    content = file.read()
            except OSError as error:
                raise DataError(f"{name} cannot be read: {error.strerror}") from None
            yield ReportFile(subject, study, _decode(content, name))
        return
    try:
        with zipfile.ZipFile(path) as archive:
            for subject, study, name in _tracked(archive.namelist(), path, what):
                yield ReportFile(subject, study, _decode(archive.read(name), f"{path}:{name}"))
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise DataError(f"{path} cannot be read as a zip archive: {error}; download it again") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def _tracked(names: Iterable[str], source: Path, what: str) -> Iterable[tuple[str, str, str]]:
    """Subject, study and name of each report file."""
    found = ((match[1] or "", match[2], name) for name in names if (match := _FILE.search(name)))
    chosen = sorted(found, key=lambda file: file[1:])
    if not chosen:
        raise DataError(f"{source} holds no MIMIC-CXR report files; expected names such as p10/p10000032/s50414267.txt")
    return track(chosen, what, len(chosen))


def _decode(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        # Another encoding would be a guess, and a wrong guess silently changes the references.
        raise DataError(f"{name} is not valid UTF-8: {error.reason} at byte {error.start}") from None
