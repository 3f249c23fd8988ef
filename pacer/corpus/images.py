"""The images of a corpus: each that a record names is looked at once, and those that the kept records use are listed.

Threads look, and a journal remembers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl

from pacer.core.errors import DataError
from pacer.core.hygiene import stray_path
from pacer.core.io import hash_bytes, hash_file, open_file
from pacer.core.journal import Journal, read_journal
from pacer.core.progress import Ticker
from pacer.corpus.rows import Notes
from pacer.radiographs.opening import OTHER_PART, ImageError, image_header, open_image, reading_problem
from pacer.records.schemas import IMAGE_SCHEMA, SPLITS

#: What a look finds; ``problem`` says why an image cannot be used, and is null when it can; ``part`` is another part of
#: the body than the chest that a DICOM file names.
SCHEMA: dict[str, pl.DataType] = IMAGE_SCHEMA | {"problem": pl.String(), "part": pl.String()}

#: Opening headers waits for the disk, not for the processor.
HEADER_THREADS = 16
#: Images that wait for a thread at the same time.
CHUNK = 8192
#: Bytes of a sample of a file.
_SAMPLE = 4096

Check = Literal["headers", "full"]


class _Seen(NamedTuple):
    """What one look at a file found."""

    bytes: int = 0
    mtime_ns: int = 0
    width: int = 0
    height: int = 0
    problem: str | None = None
    part: str | None = None


def look_at_images(
    records: pl.DataFrame, folder: Path, check: Check, scratch: Path, inspect: Callable[..., pl.DataFrame], notes: Notes
) -> pl.DataFrame:
    """What :func:`inspect_images` finds about every image of ``records``.

    Args:
        records: a table with the columns frontal and lateral. folder, check: see :func:`inspect_images`.
        scratch: where the journal of the images seen lies, so that a stopped run continues.
        notes: gets the topic ``other_parts``.
    """
    ids = used_images(records)
    with Ticker("images", len(ids)) as ticker:
        found = inspect(ids.to_list(), folder, check, scratch / "images.jsonl", ticker)
    for part in found["part"].drop_nulls():
        notes.count("other_parts", "images", part)
    return found


def used_images(records: pl.DataFrame) -> pl.Series:
    """The distinct image ids of a table of records."""
    return pl.concat([records["frontal"], records["lateral"]]).drop_nulls().unique().sort()


def copies_across_splits(images: pl.DataFrame, records: pl.DataFrame) -> dict[str, list[tuple[str, str]]]:
    """Pairs of images that lie in different splits under different names and are the same, byte for byte.

    Files of one size are compared by three samples and, where those agree, by their hashes: of compressed images few
    have the same size, and next to none is read as a whole without being a copy.

    Args:
        images, records: the finished tables.

    Returns:
        ``{"train-val": [(image of train, image of val), ...], ...}``, of several copies in a split the first.
    """
    sides = [records.select("split", pl.col(column).alias("image_id")) for column in ("frontal", "lateral")]
    files = images.join(pl.concat(sides).drop_nulls().unique(), on="image_id")
    files = files.filter(pl.col("split").n_unique().over("bytes") > 1)
    with ThreadPoolExecutor(HEADER_THREADS) as pool:
        for column, content in (("sample", _sample), ("hash", hash_file)):
            paths = files["path"].unique()
            found = pl.DataFrame({"path": paths, column: list(pool.map(content, paths))}, {"path": str, column: str})
            files = files.join(found, on="path").filter(pl.col("split").n_unique().over(column) > 1)
    files = files.sort("image_id")
    copies: dict[str, list[tuple[str, str]]] = {}
    for first, second in combinations(SPLITS, 2):
        own, theirs = (files.filter(split=split).unique("hash", keep="first") for split in (first, second))
        pairs = own.join(theirs, on="hash", suffix="_2").filter(pl.col("image_id") != pl.col("image_id_2"))
        copies[f"{first}-{second}"] = sorted(pairs.select("image_id", "image_id_2").iter_rows())
    return copies


def _sample(path: str) -> str:
    """Hash of the beginning, middle and end of a file: headers differ in the first, compressed pixels in the others."""
    if not os.path.isfile(path):  # a measurement without images, or one that has gone since
        return path
    with open_file(path) as file:
        size = file.seek(0, os.SEEK_END)
        parts = []
        for place in (0, size // 2, max(size - _SAMPLE, 0)):
            file.seek(place)
            parts.append(file.read(_SAMPLE))
    return hash_bytes(b"".join(parts))


def inspect_images(
    image_ids: Iterable[str], folder: Path, check: Check, journal: Path | None = None, ticker: Ticker | None = None
) -> pl.DataFrame:
    """Look at every image once.

    Args:
        image_ids: paths as the annotation files write them, relative to ``folder``.
        check: ``headers`` opens each file and reads its size; ``full`` decodes it as well.
        journal: file that keeps the results as they come. A second start takes over the entries of this check whose
            files have kept their size and modification time. Only usable images are entered: a problem may go away
            without a change to the file (a decoder was installed, a permission given).

    Returns:
        One row of :data:`SCHEMA` per id, sorted by it; the sizes of an image that cannot be used are zero.
    """
    ids = sorted(set(image_ids))
    earlier = {} if journal is None else _read_entries(journal, check)
    frames = [pl.DataFrame(schema=SCHEMA)]
    with ExitStack() as stack:
        pool = ThreadPoolExecutor(HEADER_THREADS if check == "headers" else _cores())
        stack.callback(pool.shutdown, cancel_futures=True)  # an interruption does not wait for the rest of the chunk
        entries = None if journal is None else stack.enter_context(Journal(journal))
        for start in range(0, len(ids), CHUNK):
            own = [(image_id, os.path.join(folder, image_id)) for image_id in ids[start : start + CHUNK]]
            rows = []
            looks = pool.map(lambda names: _look(*names, check, earlier.get(names[1])), own)
            for (image_id, path), seen in zip(own, looks, strict=True):
                if entries is not None and seen.problem is None and seen != earlier.get(path):
                    entry = seen._asdict() | {"path": path, "check": check}
                    entries.append(entry)
                rows.append((image_id, path, seen.bytes, seen.width, seen.height, seen.problem, seen.part))
                if ticker is not None:
                    ticker.advance()
            frames.append(pl.DataFrame(rows, schema=SCHEMA, orient="row"))
    return pl.concat(frames)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _look(image_id: str, path: str, check: Check, earlier: _Seen | None) -> _Seen:
    if stray := stray_path(image_id):
        return _Seen(problem=stray)
    try:
        status = os.stat(path)
        if earlier is not None and (earlier.bytes, earlier.mtime_ns) == (status.st_size, status.st_mtime_ns):
            return earlier
        if check == "full":
            image = open_image(path)
            width, height, part = *image.size, image.info.get(OTHER_PART)
        else:
            width, height, part = image_header(path)
    except (OSError, ValueError) as error:
        return _Seen(problem=reading_problem(error))
    except ImageError as error:
        return _Seen(problem=error.problem)
    return _Seen(status.st_size, status.st_mtime_ns, width, height, part=part)


def _read_entries(journal: Path, check: Check) -> dict[str, _Seen]:
    """The latest entry of each path."""
    try:
        return {
            entry["path"]: _Seen(entry["bytes"], entry["mtime_ns"], entry["width"], entry["height"], part=entry["part"])
            for _, entry in read_journal(journal)
            if entry["check"] == check
        }
    except (DataError, KeyError, TypeError):
        journal.unlink()  # no journal of images, or damaged in its middle: it saves time only, so it starts afresh
        return {}
