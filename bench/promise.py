"""Does a promise hold, and where does it break? (docs/evidence.md, 6)

    pacer use phantom; pacer study run worlds
    python bench/promise.py WORK                  writes bench/results/promise.md and promise.json

For each dataset of the study the models of one row decode the test split with every threshold that
a promise tests, and errors and findings are counted by patient in bench/results/promise; datasets
that have such a file are not decoded. Then, at each confidence and 100 times, a random third of the
patients calibrates a promise, and the others measure it: once in the same context, and once for
every pair of other contexts and, in the same context, of other datasets. Beside them, what a
promise with a known true risk shows in splits of the same size: patients are drawn with replacement
from those of the dataset, whose error rate is then the true one. A valid promise at 90 % exceeds
its share of the true risk in at most a tenth of the draws, and that of the measured half in more,
because a measured half varies too.

WORK keeps the models and predictions, so a stopped run continues.
"""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from measuring import options_of, table
from openi import restored

from pacer.config import load_params
from pacer.core.contexts import CONTEXTS
from pacer.core.io import write_json
from pacer.data.schemas import of_split, read_records
from pacer.decoding.promise import GRID, counts, passing, risk_test
from pacer.decoding.run import decode_records, trained_generator
from pacer.studies.table import student

STUDY, ROW, SPLITS = "worlds", "PACER, read, attributes", 100
#: The promised share of wrong findings, and how sure the promise is.
FALSE_PRESENT, CONFIDENCES = 0.2, (0.9, 0.95)
#: By how much a promise may be exceeded before it counts as broken.
MUCH = 0.05
NEEDED = (
    "data/corpus",
    "data/features",
    "models/backbones",
    "models/parent",
    "models/calibrate",
    "models/findings",
)
OUT = Path("bench/results/promise")
#: Columns of a dataset's file.
COUNTED = ("context", "threshold", "patient", "errors", "findings")

#: Errors and affirmed findings of each patient [patients, 2], by context and threshold.
Sums = dict[str, dict[float, np.ndarray]]


class Split(NamedTuple):
    """One promise: its threshold, None if none was given; and errors and findings of those who
    measured it."""

    threshold: float | None
    errors: float
    findings: float

    @property
    def excess(self) -> float:
        """How far the measured rate lies above the promised one."""
        return self.errors / self.findings - FALSE_PRESENT if self.findings else float("-inf")


def sums_of(folder: Path) -> Sums:
    """Return errors and findings of the test patients of a dataset."""
    records = read_records(folder / "data/corpus/records.parquet")
    test = of_split(records, "test")
    settings = {"split": "test", "commitment": "read", "controls": [], "examples": 0, "limit": None}
    decode = load_params(Path("params.yaml")).decode.model_copy(update=settings)
    opened = partial(trained_generator, findings=folder / "models/findings")
    checkpoint, backbones = folder / "models/calibrate", folder / "models/backbones"
    sums: Sums = {}
    for threshold in GRID:
        out = folder / f"predictions-{threshold}"
        if not out.exists():
            at = decode.model_copy(update={"threshold": threshold})
            decode_records(
                checkpoint, backbones, records, folder / "data/features", at, out, opened
            )
        for (context,), part in test.group_by("context", maintain_order=True):
            lines = pl.read_ndjson(out / f"{context}.jsonl").select(
                "record_id", pl.col("report").alias("written")
            )
            joined = part.join(
                lines, on="record_id", how="left", validate="1:1", maintain_order="left"
            )
            found = counts(joined["written"].to_list(), joined["report_raw"].to_list())[
                "false_present"
            ]
            patients = np.unique(joined["subject_id"].to_numpy(), return_inverse=True)[1]
            of_patients = np.zeros((int(patients.max()) + 1, 2))
            np.add.at(of_patients, patients, found)
            sums.setdefault(str(context), {})[threshold] = of_patients
    return sums


def write_sums(sums: Sums, path: Path) -> None:
    rows = [
        (context, threshold, patient, *counted)
        for context, by_threshold in sums.items()
        for threshold, counts_of in by_threshold.items()
        for patient, counted in enumerate(counts_of.astype(int).tolist())
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows, COUNTED, orient="row").write_parquet(
        path, compression="zstd", compression_level=19
    )


def read_sums(path: Path) -> Sums:
    sums: Sums = {}
    for (context, threshold), part in pl.read_parquet(path).group_by(
        "context", "threshold", maintain_order=True
    ):
        counted = part.sort("patient").select("errors", "findings").to_numpy().astype(float)
        sums.setdefault(str(context), {})[float(str(threshold))] = counted
    return sums


def chosen(calibration: dict[float, np.ndarray], confidence: float) -> float | None:
    """Return the threshold that a promise takes on these patients; None: it is refused."""
    tests = [risk_test(*calibration[at].T, FALSE_PRESENT, 1 - confidence, at) for at in GRID]
    passed = passing({"false_present": tests}, 1 - confidence)["false_present"]
    return min(passed, default=None)


