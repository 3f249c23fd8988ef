"""Profiles: ``configs/phantom.yaml`` has every key; other parameter files may have only the values that differ.

The key ``extends`` of such a file names the profile that it modifies.
"""

import io
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from pacer.config.params import Params, parse_params
from pacer.config.strict import read_mapping
from pacer.core.errors import ConfigError

#: Folder of the profiles, and the key with which a file names the profile that it extends.
CONFIGS, EXTENDS = Path("configs"), "extends"
#: Profiles that an installed package has outside a clone: `share/` beside `lib/pythonX.Y/site-packages/`.
INSTALLED = Path(__file__).parent / "../../../../../share/pacer/configs"
#: Keys of mappings whose entries the user names.
USER_NAMES = ("columns",)


def names_in(folder: Path, what: str) -> list[str]:
    """Return the names of the YAML files in ``folder``, sorted. Raises a ConfigError if there are none, for example
    because the command runs outside the repository."""
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    if not names:
        raise ConfigError(f"{folder.resolve()} contains no {what}; run the command from the root of the repository")
    return names


def profile_text(path: str | Path) -> str:
    """Return a complete parameter file as YAML: the profile that it extends, with its own values and comments. Raises a
    ConfigError if the file, or one that it extends, is missing or is not YAML."""
    yaml, text = YAML(), io.StringIO()
    yaml.width = 1000  # columns; no line of a profile is folded
    yaml.representer.add_representer(
        type(None), lambda self, _: self.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    yaml.dump(_merged(Path(path), yaml), text)
    return text.getvalue()


def load_profile(path: str | Path) -> Params:
    """Read and validate a parameter file, complete or not. Raises a ConfigError as :func:`profile_text` does, or if a
    value is not valid."""
    return parse_params(YAML(typ="safe").load(profile_text(path)), str(path))


def _merged(path: Path, yaml: YAML, extending: tuple[Path, ...] = ()) -> CommentedMap:
    """Return the values of a file and of those that it extends; it was reached from the files ``extending``."""
    values = read_mapping(path, yaml)
    if EXTENDS not in values:
        return values
    if path.name == "params.yaml":
        raise ConfigError(f"{path} cannot use `extends`, because DVC reads it; create it with `pacer use NAME`")
    name = str(values.pop(EXTENDS)).removesuffix(".yaml")
    places = [path.parent / f"{name}.yaml", CONFIGS / f"{name}.yaml"]
    base = next((file for file in (*places, INSTALLED / f"{name}.yaml") if file.exists() and file != path), None)
    if base is None:
        looked = " or ".join(dict.fromkeys(str(file.resolve()) for file in places if file != path))
        raise ConfigError(
            f"{path}: extends {name!r}, but there is no {looked}; choose one that `pacer use` lists, and run the "
            "command from the root of the repository"
        )
    if base in extending:
        raise ConfigError(f"circular `extends`: {path} and {name} extend each other; change one of them")
    merged = _merged(base, yaml, (*extending, path))
    _overlay(merged, values)
    merged.ca.comment = values.ca.comment  # the comment at the top of the file
    return merged


def _overlay(base: CommentedMap, values: CommentedMap) -> None:
    """Overwrite entries of ``base`` with ``values`` and their end-of-line comments.

    A mapping whose entries the user names replaces the profile's, which is an example. A model from another place keeps
    nothing of the old place, such as its revision.
    """
    if any(key in base and values.get(key, base[key]) != base[key] for key in ("provider", "id", "path")):
        for key in ("id", "revision", "path"):
            base.pop(key, None)
    for key, value in values.items():
        merges = key not in USER_NAMES and isinstance(value, CommentedMap)
        if merges and isinstance(base.get(key), CommentedMap) and base[key]:
            _overlay(base[key], value)
        else:
            base[key] = value
        ours, theirs = (mapping.ca.items.get(key, [None] * 4)[2] for mapping in (base, values))
        comment = theirs.value.partition("\n")[0] if theirs else ""
        if comment and ours:  # the token also holds the empty lines that follow
            ours.value = comment + "".join(ours.value.partition("\n")[1:])
        elif comment:
            base.yaml_add_eol_comment(comment, key)
