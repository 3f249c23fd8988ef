"""The images of a corpus: each that a record names is looked at once, and those that the kept records use are listed.

Threads look, and a journal remembers. Image ids are worked through in parts, so that memory does not grow with them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from pacer.core.errors import DataError
from pacer.core.hygiene import stray_path
from pacer.core.io import atomic_path, hash_bytes, hash_file
from pacer.core.journal import Journal, read_journal
from pacer.core.progress import Ticker
from pacer.corpus.rows import Notes
from pacer.radiographs.opening import OTHER_PART, ImageError, image_header, open_image, reading_problem
from pacer.records.columns import TableWriter, batches, hashes
from pacer.records.schemas import IMAGE_SCHEMA, SPLITS

#: What a look finds; ``problem`` says why an image cannot be used, and is null when it can; ``part`` is another part of
#: the body than the chest that a DICOM file names.
SCHEMA: dict[str, pl.DataType] = IMAGE_SCHEMA | {"problem": pl.String(), "part": pl.String()}

#: Opening headers waits for the disk, not for the processor.
HEADER_THREADS = 16
#: Images that wait for a thread at the same time.
CHUNK = 8192
#: Image ids in memory at a time, about.
PART = 65_536
#: Bytes of a sample of a file.
_SAMPLE = 4096
_COLUMNS = ("frontal", "lateral")

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
    records: Path,
    folder: Path,
    check: Check,
    scratch: Path,
    out: Path,
    inspect: Callable[..., pl.DataFrame],
    notes: Notes,
) -> dict[str, str]:
    """Write what :func:`inspect_images` finds about every image of ``records`` to ``out``.

    Args:
        records: a table with the columns frontal and lateral. folder, check: see :func:`inspect_images`.
        scratch: where the journals of the images seen lie, so that a stopped run continues.
        notes: gets the topic ``other_parts``.

    Returns:
        Why an image cannot be used, by image id.
    """
    count = len(_used(records))
    parts = max(-(-count // PART), 1)
    unusable: dict[str, str] = {}
    with Ticker("images", count) as ticker, TableWriter(out, SCHEMA) as headers:
        for number in range(parts):
            ids: set[str] = set()
            for frame in batches(records, _COLUMNS):
                for column in map(frame.get_column, _COLUMNS):
                    ids.update(column.filter(column.is_not_null() & (column.hash() % parts == number)))
            found = inspect(sorted(ids), folder, check, scratch / f"images-{number + 1}-of-{parts}.jsonl", ticker)
            unusable |= dict(found.filter(pl.col("problem").is_not_null()).select("image_id", "problem").iter_rows())
            for part in found["part"].drop_nulls():
                notes.count("other_parts", "images", part)
            headers.add_frame(found)
    return unusable


def keep_used_images(headers: Path, records: Path, out: Path) -> int:
    """Write the rows of ``headers`` that ``records`` use to ``out``, and return their number."""
    used = _used(records)
    count = 0
    with atomic_path(out) as temporary, TableWriter(temporary, IMAGE_SCHEMA) as images:
        for frame in batches(headers):
            own = frame["image_id"].hash().to_numpy()
            there = np.searchsorted(used, own, side="right") > np.searchsorted(used, own)
            kept = frame.filter(pl.Series(there))
            images.add_frame(kept)
            count += kept.height
    return count


def copies_across_splits(images: Path, records: Path) -> dict[str, list[tuple[str, str]]]:
    """Pairs of images that lie in different splits under different names and are the same, byte for byte.

    Files of one size are compared by three samples and, where those agree, by their hashes: of compressed images few
    have the same size, and next to none is read as a whole without being a copy.

    Args:
        images, records: the finished tables.

    Returns:
        ``{"train-val": [(image of train, image of val), ...], ...}``, of several copies in a split the first.
    """
    name = pl.col("image_id")
    sides = [pl.scan_parquet(records).select("split", pl.col(column).alias("image_id")) for column in _COLUMNS]
    used = pl.concat(sides).drop_nulls().select("split", name.hash()).unique()
    sizes = pl.scan_parquet(images).select(name.hash(), "bytes").join(used, on="image_id")
    shared = sizes.filter(pl.col("split").n_unique().over("bytes") > 1).collect().rename({"image_id": "key"})
    listed = pl.scan_parquet(images).select("image_id", "path", name.hash().alias("key"))
    files = listed.filter(pl.col("key").is_in(shared["key"].unique().implode())).collect().join(shared, on="key")
    with ThreadPoolExecutor(HEADER_THREADS) as pool:
        for column, content in (("sample", _sample), ("hash", hash_file)):
            paths = files["path"].unique()
            found = pl.DataFrame({"path": paths, column: list(pool.map(content, paths))}, {"path": str, column: str})
            files = files.join(found, on="path").filter(pl.col("split").n_unique().over(column) > 1)
    files = files.sort("image_id")
    copies: dict[str, list[tuple[str, str]]] = {}
    for first, second in combinations(SPLITS, 2):
        sides = (files.filter(split=split).unique("hash", keep="first") for split in (first, second))
        own, theirs = (side.select("hash", "image_id") for side in sides)
        pairs = own.join(theirs, on="hash", suffix="_2").filter(pl.col("image_id") != pl.col("image_id_2"))
        copies[f"{first}-{second}"] = sorted(pairs.select("image_id", "image_id_2").iter_rows())
    return copies


def _sample(path: str) -> str:
    """Hash of the beginning, middle and end of a file: headers differ in the first, compressed pixels in the others."""
    if not os.path.isfile(path):  # a measurement without images, or one that has gone since
        return path
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        parts = []
        for place in (0, size // 2, max(size - _SAMPLE, 0)):
            file.seek(place)
            parts.append(file.read(_SAMPLE))
    return hash_bytes(b"".join(parts))


def _used(records: Path) -> np.ndarray:
    """Hashes of the distinct image ids of a table of records, ascending; 0 stands for an absent lateral view."""
    used = np.unique(np.concatenate([hashes(records, column) for column in _COLUMNS]))
    return used[used != 0]


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
