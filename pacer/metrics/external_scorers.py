"""Scorers that live in environments of their own: commands that are given two texts a record and answer in numbers.

A command is called as ``COMMAND --references R.jsonl --hypotheses H.jsonl --out DIR``; both files hold a line
``{"record_id", "text"}`` for each record, in the same order. It writes ``DIR/scores.jsonl`` (a line for each record:
``record_id`` and one or more numbers by name) and ``DIR/about.json`` (``name``, ``version``, and what else decides its
numbers, such as hashes of weights). It is called for one batch of records after the other, and every answer is kept in
a journal beside the scores, so that neither a run that was stopped nor another one asks for anything twice.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pacer.core.errors import DataError, PacerError
from pacer.core.io import hash_json, read_json, read_jsonl, scratch_directory, write_jsonl
from pacer.core.journal import Journal, read_journal
from pacer.core.progress import Ticker
from pacer.metrics.pairing import check_pairs

#: Records of one call; as many are done again after a kill.
BATCH = 256
#: What values may be called: their names become those of columns and scores.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")

Values = dict[str, float]


class Pair(NamedTuple):
    """A record to be scored."""

    record_id: str
    reference: str
    hypothesis: str


@dataclass(frozen=True)
class ExternalScores:
    """``values``: name -> number of each record, in their order. ``about``: what the scorer says of itself. ``failed``:
    why there are no values, in a sentence."""

    values: Mapping[str, Sequence[float]] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    failed: str | None = None


def run_scorer(name: str, command: str, pairs: Sequence[Pair], folder: Path, minutes: float) -> ExternalScores:
    """Have ``pairs`` scored by a command.

    Args:
        folder: ``NAME.jsonl`` keeps the answers there, ``NAME.log`` what the command prints. minutes: for one call.

    Returns:
        Its scores, or why it failed: it cannot be started, ends in an error, takes too long, or answers for other
        records or with anything but numbers. That raises nothing, so that other scores are not lost by it.
    """
    try:
        with scratch_directory(folder / name, "calls") as scratch:
            found = _scored(name, command, pairs, folder, scratch, minutes)
            shutil.rmtree(scratch.parent)
        return found
    except (PacerError, OSError) as error:
        return ExternalScores(failed=f"scorer {name}: {error}")


def _scored(
    name: str, command: str, pairs: Sequence[Pair], folder: Path, scratch: Path, minutes: float
) -> ExternalScores:
    journal = folder / f"{name}.jsonl"
    keys = [hash_json([command, *pair]) for pair in pairs]
    about, known = _kept(journal)
    left = [number for number, key in enumerate(keys) if key not in known]
    called = False
    with Ticker(f"scorer {name}", len(pairs), done=len(pairs) - len(left)) as ticker:
        while left:
            batch = left[:BATCH]
            answers, said = _call(command, [pairs[n] for n in batch], scratch, folder / f"{name}.log", minutes)
            if about not in (None, said):
                if called:
                    raise DataError("its about.json is another one in every call; it must say what decides the numbers")
                # another version: its numbers do not stand beside those of the one before
                journal.unlink()
                known, batch, left = {}, batch, list(range(len(pairs)))
                ticker.advance(-ticker.done)
            about, called = said, True
            with Journal(journal) as lines:
                for number in batch:
                    known[keys[number]] = answers[pairs[number].record_id]
                    lines.append({"key": keys[number], "about": about, "values": known[keys[number]]})
            left = [number for number in left if keys[number] not in known]
            ticker.advance(len(batch))
    rows = [known[key] for key in keys]
    for pair, row in zip(pairs, rows, strict=True):
        if row.keys() != rows[0].keys():
            raise DataError(
                f"{pair.record_id} has the values {', '.join(row)}, {pairs[0].record_id} {', '.join(rows[0])}"
            )
    return ExternalScores({value: [row[value] for row in rows] for value in rows[0]}, about or {})


def _kept(journal: Path) -> tuple[Any, dict[str, Values]]:
    """What the scorer said of itself when it was called last, and its answers by key."""
    about, known = None, {}
    for number, line in read_journal(journal):
        try:
            about, known[line["key"]] = line["about"], dict(line["values"])
        except (KeyError, TypeError, ValueError):
            raise DataError(f"{journal}, line {number} is no answer of a scorer; remove the file") from None
    return about, known


def _call(
    command: str, pairs: Sequence[Pair], scratch: Path, log: Path, minutes: float
) -> tuple[dict[str, Values], Any]:
    """The answers by record, and what the scorer says of itself."""
    folder = Path(tempfile.mkdtemp(dir=scratch))  # a call that outlived a killed run writes into another one
    files = [folder / "references.jsonl", folder / "hypotheses.jsonl"]
    for file, side in zip(files, ("reference", "hypothesis"), strict=True):
        write_jsonl(file, [{"record_id": pair.record_id, "text": getattr(pair, side)} for pair in pairs])
    out = folder / "out"
    out.mkdir()
    words = [*shlex.split(command), "--references", str(files[0]), "--hypotheses", str(files[1]), "--out", str(out)]
    with open(log, "ab") as said:
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            raise PacerError(f"{words[0]} cannot be started: {error.strerror}") from None
        try:
            status = process.wait(minutes * 60)
        except subprocess.TimeoutExpired:
            raise PacerError(
                f"no answer on {len(pairs)} records within {minutes:g} minutes (score.external_minutes); what it "
                f"printed is in {log}"
            ) from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if status:
        ended = f"it ended with status {status}" if status > 0 else f"signal {-status} ended it"
        raise PacerError(f"{ended}; what it printed is in {log}")
    about = read_json(out / "about.json")
    if not isinstance(about, dict) or not {"name", "version"} <= about.keys():
        raise DataError("its about.json must be an object with name and version")
    rows = read_jsonl(out / "scores.jsonl")
    for row in rows:
        _check(row)
    ids = [pair.record_id for pair in pairs]
    check_pairs(ids, [row["record_id"] for row in rows], "the references", "its scores.jsonl")
    shutil.rmtree(folder)
    return {row.pop("record_id"): {name: float(value) for name, value in row.items()} for row in rows}, about


def _check(row: Any) -> None:
    if not isinstance(row, dict) or not isinstance(row.get("record_id"), str) or len(row) < 2:
        raise DataError("every line of its scores.jsonl must be an object with a record_id and one number or more")
    for name, value in row.items():
        if name == "record_id":
            continue
        if not _NAME.fullmatch(name):
            raise DataError(f"a value is called {name[:50]!r}; expected letters, digits, '_', '-' and '.', 40 at most")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise DataError(f"{name} of {row['record_id']} is no finite number")
