"""Shared by all commands on a terminal: common options, plain lines, tables, and commitments."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from pacer.core.anchor import Anchor
    from pacer.display.tables import Table


console = Console(highlight=False)

PARAMS = Path("params.yaml")
BACKBONES = Path("models/backbones")
#: The records of the pipeline's own corpus.
CORPUS = Path("data/corpus/records.parquet")
#: Remedy for a missing file that a stage of the pipeline writes.
FROM_STAGE = "correct the path, or create it with `dvc repro`"

#: Sign and colour of each polarity.
_POLARITIES = {"positive": ("+", "red"), "uncertain": ("?", "yellow"), "negative": ("-", "blue")}


def check_exists(*paths: Path | None, remedy: str = "correct the path") -> None:
    """Raise a DataError for a missing file or folder, before a command's imports, which take
    seconds."""
    for path in paths:
        if path is not None and not path.exists():
            raise DataError(f"{path} does not exist; {remedy}")


def output_path(out: Path, *, is_file: bool) -> Path:
    """Return where a command writes: ``out``, or what it is a link to. Raises a ConfigError, before
    any work, if it is a device, a pipe or a link to nothing; a folder where the command writes a
    file, or a file where it writes a folder; or below a file."""
    wanted = "file" if is_file else "folder"
    parent = next(folder for folder in out.absolute().parents if folder.exists())
    if out.is_symlink() and not out.exists():
        found = f"a link to {out.readlink()}, which does not exist"
    elif not parent.is_dir():
        found = f"below {parent}, which is a file"
    elif out.is_dir() and is_file:
        found = "a folder"
    elif out.is_file() and not is_file:
        found = "a file"
    elif out.exists() and not (out.is_file() or out.is_dir()):
        found = "a device or a pipe"
    else:
        return out.resolve() if out.is_symlink() else out
    raise ConfigError(f"{out} is {found}; choose a {wanted} for the output")


def named_paths(entries: Iterable[str]) -> dict[str, Path]:
    """Return ``PATH`` or ``NAME=PATH`` by name: by default its last part without suffix, or the
    path if that is taken. Both may contain ``=``: the name ends at the first after which a path
    that exists begins."""
    named: dict[str, Path] = {}
    for entry in entries:
        name, place = _name_and_place(entry)
        path = Path(place)
        if not name:
            last = path.stem if path.is_file() else path.absolute().name
            candidates = (last, place, f"{place} ({len(named) + 1})")
            name = next(candidate for candidate in candidates if candidate not in named)
        elif name in named:
            raise ConfigError(
                f"two systems have the name {name}; pass NAME=PATH with different names"
            )
        named[name] = path
    return named


def _name_and_place(entry: str) -> tuple[str, str]:
    parts = entry.split("=")
    cuts = [("=".join(parts[:at]), "=".join(parts[at:])) for at in range(len(parts))]
    existing = (cut for cut in cuts if Path(cut[1]).exists())
    return next(existing, cuts[min(1, len(cuts) - 1)])


def check_contexts(names: list[str] | None) -> list[str]:
    """Return the contexts that a command names; empty means all. Raises a ConfigError if one is
    unknown."""
    if unknown := [name for name in names or () if name not in CONTEXTS]:
        raise ConfigError(f"--context {unknown[0]}: expected one of {', '.join(CONTEXTS)}")
    return [name for name in CONTEXTS if name in (names or ())]


def echo(line: str | Text = "", style: str = "") -> None:
    """Print a line unchanged: without markup or added line breaks."""
    console.print(line if isinstance(line, Text) else Text(line, style), soft_wrap=True)


def print_rows(rows: Iterable[Iterable[str | Text]]) -> None:
    """Print a table of texts without interpreting markup."""
    grid = Grid(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for row in rows:
        grid.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    console.print(grid)


def import_from_here() -> None:
    """Let Python find modules in the current folder, after all others: if this folder has a package
    `pacer` of its own, the processes that read large tables import the right one."""
    sys.path.append("")


def print_table(table: Table) -> None:
    """Print a result table and its notes; numbers are not truncated in a file either."""
    grid = Grid(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column, right in zip(table.columns, table.numeric, strict=True):
        grid.add_column(
            column, justify="right" if right else "left", overflow="fold"
        )  # nothing is cut off
    for row in table.rows:
        grid.add_row(*row)
    wide = (
        console if console.is_terminal else Console(file=console.file, width=240, highlight=False)
    )
    wide.print(grid)
    for note in table.notes:
        echo(note)


def chips(anchor: Anchor) -> Text:
    """Return a commitment: + present, ? uncertain, - absent."""
    parts = [
        Text(f"{sign} {anchor.text(finding)}", colour)
        for polarity, (sign, colour) in _POLARITIES.items()
        for finding in getattr(anchor, polarity)
    ]
    return Text("   ").join(parts) if parts else Text("none")
