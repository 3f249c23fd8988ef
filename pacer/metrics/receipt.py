"""A receipt of a scored run: what a third party needs to compare another system with it, and no report text.

Ids and texts are keyed hashes (HMAC-SHA256), so they can be paired only with the salt, which the owner of the
references keeps. Labels, findings and row scores stand as they are.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.errors import ConfigError, DataError
from pacer.core.io import read_json, write_text
from pacer.metrics.cases import BLEU_ROWS, COLUMNS
from pacer.metrics.nlg import bleu_statistics
from pacer.metrics.signature import Signature

#: Columns that become keyed hashes.
_HIDDEN = ("record_id", "study_id", "subject_id", "reference", "hypothesis")
#: Fewest characters of a salt, below which ids could be guessed.
_SHORTEST = 16


def read_salt(path: str | Path) -> bytes:
    """Return the salt in a file; raises a :class:`~pacer.core.errors.ConfigError` if it is missing or too short."""
    key = Path(path).read_bytes().strip() if Path(path).is_file() else b""
    if len(key) < _SHORTEST:
        raise ConfigError(
            f"--salt {path}: expected a file with at least {_SHORTEST} random characters, kept secret; make one with "
            "openssl rand -hex 32"
        )
    return key


def hidden(cases: pl.DataFrame, salt: str | Path) -> pl.DataFrame:
    """Return cases with hashes in the place of ids and texts, and with BLEU's statistics, which need the texts; raises
    as :func:`read_salt`."""
    key = read_salt(salt)

    def hashed(text: str | None) -> str | None:
        return None if text is None else hmac.new(key, text.encode(), hashlib.sha256).hexdigest()

    rows = bleu_statistics(cases["reference"].to_list(), cases["hypothesis"].to_list())
    columns = [pl.Series(name, map(hashed, cases[name]), pl.String) for name in _HIDDEN if name in cases.columns]
    return cases.with_columns(*columns, pl.Series(BLEU_ROWS, rows.tolist()))


def write_receipt(cases: pl.DataFrame, signature: Signature, salt: Path, out: Path) -> None:
    """Write the receipt of a scored run; raises as :func:`read_salt`."""
    table = hidden(cases, salt)
    kept = [name for name in (*COLUMNS, BLEU_ROWS, *signature.score_columns) if name in table.columns]
    rows = table.select(kept).drop("findings_original", strict=False).to_dicts()
    write_text(out, json.dumps({"signature": signature.content(), "cases": rows}) + "\n")


def read_receipt(path: Path) -> tuple[pl.DataFrame, Signature]:
    """Return the cases and the signature of a receipt; raises a :class:`~pacer.core.errors.DataError` if it is none."""
    content: Any = read_json(path)
    if not isinstance(content, dict) or set(content) != {"signature", "cases"} or not content["cases"]:
        raise DataError(f"{path} is no receipt; `pacer score --receipt` writes one")
    rows = content["cases"]
    known = {name: kind for name, kind in COLUMNS.items() if name in rows[0]}
    return pl.DataFrame(rows, schema_overrides=known, infer_schema_length=None), Signature.of(content["signature"])
