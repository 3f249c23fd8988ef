"""A result: scores, the cases and findings that they were computed from, and the signature, which
defines every number. It reads and writes itself.

The files of a folder are ``scores.json``, ``cases.parquet``, ``findings.parquet``,
``signature.json`` and, with a labeller, ``conventions.json``. The run id is a hash of cases, scores
and signature; it is in the signature and in both tables. The signature also has the hash of the
scores. So equal results are equal files, and a reader refuses files of two runs, one of which was
stopped while it wrote.
"""

import hashlib
import os
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Self

import polars as pl

from pacer.core.errors import DataError
from pacer.core.io import (
    atomic_directory,
    atomic_path,
    hash_json,
    read_json,
    write_json,
)
from pacer.metrics.cases import is_labelled
from pacer.metrics.clinical import conventions_of
from pacer.metrics.options import DEFAULTS
from pacer.metrics.score_kinds import Numbers
from pacer.metrics.signature import Signature

CASES, FINDINGS = "cases.parquet", "findings.parquet"
SCORES_FILE, SIGNATURE_FILE = "scores.json", "signature.json"
#: Averages of the labels by every convention. It is written for users; readers make it from cases.
CONVENTIONS_FILE = "conventions.json"
#: Name of the id in the metadata of the tables.
_RUN = "run"


@dataclass(frozen=True, repr=False)
class Result:
    """The result of scoring one system. ``scores``: context (``all`` unless the references name the
    four) or ``mean`` -> score -> number; ``controls`` and ``truth`` may be further keys. ``cases``:
    one row per case. ``signature``: what each number means and was computed from. ``ledger``: the
    findings, which take several times the memory of the cases once they are collected."""

    scores: dict[str, dict[str, Any]]
    cases: pl.DataFrame
    signature: Signature
    ledger: pl.LazyFrame

    @classmethod
    def signed(
        cls,
        scores: dict[str, Any],
        cases: pl.DataFrame,
        signature: Signature,
        ledger: pl.LazyFrame,
    ) -> Self:
        """Return a result with its id and the hash of its scores in the signature."""
        with TemporaryFile() as file:  # in memory it would need as much again as the cases
            cases.write_ipc(file)
            file.seek(0)
            rows = hashlib.file_digest(file, "sha256").hexdigest()
        signature = replace(signature, run=None, scores_hash=hash_json(scores))
        run = hash_json([rows, signature.content()])[:16]
        return cls(scores, cases, replace(signature, run=run), ledger)

    @classmethod
    def read(cls, folder: str | Path, *, whole: bool = True) -> Self:
        """Read the files of a folder of scores, or of one that has them in ``metrics/``. If not
        ``whole``, there are no findings, and ``scores.json`` may be missing, as in the folders
        of a table of experiments. Raises a DataError if files are missing, damaged or of different
        runs."""
        folder = Path(folder)
        if folder.is_file():
            raise DataError(f"{folder} is a file of a scored run; pass the folder that it is in")
        inside = folder if (folder / CASES).is_file() else folder / "metrics"
        cases, run_of_cases = _read_table(inside / CASES, folder)
        has_scores = whole or (inside / SCORES_FILE).is_file()
        scores, signature = (
            read_scores(inside) if has_scores else ({}, Signature.read(inside / SIGNATURE_FILE))
        )
        findings, run_of_findings = (
            _read_table(inside / FINDINGS, folder) if whole else (pl.DataFrame(), run_of_cases)
        )
        for name, run in ((CASES, run_of_cases), (FINDINGS, run_of_findings)):
            if run != signature.run:
                raise _unlike(inside, name)
        # version 0.4 also wrote whether the rules may have misread a finding
        return cls(scores, cases, signature, findings.lazy().drop("doubtful", strict=False))

    def write(self, out: Path) -> None:
        """Write the files. A folder that has only these is replaced in one step; in any other, the
        signature is written last."""
        metadata = {_RUN: self.signature.run or ""}
        with atomic_directory(out) if _is_for_results(out) else nullcontext(out) as folder:
            for name, table in ((FINDINGS, self.ledger), (CASES, self.cases.lazy())):
                with atomic_path(folder / name) as temporary:
                    table.sink_parquet(temporary, metadata=metadata)
            write_json(folder / SCORES_FILE, self.scores)
            if self.conventions:
                write_json(folder / CONVENTIONS_FILE, self.conventions)
            else:
                (folder / CONVENTIONS_FILE).unlink(missing_ok=True)
            write_json(folder / SIGNATURE_FILE, self.signature.content())

    @cached_property
    def findings(self) -> pl.DataFrame:
        """One row per finding that the reference or the report of a case states, with the verdict
        on it (:mod:`pacer.metrics.ledger`)."""
        return self.ledger.collect()

    @cached_property
    def conventions(self) -> dict[str, dict[str, Numbers]]:
        """Every average of the labels: convention -> context, or ``mean`` -> average; empty without
        a labeller."""
        return conventions_of(self.cases) if is_labelled(self.cases) else {}

    @property
    def convention(self) -> str:
        """The convention of F1; the default without a labeller."""
        return self.signature.convention or DEFAULTS.convention


def read_scores(folder: Path) -> tuple[dict[str, Any], Signature]:
    """Read ``scores.json`` and ``signature.json``; raises a DataError as :meth:`Result.read`."""
    scores, signature = read_json(folder / SCORES_FILE), Signature.read(folder / SIGNATURE_FILE)
    if signature.scores_hash not in (None, hash_json(scores)):  # versions without an id wrote none
        raise _unlike(folder, SCORES_FILE)
    return scores, signature


def _read_table(path: Path, given: Path) -> tuple[pl.DataFrame, str | None]:
    """Return a table of the folder that was ``given``, and the run that it is of."""
    if not path.is_file():
        raise DataError(
            f"{given} has no {path.name}; pass a folder written by `pacer score` or the `score` "
            "stage of this version"
        )
    try:
        with open(path, "rb") as file:
            return pl.read_parquet(file).rechunk(), pl.read_parquet_metadata(file).get(_RUN)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(
            f"{path} is damaged ({type(error).__name__}); score the run again"
        ) from None


def _is_for_results(out: Path) -> bool:
    """Return whether a folder can be replaced: nothing else is in it, and it can be renamed."""
    if out.is_symlink() or os.path.ismount(out) or out.resolve() == Path.cwd():
        return False
    names = {path.name for path in out.iterdir()} if out.exists() else set()
    parent_folder = next(parent for parent in out.absolute().parents if parent.exists())
    known = {CASES, FINDINGS, SCORES_FILE, CONVENTIONS_FILE, SIGNATURE_FILE}
    return names <= known and os.access(parent_folder, os.W_OK)


def _unlike(place: Path, name: str) -> DataError:
    return DataError(
        f"{place}: {name} and {SIGNATURE_FILE} come from different runs, or one of the files was "
        "changed; score again, or run `dvc checkout`"
    )
