"""Definition of a table of experiments: a YAML file of rows, replicates, columns, and the published
table to compare with."""

from collections import Counter
from collections.abc import Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, model_validator

from pacer.config import Strict, read_params
from pacer.config.params import names_in
from pacer.core.errors import ConfigError
from pacer.core.io import yaml_beside

#: Prefix of keys for the baselines' own parameters, as with `dvc exp run -S`; other keys are
#: PACER's.
BASELINE_KEY = "baselines/params.yaml:"

#: Parameter -> value.
Overrides = dict[str, JsonValue]

NonEmpty = Annotated[str, Field(min_length=1)]


class StudyRow(Strict):
    """One system: parameters that differ from ``params.yaml``. ``target``: the stage of
    ``baselines/stages.yaml`` that scores a baseline. ``needs``: parameters that must be set to make
    the row."""

    name: NonEmpty
    group: str = ""
    target: NonEmpty | None = None
    set: Overrides = Field(default_factory=dict)
    needs: list[NonEmpty] = Field(default_factory=list)


class Study(Strict):
    """A table of experiments; its ``name`` is that of its file.

    ``layout``: one block of rows per context, or the plain mean over contexts. ``metrics``: keys of
    ``scores.json``, also of the user's own columns. ``set``: parameters that all rows share.
    ``replicates``: each row is run with each of these (seeds of the training, or of a generated
    corpus and its models). ``published``: the table of ``published.yaml`` to compare with.
    ``against``: the row that the other rows are tested against. ``compared``: additional pairs of
    rows; the first is tested against the second.
    """

    name: str = ""
    title: NonEmpty
    layout: Literal["contexts", "mean"]
    metrics: list[NonEmpty] = Field(min_length=1)
    replicates: list[Overrides] = Field(default_factory=lambda: [{}], min_length=1)
    set: Overrides = Field(default_factory=dict)
    published: NonEmpty | None = None
    against: NonEmpty | None = None
    compared: list[Annotated[list[NonEmpty], Field(min_length=2, max_length=2)]] = Field(
        default_factory=list
    )
    rows: list[StudyRow] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        varied = self.replicates[0].keys()
        if any(replicate.keys() != varied for replicate in self.replicates):
            raise ValueError("replicates: each must set the same parameters")
        for key in varied:
            if key in self.set or any(key in row.set for row in self.rows):
                raise ValueError(
                    f"{key} is set by replicates, so neither the table nor a row may set it"
                )
        if len(set(self.labels)) < len(self.replicates):
            raise ValueError("replicates: two have the same name (their values joined by hyphens)")
        names = Counter(row.name for row in self.rows)
        [(name, number)] = names.most_common(1)
        if number > 1:
            raise ValueError(f"rows: {name!r} is the name of several rows; rename all but one")
        for name in chain(*self.tested()):
            if name not in names:
                raise ValueError(f"`against` or `compared`: no row is named {name!r}")
        known = load_published()
        if self.published not in (None, *known):
            raise ValueError(f"published: {self.published} is not one of {', '.join(known)}")
        return self

    @property
    def labels(self) -> list[str]:
        """A short name for each replicate: its different values."""
        values = [[str(one[key]) for key in self.replicates[0]] for one in self.replicates]
        return ["-".join(dict.fromkeys(one)) or "1" for one in values]

    def overrides(self, row: StudyRow, replicate: Overrides) -> Overrides:
        """Return the parameters of one run. A row's value overrides the table's; only baselines get
        baselines' keys that are shared."""
        shared = self.set | replicate
        return {
            key: value
            for key, value in shared.items()
            if row.target or not key.startswith(BASELINE_KEY)
        } | row.set

    def tested(self) -> list[tuple[str, str]]:
        """Return the names of each tested row and of the row that it is tested against."""
        base = self.against
        pairs = [(row.name, base) for row in self.rows if base and row.name != base]
        return list(dict.fromkeys([*pairs, *((first, second) for first, second in self.compared)]))


def load_study(folder: Path, name: str) -> Study:
    """Read ``folder/name.yaml``. Raises a ConfigError if there is no such table, or its file does
    not match :class:`Study`; all problems are listed."""
    path = folder / f"{name}.yaml"
    if not path.is_file():
        raise ConfigError(
            f"unknown table of experiments {name!r}; {folder}/ contains "
            f"{', '.join(names_in(folder, 'studies'))}"
        )
    return read_params(path, Study).model_copy(update={"name": name})


@cache
def load_published() -> Mapping[str, Any]:
    """Load the paper's own tables, ``published.yaml``, by name."""
    return yaml_beside(__file__, "published.yaml")["tables"]
