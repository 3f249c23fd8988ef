"""Definition of a study: a YAML file of rows, replicates, columns, and the published table to
compare with.

Also these tables, the paper's own numbers, and whether a run's numbers can stand beside them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, JsonValue, model_validator

from pacer.config import Strict, read_params
from pacer.config.params import names_in
from pacer.core.errors import ConfigError
from pacer.core.io import parse_yaml
from pacer.display.tables import Mark
from pacer.metrics.score_kinds import Score
from pacer.metrics.scores import score_of
from pacer.metrics.signature import Signature
from pacer.reporting.score_tables import contexts_in

PUBLISHED = Path(__file__).with_name("published.yaml")
_MARKS: Mapping[str, Mark] = {"*": "best", "_": "second"}
#: Prefix of keys for the baselines' own parameters, as with `dvc exp run -S`; other keys are
#: PACER's.
BASELINE_KEY = "baselines/params.yaml:"

#: Parameter -> value.
Overrides = dict[str, JsonValue]

NonEmpty = Annotated[str, Field(min_length=1)]


class StudyRow(Strict):
    """One system: parameters that differ from ``params.yaml``, or a folder written by ``pacer
    score``. ``target``: the stage of ``baselines/stages.yaml`` that scores a baseline. ``needs``:
    parameters that must be set to make the row."""

    name: NonEmpty
    group: NonEmpty | None = None
    target: NonEmpty | None = None
    set: Overrides = Field(default_factory=dict)
    needs: list[NonEmpty] = Field(default_factory=list)
    files: NonEmpty | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.files is not None and (self.set or self.target is not None or self.needs):
            raise ValueError(
                "a row takes either `files` (existing scores), or `set`, `target` and `needs` (a "
                "run)"
            )
        if self.target is None and any(
            key.startswith(BASELINE_KEY) for key in (*self.set, *self.needs)
        ):
            raise ValueError(f"keys `{BASELINE_KEY}...` need a `target`")
        return self


class Study(Strict):
    """A study; its ``name`` is that of its file.

    ``layout``: one block of rows per context, or the plain mean over contexts. ``metrics``: keys of
    ``scores.json``, also of the user's own columns. ``set``: parameters that all rows share.
    ``replicates``: each row is run with each of these (seeds of the training, or of a generated
    corpus and its models). ``published``: the table of ``published.yaml`` to compare with.
    ``against``: the row that the other rows are tested against, or one row per group. ``compared``:
    additional pairs of rows; the first is tested against the second. ``curve``: rows that a line
    joins, in this order, in a chart of precision against recall; the others are points beside it.
    ``notes``: additional notes below the table.
    """

    name: str = ""
    title: NonEmpty
    layout: Literal["contexts", "mean"]
    metrics: Annotated[list[NonEmpty], Field(min_length=1)]
    replicates: Annotated[list[Overrides], Field(min_length=1)] = Field(
        default_factory=lambda: [{}]
    )
    set: Overrides = Field(default_factory=dict)
    published: NonEmpty | None = None
    against: NonEmpty | dict[NonEmpty, NonEmpty] | None = None
    compared: list[Annotated[list[NonEmpty], Field(min_length=2, max_length=2)]] = Field(
        default_factory=list
    )
    curve: list[NonEmpty] = Field(default_factory=list)
    notes: list[NonEmpty] = Field(default_factory=list)
    rows: Annotated[list[StudyRow], Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for key in {key for replicate in self.replicates for key in replicate}:
            if any(key not in replicate for replicate in self.replicates):
                raise ValueError(f"replicates: {key} must be set in every replicate")
            if key in self.set or any(key in row.set for row in self.rows):
                raise ValueError(
                    f"{key} is set by replicates, so neither the study nor a row may set it"
                )
        if len(set(self.labels)) < len(self.replicates):
            raise ValueError("replicates: two have the same name (their values joined by hyphens)")
        names = [(row.group, row.name) for row in self.rows]
        if twice := [name for (group, name), number in Counter(names).items() if number > 1]:
            raise ValueError(
                f"rows: {twice[0]!r} is the name of several rows in a group; rename all but one"
            )
        if self.layout == "contexts" and any(row.group for row in self.rows):
            raise ValueError(
                "layout = 'contexts' already groups the rows by context; remove `group` from the "
                "rows"
            )
        if unknown := set(self.curve) - {row.name for row in self.rows}:
            raise ValueError(f"curve: this study has no rows named: {', '.join(sorted(unknown))}")
        self.tested()  # refuses rows that there are not
        if self.published is not None and self.published not in load_published():
            raise ValueError(
                f"published: {self.published} is not one of {', '.join(load_published())}"
            )
        return self

    @property
    def columns(self) -> list[Score]:
        """The scores of its columns."""
        return [score_of(metric) for metric in self.metrics]

    @property
    def labels(self) -> list[str]:
        """A short name for each replicate: its values, or their one value if all are equal."""
        values = [[str(one[key]) for key in self.replicates[0]] for one in self.replicates]
        return ["-".join(one[:1] if len(set(one)) == 1 else one) or "1" for one in values]

    def overrides(self, place: int, label: str) -> Overrides:
        """Return the parameters of one run, by the place of its row and the label of its replicate.
        A row's value overrides the study's; only baselines get baselines' keys."""
        row, replicate = self.rows[place], self.replicates[self.labels.index(label)]
        everything = {**self.set, **row.set, **replicate}
        return {
            key: value
            for key, value in everything.items()
            if row.target or not key.startswith(BASELINE_KEY)
        }

    def tested(self) -> list[tuple[int, int]]:
        """Return pairs of row indices: each tested row, and the row that it is tested against."""
        pairs = []
        for group, name in (
            self.against.items() if isinstance(self.against, dict) else [(None, self.against)]
        ):
            if name is not None:
                base = self._place(name, group)
                rows = [at for at, row in enumerate(self.rows) if group in (None, row.group)]
                pairs += [(at, base) for at in rows if at != base]
        pairs += [(self._place(first), self._place(second)) for first, second in self.compared]
        return list(dict.fromkeys(pairs))

    def _place(self, name: str, group: str | None = None) -> int:
        places = [
            at
            for at, row in enumerate(self.rows)
            if row.name == name and group in (None, row.group)
        ]
        if len(places) != 1:
            where = f" in group {group}" if group else ""
            known = f"{len(places)} rows are" if places else "no row is"
            raise ValueError(
                f"`against` or `compared`: {known} named {name!r}{where}; exactly one must be"
            )
        return places[0]


