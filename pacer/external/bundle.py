"""A scored run in one archive, for the supplement of a paper; ``pacer score --bundle`` computes its numbers again.

A ZIP file whose members are stored as they are, so that its bytes follow from theirs alone:

``bundle.json``     SHA-256 of the other members, whether texts are among them, and the settings of the scores
``cases.jsonl``     ``cases.parquet`` as lines; without texts its columns :data:`~pacer.metrics.cases.LABELS`, labels of
                    controls and numbers of external scorers
``scores.json``, ``signature.json``, ``params.yaml``, ``dvc.lock``     as they were; the last may be missing
"""

from __future__ import annotations

import json
import struct
import zipfile
from contextlib import nullcontext
from io import BytesIO
from math import isclose
from pathlib import Path
from stat import S_ISREG
from typing import Any, NamedTuple

import polars as pl

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import atomic_path, hash_bytes, open_file, parse_lines, write_json
from pacer.core.seal import FILES, SEAL, write_sealed
from pacer.metrics.cases import COLUMNS, LABELS, MEAN, UNKNOWN, control_columns, external_columns, scored_cases
from pacer.metrics.conventions import CONVENTIONS
from pacer.metrics.inputs import DEFAULTS
from pacer.metrics.meteor import Meteor
from pacer.metrics.pairing import check_pairs
from pacer.metrics.scoring import ORIGINALS, numbers_of
from pacer.metrics.signature import flat
from pacer.params import load_params
from pacer.tables.table import shown

_ABOUT, _CASES, _SCORES, _SIGNATURE = "bundle.json", "cases.jsonl", "scores.json", "signature.json"
_PARAMS, _LOCK = "params.yaml", "dvc.lock"
MEMBERS = (_ABOUT, _CASES, _SCORES, _SIGNATURE, _PARAMS, _LOCK)
#: Bytes of an archive at most: it is held in memory.
_LARGEST = 1 << 30
_FORMAT = 1


class Rescored(NamedTuple):
    """``scores`` and ``details`` as they follow from the ``cases`` of an archive. ``equal``: how many of the scores are
    in its ``scores.json`` too, and equal; ``missing``: which of those there it does not allow."""

    scores: dict[str, dict]
    details: dict[str, dict]
    signature: dict[str, Any]
    cases: pl.DataFrame
    equal: int
    missing: list[str]


def write_bundle(run: Path, out: Path, params: Path, lock: Path, *, labels_only: bool = False) -> Rescored:
    """Pack a folder of scores, or one that has them in ``metrics/``, once its numbers are seen to come out again.

    Args:
        params: the parameters that the scores were made with. lock: DVC's lock file, left out where there is none.
        labels_only: without any text of reports.

    Raises:
        DataError: a file is missing or damaged, or the cases do not give the scores. ConfigError: the parameters are of
            other scores.
    """
    folder = run if (run / "cases.parquet").is_file() else run / "metrics"
    score = load_params(params).score
    try:
        cases = pl.read_parquet(folder / "cases.parquet")
        kept = {name: (folder / name).read_bytes() for name in (_SCORES, _SIGNATURE)}
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{folder} holds no scored run ({type(error).__name__}); `pacer score` makes one") from None
    if lacking := [name for name in COLUMNS if name not in cases.columns]:
        raise DataError(f"{folder / 'cases.parquet'} lacks {', '.join(lacking)}; score the run again")
    signature = _object(kept[_SIGNATURE], folder / _SIGNATURE)
    if signature["clinical"]["convention"] != score.convention:
        raise ConfigError(
            f"score.convention is {score.convention} in {params}, {signature['clinical']['convention']} in {folder}; "
            "name the parameters of these scores with --params"
        )
    if labels_only:
        cases = cases.select([*LABELS, *external_columns(cases), *control_columns(cases, "_labels", "_unchanged")])
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in cases.iter_rows(named=True))
    kept = {_CASES: "".join(lines).encode()} | kept | {_PARAMS: params.read_bytes()}
    if lock.is_file():
        kept[_LOCK] = lock.read_bytes()
    about = {
        "bundle": _FORMAT,
        "texts": not labels_only,
        "convention": score.convention,
        "originals": score.originals,
        "max_new_tokens": ((signature.get("predictions") or {}).get("settings") or {}).get("max_new_tokens"),
        "members": {name: hash_bytes(content) for name, content in kept.items()},
    }
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in ({_ABOUT: json.dumps(about, indent=2).encode()} | kept).items():
            member = zipfile.ZipInfo(name)  # dated 1980: nothing of this day and machine is in it
            member.create_system, member.external_attr = 3, 0o100644 << 16
            archive.writestr(member, content)
    found = _rescored(packed.getvalue(), out)
    with atomic_path(out) as temporary:
        temporary.write_bytes(packed.getvalue())
    return found


def score_bundle(path: Path, out: Path) -> Rescored:
    """Compute the scores of an archive from its cases, and write what any folder of scores has into ``out``.

    Raises:
        DataError: it is no such archive or was changed, or its cases do not give its scores.
    """
    try:
        with open_file(path) as file:
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    found = _rescored(content, path)
    with atomic_path(out / "cases.parquet") as temporary:
        found.cases.write_parquet(temporary)
    for name, value in (("details.json", found.details), (_SCORES, found.scores)):
        write_json(out / name, value)
    write_sealed(out / _SIGNATURE, found.signature, [_SCORES, "cases.parquet"])
    return found


