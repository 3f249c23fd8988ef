"""The base of all groups of parameters (typed, frozen, no unknown keys), and functions that read a file of groups.

An unknown key, a wrong type or a forbidden value raises a :class:`ConfigError` that names the key, the value and what
is allowed.
"""

import re
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

from pacer.core.errors import ConfigError

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
#: A share that is neither nothing nor all.
Share = Annotated[float, Field(gt=0.0, lt=1.0)]
#: Whole numbers that every library takes, as seeds for example.
_LARGEST = 2**63 - 1
Positive = Annotated[int, Field(ge=1, le=_LARGEST)]
Natural = Annotated[int, Field(ge=0, le=_LARGEST)]
PositiveFloat = Annotated[float, Field(gt=0.0)]
NaturalFloat = Annotated[float, Field(ge=0.0)]
#: A size in a trained block; bounded so that a model from elsewhere cannot exhaust the memory.
Size = Annotated[int, Field(ge=1, le=16_384)]
Beams = Annotated[int, Field(ge=1, le=64)]
#: Number of tokens in a text, and exponent of a report's length, which is bounded to keep scores finite.
Tokens = Annotated[int, Field(ge=1, le=100_000)]
LengthPenalty = Annotated[float, Field(ge=-10.0, le=10.0)]
#: Tags that YAML itself defines for plain values.
_STANDARD, _TAGS = "tag:yaml.org,2002:", ("map", "seq", "str", "int", "float", "bool", "null")
_NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f\ud800-\udfff]")
#: Most levels of a parameter file, and most aliases: 20 cannot repeat more than some thousand values.
_DEEPEST, _ALIASES = 50, 20


class Strict(BaseModel):
    """Base of all groups: frozen, no unknown keys, no silent conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


Groups = TypeVar("Groups", bound=Strict)


def read_params(path: str | Path, kind: type[Groups]) -> Groups:
    """Read and validate a parameter file of the given groups.

    Raises:
        ConfigError: the file is missing, is not YAML, or has an invalid value; all problems are listed.
    """
    return validated(read_mapping(path, YAML(typ="safe")), str(path), kind)


def read_mapping(path: str | Path, yaml: YAML) -> Any:
    """Read the groups of a parameter file with ``yaml``, without validation.

    Raises:
        ConfigError: the file is missing, is not YAML, has more than plain values in it, or is not a mapping.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        _check_events(text)
        YAML(typ="safe").load(text)  # refuses keys that are no plain values
        raw = yaml.load(text)
    except FileNotFoundError:
        raise ConfigError(
            f"{path} does not exist; correct the path, or run this from the root of the repository"
        ) from None
    except (OSError, ValueError, AttributeError, RecursionError, YAMLError) as error:
        reason = "a value merges itself" if isinstance(error, AttributeError) else str(error)
        mark = getattr(error, "problem_mark", None)
        if mark:  # of a YAML error, whose full text quotes the file
            problem = str(getattr(error, "problem", ""))
            reason = f"line {mark.line + 1}: {problem.partition(' with value')[0]}"
        raise ConfigError(f"{path} cannot be read as YAML: {' '.join(reason.split()):.200}; correct the file") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path} must be a mapping of groups, such as corpus and train")
    return raw


def _check_events(text: str) -> None:
    """Refuse, before anything is built, what parameters do not need and loading fails at or takes minutes for.

    Raises:
        ValueError: a value has a tag other than YAML's own or a control character, is nested too deeply, there are too
            many aliases, or the file is of another version of YAML.
    """
    levels = aliases = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        place, tag = f"line {event.start_mark.line + 1}", str(getattr(event, "tag", None) or "!")
        levels += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        aliases += isinstance(event, AliasEvent)
        if tag != "!" and tag.removeprefix(_STANDARD) not in _TAGS:
            raise ValueError(f"unknown tag {tag.replace(_STANDARD, '!!')}, {place}")
        if _NO_TEXT.search(getattr(event, "value", None) or ""):
            raise ValueError(f"{place}: a value has a control character or half of a surrogate pair")
        if getattr(event, "version", None) not in (None, (1, 2)):
            raise ValueError(f"{place}: expected YAML 1.2")
        if levels > _DEEPEST or aliases > _ALIASES:
            raise ValueError(f"more than {_DEEPEST} levels or {_ALIASES} aliases, {place}")


def validated(raw: dict[str, Any], origin: str, kind: type[Groups]) -> Groups:
    """Validate a plain dictionary as the content of a parameter file of the given groups.

    Raises:
        ConfigError: a value is not valid; all problems are listed after ``origin``.
    """
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        problems = "; ".join(map(_explain, error.errors()))
        raise ConfigError(f"{origin}: {problems}") from None


def _explain(problem: Any) -> str:
    """Describe one problem: the key, the value received, and what is allowed."""
    key, value = ".".join(map(str, problem["loc"])), problem["input"]
    if problem["type"] in ("missing", "extra_forbidden"):
        return f"{key} is missing" if problem["type"] == "missing" else f"unknown key {key}"
    if problem["type"] == "model_type":
        return f"{key} = {value!r:.200} must be a group of keys, as in configs/phantom.yaml"
    message = problem["msg"].removeprefix("Value error, ").replace("Input should", "must")
    arrived = key if isinstance(value, dict) else f"{key} = {value!r:.200}"
    return f"{arrived}: {message}" if key else message
