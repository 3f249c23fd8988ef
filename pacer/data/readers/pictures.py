"""Pictures within a table, and lists of pictures, as Hugging Face's datasets store them in Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pacer.core.errors import DataError
from pacer.core.io import atomic_path
from pacer.data.tables import Table

#: File extensions by the first bytes; any other picture is taken for DICOM without preamble, or refused as no image.
_ENDINGS = {b"\xff\xd8": ".jpg", b"\x89PNG": ".png", b"II*\0": ".tif", b"MM\0*": ".tif", b"BM": ".bmp"}


def with_pictures(table: Table, image: str, view: str, folder: Path) -> Table:
    """Return the table with a row per picture, each by its path below ``folder``.

    A cell can be a path, a picture (bytes, or a structure of ``bytes`` and ``path``), or a list of these, beside a view
    or a list of views. Pictures are written once, below a folder with the name of the table's file; one that is there
    already stays.

    Args:
        image, view: names of the two columns.

    Raises:
        DataError: a row has lists of different lengths, or a picture cannot be written.
    """
    at, view_at = table.columns.index(image), table.columns.index(view)
    if table.kind == "csv" or not any(isinstance(row[at], list | dict | bytes) for row in table.rows):
        return table
    numbers, rows = list[int](), list[tuple[Any, ...]]()
    for place, number, row in zip(table.places, table.numbers, table.rows, strict=True):
        pictures = (row[at] or [None]) if isinstance(row[at], list) else [row[at]]
        views = row[view_at] if isinstance(row[view_at], list) else [row[view_at]] * len(pictures)
        if len(views) != len(pictures):
            raise DataError(f"{table.path}, {place}: {len(pictures)} pictures in {image}, {len(views)} views in {view}")
        for nth, (picture, seen) in enumerate(zip(pictures, views, strict=True), start=1):
            cells = list(row)
            cells[at], cells[view_at] = _path(picture, folder, f"{table.path.stem}/{number:06}-{nth}"), seen
            numbers.append(number)
            rows.append(tuple(cells))
    return table._replace(numbers=numbers, rows=rows)


def _path(picture: Any, folder: Path, name: str) -> Any:
    """Return the path of a picture; write it if the cell has its content."""
    content, path = (picture.get("bytes"), picture.get("path")) if isinstance(picture, dict) else (picture, None)
    if not isinstance(content, bytes):
        return path if content is None else content
    name += next((ending for start, ending in _ENDINGS.items() if content.startswith(start)), ".dcm")
    target = folder / name
    try:
        if not target.exists() or target.read_bytes() != content:
            with atomic_path(target) as temporary:
                temporary.write_bytes(content)
    except OSError as error:
        raise DataError(f"the picture {target} cannot be written: {error.strerror}") from None
    return name
