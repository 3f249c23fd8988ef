"""The definition of a study: a YAML file of rows, seeds, columns and what is published beside them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue, model_validator

from pacer.config import Natural, Strict, validated
from pacer.core.errors import ConfigError
from pacer.reporting.published import load_published
from pacer.studies.pipeline import read_yaml

#: Columns a study may have: key in ``scores.json`` -> heading of the paper's tables.
HEADINGS = {
    "precision": "P",
    "recall": "R",
    "f1": "F1",
    "bleu1": "B@1",
    "bleu2": "B@2",
    "bleu3": "B@3",
    "bleu4": "B@4",
    "rougeL": "R-L",
    "meteor": "MTR",
    "original_bleu1": "Orig. B@1",
    "original_bleu4": "Orig. B@4",
    "original_rougeL": "Orig. R-L",
}
#: What the seeds of a study are of -> the parameters that they set, which no row does.
SEEDED = {"training": ("train.seed",), "world": ("corpus.seed", "backbones.seed")}
#: In front of a key of ``set`` or ``needs`` that is one of the baselines' own parameters, as with `dvc exp run -S`.
BASELINE_KEY = "baselines/params.yaml:"


def _column(name: str) -> str:
    if name not in HEADINGS:
        raise ValueError(f"must be one of {', '.join(HEADINGS)}")
    return name


Metric = Annotated[str, AfterValidator(_column)]
Name = Annotated[str, Field(min_length=1)]
_BASELINE_SEED = re.compile(re.escape(BASELINE_KEY) + r"\w+\.seed")


class Row(Strict):
    """One system: parameters that differ from ``params.yaml``, or a folder that ``pacer score`` made.

    ``target``: the stage of ``baselines/dvc.yaml`` that scores a baseline. ``needs``: parameters without which the row
    is left out, and the table says so. ``how``: what makes the reports that ``files`` are scores of, or why it cannot
    be made here; the table says it while there are none.
    """

    name: Name
    group: Name | None = None
    target: Name | None = None
    set: dict[str, JsonValue] = Field(default_factory=dict)
    needs: list[Name] = Field(default_factory=list)
    files: Name | None = None
    how: Name | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Row:
        if self.files is not None and (self.set or self.target is not None or self.needs):
            raise ValueError("a row has set, target and needs (a run) or files (scores of other outputs), not both")
        if self.how is not None and self.files is None:
            raise ValueError("how says what makes the reports of a row with files")
        for key in self.set:
            if _BASELINE_SEED.fullmatch(key):
                raise ValueError(f"{key} is set by seeds")
        if self.target is None and any(key.startswith(BASELINE_KEY) for key in (*self.set, *self.needs)):
            raise ValueError(f"{BASELINE_KEY} is read by rows with a target alone")
        return self


class Absent(Strict):
    """Systems of the published table without a row, and why."""

    systems: list[Name]
    why: Name


class Study(Strict):
    """A study.

    ``layout``: one block of rows per context, or the plain mean over contexts. ``seeds`` are of the ``training``, whose
    rows stand on one corpus, or of a generated ``world``, stand-ins included. ``set``: parameters that all rows share.
    ``published``: table of ``pacer/reporting/published.yaml`` that stands beside. ``against``: row that the other rows
    are tested against, case by case, or one of each group. ``compared``: further pairs of rows, the first of which is
    tested against the second. ``absent``: systems of that table without a row.
    """

    name: Name
    title: Name
    layout: Literal["contexts", "mean"]
    metrics: Annotated[list[Metric], Field(min_length=1)]
    seeds: Annotated[list[Natural], Field(min_length=1)]
    seeds_of: Literal["training", "world"] = "training"
    set: dict[str, JsonValue] = Field(default_factory=dict)
    published: Name | None = None
    against: Name | dict[Name, Name] | None = None
    compared: list[Annotated[list[Name], Field(min_length=2, max_length=2)]] = Field(default_factory=list)
    absent: list[Absent] = Field(default_factory=list)
    rows: Annotated[list[Row], Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> Study:
        for what, values in (("metrics", self.metrics), ("seeds", self.seeds)):
            if len(set(values)) != len(values):
                raise ValueError(f"{what} holds a value twice")
        for key in (key for values in (self.set, *(row.set for row in self.rows)) for key in values):
            if key in SEEDED[self.seeds_of]:
                raise ValueError(f"{key} is set by seeds")
        if any(key.startswith(BASELINE_KEY) for key in self.set):
            raise ValueError(f"{BASELINE_KEY} belongs in the rows with a target")
        labels = [(row.group, row.name) for row in self.rows]
        if len(set(labels)) != len(labels):
            raise ValueError("two rows of one group have the same name")
        if self.layout == "contexts" and any(row.group for row in self.rows):
            raise ValueError("layout: contexts makes a group of every context; its rows have no group")
        bases = self.against if isinstance(self.against, dict) else {None: self.against}
        for group, name in bases.items():
            found = [row for row in self.rows if row.name == name and group in (None, row.group)]
            if name is not None and not found:
                raise ValueError(f"against: {name} is not one of the rows" + (f" of group {group}" if group else ""))
            if len(found) > 1:
                raise ValueError(f"against: {name} is a row of several groups; name one for each group")
        for first, second in self.compared:
            if first == second:
                raise ValueError(f"compared: {first} cannot be tested against itself")
        for name in (name for pair in self.compared for name in pair):
            if sum(row.name == name for row in self.rows) != 1:
                raise ValueError(f"compared: {name} must be the name of one row")
        if self.published is not None:
            known = load_published()
            if self.published not in known:
                raise ValueError(f"published: {self.published} is not one of {', '.join(known)}")
        beside = load_published()[self.published].provenance if self.published is not None else {}
        for name in (name for one in self.absent for name in one.systems):
            if name not in beside or any(row.name == name for row in self.rows):
                raise ValueError(f"absent: {name} must be a system of the published table that is none of the rows")
        return self

    def tested(self) -> list[tuple[int, int]]:
        """Places of the rows that are tested, each with that of the row which it is tested against."""
        bases = ((at, self._base_of(row)) for at, row in enumerate(self.rows))
        places = {row.name: at for at, row in enumerate(self.rows)}
        pairs = [(at, base) for at, base in bases if base is not None and base != at]
        pairs += [(places[first], places[second]) for first, second in self.compared]
        return list(dict.fromkeys(pairs))

    def _base_of(self, row: Row) -> int | None:
        grouped = isinstance(self.against, dict)
        name = self.against.get(row.group or "") if isinstance(self.against, dict) else self.against
        same = [at for at, other in enumerate(self.rows) if not grouped or other.group == row.group]
        return next((at for at in same if self.rows[at].name == name), None)

    def overrides(self, row: Row, seed: int) -> dict[str, JsonValue]:
        """``group.key`` -> value for one run of a row; a row's own value wins over the study's."""
        return {**self.set, **row.set, **dict.fromkeys(SEEDED[self.seeds_of], seed)}


def study_names(folder: Path) -> list[str]:
    """The studies in ``folder``, sorted.

    Raises:
        ConfigError: there are none, as when the command runs outside the repository.
    """
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    if not names:
        raise ConfigError(f"{folder.resolve()} holds no studies; run this from the root of the repository")
    return names


def load_study(folder: Path, name: str) -> Study:
    """Read ``folder/name.yaml``.

    Raises:
        ConfigError: there is no such study, or its file is not as :class:`Study` says; all problems are listed.
    """
    path = folder / f"{name}.yaml"
    if not path.is_file():
        raise ConfigError(f"unknown study {name!r}; {folder}/ contains {', '.join(study_names(folder))}")
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        keys = ", ".join(key for key in Study.model_fields if key != "name")
        raise ConfigError(f"{path} must be a mapping; its keys are {keys}")
    if "name" in raw:
        raise ConfigError(f"{path}: a study is named by its file; remove the key name")
    return validated({"name": name, **raw}, str(path), Study)
