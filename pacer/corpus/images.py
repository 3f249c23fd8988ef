"""Which images of a corpus exist and can be opened, with their sizes; threads look, and a ledger remembers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from pacer.core.journal import Journal, whole_lines
from pacer.core.progress import Ticker
from pacer.radiographs.opening import MISSING, ImageError, image_size, open_image

#: Opening headers waits for the disk, not for the processor.
HEADER_THREADS = 16
#: Images whose results are Python objects at the same time; what is finished lies in columns.
CHUNK = 8192

SCHEMA = {
    "image_id": pl.String(),
    "path": pl.String(),
    "bytes": pl.Int64(),
    "width": pl.Int32(),
    "height": pl.Int32(),
    "problem": pl.String(),
}
_LEDGER_SCHEMA = {
    "path": pl.String(),
    "check": pl.String(),
    "bytes": pl.Int64(),
    "mtime_ns": pl.Int64(),
    "width": pl.Int32(),
    "height": pl.Int32(),
}
#: What a look finds, without what was looked at: as the ledger keeps it, and as the result shows it.
_KEPT = {name: dtype for name, dtype in _LEDGER_SCHEMA.items() if name not in ("path", "check")}
_RESULT = {name: dtype for name, dtype in SCHEMA.items() if name not in ("image_id", "path")}


class _Seen(NamedTuple):
    """What one look at a file found."""

    bytes: int = 0
    mtime_ns: int = 0
    width: int = 0
    height: int = 0
    problem: str | None = None


def inspect_images(
    image_ids: pl.Series | Iterable[str],
    folder: Path,
    check: Literal["headers", "full"],
    ledger: Path | None = None,
    ticker: Ticker | None = None,
) -> pl.DataFrame:
    """Look at every image once.

    Args:
        image_ids: paths as the annotation files write them, relative to ``folder``.
        check: ``headers`` opens each file and reads its size; ``full`` decodes it as well.
        ledger: file that keeps the results as they come. A second start takes over the entries of this check whose
            files have kept their size and modification time. Only usable images are entered: a problem may go away
            without a change to the file (a decoder was installed, a permission given).
        ticker: progress of several calls; None: this call shows its own.

    Returns:
        One row per id, sorted by it: ``image_id``, ``path``, ``bytes``, ``width``, ``height``, and ``problem``, null
        when the image can be used; otherwise the sizes are zero.
    """
    ids = image_ids if isinstance(image_ids, pl.Series) else pl.Series(list(image_ids), dtype=pl.String)
    wanted = _with_paths(ids.unique().sort(), folder)
    if ledger is not None:
        wanted = wanted.join(_read_ledger(ledger, check), on="path", how="left", maintain_order="left")
    else:
        wanted = wanted.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in _KEPT.items())

    def look(row: tuple[Any, ...]) -> _Seen:
        return _look(row[0], check, _Seen(*row[1:]))  # without an entry its values are None, which no file has

    frames = [pl.DataFrame(schema=SCHEMA)]
    pool = ThreadPoolExecutor(HEADER_THREADS if check == "headers" else _cores())
    try:
        own = Ticker("images", wanted.height) if ticker is None else nullcontext(ticker)
        with own as progress, nullcontext() if ledger is None else Journal(ledger) as journal:
            for chunk in wanted.iter_slices(CHUNK):
                seen = []
                rows = chunk.select("path", *_KEPT).rows()
                for row, found in zip(rows, pool.map(look, rows)):
                    if journal and found.problem is None and found != _Seen(*row[1:]):
                        entry = {name: getattr(found, name) for name in _KEPT}
                        journal.append({"path": row[0], "check": check} | entry)
                    seen.append(found)
                    progress.advance()
                columns = {name: [getattr(found, name) for found in seen] for name in _RESULT}
                frames.append(chunk.select("image_id", "path").hstack(pl.DataFrame(columns, schema=_RESULT)))
    finally:
        pool.shutdown(cancel_futures=True)  # an interruption does not wait for the rest of the chunk
    return pl.concat(frames)


def _with_paths(ids: pl.Series, folder: Path) -> pl.DataFrame:
    relative = pl.col("image_id").str.strip_chars_start("/")
    path = pl.format("{}{}", pl.lit(os.path.join(folder, "")), relative)
    return ids.rename("image_id").to_frame().with_columns(path.alias("path"))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _look(path: str, check: str, earlier: _Seen) -> _Seen:
    try:
        status = os.stat(path)
        if (earlier.bytes, earlier.mtime_ns) == (status.st_size, status.st_mtime_ns):
            return earlier
        width, height = open_image(path).size if check == "full" else image_size(path)
    except (FileNotFoundError, NotADirectoryError):
        return _Seen(problem=MISSING)
    except (OSError, ValueError) as error:  # ValueError: no file can have this name
        return _Seen(problem=f"the file cannot be decoded ({type(error).__name__})")
    except ImageError as error:
        return _Seen(problem=error.problem)
    return _Seen(status.st_size, status.st_mtime_ns, width, height)


def _read_ledger(path: Path, check: str) -> pl.DataFrame:
    """The latest entry of each path."""
    lines = whole_lines(path)
    empty = pl.DataFrame(schema=_LEDGER_SCHEMA)
    try:
        entries = pl.read_ndjson(lines, schema=_LEDGER_SCHEMA) if lines else empty
    except pl.exceptions.PolarsError:
        path.unlink()  # not a ledger, or damaged in its middle: it saves time only, so it starts afresh
        entries = empty
    entries = entries.filter(pl.col("check") == check).drop("check").drop_nulls()
    return entries.unique("path", keep="last")
