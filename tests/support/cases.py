"""Cases that lie as data beside a test: a YAML file of kinds, each with a list of cases."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.nodes import SequenceNode


@cache
def _read(path: Path) -> dict[str, list[tuple[int, dict[str, Any]]]]:
    """The cases of each kind, with the line of the file on which each begins."""
    yaml, text = YAML(typ="safe", pure=True), path.read_text(encoding="utf-8")
    lines = {
        kind.value: [case.start_mark.line + 1 for case in listed.value] for kind, listed in yaml.compose(text).value
    }
    return {kind: list(zip(lines[kind], listed, strict=True)) for kind, listed in yaml.load(text).items()}


def cases(test: str, *kinds: str) -> pytest.MarkDecorator:
    """Run a test, with the arguments ``kind`` and ``case``, on the cases of some kinds, or of all.

    Args:
        test: the file of the test, ``test_views.py``; its cases are in ``views.yaml`` beside it.
    """
    path = Path(test).with_name(Path(test).stem.removeprefix("test_") + ".yaml")
    listed = [(kind, line, case) for kind in kinds or _read(path) for line, case in _read(path)[kind]]
    return pytest.mark.parametrize(
        ("kind", "case"),
        [pytest.param(kind, case, id=f"{kind}, {path.name} line {line}") for kind, line, case in listed],
    )


def listed_cases(test: str, kind: str) -> list[Any]:
    """The cases of a kind for ``pytest.mark.parametrize``: one argument for each item of a case that is a list, else
    the case itself. In a mapping the case's name is left out; it says what the case is.

    Args:
        test: ``__file__`` of the test.
    """
    path = Path(test).with_suffix(".yaml")
    yaml = YAML(typ="safe", pure=True)
    root = yaml.compose(path)
    node = next(value for key, value in root.value if key.value == kind)
    nodes = (
        [(n.start_mark.line, n) for n in node.value]
        if isinstance(node, SequenceNode)
        else [(key.start_mark.line, value) for key, value in node.value]
    )
    constructor = SafeConstructor(loader=yaml)
    params = []
    for line, one in nodes:
        value = constructor.construct_object(one, deep=True)
        params.append(
            pytest.param(*(value if isinstance(value, list) else [value]), id=f"{kind}, {path.name}:{line + 1}")
        )
    assert params, f"{path} has no case of the kind {kind}"
    return params
