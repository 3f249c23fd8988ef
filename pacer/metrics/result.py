"""The three files of a result: ``cases.parquet``, ``scores.json`` and ``signature.json``.

The signature has the run id, a hash of all three, which ``cases.parquet`` carries too, and the hash of the scores. So
equal results are equal files, and a reader refuses files that do not belong together: they are of two runs, one of
which was stopped while it wrote.
"""

import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from pacer.core.errors import DataError
from pacer.core.io import atomic_directory, atomic_path, hash_bytes, hash_json, read_json, write_json
from pacer.metrics.signature import Signature

CASES, SCORES, SIGNATURE = "cases.parquet", "scores.json", "signature.json"
#: Name of the id in the metadata of the cases.
_RUN = "run"


class Result(NamedTuple):
    """The content of ``scores.json``, one row per case, and what the numbers mean."""

    scores: dict[str, Any]
    cases: pl.DataFrame
    signature: Signature


def with_run_id(result: Result) -> Result:
    """Return the result with its id and the hash of its scores in the signature."""
    rows, signature = hash_bytes(result.cases.write_ipc(None).getvalue()), replace(result.signature, run=None)
    signature = replace(signature, scores_hash=hash_json(result.scores))
    return result._replace(signature=replace(signature, run=hash_json([rows, signature.content()])[:16]))


def write_result(out: Path, result: Result) -> None:
    """Write the files of a result with an id. A folder that holds nothing else is replaced in one step; in any other
    one the signature is written last."""
    with atomic_directory(out) if _is_for_results(out) else nullcontext(out) as folder:
        with atomic_path(folder / CASES) as temporary:
            result.cases.write_parquet(temporary, metadata={_RUN: result.signature.run or ""})
        write_json(folder / SCORES, result.scores)
        write_json(folder / SIGNATURE, result.signature.content())


def _is_for_results(out: Path) -> bool:
    """Return whether a folder can be replaced: nothing else is in it, and it can be renamed."""
    if out.is_symlink() or os.path.ismount(out) or out.resolve() == Path.cwd():
        return False
    names = {path.name for path in out.iterdir()} if out.exists() else set()
    beside = next(parent for parent in out.absolute().parents if parent.exists())
    return names <= {CASES, SCORES, SIGNATURE} and os.access(beside, os.W_OK)


def read_result(folder: str | Path, *, with_scores: bool = True) -> Result:
    """Read the files of a folder of scores, or of one that has them in ``metrics/``.

    Args:
        with_scores: False: ``scores.json`` may be missing, as in a study's folders.

    Raises:
        DataError: there are none, they are damaged, or they are of different runs.
    """
    folder = Path(folder)
    inside = folder if (folder / CASES).is_file() else folder / "metrics"
    path = inside / CASES
    if not path.is_file():
        raise DataError(f"{folder} has no {CASES}; pass a folder written by `pacer score` or the `score` stage")
    try:
        with open(path, "rb") as file:
            cases, run = pl.read_parquet(file), pl.read_parquet_metadata(file).get(_RUN)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path} is damaged ({type(error).__name__}); score the run again") from None
    has_scores = with_scores or (inside / SCORES).is_file()
    scores, signature = read_scores(inside) if has_scores else ({}, Signature.read(inside / SIGNATURE))
    if run != signature.run:
        raise _unlike(inside, CASES)
    return Result(scores, cases, signature)


def read_scores(folder: Path) -> tuple[dict[str, Any], Signature]:
    """Read ``scores.json`` and ``signature.json``; raises a :class:`~pacer.core.errors.DataError` as
    :func:`read_result`."""
    return scores_of(folder, *(read_json(folder / name) for name in (SCORES, SIGNATURE)))


def scores_of(place: Any, scores: dict[str, Any], signature: dict[str, Any]) -> tuple[dict[str, Any], Signature]:
    """Return the same from the content of the two files at a ``place``."""
    signed = Signature.of(signature)
    if signed.scores_hash not in (None, hash_json(scores)):  # versions without an id wrote none
        raise _unlike(place, SCORES)
    return scores, signed


def _unlike(place: Any, name: str) -> DataError:
    return DataError(
        f"{place}: {name} and {SIGNATURE} come from different runs, or one of the files was changed; "
        "score again, or run `dvc checkout`"
    )
