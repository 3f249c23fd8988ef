"""Atomic files and directories, locks on them, content hashes, JSON files, journals.

Nothing is ever half-written under its final name: content goes to a temporary path next to the
target, then is renamed.
"""

import copy
import errno
import gzip
import hashlib
import json
import logging
import os
import shutil
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from io import BufferedReader
from pathlib import Path
from typing import Any, Self

from ruamel.yaml import YAML

from pacer.core.errors import ConfigError, DataError, PacerError

_log = logging.getLogger(__name__)

#: Errors of network and FUSE mounts without locks.
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)
#: Name in the scratch directory of the output that is being replaced.
_ASIDE = "replaced"
#: Uses the parser written in Python, because libyaml, which ruamel uses by default where it is
#: installed, refuses `?` in the words of a list.
_plain_values = lru_cache(maxsize=64)(lambda text: YAML(typ="safe", pure=True).load(text))


def hash_bytes(content: bytes) -> str:
    """Return the SHA-256 of ``content``, in hex."""
    return hashlib.sha256(content).hexdigest()


def hash_file(path: str | Path) -> str:
    """Return the SHA-256 of a file's content, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_input(path: Path) -> str:
    """Return the hash of a file that a user handed in; of a folder, that of its files and their
    names."""
    if not path.is_dir():
        return hash_file(path)
    files = ((str(file.relative_to(path)), hash_file(file)) for file in files_below(path))
    return hash_json(sorted(files))


def canonical_json(value: Any) -> str:
    """Return the text of a JSON-serialisable value of which :func:`hash_json` is the hash."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def hash_json(value: Any) -> str:
    """Return the SHA-256 of a JSON-serialisable value, independent of key order."""
    return hash_bytes(canonical_json(value).encode())


