"""Two scored runs of the same records, case by case: is the difference more than chance?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from pacer.comparison.case_statistics import UNITS, case_statistics, contexts_of, resampled_units
from pacer.comparison.resampling import MEAN, Difference, Pair, differences, sums_by_unit
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import read_json
from pacer.metrics.cases import external_columns
from pacer.metrics.conventions import CONVENTIONS
from pacer.metrics.pairing import check_pairs
from pacer.metrics.signature import flat

_NEEDED = ("record_id", "context", "reference", "hypothesis", "reference_labels", "hypothesis_labels", "rougeL")
#: The scores that are compared, beside those of external scorers.
_SCORES = ("f1", "bleu4", "rougeL", "meteor")
#: Parts of a signature in which two runs may differ: which reports they are, and how many; the label convention,
#: which the comparison has of its own; and what follows from labeller and references, which are compared themselves.
_OWN = (
    "predictions",
    "data.groups",
    "data.predictions",
    "data.hypotheses",
    "language.hypotheses",
    "counts",
    "undefined",
    "clinical.convention",
    "clinical.present_classes",
    "clinical.observations",
    "clinical.average",
    "clinical.duplicates",
    "clinical.unrelated_f1",
    "external",
    "bundle",
)
#: Parts of a protocol in which two runs may not differ: what was done to the reports.
_DONE = ("missing", "duplicates", "extract", "deduplicate", "clean_references", "clean_hypotheses", "split", "context")
#: What a protocol says of what it does not do; a run of the pipeline has no protocol.
_NOTHING_DONE = (None, False, "none", "error")


@dataclass(frozen=True)
class Comparison:
    """``scores``: context (and ``mean``) -> score -> difference. ``left_out``: score -> why. ``differing``: what the
    two signatures do not share beyond the predictions."""

    scores: dict[str, dict[str, Difference]]
    convention: str
    unit: str
    units: int
    records: int
    resamples: int
    seed: int
    level: float
    left_out: dict[str, str] = field(default_factory=dict)
    differing: list[str] = field(default_factory=list)


def compare_runs(
    first: str | Path,
    second: str | Path,
    *,
    convention: str = "llm-rg4",
    unit: str | None = None,
    resamples: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> Comparison:
    """Compare two folders of scores by context and for the mean over contexts: CE F1, BLEU-4, ROUGE-L, METEOR, and
    those of external scorers.

    Args:
        first, second: folders with ``cases.parquet`` and ``signature.json``, or folders that have them in
            ``metrics/``; differences are second minus first.
        convention: of the F1, one with a micro or weighted headline.
        unit: what is resampled, one of :data:`UNITS`; default: patients, where they are known, else examinations, else
            records.
        resamples, seed, level: see :func:`~pacer.comparison.resampling.differences`.

    Raises:
        DataError: a folder has no cases, their ids do not pair one to one, or their references differ.
        ConfigError: an argument is not one of those allowed.
    """
    if convention not in CONVENTIONS:
        raise ConfigError(f"convention {convention!r} is not one of {', '.join(CONVENTIONS)}")
    if unit not in (None, *UNITS):
        raise ConfigError(f"unit {unit!r} is not one of {', '.join(UNITS)}")
    if resamples < 1 or not 0 < level < 1:
        raise ConfigError(f"resamples must be at least 1 and level between 0 and 1, got {resamples} and {level}")
    found = _paired(first, second, convention, unit)
    return Comparison(
        differences(found.pairs, resamples, seed, level),
        convention,
        found.unit,
        len(found.ids),
        sum(found.contexts.values()),
        resamples,
        seed,
        level,
        found.left_out,
        found.differing,
    )


def compare_repeats(runs: Sequence[tuple[str | Path, str | Path]], resamples: int = 10_000) -> dict[str, Difference]:
    """Compare two systems that were each run several times (training seeds) on the same records.

    A score is the mean over runs of the mean over contexts. A patient is resampled, or exchanged between the systems,
    with all their records in all contexts and all runs: repeats do not count as further patients. So the interval and
    the p value are about other patients for these models, not about other models.

    Args:
        runs: folders (first, second) of each repeat, as :func:`compare_runs` takes them. F1 has the convention that
            they were scored with.

    Raises:
        DataError: as :func:`compare_runs`; or the repeats do not have the same records.
    """
    convention = (read_run(runs[0][0])[1].get("clinical") or {}).get("convention", "llm-rg4")
    repeats = [_paired(first, second, convention, None) for first, second in runs]
    for (first, _), repeat in zip(runs, repeats, strict=True):
        if (repeat.unit, repeat.ids, repeat.contexts) != (repeats[0].unit, repeats[0].ids, repeats[0].contexts):
            raise DataError(f"{first} has other patients or contexts than {runs[0][0]}; repeats need the same records")
    left_out = {name for repeat in repeats for name in repeat.left_out}
    pairs = {
        f"{context} {number}": {name: pair for name, pair in scores.items() if name not in left_out}
        for number, repeat in enumerate(repeats)
        for context, scores in repeat.pairs.items()
    }
    found = differences(pairs, resamples)
    return found[MEAN] if MEAN in found else next(iter(found.values()))


class _Paired(NamedTuple):
    """Statistics of two runs by context, what is resampled and the ``ids`` of it, and what :class:`Comparison` says.
    ``contexts``: records of each."""

    pairs: dict[str, dict[str, Pair]]
    unit: str
    ids: list[str]
    contexts: dict[str, int]
    left_out: dict[str, str]
    differing: list[str]


def _paired(first: str | Path, second: str | Path, convention: str, unit: str | None) -> _Paired:
    """Two runs, record by record; raises as :func:`compare_runs`."""
    (one, signature), (two, other) = read_run(first), read_run(second)
    check_pairs(one["record_id"].to_list(), two["record_id"].to_list(), str(first), str(second))
    two = one.select("record_id").join(two, on="record_id", how="left", maintain_order="left")
    left_out = {}
    if _labeller(signature) != _labeller(other):
        left_out["f1"] = (
            "the two runs were labelled by different labellers or in different arithmetic, or it is not "
            "recorded by which"
        )
    # another labeller may label the same references otherwise
    for column in ("context", "reference", *(["reference_labels"] if "f1" not in left_out else [])):
        unequal = one.filter(one[column].ne_missing(two[column]))
        if len(unequal):
            raise DataError(
                f"record {unequal['record_id'][0]} has another {column} in {second} than in {first} "
                f"({len(unequal)} records differ); score both against the same references"
            )
    if not all("meteor_statistics" in table.columns for table in (one, two)):
        left_out["meteor"] = "cases.parquet does not hold METEOR's counts; score the run again"
    external = list(dict.fromkeys([*external_columns(one), *external_columns(two)]))
    for name in external:
        scorer = name.split("/")[0]
        both = name in one.columns and name in two.columns
        if not both or _scorer(signature, scorer) != _scorer(other, scorer):
            left_out[name] = f"the two runs do not have it from the same version of {scorer}"
    chosen, codes, count = resampled_units(one, unit)
    pairs: dict[str, dict[str, Pair]] = {}
    for context in contexts_of(one):
        mine = (one["context"] == context).to_numpy()
        sides = [case_statistics(table.filter(pl.Series(mine)), CONVENTIONS[convention]) for table in (one, two)]
        pairs[context] = {
            name: Pair(*(sums_by_unit(side[name].rows, codes[mine], count) for side in sides), sides[0][name].score)
            for name in (*_SCORES, *external)
            if name not in left_out
        }
    ids = one[f"{chosen}_id"].unique().sort().cast(pl.String).to_list()
    contexts = {context: int((one["context"] == context).sum()) for context in pairs}
    return _Paired(pairs, chosen, ids, contexts, left_out, _differing(signature, other))


def read_run(folder: str | Path) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Cases and signature of a folder of scores, or of one that has them in ``metrics/``.

    Raises:
        DataError: there are none, or they are damaged.
    """
    folder = Path(folder)
    inside = folder if (folder / "cases.parquet").is_file() else folder / "metrics"
    path = inside / "cases.parquet"
    try:
        cases = pl.read_parquet(path)
    except FileNotFoundError:
        raise DataError(
            f"{folder} holds no scored cases (cases.parquet); expected a folder that `pacer score` or the "
            "stage `score` made"
        ) from None
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path} is damaged ({type(error).__name__}); score the run again") from None
    missing = [name for name in _NEEDED if name not in cases.columns]
    if missing or not len(cases):
        raise DataError(f"{path} lacks {', '.join(missing) or 'records'}; score the run again")
    return cases, read_json(inside / "signature.json")


def _labeller(signature: Mapping[str, Any]) -> Any:
    labeller = (signature.get("clinical") or {}).get("labeller", {})
    return (labeller["files"], labeller.get("arithmetic")) if labeller.get("files") else object()


def _scorer(signature: Mapping[str, Any], name: str) -> Any:
    return ((signature.get("external") or {}).get(name) or {}).get("about", object())


def _differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Dotted names of what the two signatures do not share beyond the reports."""
    one, two = (
        {name: value for name, value in flat(signature).items() if not name.startswith("protocol")}
        | {f"protocol.{name}": _done(signature, name) for name in _DONE}
        for signature in (first, second)
    )
    names = [name for name in one | two if not any(f"{name}.".startswith((f"{own}.", f"{own}/")) for own in _OWN)]
    return [name for name in names if one.get(name) != two.get(name)]


def _done(signature: Mapping[str, Any], name: str) -> str | None:
    value = (signature.get("protocol") or {}).get(name)
    return None if value in _NOTHING_DONE else value
