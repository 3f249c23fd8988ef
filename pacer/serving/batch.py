"""Reports for many cases into one file, a JSON object a line; a run that was stopped goes on where it was."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from pacer.core.contexts import CONTEXTS, Context, context_of
from pacer.core.errors import DataError
from pacer.core.io import check_output, hash_bytes, hash_file, hash_json, locked, write_json, write_jsonl
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

#: Result lines by case and context.
Lines = dict[tuple[str, str], dict[str, Any]]


class Summary(NamedTuple):
    """What a run did with ``cases``: ``reports`` made, of which ``renewed`` because the case or the model has changed
    since an earlier run; ``kept`` from that; cases ``skipped``."""

    cases: int
    reports: int
    kept: int
    renewed: int
    skipped: tuple[BadCase, ...]


class _Task(NamedTuple):
    """A case, what its reports depend on, and the contexts in which a report is missing."""

    case: Case
    key: str
    missing: tuple[Context, ...]


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
        DataError: cases cannot be used (all are named, with the reason); or ``out`` is not a file of results, or holds
            those of other cases. PacerError: another process writes to ``out``.
    """
    with _own(out):
        earlier = _lines(out, {case.name for case in cases})
        fingerprint, tasks, bad = reporter.fingerprint, [], []
        with Ticker("check cases", len(cases)) as ticker:
            for found in prefetch(
                lambda case: _checked(reporter, fingerprint, case, earlier, all_contexts), cases, WORKERS
            ):
                (bad if isinstance(found, BadCase) else tasks).append(found)
                ticker.advance()
        if bad and not skip_bad:
            shown = "".join(f"\n  {case.problem}" for case in bad[:_SHOWN])
            more = f"\n  ... and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
            raise DataError(
                f"{len(bad):,} of {len(cases):,} cases cannot be used; mend them, or leave them out with --skip-bad:"
                f"{shown}{more}"
            )
        made = _report(reporter, tasks, out, batch_size)
        keys = {task.case.name: task.key for task in tasks}
        kept = {place: line for place, line in earlier.items() if keys.get(place[0]) == line["key"]}
        lines = kept | made
        write_jsonl(out, [lines[name, context] for name in keys for context in CONTEXTS if (name, context) in lines])
        about = {
            "model": fingerprint,
            "directory": str(reporter.directory),
            "device": str(reporter.device),
            "dtype": str(reporter.dtype),
            "search": reporter.settings.search.model_dump(),
            "cases": len(cases),
            "reports": len(lines),
            "skipped": [case._asdict() for case in bad],
        }
        write_json(f"{out}.about.json", about)
    return Summary(len(cases), len(made), len(kept), len(earlier.keys() & made.keys()), tuple(bad))


@contextmanager
def _own(out: Path) -> Generator[None]:
    """Keep other processes from the file; the system lets go of it when this one ends, however it ends."""
    check_output(out, folder=False)
    existed = out.exists()
    with locked(out, f"{out} is in use by another process; wait for it or name another file"):
        try:
            yield
        finally:
            if not existed and not out.stat().st_size:  # nothing was done
                out.unlink()


def _lines(out: Path, names: set[str]) -> Lines:
    """The results of an earlier run."""
    found = {}
    with open(out, "rb") as file:
        if file.read(1) not in (b"", b"{"):
            raise DataError(f"{out} is not a file of results; name another file")
    for number, line in read_journal(out):
        if not isinstance(line, dict) or not all(isinstance(line.get(key), str) for key in ("case", "context", "key")):
            raise DataError(f"{out}, line {number} is no result of this command; name another file")
        if line["case"] not in names:
            raise DataError(
                f"{out} holds the result of {line['case']}, which is not among the cases; name another file"
            )
        found[line["case"], line["context"]] = line
    return found


def _checked(
    reporter: Reporter, fingerprint: str, case: Case | BadCase, earlier: Lines, all_contexts: bool
) -> _Task | BadCase:
    """What is to be reported of a case, or why it cannot be; one whose results are all there is not prepared again."""
    if isinstance(case, BadCase):
        return case
    try:
        sources = {"previous report": case.prior, "indication": case.indication, "history": case.history}
        texts = [load_text(source, f"{what} of {case.name}") for what, source in sources.items()]
        images = [_hash(case.frontal), _hash(case.lateral)]
        context = context_of(case.lateral is not None, texts[0] is not None)
        contexts = reporter.contexts_of(context) if all_contexts else (context,)
        key = hash_json([fingerprint, images, texts, case.view, case.sections])
        missing = tuple(c for c in contexts if earlier.get((case.name, c), {}).get("key") != key)
        if missing:
            reporter.prepare(case)
    except DataError as error:
        return BadCase(case.name, str(error))
    return _Task(case, key, missing)


def _hash(image: Any) -> str | None:
    """Of a file, or of its bytes; None where there is none, or none that can be read: preparing the case says why.

    Raises:
        DataError: an image in memory, which no later run could know again.
    """
    if isinstance(image, bytes):
        return hash_bytes(image)
    if image is not None and not isinstance(image, str | PathLike):
        raise DataError(f"an image of many cases must be a path or the bytes of a file, got {type(image).__name__}")
    try:
        return None if image is None else hash_file(os.fspath(image))
    except (OSError, ValueError):
        return None


def _report(reporter: Reporter, tasks: Sequence[_Task], out: Path, batch_size: int | None) -> Lines:
    """Generate what is missing and append it; returns the new lines."""
    opened, keys = [task for task in tasks if task.missing], list[str]()

    def units() -> Iterator[Prepared]:
        for task, case in zip(opened, prefetch(lambda task: reporter.prepare(task.case), opened, WORKERS), strict=True):
            for context in task.missing:
                keys.append(task.key)
                yield case.in_context(context)

    made: Lines = {}
    with Ticker("reports", sum(len(task.missing) for task in opened)) as ticker, Journal(out) as journal:
        for count, (number, result) in enumerate(reporter.stream(units(), batch_size), start=1):
            line = {"key": keys[number]} | result.as_dict()
            made[result.name, result.context] = line
            journal.append(line, durable=count % (batch_size or reporter.batch_size) == 0)
            ticker.advance()
    return made
