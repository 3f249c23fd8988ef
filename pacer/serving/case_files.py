"""Many cases: a table with a row each, or a folder.

A table is CSV or TSV with a column ``frontal`` and any of ``case``, ``lateral``, ``prior``, ``indication``,
``history``, ``view``, ``sections``. Image paths are relative to the table; ``prior`` is the text or the path of a text
file.

In a folder each image is a case with a frontal view alone, and each folder in it is a case with the files
``frontal.*``, ``lateral.*``, ``prior.txt``, ``indication.txt``, ``history.txt``, ``view.txt``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pacer.core.errors import DataError
from pacer.serving.case import Case
from pacer.serving.sources import load_text, text_or_file
from pacer.tables.table import open_table

COLUMNS = ("case", "frontal", "lateral", "prior", "indication", "history", "view", "sections")
IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".dcm", ".dicom")
TEXTS = ("prior", "indication", "history", "view")


class BadCase(NamedTuple):
    """A case that cannot be used, and why, in one sentence."""

    name: str
    problem: str


def read_cases(path: Path) -> list[Case | BadCase]:
    """The cases of a table or folder, in its order; names are distinct.

    Raises:
        DataError: there is no case, or the table or folder as a whole cannot be read: the message says where.
    """
    if path.is_dir():
        cases = list(_folder(path))
    elif path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv")):
        cases = list(_table(path))
    else:
        raise DataError(f"{path} is neither a folder nor a table .csv or .tsv")
    if not cases:
        raise DataError(f"{path} holds no case")
    names: set[str] = set()
    for case in cases:
        if case.name in names:
            raise DataError(f"{path} has two cases with the name {case.name}; give each its own in a column case")
        names.add(case.name)
    return cases


def _table(path: Path) -> Iterator[Case | BadCase]:
    table = open_table(path)
    header = [column.strip().lower() for column in table.columns]
    unknown = [column for column in header if column not in COLUMNS]
    if unknown:
        close = difflib.get_close_matches(unknown[0], COLUMNS, n=1, cutoff=0.0)
        raise DataError(
            f"{path} has an unknown column {unknown[0]!r:.40}; the closest known one is {close[0]}, all "
            f"are {', '.join(COLUMNS)}"
        )
    if len(set(header)) != len(header):
        raise DataError(f"{path} has a column twice")
    if "frontal" not in header:
        raise DataError(f"{path} has no column frontal")
    for number, (place, cells, empty) in enumerate(table.rows(table.columns), start=1):
        if empty:
            continue
        row = {column: cell.strip() for column, cell in zip(header, cells, strict=True)}
        name = row.get("case") or row["frontal"] or f"row {number}"
        if not row["frontal"]:
            yield BadCase(name, f"{name} ({place}) names no frontal image")
            continue
        try:
            yield Case(
                frontal=path.parent / row["frontal"],
                lateral=path.parent / row["lateral"] if row.get("lateral") else None,
                prior=text_or_file(row.get("prior"), f"previous report of {name}", path.parent),
                indication=row.get("indication") or None,
                history=row.get("history") or None,
                view=row.get("view") or None,
                sections=row.get("sections") or None,
                name=name,
            )
        except DataError as error:
            yield BadCase(name, str(error))


def _folder(path: Path) -> Iterator[Case | BadCase]:
    for entry in sorted(path.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield _case_folder(entry)
        elif entry.suffix.lower() in IMAGE_ENDINGS:
            yield Case(frontal=entry, name=entry.name)
        else:
            yield BadCase(
                entry.name, f"{entry.name} is neither an image ({', '.join(IMAGE_ENDINGS)}) nor the folder of a case"
            )


def _case_folder(folder: Path) -> Case | BadCase:
    name = folder.name
    found: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        if file.name.startswith("."):
            continue
        what, ending = file.stem.lower(), file.suffix.lower()
        image = what in ("frontal", "lateral") and ending in IMAGE_ENDINGS
        if not (image or (what in TEXTS and ending == ".txt")):
            return BadCase(
                name,
                f"{name} holds {file.name}; expected frontal and lateral as images, and "
                f"{', '.join(f'{text}.txt' for text in TEXTS)}",
            )
        if what in found:
            return BadCase(name, f"{name} holds {what} twice")
        found[what] = file
    if "frontal" not in found:
        return BadCase(name, f"{name} holds no frontal image")
    try:
        view = load_text(found.get("view"), f"view of {name}")
    except DataError as error:
        return BadCase(name, str(error))
    return Case(
        found["frontal"],
        found.get("lateral"),
        found.get("prior"),
        found.get("indication"),
        found.get("history"),
        None if view is None else view.strip(),
        name=name,
    )