def promised(
    calibration: dict[float, np.ndarray], measured: dict[float, np.ndarray], confidence: float
) -> Split:
    """Return the promise made on some patients and measured on others."""
    threshold = chosen(calibration, confidence)
    return Split(
        threshold, *(measured[threshold].sum(axis=0) if threshold is not None else (0.0, 0.0))
    )


def rows(
    sums: dict[float, np.ndarray],
    others: dict[float, np.ndarray] | None,
    confidence: float,
    draw: Any,
) -> tuple[Split, Split]:
    """Return a promise of a random third of the patients, measured on the rest of them or on all
    ``others``, and one of as many patients drawn with replacement, measured on the true rate."""
    count = len(sums[GRID[0]])
    order = draw.permutation(count)
    third, rest = order[: count // 3], order[count // 3 :]
    measured = {at: values[rest] for at, values in sums.items()} if others is None else others
    again = draw.integers(count, size=count // 3)
    return (
        promised({at: values[third] for at, values in sums.items()}, measured, confidence),
        promised({at: values[again] for at, values in sums.items()}, sums, confidence),
    )


def shares(splits: list[tuple[Split, Split]]) -> list[float]:
    """Return the shares of promises that are given, exceeded, exceeded by much, and exceeded by the
    true risk, then the findings stated under them and the share of these that are right."""
    given = [split for split, _ in splits if split.threshold is not None]
    valid = [split for _, split in splits if split.threshold is not None]
    errors, findings = (
        sum(getattr(split, name) for split in given) for name in ("errors", "findings")
    )
    return [
        len(given) / len(splits),
        np.mean([split.excess > 0 for split in given] or [np.nan]),
        np.mean([split.excess > MUCH for split in given] or [np.nan]),
        sum(split.excess > 0 for split in valid) / len(splits),
        findings / max(len(given), 1),
        1 - errors / findings if findings else np.nan,
    ]


def over_datasets(values: list[float]) -> str:
    """Return the mean over datasets with Student's interval."""
    known = [value for value in values if not np.isnan(value)]
    if not known:
        return "–"
    over = student(known)
    interval = "" if over.low is None else f" ({over.low:.2f} to {over.high:.2f})"
    return f"{np.mean(known):.2f}{interval}"


HEAD = (
    "given",
    "exceeded",
    f"by more than {MUCH}",
    "true risk above",
    "findings stated",
    "of them right",
)


def measure(
    datasets: dict[str, Sums], confidence: float, draw: Any
) -> dict[str, list[list[float]]]:
    """Return the shares of each dataset by where a promise is calibrated and used."""
    measured: dict[str, list[list[float]]] = {}
    for name, sums in datasets.items():
        for context in sums:
            for used in sums:
                others = None if used == context else sums[used]
                splits = [rows(sums[context], others, confidence, draw) for _ in range(SPLITS)]
                measured.setdefault(f"{context} → {used}", []).append(shares(splits))
            for other, elsewhere in datasets.items():
                if other != name:
                    splits = [
                        rows(sums[context], elsewhere[context], confidence, draw)
                        for _ in range(SPLITS)
                    ]
                    measured.setdefault(f"{context} → {context} of another dataset", []).append(
                        shares(splits)
                    )
    return measured


def main() -> None:
    work, draw = options_of(__doc__, ("work", {"type": Path})).work, np.random.default_rng(0)
    for _, name, folder in restored(STUDY, {ROW: "read"}, NEEDED, work):
        if not (path := OUT / f"{name}.parquet").exists():
            write_sums(sums_of(folder), path)
    datasets = {path.stem: read_sums(path) for path in sorted(OUT.glob("*.parquet"))}
    if not datasets:
        raise SystemExit(
            f"the study {STUDY} has no finished run of {ROW}; `pacer study run {STUDY}` first"
        )
    lines, known = list[str](), dict[str, dict[str, list[list[float | None]]]]()
    order: dict[str, int] = {name: place for place, name in enumerate(CONTEXTS)}
    for confidence in CONFIDENCES:
        measured = measure(datasets, confidence, draw)
        names = sorted(measured, key=lambda name: (order[name[:2]], name))
        cells = [
            [name, *map(over_datasets, map(list, zip(*measured[name], strict=True)))]
            for name in names
        ]
        lines += [*table([f"{confidence:.0%}: calibrated → used", *HEAD], cells), ""]
        known[f"{confidence:.0%}"] = {
            name: [[None if np.isnan(x) else x for x in row] for row in values]
            for name, values in measured.items()
        }
    OUT.with_suffix(".md").write_text("\n".join(lines))
    write_json(OUT.with_suffix(".json"), known)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