def _rescored(content: bytes, path: Path) -> Rescored:
    members = _members(content, path)
    about, given, signature = (_object(members[name], f"{path}, {name}") for name in (_ABOUT, _SCORES, _SIGNATURE))
    hashes = {name: hash_bytes(content) for name, content in members.items() if name != _ABOUT}
    if about.get("bundle") != _FORMAT or about.get("members") != hashes:
        raise DataError(f"{path}: the members are not those of {_ABOUT}: it was changed, or is of another version")
    forms, limit = {name: str(about.get(name)) for name in ("convention", "originals")}, about.get("max_new_tokens")
    if not (forms["convention"] in CONVENTIONS and forms["originals"] in ORIGINALS and isinstance(limit, int | None)):
        raise DataError(f"{path}: {_ABOUT} has a convention, a form of originals or a limit that there is not")
    has_texts = about.get("texts") is True
    try:
        cases = _cases(members[_CASES], f"{path}, {_CASES}", COLUMNS if has_texts else LABELS)
        with Meteor() if has_texts else nullcontext() as meteor:
            scores, details = numbers_of(scored_cases(cases), DEFAULTS.model_copy(update=forms), limit, meteor)
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path}: {_CASES} holds a value that no run gives ({type(error).__name__})") from error
    mine, theirs = flat(scores), flat(given)
    shared = [name for name in mine if name in theirs]
    for name in shared:
        if not _same(mine[name], theirs[name]):
            raise DataError(f"{path}: {name} is {mine[name]} by its cases and {shown(theirs[name])} in its {_SCORES}")
    parts = [name.split(".") for name in theirs if name not in mine]
    missing = dict.fromkeys(part[-1] if part[0] in (*CONTEXTS, UNKNOWN, MEAN) else part[0] for part in parts)
    signature = {key: value for key, value in signature.items() if key not in (SEAL, FILES)}  # of the run's own files
    signature["bundle"] = {"sha256": hash_bytes(content), "texts": has_texts, "missing": [*missing]}
    return Rescored(scores, details, signature, cases, len(shared), [*missing])


def _members(content: bytes, path: Path) -> dict[str, bytes]:
    """The members of an archive; none is ever written to disk under a name that it gives."""
    if len(content) > _LARGEST:
        raise DataError(f"{path} has more than {_LARGEST:,} bytes, and no bundle has")
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            held = archive.infolist()
            for member in held:
                what = f"{path} holds {member.filename[:80]!a}"
                if member.filename not in MEMBERS:
                    raise DataError(f"{what}, which is no part of a bundle; it may hold {', '.join(MEMBERS)}")
                if not S_ISREG(member.external_attr >> 16) or member.compress_type != zipfile.ZIP_STORED:
                    raise DataError(f"{what} as a link, as a folder or compressed; a bundle holds plain files")
            if len({member.filename for member in held}) < len(held) or sum(m.file_size for m in held) > len(content):
                raise DataError(f"{path} holds a member twice, or larger than it is")
            members = {member.filename: archive.read(member) for member in held}
    except (zipfile.BadZipFile, RuntimeError, OSError, EOFError, ValueError, OverflowError, struct.error) as error:
        raise DataError(f"{path} is no archive of `pacer bundle`, or damaged: {error}") from None
    if lacking := [name for name in MEMBERS if name not in members and name != _LOCK]:
        raise DataError(f"{path} lacks {', '.join(lacking)}; pack it again")
    return members


def _object(content: bytes, place: str | Path) -> dict[str, Any]:
    value = next((value for _, value in parse_lines([content], place)), None)
    if not isinstance(value, dict):
        raise DataError(f"{place}: expected an object, got {shown(value)}")
    return value


def _cases(content: bytes, place: str, columns: dict[str, pl.DataType]) -> pl.DataFrame:
    rows = [row for _, row in parse_lines(content.split(b"\n"), place)]
    if not rows or not all(isinstance(row, dict) and row.keys() >= columns.keys() for row in rows):
        raise DataError(f"{place}: expected an object a line with {', '.join(columns)}")
    cases = pl.DataFrame(rows, schema_overrides=columns, infer_schema_length=None, strict=True)
    ids = cases["record_id"].to_list()
    check_pairs(ids, list(dict.fromkeys(ids)), place, place)
    if not (cases["context"].is_in([*CONTEXTS, UNKNOWN]) & cases["record_id"].is_not_null()).all(ignore_nulls=False):
        raise DataError(f"{place}: a record has no id, or none of the contexts {', '.join((*CONTEXTS, UNKNOWN))}")
    return cases


def _same(mine: Any, theirs: Any) -> bool:
    """Two numbers, equal but for what other machines round otherwise; or nothing on both sides."""
    if mine is None or theirs is None:
        return mine is theirs
    return isinstance(theirs, int | float) and isclose(mine, theirs, rel_tol=1e-9, abs_tol=1e-12)
