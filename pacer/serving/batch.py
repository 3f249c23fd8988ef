"""Reports for many cases into one file, a JSON object a line; a run that was stopped goes on where it was."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from pacer.core.contexts import CONTEXTS, Context, context_of
from pacer.core.errors import DataError, PacerError
from pacer.core.io import hash_bytes, hash_file, hash_json, write_json, write_jsonl
from pacer.core.journal import Journal, read_journal
from pacer.core.progress import Ticker
from pacer.parallel.prefetch import prefetch
from pacer.serving.case import Case, Prepared
from pacer.serving.case_files import BadCase
from pacer.serving.reporter import Reporter
from pacer.serving.sources import load_text

#: Threads that read and prepare images ahead.
WORKERS = 2
#: Bad cases that a message lists.
_SHOWN = 20


@dataclass(frozen=True)
class Summary:
    """What a run did: ``reports`` made, of which ``renewed`` because the case or the model has changed since an earlier
    run; ``kept`` from that; cases ``skipped``."""

    reports: int
    kept: int
    renewed: int
    skipped: tuple[BadCase, ...]


@dataclass(frozen=True)
class _Todo:
    """A case, what its reports depend on, and the contexts in which it is reported."""

    case: Case
    key: str
    contexts: tuple[Context, ...]


def report_cases(
    reporter: Reporter,
    cases: Sequence[Case | BadCase],
    out: Path,
    *,
    all_contexts: bool = False,
    batch_size: int | None = None,
    skip_bad: bool = False,
) -> Summary:
    """Write a line for every case, in their order, into ``out``, and what was done into ``<out>.about.json``.

    A line is :meth:`pacer.serving.case.Result.as_dict` and ``key``, the hash of all that it follows from. Lines are
    appended as reports end; at the end the file is put in order. A later run with the same file keeps the lines whose
    key is right.

    Args:
        all_contexts: a line for each context that the sources of a case allow. batch_size: cases at a time.
        skip_bad: leave out the cases that cannot be used; else nothing is done when there is one.

    Raises:
        DataError: cases cannot be used (all are named, with the reason); or ``out`` is no file of results, or holds
            those of other cases. PacerError: another process writes to ``out``.
    """
    names = {case.name for case in cases}
    with _own(out):
        earlier = _lines(out, names)
        todo, bad = _checked(reporter, cases, earlier, all_contexts)
        if bad and not skip_bad:
            shown = "; ".join(case.problem for case in bad[:_SHOWN])
            more = f"; and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
            raise DataError(
                f"{len(bad):,} of {len(cases):,} cases cannot be used: {shown}{more}. Mend them, or leave "
                "them out with --skip-bad"
            )
        keys = {task.case.name: task.key for task in todo}
        kept = {place: line for place, line in earlier.items() if keys.get(place[0]) == line["key"]}
        made = _report(reporter, todo, kept, out, batch_size)
        lines = kept | made
        write_jsonl(out, [lines[name, context] for name in keys for context in CONTEXTS if (name, context) in lines])
        write_json(
            f"{out}.about.json",
            {
                "model": reporter.fingerprint,
                "directory": str(reporter.directory),
                "device": str(reporter.device),
                "dtype": str(reporter.dtype),
                "search": reporter.settings.search.model_dump(),
                "cases": len(cases),
                "reports": len(lines),
                "skipped": [case._asdict() for case in bad],
            },
        )
    return Summary(len(made), len(kept), len(earlier.keys() & made.keys()), tuple(bad))


@contextmanager
def _own(out: Path) -> Generator[None]:
    """Keep other processes from the file; the system lets go of it when this one ends, however it ends."""
    if out.is_dir():
        raise DataError(f"{out} is a folder; name a file for the results, such as reports.jsonl")
    existed = out.exists()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.touch()
    except OSError as error:
        raise DataError(f"{out} cannot be written: {error.strerror}; name another file") from None
    with open(out, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PacerError(f"{out} is in use by another process; wait for it or name another file") from None
        try:
            yield
        finally:
            if not existed and not out.stat().st_size:  # nothing was done
                out.unlink()


def _lines(out: Path, names: set[str]) -> dict[tuple[str, str], dict[str, Any]]:
    """The results of an earlier run by case and context."""
    found = {}
    with open(out, "rb") as file:
        if file.read(1) not in (b"", b"{"):
            raise DataError(f"{out} is no file of results; name another file")
    for number, line in read_journal(out):
        if not isinstance(line, dict) or not {"case", "context", "key"} <= line.keys():
            raise DataError(f"{out}, line {number} is no result of this command; name another file")
        if line["case"] not in names:
            raise DataError(
                f"{out} holds the result of {line['case']}, which is not among the cases; name another file"
            )
        found[line["case"], line["context"]] = line
    return found


def _checked(
    reporter: Reporter,
    cases: Sequence[Case | BadCase],
    earlier: dict[tuple[str, str], dict[str, Any]],
    all_contexts: bool,
) -> tuple[list[_Todo], list[BadCase]]:
    """What is to be reported, and the cases that cannot be; a case whose results are there is not opened again."""

    def look(case: Case | BadCase) -> _Todo | BadCase:
        if isinstance(case, BadCase):
            return case
        try:
            task = _task(reporter, case, all_contexts)
            if any(earlier.get((case.name, context), {}).get("key") != task.key for context in task.contexts):
                reporter.prepare(case)
        except DataError as error:
            return BadCase(case.name, str(error))
        return task

    todo, bad = [], []
    with Ticker("check cases", len(cases)) as ticker:
        for found in prefetch(look, cases, WORKERS):
            (bad if isinstance(found, BadCase) else todo).append(found)
            ticker.advance()
    return todo, bad


def _task(reporter: Reporter, case: Case, all_contexts: bool) -> _Todo:
    texts = [
        load_text(source, f"{what} of {case.name}")
        for what, source in (
            ("previous report", case.prior),
            ("indication", case.indication),
            ("history", case.history),
        )
    ]
    images = [
        _image_hash(source, f"{what} of {case.name}")
        for what, source in (("frontal", case.frontal), ("lateral", case.lateral))
    ]
    own = context_of(case.lateral is not None, texts[0] is not None)
    contexts = (own,)
    if all_contexts:
        contexts = tuple(c for c in reporter.contexts if c[0] in ("s", own[0]) and c[1] in ("n", own[1]))
    return _Todo(case, hash_json([reporter.fingerprint, images, texts, case.view, case.sections]), contexts)


def _image_hash(source: Any, name: str) -> str | None:
    if isinstance(source, str | PathLike):
        try:
            return hash_file(os.fspath(source))
        except (OSError, ValueError):
            return None  # the case is bad, and preparing it says why
    if isinstance(source, bytes):
        return hash_bytes(source)
    if source is None:
        return None
    raise DataError(f"image {name}: expected a path or the bytes of a file, got {type(source).__name__}")


def _report(
    reporter: Reporter,
    todo: Sequence[_Todo],
    kept: dict[tuple[str, str], dict[str, Any]],
    out: Path,
    batch_size: int | None,
) -> dict[tuple[str, str], dict[str, Any]]:
    """Generate what is missing and append it; returns the new lines."""
    wanted = [(task.case.name, context) for task in todo for context in task.contexts]
    missing = set(wanted) - kept.keys()
    open_tasks = [task for task in todo if any((task.case.name, context) in missing for context in task.contexts)]
    order: list[tuple[str, Context, str]] = []

    def units() -> Iterator[Prepared]:
        prepared = prefetch(lambda task: reporter.prepare(task.case), open_tasks, WORKERS)
        for task, case in zip(open_tasks, prepared, strict=True):
            for context in task.contexts:
                if (case.name, context) in missing:
                    order.append((case.name, context, task.key))
                    yield case.in_context(context)

    made: dict[tuple[str, str], dict[str, Any]] = {}
    with Ticker("reports", len(wanted), done=len(wanted) - len(missing)) as ticker, Journal(out) as journal:
        for count, (number, result) in enumerate(reporter.stream(units(), batch_size), start=1):
            name, context, key = order[number]
            made[name, context] = line = {"key": key} | result.as_dict()
            journal.append(line, durable=count % (batch_size or reporter.batch_size) == 0)
            ticker.advance()
    return made
