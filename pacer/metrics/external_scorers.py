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
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pacer.core.errors import DataError, PacerError
from pacer.core.io import hash_json, read_json, read_jsonl, scratch_directory, write_jsonl
from pacer.core.journal import Journal, read_journal
from pacer.core.progress import Ticker

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
    known, last = _kept(journal)
    left = [number for number, key in enumerate(keys) if key not in known]
    called = False
    if not left:
        print(f"scorer {name}: all answers are kept in {journal}, nothing is asked", file=sys.stderr)
    with Ticker(f"scorer {name}", len(pairs), done=len(pairs) - len(left)) as ticker:
        while left:
            batch = left[:BATCH]
            answers, said = _call(command, [pairs[n] for n in batch], scratch, folder / f"{name}.log", minutes)
            if last not in (None, said):
                if called:
                    raise DataError("its about.json, or the names of its values, change from one call to the next")
                # another version: its numbers do not stand beside those of the one before
                journal.unlink()
                known, left = {}, list(range(len(pairs)))
                ticker.advance(-ticker.done)
            last, called = said, True
            with Journal(journal) as lines:
                for number in batch:
                    known[keys[number]] = answers[pairs[number].record_id]
                    lines.append({"key": keys[number], "about": said.about, "values": known[keys[number]]})
            left = [number for number in left if keys[number] not in known]
            ticker.advance(len(batch))
    assert last is not None  # there are pairs, and each has its answer
    return ExternalScores({name: [known[key][name] for key in keys] for name in last.names}, last.about)


class _Said(NamedTuple):
    """What a scorer says of itself, and how it calls its values."""

    about: dict[str, Any]
    names: list[str]


def _kept(journal: Path) -> tuple[dict[str, Values], _Said | None]:
    """The answers that are there, by key, and what the scorer said of itself with the last of them."""
    known, last = {}, None
    for number, line in read_journal(journal):
        try:
            known[line["key"]] = dict(line["values"])
            last = _Said(line["about"], sorted(line["values"]))
        except (KeyError, TypeError, ValueError):
            raise DataError(f"{journal}, line {number} is no answer of a scorer; remove the file") from None
    return known, last


def _call(
    command: str, pairs: Sequence[Pair], scratch: Path, log: Path, minutes: float
) -> tuple[dict[str, Values], _Said]:
    """The answers by record, and what the scorer says of itself."""
    # of its own: a call that outlived a killed run may still write into another one
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        out = _start(command, pairs, Path(folder), log, minutes)
        return _answers(out, [pair.record_id for pair in pairs])


def _start(command: str, pairs: Sequence[Pair], folder: Path, log: Path, minutes: float) -> Path:
    """Run the command to its end; returns the folder of its answers."""
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
    return out


def _answers(out: Path, ids: Sequence[str]) -> tuple[dict[str, Values], _Said]:
    """What the command wrote, of exactly these records. Nothing of it is quoted: it may be text of a report."""
    about = read_json(out / "about.json")
    if not isinstance(about, dict) or not {"name", "version"} <= about.keys():
        raise DataError("its about.json must be an object with name and version")
    found: dict[str, Values] = {}
    rows = read_jsonl(out / "scores.jsonl")
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("record_id"), str) or len(row) < 2:
            raise DataError("every line of its scores.jsonl must be an object with a record_id and one number or more")
        record_id = row.pop("record_id")
        found[record_id] = {name: _number(value) for name, value in row.items()}
    missing, extra = [key for key in ids if key not in found], found.keys() - set(ids)
    if missing or extra or len(rows) != len(ids):
        raise DataError(
            f"its scores.jsonl has {len(rows)} lines for {len(ids)} records; {len(extra)} are of other ids, and "
            f"{len(missing)} records have none{': ' * bool(missing)}{', '.join(missing[:3])}"
        )
    names = sorted(found[ids[0]])
    if not all(map(_NAME.fullmatch, names)):
        raise DataError("names of values have letters, digits, '_', '-' and '.', 40 at most")
    for key in ids:
        if sorted(found[key]) != names:
            raise DataError(f"{key} has values of other names than {ids[0]}")
        if bad := [name for name in names if not math.isfinite(found[key][name])]:
            raise DataError(f"{bad[0]} of {key} is no finite number")
    return found, _Said(about, names)


def _number(value: Any) -> float:
    """NaN for what is no number."""
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.nan
