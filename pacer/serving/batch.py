"""Reports for the cases of a table, a JSON line each; a run that was stopped goes on where it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pacer.core.errors import DataError
from pacer.core.hygiene import LONGEST_ID, id_fault, path_outside_root
from pacer.core.journal import Journal, read_journal
from pacer.core.prefetch import prefetch
from pacer.core.progress import Ticker
from pacer.data.tables import kind_of, open_table
from pacer.serving.case import Case
from pacer.serving.reporter import Reporter
from pacer.serving.sources import text_or_file

#: Columns of a table of cases; all but ``frontal`` may be missing.
COLUMNS = ("case", "frontal", "lateral", "prior", "indication", "history", "view", "sections")
#: Threads that read and prepare images ahead.
WORKERS = 2
#: Bad cases that a message lists.
_SHOWN = 20


class BadCase(NamedTuple):
    """A case that cannot be used, and why, in one sentence."""

    name: str
    problem: str


class Summary(NamedTuple):
    """What a run did with ``cases``: ``reports`` written, cases ``kept`` from an earlier run, cases ``skipped``."""

    cases: int
    reports: int
    kept: int
    skipped: tuple[BadCase, ...]


def read_cases(path: Path) -> list[Case | BadCase]:
    """The cases of a table, in its order; names are distinct.

    Raises:
        DataError: the table cannot be read, holds no case, has an unknown column or two cases of one name.
    """
    if kind_of(path) != "csv":
        raise DataError(f"{path} is not a .csv or .tsv table; save it as one")
    table = open_table(path)
    header = [column.strip().lower() for column in table.columns]
    if unknown := [column for column in header if column not in COLUMNS]:
        raise DataError(f"{path} has an unknown column {unknown[0]!r:.40}; expected {', '.join(COLUMNS)}")
    if len(set(header)) != len(header):
        raise DataError(f"{path} has a column twice")
    if "frontal" not in header:
        raise DataError(f"{path} has no column frontal")
    cases = []
    for place, cells in zip(table.places, table.rows, strict=True):
        row = dict.fromkeys(COLUMNS) | {
            name: (cell or "").strip() or None for name, cell in zip(header, cells, strict=True)
        }
        if not any(row.values()):
            continue
        name = row["case"] or row["frontal"] or place
        try:
            cases.append(_case(row, name, place, path.parent))
        except DataError as error:
            cases.append(BadCase(name, str(error)))
    if not cases:
        raise DataError(f"{path} holds no case")
    twice = [name for name, count in Counter(case.name for case in cases).items() if count > 1]
    if twice:
        more = f" and of {len(twice) - 1} more" * (len(twice) > 1)
        raise DataError(f"{path} has two cases with the name {twice[0]}{more}; name each in a column case")
    return cases


def _case(row: Mapping[str, str | None], name: str, place: str, folder: Path) -> Case:
    if fault := id_fault(name):
        raise DataError(f"the case {name[:LONGEST_ID]!a} has a name that cannot be used: {fault}; give it another")
    frontal, lateral = row["frontal"], row["lateral"]
    if frontal is None:
        raise DataError(f"{name} ({place}) names no frontal image")
    for view, image in (("frontal", frontal), ("lateral", lateral or "")):
        if why := path_outside_root(image):
            raise DataError(f"{view} of {name} ({place}): {why} of the table; keep images below it, or link them there")
    return Case(
        folder / frontal,
        None if lateral is None else folder / lateral,
        text_or_file(row["prior"], f"previous report of {name}", folder),
        row["indication"],
        row["history"],
        row["view"],
        row["sections"],
        name=name,
    )


def report_cases(
    reporter: Reporter,
    cases: Sequence[Case | BadCase],
    out: Path,
    *,
    batch_size: int | None = None,
    skip_bad: bool = False,
) -> Summary:
    """Append a line to ``out`` as each report ends: :meth:`pacer.serving.case.Result.as_dict`.

    A case whose name is in ``out`` already is passed over; the line that a kill cut short is written again.

    Args:
        batch_size: cases at a time. skip_bad: leave out the cases that cannot be used; else nothing is reported when
            there is one.

    Raises:
        DataError: cases cannot be used (all are named, with the reason), or ``out`` is not a file of results.
    """
    finished = _finished(out)
    with Journal(out) as journal:
        waiting = [case for case in cases if case.name not in finished]
        usable, bad = list[Case](), list[BadCase]()
        with Ticker("check cases", len(waiting)) as ticker:
            for case in prefetch(lambda case: _checked(reporter, case), waiting, WORKERS):
                if isinstance(case, BadCase):
                    bad.append(case)
                else:
                    usable.append(case)
                ticker.advance()
        if bad and not skip_bad:
            shown = "".join(f"\n  {case.problem}" for case in bad[:_SHOWN])
            more = f"\n  ... and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
            raise DataError(
                f"{len(bad):,} of {len(cases):,} cases cannot be used; fix them, or leave them out with --skip-bad:"
                f"{shown}{more}"
            )
        with Ticker("reports", len(usable)) as ticker:
            for _, result in reporter.stream(prefetch(reporter.prepare, usable, WORKERS), batch_size):
                journal.append(result.as_dict())
                ticker.advance()
    return Summary(len(cases), len(usable), len(cases) - len(waiting), tuple(bad))


def _finished(out: Path) -> set[str]:
    """The names of the cases in a file of results."""
    if out.is_file():
        with open(out, "rb") as file:
            if file.read(1) not in (b"", b"{"):  # appending would cut off its last line
                raise DataError(f"{out} is not a file of results; name another file")
    names = set()
    for number, line in read_journal(out):
        if not isinstance(line, dict) or not isinstance(line.get("case"), str):
            raise DataError(f"{out}, line {number} is no result of this command; name another file")
        names.add(line["case"])
    return names


def _checked(reporter: Reporter, case: Case | BadCase) -> Case | BadCase:
    """A case that can be prepared; it is prepared again when its turn comes, since the images of all would not fit."""
    try:
        if isinstance(case, Case):
            reporter.prepare(case)
    except DataError as error:
        return BadCase(case.name, str(error))
    return case
