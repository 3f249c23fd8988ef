"""Cases of a test as data: `test_x.yaml` beside `test_x.py` has a list or a mapping of cases for each kind.

A failing case is called by its kind and its line in that file; a case added there runs without a change of code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.nodes import SequenceNode


def cases(test: str, kind: str) -> list[Any]:
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
