"""Any sequence of `dvc exp run -S KEY=VALUE` leaves a parameter file that can be read."""

import shutil
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import pytest
from dvc.utils.hydra import apply_overrides
from pydantic import BaseModel
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from pacer.config import Params, load_params
from pacer.core.io import parse_yaml
from tests.support.profiles import CONFIGS, yaml_of

PROFILES = sorted(path.stem for path in CONFIGS.glob("*.yaml"))
#: Other values of the lists, each valid beside those of the default profile.
VALUES = {
    "corpus.contexts": "[sn,mn]",
    "features.depths": "[6,12]",
    "commit.attributes": "[side]",
    "lora.targets": "[q_proj,v_proj]",
    "parent.contexts": "[sn]",
    "decode.controls": "[no_prior]",
    "score.metrics": "[mine]",
}


def lists(model: type[BaseModel] = Params, above: str = "") -> Iterator[str]:
    """The keys whose type is a list, or a list and null."""
    for name, field in model.model_fields.items():
        parts = [field.annotation]
        if get_origin(field.annotation) in (Union, types.UnionType):
            parts = list(get_args(field.annotation))
        for part in (get_args(one)[0] if hasattr(one, "__metadata__") else one for one in parts):
            if get_origin(part) is list:
                yield above + name
            elif isinstance(part, type) and issubclass(part, BaseModel):
                yield from lists(part, f"{above}{name}.")


def scalars() -> dict[str, Any]:
    """The first number of each group of the default profile."""
    groups = parse_yaml(yaml_of("phantom")).items()
    numbers = (
        (f"{group}.{key}", value)
        for group, values in groups
        for key, value in reversed(values.items())
        if type(value) in (int, float)
    )
    return {key.partition(".")[0]: (key, value) for key, value in numbers}


def value_of(parameters: dict[str, Any], key: str) -> Any:
    for part in key.split("."):
        parameters = parameters[part]
    return parameters


@pytest.mark.parametrize("name", PROFILES)
def test_no_comment_stands_behind_a_list(name: str) -> None:
    """DVC 3.67 writes `KEY: [a]  # words` in block style with the words behind the key; of a second
    override, `KEY=[]`, it then joins the brackets to the next key."""
    tree = YAML().load(yaml_of(name))
    for key in lists():
        group, _, last = key.rpartition(".")
        owner: CommentedMap = value_of(tree, group)
        token = owner.ca.items.get(last, [None] * 4)[2]
        assert token is None or token.value.startswith("\n"), f"{key} has a comment behind it"


def test_each_list_has_another_value_here() -> None:
    assert set(VALUES) == set(lists())


def test_any_list_can_be_emptied_after_any_override(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    shutil.copy(CONFIGS / "phantom.yaml", path)
    given = {key: value for key, value in scalars().values()}
    assert len(given) > 12
    for key, number in given.items():
        apply_overrides(path, [f"{key}={number}"])
    assert load_params(path) == load_params(CONFIGS / "phantom.yaml")
    for key, values in VALUES.items():
        for value in (values, "[]", values):
            apply_overrides(path, [f"{key}={value}"])
            read = parse_yaml(path.read_text(encoding="utf-8"))
            assert value_of(read, key) == parse_yaml(value)
    assert load_params(path).decode.controls == ["no_prior"]
    assert "# paper: q_proj, v_proj" in path.read_text(encoding="utf-8")
