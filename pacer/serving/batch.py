"""Reading a table of cases, and writing a report for each case to a file of JSON lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pacer.core.errors import DataError
from pacer.core.io import (
    Journal,
    hash_bytes,
    hash_json,
    read_journal,
    remove_scratch,
    scratch_directory,
    write_jsonl,
)
from pacer.core.progress import Ticker
from pacer.serving.case import Case, Prepared
from pacer.tables.files import open_table
from pacer.tables.hygiene import EMPTY_CELL, LONGEST_ID, id_fault, name_on_disk

if TYPE_CHECKING:
    from pacer.serving.reporter import Reporter  # imports torch; a wrong table is refused before

_OTHERS = ("prior", "indication", "history", "view", "sections", "commitment")
#: Columns of a table of cases; all but ``frontal`` may be missing.
COLUMNS = ("case", "frontal", "lateral", *_OTHERS)
#: Maximum number of unusable cases that a message lists.
_SHOWN = 20


def read_cases(path: Path) -> list[Case]:
    """Read the cases of a table in order, with distinct names. Image paths are relative to the
    table's folder. Raises a DataError if the table cannot be read, has no case, an unknown or
    missing column, or two cases with the same name; or a case has no frontal image or a name that
    cannot be shown. The message lists the first of these."""
    table = open_table(path)
    # the inputs of a probe are cases
    columns = [re.sub(r"^probe_id$", "case", column.strip().lower()) for column in table.columns]
    unknown = [column for column in columns if column not in COLUMNS]
    if unknown:
        raise DataError(
            f"{path} has an unknown column {unknown[0]!r:.40}; expected {', '.join(COLUMNS)}"
        )
    if "frontal" not in columns:
        raise DataError(f"{path} has no column `frontal`")
    cases: list[Case] = []
    problems: list[str] = []
    for place, values in zip(table.places, table.frame(table.columns).iter_rows(), strict=True):
        row = dict.fromkeys(COLUMNS) | {
            name: value.strip()
            for name, value in zip(columns, values, strict=True)
            if value is not None and not re.search(EMPTY_CELL, value)
        }
        if not any(row.values()):
            continue
        name = row["case"] or row["frontal"] or place
        if fault := id_fault(name):
            problems.append(
                f"case {name[:LONGEST_ID]!a}: this name cannot be used: {fault}; choose a "
                "different one"
            )
        elif row["frontal"] is None:
            problems.append(f"{name} ({place}) has no frontal image")
        else:
            lateral = _file(row["lateral"], path) if row["lateral"] else None
            others = {column: row[column] for column in _OTHERS}
            cases.append(Case(_file(row["frontal"], path), lateral, **others, name=name))
    _refuse(problems, len(cases) + len(problems))
    if not cases:
        raise DataError(f"{path} contains no cases")
    names = Counter(case.name for case in cases)
    repeated = [name for name, count in names.items() if count > 1]
    if repeated:
        raise DataError(
            f"{path} has two cases named {repeated[0]}; give each a unique name in the column "
            "`case`"
        )
    return cases


def _file(name: str, table: Path) -> Path:
    return table.parent / name_on_disk(name, table.parent)


def report_cases(reporter: Reporter, cases: Sequence[Case], out: Path) -> int:
    """Write a line for each case to ``out``, in their order, with
    :meth:`pacer.serving.case.Result.as_dict`.

    Every case is prepared before the first report is generated, so that errors show at once, and
    again when its report is generated, because the images of all cases would not fit into memory.
    Finished lines are kept beside ``out`` until all are finished: after a stop, the same call
    continues. Cases whose images or texts have changed since then are repeated.

    Returns:
        Number of reports that were truncated at the token limit.

    Raises:
        DataError: cases cannot be used (the message lists the first, with reasons).
        PacerError: another process writes ``out``.
    """
    keys: list[str] = []
    problems: list[str] = []
    with Ticker("check cases", len(cases)) as ticker:
        for case in cases:
            try:
                keys.append(_key(reporter.prepare(case)))
            except DataError as error:
                problems.append(str(error))
            ticker.advance()
    _refuse(problems, len(cases))
    with scratch_directory(out, reporter.fingerprint) as directory:
        path = directory / "lines.jsonl"
        lines = {row["key"]: row["line"] for _, row in read_journal(path)}
        todo = [(key, case) for key, case in zip(keys, cases, strict=True) if key not in lines]
        with (
            Journal(path) as journal,
            Ticker("reports", len(cases), len(cases) - len(todo)) as ticker,
        ):
            for place, result in reporter.stream([case for _, case in todo]):
                key = todo[place][0]
                lines[key] = result.as_dict()
                journal.append({"key": key, "line": lines[key]})
                ticker.advance()
        write_jsonl(out, [lines[key] for key in keys])
    remove_scratch(out)
    return sum(lines[key]["truncated"] for key in keys)


def _key(case: Prepared) -> str:
    """Return a hash of the name of a case and of everything that determines its report, besides the
    model."""
    images = [
        None if image is None else hash_bytes(image.numpy().tobytes())
        for image in (case.frontal, case.lateral)
    ]
    texts = (
        case.name,
        case.prior,
        case.indication,
        case.history,
        case.view,
        case.sections,
        case.notes,
    )
    return hash_json([*images, *texts, case.commitment and case.commitment.as_dict()])


def _refuse(problems: Sequence[str], cases: int) -> None:
    """Raise an error that lists the problems of the cases, if there are any."""
    if problems:
        listed = "".join(f"\n  {problem}" for problem in problems[:_SHOWN])
        more = f"\n  ... and {len(problems) - _SHOWN:,} more" if len(problems) > _SHOWN else ""
        raise DataError(
            f"{len(problems):,} of {cases:,} cases cannot be used; correct or remove "
            f"them:{listed}{more}"
        )
