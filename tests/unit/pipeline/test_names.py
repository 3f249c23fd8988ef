"""A path that a user gives is a name, not a pattern: `exp[1]` is not `exp1`."""

import ast
from pathlib import Path

import polars as pl
import pytest

from pacer.data.schemas import read_table

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = "pacer", "stages", "baselines", "scorers"
CALLS = [
    (file, call)
    for folder in FOLDERS
    for file in sorted((ROOT / folder).rglob("*.py"))
    for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "pl"
]


def test_no_reader_of_polars_takes_a_path_for_a_pattern() -> None:
    readers = [(file, call) for file, call in CALLS if call.func.attr.startswith(("read_", "scan_"))]
    for file, call in readers:
        given, options = ast.unparse(call.args[0]), {option.arg: ast.unparse(option.value) for option in call.keywords}
        fixed = isinstance(call.args[0], ast.Constant) and "*" not in given
        is_name = fixed or given == "file" or options.get("glob") == "False"
        assert is_name, f"{file.relative_to(ROOT)}, line {call.lineno}: pass glob=False, or an opened file"
    assert len(readers) > 7


@pytest.mark.parametrize(
    "name", ["exp[1]", "a*b", "is it?", "{a,b}", "100 %", "#1", "it's", 'in "quotes"', "-out", "größe"]
)
def test_a_table_is_read_from_the_folder_with_this_name(name: str, tmp_path: Path) -> None:
    for folder, number in (("exp1", 1), ("ab", 2), ("a", 3), (name, 4)):
        (tmp_path / folder).mkdir()
        pl.DataFrame({"number": [number]}).write_parquet(tmp_path / folder / "table.parquet")
    found = read_table(tmp_path / name / "table.parquet", {"number": pl.Int64()})
    assert found["number"].to_list() == [4]
