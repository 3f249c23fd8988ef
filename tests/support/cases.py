"""Cases that lie as data beside a test: `x.yaml` beside `test_x.py` has a list, or a mapping by
name, for each kind.

A failing case is called by its kind and its line in that file; a case added there runs without a
change of code.
"""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.nodes import SequenceNode


@cache
def _read(path: Path) -> dict[str, list[tuple[str, Any]]]:
    """The cases of each kind, each with kind and line; the names of a mapping, which say what its
    cases are, go."""
    yaml, read = YAML(typ="safe", pure=True), {}
    tree = yaml.compose(path.read_text(encoding="utf-8"))
    loaded = yaml.constructor.construct_document(tree)
    for (kind, values), (_, node) in zip(loaded.items(), tree.value, strict=True):
        nodes = node.value if isinstance(node, SequenceNode) else [key for key, _ in node.value]
        names = [f"{kind}, {path.name} line {one.start_mark.line + 1}" for one in nodes]
        assert names, f"{path} has no case of the kind {kind}"
        read[kind] = list(
            zip(names, values if isinstance(values, list) else values.values(), strict=True)
        )
    return read


def _beside(test: str) -> Path:
    return Path(test).with_name(Path(test).stem.removeprefix("test_") + ".yaml")


def cases(test: str, *kinds: str) -> pytest.MarkDecorator:
    """Run a test, with the arguments ``kind`` and ``case``, on the cases of some kinds, or of all.

    Args:
        test: ``__file__`` of the test.
    """
    listed = [
        (kind, name, case)
        for kind in kinds or _read(_beside(test))
        for name, case in _read(_beside(test))[kind]
    ]
    return pytest.mark.parametrize(
        ("kind", "case"), [pytest.param(kind, case, id=name) for kind, name, case in listed]
    )


def listed_cases(test: str, kind: str) -> list[Any]:
    """The cases of a kind for ``pytest.mark.parametrize``: one argument for each item of a case
    that is a list, else the case itself.

    Args:
        test: ``__file__`` of the test.
    """
    return [
        pytest.param(*(case if isinstance(case, list) else [case]), id=name)
        for name, case in _read(_beside(test))[kind]
    ]
