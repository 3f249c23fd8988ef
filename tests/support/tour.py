"""Runs the cells of a notebook and writes what they show into it, in the folder of a finished run.

python tests/support/tour.py docs/tour.ipynb
"""

import ast
import base64
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any


def shown(value: Any) -> dict[str, str]:
    """A value in the forms in which notebooks keep it."""
    if hasattr(value, "_repr_png_"):
        return {
            "image/png": base64.b64encode(value._repr_png_()).decode(),
            "text/plain": type(value).__name__,
        }
    html = {"text/html": value._repr_html_()} if hasattr(value, "_repr_html_") else {}
    return html | {"text/plain": repr(value)}


def run_cell(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """What a cell prints, and the value of its last line if that is an expression."""
    tree, printed, value = ast.parse(source), io.StringIO(), None
    with redirect_stdout(printed):
        for statement in tree.body:
            if statement is tree.body[-1] and isinstance(statement, ast.Expr):
                value = eval(compile(ast.Expression(statement.value), "<cell>", "eval"), names)
            else:
                exec(compile(ast.Module([statement], []), "<cell>", "exec"), names)
    return printed.getvalue(), value


def run_notebook(path: Path) -> None:
    notebook, names = json.loads(path.read_text(encoding="utf-8")), {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, start=1):
        printed, value = run_cell("".join(cell["source"]), names)
        result = {"output_type": "execute_result", "execution_count": number, "metadata": {}}
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": printed}] * bool(
            printed
        )
        cell["outputs"] += [result | {"data": shown(value)}] * (value is not None)
        cell["execution_count"] = number
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_notebook(Path(sys.argv[1]).resolve())