def opened(path: str | Path) -> BufferedReader | gzip.GzipFile:
    """Open a file for reading bytes; decompress it if it begins as gzip does, whatever its name."""
    with open(path, "rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if is_packed else open(path, "rb")


def files_below(folder: Path) -> Iterator[Path]:
    """Yield every file below a folder, in an order that does not depend on the disk.

    Symbolic links are followed; a folder that can be reached in several ways is walked once, so
    loops end. Raises a DataError if a folder cannot be read, so files would be missing without
    notice.
    """

    def refuse(error: OSError) -> None:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from None

    walked = {os.path.realpath(folder)}
    for directory, folders, files in os.walk(folder, followlinks=True, onerror=refuse):
        for name in sorted(folders):
            target = os.path.realpath(os.path.join(directory, name))
            folders.remove(name)
            if target not in walked:
                walked.add(target)
                folders.append(name)
        yield from (Path(directory, name) for name in sorted(files))


@contextmanager
def atomic_path(path: str | Path, *, durable: bool = False) -> Generator[Path]:
    """Yield a temporary path next to ``path``, which is renamed to ``path`` on success, else
    removed; a device or a pipe is yielded itself. ``durable``: also wait for the disk, so that
    content that is costly to make again (training state, answers that were paid for) survives a
    power failure."""
    target = Path(path)
    if target.exists() and not target.is_file():
        yield target
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    temporary.touch()
    permissions = temporary.stat().st_mode
    try:
        with _with_path_in_errors(target):
            yield temporary
            _complete(temporary, permissions, durable)
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _with_path_in_errors(target: str | Path) -> Generator[None]:
    """Add the path to errors of the block; the error of a full disk does not name it."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, PacerError):
            error.add_note(f"writing {target}")
        raise


def _complete(path: Path, permissions: int, durable: bool) -> None:
    """Give a written file the permissions of the user's umask, because some libraries write files
    that only their owner can read."""
    with suppress(PermissionError):  # some network and FUSE mounts refuse it
        path.chmod(permissions)
    if durable:
        with open(path, "rb") as file:
            os.fsync(file.fileno())


def write_text(path: str | Path, text: str, *, durable: bool = False) -> None:
    """Write ``text`` atomically as UTF-8; ``durable`` as in :func:`atomic_path`."""
    with atomic_path(path, durable=durable) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write ``value`` atomically as indented JSON (NaN and infinities are refused)."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_jsonl(path: str | Path, rows: Iterable[dict], *, durable: bool = False) -> None:
    """Write one JSON object per line, atomically; ``durable`` as in :func:`atomic_path`."""
    write_text(
        path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), durable=durable
    )


def read_json(path: str | Path, **options: Any) -> Any:
    """Read a JSON file (``.gz`` is decompressed), with or without a byte order mark; ``options``:
    of ``json.loads``. Raises a DataError if it is missing, unreadable or malformed."""
    try:
        with _readable(path) as file:
            return json.loads(file.read().decode("utf-8-sig"), **options)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not valid JSON: {_reason(error)}") from None


def yaml_beside(module: str, name: str) -> Any:
    """Return the plain values in the YAML file ``name`` that lies beside a module; ``module``: its
    ``__file__``."""
    return parse_yaml(Path(module).with_name(name).read_text(encoding="utf-8"))


def parse_yaml(text: str) -> Any:
    """Return the plain values in a YAML text. Raises a YAMLError if it is malformed."""
    return copy.deepcopy(_plain_values(text))


@contextmanager
def _readable(path: str | Path) -> Generator[BufferedReader | gzip.GzipFile]:
    """Open a file with :func:`opened`; an error while it is read becomes a DataError."""
    try:
        with opened(path) as file:
            yield file
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DataError(f"{path} is a truncated or damaged gzip file; copy it again") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def _reason(error: Exception) -> str:
    """Return the reason why bytes are not valid JSON, without quoting them as the decoder's own
    message does."""
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8; save the file as UTF-8"
    return str(error)


def numbered_jsonl(path: str | Path) -> Iterator[tuple[int, Any]]:
    """Yield the number and value of each line of JSON (``.gz`` is decompressed); skip empty lines.
    Raises a DataError if the file is missing or cut off, or a line is malformed; the message names
    file and line."""
    with _readable(path) as file:
        yield from parse_lines(file, path)


def parse_lines(lines: Iterable[bytes], path: str | Path) -> Iterator[tuple[int, Any]]:
    """Parse lines that have already been read, as :func:`numbered_jsonl` does; ``path`` is for
    messages."""
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8-sig")
            if text.strip():
                yield number, json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}, line {number}: invalid JSON: {_reason(error)}") from None


def read_jsonl(path: str | Path) -> list[Any]:
    """Return the values of :func:`numbered_jsonl`."""
    return [value for _, value in numbered_jsonl(path)]


def read_journal(path: str | Path) -> Iterator[tuple[int, Any]]:
    """Yield the number and value of each line, except an incomplete last line, which a killed
    process left; nothing if there is no file. Raises a DataError if a line is malformed; the
    message names file and line."""
    content = Path(path).read_bytes() if Path(path).exists() else b""
    return parse_lines(content[: content.rfind(b"\n") + 1].split(b"\n"), path)


class Journal:
    """Appends to a journal, after removing an incomplete last line. Thread-safe; a context
    manager."""

    def __init__(self, path: str | Path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "a+b")  # noqa: SIM115  open for as long as the journal is
        self._file.seek(0)
        self._file.truncate(self._file.read().rfind(b"\n") + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def append(self, row: dict[str, Any]) -> None:
        """Append a line. The system writes it even if this process dies."""
        # one write, so that lines of several threads do not mix
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()


@contextmanager
def locked(path: Path, refusal: str) -> Generator[None]:
    """Hold a lock on a file; the system releases it when the process ends for any reason. On a file
    system without locks, warn and go on.

    Raises a PacerError with the message ``refusal`` if another process holds the lock, or one that
    says why the file cannot be locked.
    """
    from filelock import FileLock, Timeout  # importing it takes 80 ms

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise PacerError(refusal) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise PacerError(f"{path} cannot be locked: {error.strerror}") from None
        _log.warning(
            f"{path.parent} is on a file system without file locks; make sure that no other "
            "process writes to it"
        )
    try:
        yield
    finally:
        lock.release()


@contextmanager
def scratch_directory(out: str | Path, fingerprint: str, *, main: bool = True) -> Generator[Path]:
    """Yield the resumable working directory of ``out``, ``<out>.scratch/<fingerprint>/``, locked
    while in use.

    The fingerprint covers parameters and the inputs' manifests, so stale state is never used with
    changed settings; directories of other fingerprints are removed. The caller renames finished
    content to ``out`` (:func:`publish`), which also removes the scratch directory. An output that a
    killed process had put aside there is put back. Raises a PacerError if another process holds the
    directory.

    Args:
        main: False in all but the first process of a run; these only get the name, and the first
            process holds the lock.
    """
    parent = Path(f"{out}.scratch")
    directory = parent / fingerprint[:16]
    if not main:
        yield directory
        return
    refusal = (
        f"{parent} is in use by another process that is writing {out}; wait for it, or stop it"
    )
    with locked(parent / "lock", refusal), _with_path_in_errors(out):
        if (parent / _ASIDE).exists() and not os.path.lexists(out):
            os.replace(parent / _ASIDE, out)
        for other in parent.glob("*/"):
            if other != directory:
                shutil.rmtree(other, ignore_errors=True)  # NFS keeps files that are in use
        directory.mkdir(exist_ok=True)
        for temporary in directory.rglob(".*.tmp"):  # a killed process left it half-written
            temporary.unlink()
        yield directory


def check_unused(*paths: Path | None, force: bool) -> None:
    """Raise a ConfigError if a file that a command would write exists, unless ``force``."""
    for path in paths:
        if path is not None and path.exists() and not force:
            raise ConfigError(
                f"{path} exists; choose a different path (--out), or overwrite it with --force"
            )


def check_replaceable(out: str | Path, known: Iterable[str] = ()) -> None:
    """Raise a DataError, before any work, if ``out`` is a file, or a folder that holds anything but
    an earlier output: files and folders with the ``known`` names."""
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise DataError(f"{out} is a file; choose a folder for the output")
    foreign = sorted({path.name for path in out.iterdir()} - set(known)) if out.exists() else []
    if foreign:
        raise DataError(
            f"{out} contains {foreign[0]}, which would be lost; move it, or choose another folder"
        )


def publish(directory: str | Path, out: str | Path, *, durable: bool = False) -> None:
    """Rename a finished directory to ``out`` and remove the scratch directory. An earlier output is
    put aside, and removed when the new one is in place. ``durable`` as in :func:`atomic_path`."""
    directory = Path(directory)
    out = Path(out)
    permissions = directory.stat().st_mode & 0o666
    for file in directory.rglob("*"):
        if file.is_file() and not file.is_symlink():
            _complete(file, permissions, durable)
    if out.is_symlink():
        out.unlink()
    elif out.exists():
        aside = Path(f"{out}.scratch") / _ASIDE
        aside.parent.mkdir(parents=True, exist_ok=True)
        os.replace(out, aside)
    os.replace(directory, out)
    remove_scratch(out)


def remove_scratch(out: Path) -> None:
    """Remove the scratch directory of an output that exists."""
    scratch = Path(f"{out}.scratch")
    for directory in scratch.glob("*/"):
        shutil.rmtree(directory, ignore_errors=True)
    (scratch / "lock").unlink(missing_ok=True)
    # fails if another process has just begun to use it, or if a file in it is still mapped
    with suppress(OSError):
        scratch.rmdir()


@contextmanager
def atomic_directory(out: str | Path) -> Generator[Path]:
    """Yield a directory that appears as ``out`` only if the block ends without an error."""
    with scratch_directory(out, "new") as directory:
        shutil.rmtree(directory)
        directory.mkdir()
        try:
            yield directory
        except BaseException:
            # not in a `finally`: after `publish` another process may have begun to use it
            remove_scratch(Path(out))
            raise
        publish(directory, out)
