"""The polars lines that mend a table, by name: messages, the audit and pages print them.

Each runs with every version of polars that pyproject.toml allows; ``tests/support/mending.py`` has
an odd but valid input for each.
"""

import re
from pathlib import Path
from typing import Any

from pacer.core.io import yaml_beside

_LINES: dict[str, str] = yaml_beside(__file__, "mending.yaml")
NAMES = tuple(_LINES)
#: End of the name of a mended table, without its suffix; from the second time on with a number.
_MENDED = re.compile(r"\.mended(?:-(\d+))?$")
#: Functions of polars for other suffixes than ``.csv`` and ``.tsv``, with their arguments.
_READERS = {
    ".parquet": "read_parquet({path!r})",
    ".jsonl": "read_ndjson({path!r}, infer_schema_length=None)",
    ".ndjson": "read_ndjson({path!r}, infer_schema_length=None)",
    ".json": "read_json({path!r}, infer_schema_length=None)",
    # all as text, because polars cannot read a column that has dates and texts
    ".xlsx": "read_excel({path!r}, engine='openpyxl', infer_schema_length=0)",
    ".xlsm": "read_excel({path!r}, engine='openpyxl', infer_schema_length=0)",
}


def mending_line(name: str, path: str | Path = "table.csv", **values: Any) -> str:
    """Return the line ``name``, which mends the table ``path``.

    Args:
        values: ``column`` and what else the line needs; ``read``, the call that reads the table
            (by default that of :func:`reading`); ``out``, the file that it writes (by default
            :func:`mended_path`); and ``stem``, the first part of the names of pictures.
    """
    out = mended_path(path)
    stem = _MENDED.sub("", Path(out).stem)
    defaults = {"read": reading(path), "out": out, "stem": stem, "path": str(path)}
    read = values.get("read", defaults["read"])
    defaults["source"] = read.replace(repr(str(path)), repr(f"source{Path(path).suffix}"))
    return _LINES[name].format(**defaults | values).rstrip()


def mended_path(path: str | Path) -> str:
    """Return the name of the file that a line writes: ``t.csv`` becomes ``t.mended.parquet``, and
    that ``t.mended-2.parquet``. In a pattern for several files, whose rows are written to one file,
    the wildcards are left out."""
    path = Path(path)
    stem = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    stem = "".join(sign for sign in stem if sign not in "*?[]") or "table"
    before = _MENDED.search(stem)
    times = f"-{int(before[1] or 1) + 1}" if before else ""
    return str(path.with_name(f"{_MENDED.sub('', stem)}.mended{times}.parquet"))


def reading(
    path: str | Path,
    separator: str = "",
    encoding: str = "utf-8",
    sheet: str | None = None,
    skip_lines: int = 0,
) -> str:
    """Return the call of polars that reads a table with every cell as it is written.

    Args:
        separator, encoding, skip_lines: of a CSV file; by default a comma, or a tab in ``.tsv``.
        sheet: of a workbook; None: the first.
    """
    name = Path(path).name.lower().removesuffix(".gz")
    suffix = Path(name).suffix
    if suffix in _READERS:
        call = _READERS[suffix].format(path=str(path))
        return f"pl.{call[:-1]}, sheet_name={sheet!r})" if sheet else f"pl.{call}"
    separator = separator or ("\t" if suffix == ".tsv" else ",")
    arguments = [repr(str(path))]
    arguments += [f"separator={separator!r}"] * (separator != ",")
    arguments += [f"encoding={encoding!r}"] * (encoding.lower() not in ("utf-8", "utf8"))
    arguments += [f"skip_lines={skip_lines}"] * bool(skip_lines)
    return f"pl.read_csv({', '.join(arguments)}, infer_schema=False)"
