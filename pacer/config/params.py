"""The whole of ``params.yaml``, which is validated before any work starts, and the profiles that it
is written from.

``configs/phantom.yaml`` has every key; other parameter files may have only the values that differ.
The key ``extends`` of such a file names the profile that it modifies.
"""

import io
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from pydantic import model_validator
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from pacer.config.backbones import Backbones, Features
from pacer.config.corpus import Anchors, Corpus, Emphasis
from pacer.config.decode import Decode, ScoreSettings
from pacer.config.model import Commit, Interface, Lora, Prompt, Refine, Trajectory
from pacer.config.strict import Strict, read_mapping, read_params, validated
from pacer.config.training import Batches, Calibrate, Parent, Schedule, Train
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import parse_yaml

#: Folder of the profiles.
CONFIGS = Path("configs")
#: Key with which a file names the profile that it extends.
EXTENDS = "extends"
#: Profiles that an installed package has outside a clone: `share/` beside
#: `lib/pythonX.Y/site-packages/`, or beside the package (`pip install --target`).
INSTALLED = [
    Path(__file__).parent / above / "share/pacer/configs" for above in ("../../../../..", "../..")
]
#: Keys of mappings whose entries the user names.
USER_NAMES = ("columns",)


class Params(Strict):
    """The whole of ``params.yaml``, with the checks across groups."""

    corpus: Corpus
    backbones: Backbones
    features: Features
    anchors: Anchors
    emphasis: Emphasis
    prompt: Prompt
    trajectory: Trajectory
    commit: Commit
    refine: Refine
    interface: Interface
    lora: Lora
    train: Train
    batches: Batches
    warmup: Schedule
    parent: Parent
    calibrate: Calibrate
    decode: Decode
    score: ScoreSettings

    @model_validator(mode="after")
    def _across(self) -> Self:
        if self.decode.split == "all":
            raise ValueError(
                "decode.split = 'all' is only for `pacer decode`; the pipeline decodes test or val"
            )
        listed = self.decode.commitment == "read" or "gold_list" in self.decode.controls
        if listed and self.commit.route == "direct":
            raise ValueError(
                "decode.commitment = 'read' and the control gold_list need a model that is trained "
                "to write from a commitment, but commit.route = 'direct' trains none; set "
                "decode.commitment: generated, and leave gold_list out of decode.controls"
            )
        if "sn" not in self.corpus.contexts:
            raise ValueError("corpus.contexts must contain sn, on which the warm-up trains")
        others = set(self.parent.contexts or ()) - set(self.corpus.contexts)
        if others:
            raise ValueError(
                f"parent.contexts has {', '.join(sorted(others))}, but corpus.contexts does not"
            )
        return self


def load_params(path: str | Path = "params.yaml") -> Params:
    """Read and validate a complete parameter file, as :func:`~pacer.config.strict.read_params`
    does."""
    return read_params(path, Params)


def check_splits(contexts: Mapping[str, Mapping[str, Mapping[str, Any]]], params: Params) -> None:
    """Raise a DataError, before features are computed, if a split that a later stage needs has no
    record; ``contexts`` has the counts by context and split, as in the corpus's audit."""
    present = {
        (context, split)
        for context, splits in contexts.items()
        for split, counts in splits.items()
        if counts["records"]
    }
    needed = [("train", "the phases train on", "")]
    if params.train.checkpoint == "best":
        remedy = ", or set train.checkpoint: last"
        needed.append(("val", "train.checkpoint = 'best' needs", remedy))
    for split, why, remedy in needed:
        if ("sn", split) not in present:
            raise DataError(
                f"split {split}, which {why}, has no records for context sn; fix the corpus's "
                f"splits or corpus.split{remedy}. "
                "To only evaluate a trained model, use `pacer audit`, `decode` and `score` (README)"
            )
    if not any(split == params.decode.split for _, split in present):
        raise DataError(
            f"split {params.decode.split} has no records; choose a different decode.split"
        )


def names_in(folder: Path, what: str) -> list[str]:
    """Return the names of the YAML files in ``folder``, sorted. Raises a ConfigError if there are
    none, for example because the command runs outside the repository."""
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    if not names:
        raise ConfigError(
            f"{folder.resolve()} contains no {what}; run the command from the root of the "
            "repository"
        )
    return names


