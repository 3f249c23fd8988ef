"""Many cases: a table with a row each, or a folder (``docs/serving.md`` has the form of both)."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pacer.core.errors import DataError
from pacer.core.hygiene import LONGEST_ID, id_fault, stray_path
from pacer.serving.case import Case
from pacer.serving.sources import load_text, text_or_file
from pacer.tables.table import AS_NAMED, CsvForm, kind_of, open_table

IMAGES = ("frontal", "lateral")
COLUMNS = ("case", *IMAGES, "prior", "indication", "history", "view", "sections")
IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".dcm", ".dicom")
#: What systems leave in folders; names that begin with a point apart.
IGNORED = {"thumbs.db", "desktop.ini"}
TEXTS = ("prior.txt", "indication.txt", "history.txt", "view.txt")


class BadCase(NamedTuple):
    """A case that cannot be used, and why, in one sentence."""

    name: str
    problem: str


def read_cases(path: Path, form: CsvForm = AS_NAMED) -> list[Case | BadCase]:
    """The cases of a table or folder, in its order; names are distinct.

    Args:
        form: how a table is written.

    Raises:
        DataError: there is no case, or the table or folder as a whole cannot be read: the message says where.
    """
    if path.is_dir():
        cases = [_case_of(entry) for entry in _entries(path)]
    elif kind_of(path) == "csv":
        cases = list(_table(path, form))
    else:
        raise DataError(f"{path} is neither a folder nor a table .csv or .tsv")
    if not cases:
        raise DataError(f"{path} holds no case")
    twice = [name for name, count in Counter(case.name for case in cases).items() if count > 1]
    if twice:
        more = f" and of {len(twice) - 1} more" * (len(twice) > 1)
        raise DataError(f"{path} has two cases with the name {twice[0]}{more}; give each its own in a column case")
    return cases


def _unnamed(name: str, fault: str) -> BadCase:
    name = ascii(name[:LONGEST_ID])
    return BadCase(name, f"the case {name} has a name that cannot be used: {fault}; give it another")


def _entries(folder: Path) -> list[Path]:
    """What a person has put into a folder."""
    return [entry for entry in sorted(folder.iterdir()) if entry.name[0] != "." and entry.name.lower() not in IGNORED]


def _table(path: Path, form: CsvForm) -> Iterator[Case | BadCase]:
    table = open_table(path, COLUMNS, form)
    header = [column.strip().lower() for column in table.columns]
    for column in header:
        if column not in COLUMNS:
            close = difflib.get_close_matches(column, COLUMNS, n=1, cutoff=0.0)[0]
            raise DataError(
                f"{path} has an unknown column {column!r:.40}; the closest known one is {close}, all are "
                f"{', '.join(COLUMNS)}"
            )
    if len(set(header)) != len(header):
        raise DataError(f"{path} has a column twice")
    if "frontal" not in header:
        raise DataError(f"{path} has no column frontal")
    for place, cells, empty in table.rows(table.columns):
        if empty:
            continue
        row = dict.fromkeys(COLUMNS) | dict(zip(header, (cell.strip() or None for cell in cells), strict=True))
        name = row.pop("case") or row["frontal"] or place
        if fault := id_fault(name):
            yield _unnamed(name, fault)
            continue
        if row["frontal"] is None:
            yield BadCase(name, f"{name} ({place}) names no frontal image")
            continue
        stray = [f"{view} of {name} ({place}): {why}" for view in IMAGES if (why := stray_path(row[view] or ""))]
        if stray:
            yield BadCase(name, f"{stray[0]} of the table, or link the images there")
            continue
        try:
            prior = text_or_file(row["prior"], f"previous report of {name}", path.parent)
            lateral = None if row["lateral"] is None else path.parent / row["lateral"]
            clinical = (row[column] for column in ("indication", "history", "view", "sections"))
            yield Case(path.parent / row["frontal"], lateral, prior, *clinical, name=name)
        except DataError as error:
            yield BadCase(name, str(error))


def _case_of(entry: Path) -> Case | BadCase:
    """An image, which is a frontal view alone, or a folder with a file for each source."""
    name, found = entry.name, dict[str, Path]()
    if fault := id_fault(name):
        return _unnamed(name, fault)
    if not entry.is_dir():
        if entry.suffix.lower() in IMAGE_ENDINGS:
            return Case(entry, name=name)
        return BadCase(name, f"{name} is neither an image ({', '.join(IMAGE_ENDINGS)}) nor the folder of a case")
    for file in _entries(entry):
        what = file.stem.lower()
        image = what in IMAGES and file.suffix.lower() in IMAGE_ENDINGS
        if not image and file.name.lower() not in TEXTS:
            expected = f"frontal and lateral as images, and {', '.join(TEXTS)}"
            return BadCase(name, f"{name} holds {file.name[:80]!a}; expected {expected}")
        if what in found:
            return BadCase(name, f"{name} holds {what} twice")
        found[what] = file
    if "frontal" not in found:
        return BadCase(name, f"{name} holds no frontal image")
    try:
        view = load_text(found.get("view"), f"view of {name}")
    except DataError as error:
        return BadCase(name, str(error))
    others = (found.get(source) for source in ("lateral", "prior", "indication", "history"))
    return Case(found["frontal"], *others, view=view and view.strip(), name=name)
