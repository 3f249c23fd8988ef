"""Profiles: ``configs/phantom.yaml`` has every key; every other file there has only the values that differ.

It takes the rest from ``phantom``, or from the profile in its key ``extends``.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from pacer.config.params import Params, parse_params
from pacer.config.strict import read_mapping
from pacer.core.errors import ConfigError

#: The complete profile, and the key of an overlay for the profile to start from.
COMPLETE, EXTENDS = "phantom", "extends"


def profile_text(path: str | Path) -> str:
    """The whole of a profile as YAML: the complete profile with the values and comments of its overlays.

    Raises:
        ConfigError: the file, or one that it extends, is missing or is not YAML.
    """
    path = Path(path)
    text = io.StringIO()
    _yaml().dump(_merged(path, ()), text)
    return text.getvalue()


def load_profile(path: str | Path) -> Params:
    """The values of a profile.

    Raises:
        ConfigError: as :func:`profile_text`; or a value is refused.
    """
    return parse_params(YAML(typ="safe").load(profile_text(path)), str(path))


def _yaml() -> YAML:
    """A reader and writer that keeps comments and layout."""
    yaml = YAML()
    yaml.width = 1000  # columns; no line of a profile is folded
    yaml.representer.add_representer(
        type(None), lambda self, _: self.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    return yaml


def _merged(path: Path, extended_by: tuple[str, ...]) -> CommentedMap:
    if path.stem in extended_by:
        raise ConfigError(f"{path}: the profiles {', '.join(extended_by)} extend each other; let one extend {COMPLETE}")
    values = read_mapping(path, _yaml())
    if path.stem == COMPLETE:
        return values
    base = _merged(path.with_stem(values.pop(EXTENDS, COMPLETE)), (*extended_by, path.stem))
    _overlay(base, values)
    base.ca.comment = values.ca.comment  # the comment at the top of the file
    return base


def _overlay(base: CommentedMap, values: CommentedMap) -> None:
    """Put values and the comments beside them into the mapping that they differ from."""
    for key, value in values.items():
        if isinstance(value, CommentedMap) and isinstance(base.get(key), CommentedMap) and base[key]:
            _overlay(base[key], value)
        else:
            base[key] = value
        if comment := _beside(values, key):
            _set_beside(base, key, comment)


def _beside(values: CommentedMap, key: Any) -> str | None:
    """The comment on the line of a key."""
    tokens = values.ca.items.get(key)
    return tokens[2].value.partition("\n")[0] if tokens and tokens[2] else None


def _set_beside(values: CommentedMap, key: Any, comment: str) -> None:
    tokens = values.ca.items.get(key)
    if tokens and tokens[2]:  # the token also holds the empty lines that follow
        tokens[2].value = comment + "".join(tokens[2].value.partition("\n")[1:])
    else:
        values.yaml_add_eol_comment(comment, key)