def load_study(folder: Path, name: str) -> Study:
    """Read ``folder/name.yaml``. Raises a ConfigError if there is no such study, or its file does
    not match :class:`Study`; all problems are listed."""
    path = folder / f"{name}.yaml"
    if not path.is_file():
        raise ConfigError(
            f"unknown study {name!r}; {folder}/ contains {', '.join(names_in(folder, 'studies'))}"
        )
    return read_params(path, Study).model_copy(update={"name": name})


class PrintedValue(NamedTuple):
    """A number as printed in the paper; ``text`` is None if it reports none. ``mark``: best, second
    or None."""

    text: str | None = None
    mark: Mark | None = None


@dataclass(frozen=True)
class PublishedBlock:
    """Rows that the paper prints and ranks together; ``context``: the context of the values, or
    ``mean``."""

    name: str
    context: str
    marked: bool
    rows: Mapping[str, Mapping[str, PrintedValue]]
    protocol: str = ""


@dataclass(frozen=True)
class PublishedTable:
    """One table, at ``where`` in the paper. ``blocks`` hold ``rows[system][metric]``.
    ``provenance``: the source of each system's row. ``target``, ``records``: what was scored, and
    the number of records per context. ``decoding``: how PACER's reports were decoded (empty: the
    paper does not say)."""

    where: str
    title: str
    target: str
    records: Mapping[str, int]
    decoding: Mapping[str, float]
    protocol: str
    metrics: tuple[str, ...]
    provenance: Mapping[str, str]
    blocks: tuple[PublishedBlock, ...]


@cache
def load_published() -> Mapping[str, PublishedTable]:
    """Load all tables of ``pacer/studies/published.yaml``, by name."""
    tables = {}
    for name, table in parse_yaml(PUBLISHED.read_text(encoding="utf-8"))["tables"].items():
        for block in table["blocks"]:
            for system, values in block["rows"].items():
                block["rows"][system] = dict(
                    zip(table["metrics"], map(_printed_value, values.split()), strict=True)
                )
        blocks = tuple(PublishedBlock(**block) for block in table["blocks"])
        tables[name] = PublishedTable(
            **table | {"metrics": tuple(table["metrics"]), "blocks": blocks}
        )
    return tables


def _printed_value(text: str) -> PrintedValue:
    digits = text.strip("*_")
    return PrintedValue(None if digits == "--" else digits, _MARKS.get(text[0]))


def stands_beside(
    table: PublishedTable,
    scores: Mapping[str, Any],
    signature: Signature,
    params: Mapping[str, Any] | None,
) -> bool:
    """Return whether scores are of the records of the published rows, by the same measures.
    ``params``: of the run; None for other systems' scores, whose corpus is known only by its number
    of records."""
    contexts = contexts_in(scores)
    counts = {context: scores[context].get("n") for context in contexts}
    has_mean = any(block.context == "mean" for block in table.blocks)
    expected = {name: n for name, n in table.records.items() if has_mean or name in contexts}
    if params is None:
        is_test_split = bool(expected)
    else:
        corpus, decode = params["corpus"], params["decode"]
        used = (corpus["source"], corpus["format"], corpus["limit"])
        is_test_split = used == ("files", "rg4", None) and (decode["split"], decode["limit"]) == (
            "test",
            None,
        )
    language = signature.language
    return (
        is_test_split
        and (counts == expected or not expected)
        and signature.standin_labeller is False
        and signature.convention == "llm-rg4"
        and language.get("target") == table.target
        and language.get("cleaner") == "upstream"
        and language.get("unseen_comparisons") == "keep"
    )