def profile_text(path: str | Path) -> str:
    """Return a complete parameter file as YAML: the profile that it extends, with its own values
    and comments. Raises a ConfigError if the file, or one that it extends, is missing or is not
    YAML."""
    yaml = YAML()
    text = io.StringIO()
    yaml.width = 1000  # columns; no line of a profile is folded
    yaml.representer.add_representer(
        type(None), lambda self, _: self.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    yaml.dump(_merged(Path(path), yaml), text)
    return text.getvalue()


def load_profile(path: str | Path) -> Params:
    """Read and validate a parameter file, complete or not. Raises a ConfigError as
    :func:`profile_text` does, or if a value is not valid."""
    return validated(parse_yaml(profile_text(path)), str(path), Params)


def closest_profile(params: Params) -> tuple[str, dict[str, Any]]:
    """Return the profile with the fewest values that differ from ``params``, and the values of
    ``params`` that differ from it, by key. Profiles that are not valid are ignored; raises a
    ConfigError if there are none."""
    values = _by_key(params.model_dump(mode="json"))
    differing: dict[str, dict[str, Any]] = {}
    for name in names_in(CONFIGS, "profiles"):
        with suppress(ConfigError):
            theirs = _by_key(load_profile(CONFIGS / f"{name}.yaml").model_dump(mode="json"))
            differing[name] = {
                key: value
                for key, value in values.items()
                if key not in theirs or theirs[key] != value
            }
    if not differing:
        raise ConfigError(f"no profile in {CONFIGS.resolve()} is valid; `pacer use NAME` says why")
    name = min(differing, key=lambda name: len(differing[name]))
    return name, differing[name]


def _by_key(values: Mapping[str, Any], group: str = "") -> dict[str, Any]:
    """Return the values of nested groups by their keys, such as ``corpus.phantom.patients``."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{group}{name}"
        nested = isinstance(value, Mapping) and name not in USER_NAMES
        found |= _by_key(value, f"{key}.") if nested else {key: value}
    return found


def _merged(path: Path, yaml: YAML, extending: tuple[Path, ...] = ()) -> CommentedMap:
    """Return the values of a file and of those that it extends; it was reached from the files
    ``extending``."""
    values = read_mapping(path, yaml)
    if EXTENDS not in values:
        return values
    if path.name == "params.yaml":
        raise ConfigError(
            f"{path} cannot use `extends`, because DVC reads it; create it with `pacer use NAME`"
        )
    name = str(values.pop(EXTENDS)).removesuffix(".yaml")
    places = [path.parent / f"{name}.yaml", CONFIGS / f"{name}.yaml"]
    candidates = [*places, *(folder / f"{name}.yaml" for folder in INSTALLED)]
    base = next((file for file in candidates if file.exists() and file != path), None)
    if base is None:
        looked = " or ".join(dict.fromkeys(str(file.resolve()) for file in places if file != path))
        raise ConfigError(
            f"{path}: extends {name!r}, but there is no {looked}; choose one that `pacer use` "
            "lists, or run the command from the root of the repository"
        )
    if base in extending:
        raise ConfigError(
            f"circular `extends`: {path} and {name} extend each other; change one of them"
        )
    merged = _merged(base, yaml, (*extending, path))
    _overlay(merged, values)
    merged.ca.comment = values.ca.comment  # the comment at the top of the file
    return merged


def _overlay(base: CommentedMap, values: CommentedMap) -> None:
    """Overwrite entries of ``base`` with ``values`` and their end-of-line comments.

    A mapping whose entries the user names replaces the profile's, which is only an example. For a
    model from another place, keys of the old place, such as its revision, are removed. The comment
    of a list goes on the line above: behind its key it would break the file when ``dvc exp run -S
    KEY=[]`` writes it a second time.
    """
    place = ("provider", "id", "path")
    if any(key in base and values.get(key, base[key]) != base[key] for key in place):
        for key in ("id", "revision", "path"):
            base.pop(key, None)
    for key, value in values.items():
        merges = key not in USER_NAMES and isinstance(value, CommentedMap)
        is_list = isinstance(value, list) or isinstance(base.get(key), list)
        if merges and isinstance(base.get(key), CommentedMap) and base[key]:
            _overlay(base[key], value)
        else:
            base[key] = value
        ours = base.ca.items.get(key, [None] * 4)[2]
        theirs = values.ca.items.get(key, [None] * 4)[2]
        comment = theirs.value.partition("\n")[0] if theirs else ""
        if comment and is_list:
            base.yaml_set_comment_before_after_key(key, comment.lstrip("# "), base.lc.col)
        elif comment and ours:  # the token also holds the empty lines that follow
            ours.value = comment + "".join(ours.value.partition("\n")[1:])
        elif comment:
            base.yaml_add_eol_comment(comment, key)
