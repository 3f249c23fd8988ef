"""How many planted faults do the tests find?

    python bench/mutants.py OUT [--root CLONE] [--count 60] [--seed 0] [--kinds sign bound]    OUT: a line per fault

A fault is one change of a fixed kind at a place in ``pacer/`` that is drawn by seed: first a package, then a kind that
it has, then the place. The unit tests of the package run on it, then its integration tests (of ``config`` those of
``cli``); it is found if one fails or runs for more than five minutes. Work in a clean clone, since its files are
changed and restored. A stopped run continues. About half a minute on one core for each fault.
"""

import ast
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from measuring import options_of

SECONDS = 300
KINDS = ("sign", "bound", "mask", "join", "order", "swallowed record", "seed")
SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]]
SWAPPED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile", "quick")


def changes(node: ast.AST) -> Iterator[tuple[str, ast.expr, str]]:
    """Yield kind, the node that is replaced, and the text that replaces it."""
    match node:
        case ast.BinOp(left, ast.Add() | ast.Sub() as op, right) if not isinstance(left, ast.Constant | ast.JoinedStr):
            other = ast.Sub() if isinstance(op, ast.Add) else ast.Add()
            yield "sign", node, ast.unparse(ast.BinOp(left, other, right))
        case ast.Compare(left, [ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() as op], [right]):
            other = SWAPPED[type(op)]()
            yield "bound", node, ast.unparse(ast.Compare(left, [other], [right]))
        case ast.UnaryOp(ast.Invert() | ast.Not(), operand):
            yield "mask", node, f"({ast.unparse(operand)})"
        case ast.BinOp(left, ast.BitAnd(), right):
            yield "mask", node, f"({ast.unparse(ast.BinOp(left, ast.BitOr(), right))})"
        case ast.Call(ast.Attribute(_, "default_rng" | "manual_seed"), [value]) if not isinstance(value, ast.Constant):
            yield "seed", value, "0"
        case ast.Call(ast.Name("sorted"), [values]):
            yield "order", node, f"list({ast.unparse(values)})"
        case ast.keyword("how", ast.Constant(how) as value):
            yield "join", value, '"inner"' if how != "inner" else '"left"'
        case ast.For(iter=values) | ast.comprehension(iter=values):
            yield "swallowed record", values, f"list({ast.unparse(values)})[1:]"


def places(root: Path, kinds: Sequence[str]) -> dict[str, dict[str, list[tuple[Path, ast.expr, str]]]]:
    """Return the possible faults by package and kind."""
    found: dict[str, dict[str, list[tuple[Path, ast.expr, str]]]] = {}
    for path in sorted((root / "pacer").glob("*/**/*.py")):
        package = path.relative_to(root / "pacer").parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for kind, replaced, text in changes(node):
                if kind in kinds:
                    found.setdefault(package, {}).setdefault(kind, []).append((path, replaced, text))
    return found


def planted(text: str, node: ast.expr, new: str) -> str:
    """Return the text of a module with a node replaced."""
    lines = text.encode().splitlines(keepends=True)
    before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    end = node.end_lineno or node.lineno
    after = lines[end - 1][node.end_col_offset :] + b"".join(lines[end:])
    return (before + new.encode() + after).decode()


def verdict(root: Path, package: str) -> str:
    """Return how the tests of a package end: found, survives, or time."""
    tested = "cli" if package == "config" else package
    for kind in ("unit", "integration"):
        if (root / "tests" / kind / tested).is_dir():
            command = [sys.executable, "-m", "pytest", f"tests/{kind}/{tested}", *OPTIONS]
            try:
                environment = os.environ | {"PYTHONPATH": str(root.resolve()), "PYTHONDONTWRITEBYTECODE": "1"}
                ended = subprocess.run(command, cwd=root, env=environment, capture_output=True, timeout=SECONDS)
            except subprocess.TimeoutExpired:
                return "time"
            if ended.returncode not in (0, 5):
                return "found"
    return "survives"


def main() -> None:
    number = {"type": int}
    options = options_of(
        __doc__,
        ("out", {"type": Path}),
        ("--root", {"type": Path, "default": Path()}),
        ("--count", number | {"default": 60}),
        ("--seed", number | {"default": 0}),
        ("--kinds", {"nargs": "*", "choices": KINDS, "default": KINDS}),
    )
    done = options.out.read_text().splitlines() if options.out.exists() else []
    draw, possible, lines = random.Random(options.seed), places(options.root, options.kinds), list[str](done)
    for number_of in range(options.count):
        package = draw.choice(sorted(possible))
        kind = draw.choice(sorted(possible[package]))
        path, node, text = draw.choice(possible[package][kind])
        if number_of < len(done):
            continue
        original = path.read_text(encoding="utf-8")
        try:
            path.write_text(planted(original, node, text), encoding="utf-8")
            ended = verdict(options.root, package)
        finally:
            path.write_text(original, encoding="utf-8")
        place = f"{path.relative_to(options.root)}:{node.lineno}"
        lines.append(json.dumps({"place": place, "kind": kind, "change": text[:120], "verdict": ended}))
        options.out.write_text("\n".join(lines) + "\n")
        print(number_of + 1, lines[-1], flush=True)
    print(Counter(json.loads(line)["verdict"] for line in lines))


if __name__ == "__main__":
    main()
