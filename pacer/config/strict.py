"""The base of all groups of parameters (typed, frozen, no unknown keys), and functions that read a
file of groups.

An unknown key, a wrong type or a forbidden value raises a :class:`ConfigError` that names the key,
the value and the allowed values.
"""

from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML, YAMLError

from pacer.core.errors import ConfigError
from pacer.core.io import parse_yaml
from pacer.core.validation import explain

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
#: Largest whole number that every library accepts, for example as a seed.
_LARGEST = 2**63 - 1
Positive = Annotated[int, Field(ge=1, le=_LARGEST)]
Natural = Annotated[int, Field(ge=0, le=_LARGEST)]
PositiveFloat = Annotated[float, Field(gt=0.0)]
NaturalFloat = Annotated[float, Field(ge=0.0)]
#: A size in a trained block; bounded so that a model from elsewhere cannot exhaust the memory.
Size = Annotated[int, Field(ge=1, le=16_384)]
#: Number of tokens in a text.
Tokens = Annotated[int, Field(ge=1, le=100_000)]


class Strict(BaseModel):
    """Base of all groups: frozen, no unknown keys, no silent conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    #: Keys of earlier versions that were removed, each with what to do instead.
    removed: ClassVar[dict[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _check_removed(cls, values: Any) -> Any:
        for key in cls.removed.keys() & set(values if isinstance(values, dict) else ()):
            raise ValueError(f"the key {key} was removed; {cls.removed[key]}")
        return values


Groups = TypeVar("Groups", bound=Strict)


def read_params(path: str | Path, kind: type[Groups]) -> Groups:
    """Read and validate a parameter file of the given groups. Raises a ConfigError that lists all
    problems: the file is missing, is not YAML, or has invalid values."""
    return validated(read_mapping(path), str(path), kind)


def read_mapping(path: str | Path, yaml: YAML | None = None) -> Any:
    """Read the groups of a parameter file, as plain values or by ``yaml``, without validation.
    Raises a ConfigError if it is missing, is not YAML, or is not a mapping."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        plain = parse_yaml(text)  # refuses keys that are not plain values
        raw = yaml.load(text) if yaml else plain
    except FileNotFoundError:
        raise ConfigError(
            f"{path} does not exist; correct the path, or run the command from the root of the "
            "repository"
        ) from None
    except (OSError, ValueError, RecursionError, YAMLError) as error:
        reason = str(error)
        mark = getattr(error, "problem_mark", None)
        if mark:  # of a YAML error, whose full text quotes the file
            problem = str(getattr(error, "problem", ""))
            reason = f"line {mark.line + 1}: {problem.partition(' with value')[0]}"
        remedy = "correct the file"
        folder, name = Path(path).absolute().parts[-2:]
        if name == "params.yaml" and folder != "baselines":
            remedy += ", or write it anew: `pacer use PROFILE --force`"
        raise ConfigError(
            f"{path} cannot be read as YAML: {' '.join(reason.split()):.200}; {remedy}"
        ) from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path} must be a mapping of groups, such as corpus and train")
    return raw


def validated(raw: dict[str, Any], origin: str, kind: type[Groups]) -> Groups:
    """Validate a plain dictionary as the content of a parameter file of the given groups. Raises a
    ConfigError that lists all problems after ``origin``."""
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(f"{origin}: {explain(error, of_parameters=True)}") from None
