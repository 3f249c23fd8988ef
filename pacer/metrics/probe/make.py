"""The inputs of a source-use test for any system: records as they are, and twins with one source changed.

``inputs.csv`` names files and texts; a system writes one report per row. ``key.parquet`` says what each row is; it
stays with the owner of the references.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from PIL import Image

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.io import atomic_directory, hash_json, write_json
from pacer.core.progress import Ticker
from pacer.data.radiographs import open_image
from pacer.data.twins import Twin, exchange, without
from pacer.metrics.probe.flip import flip, flippable

INPUTS, KEY, MANIFEST, IMAGES = "inputs.csv", "key.parquet", "manifest.json", "images"
#: The records as they are.
GIVEN = "as_given"
#: Images that a mean radiograph is made of, at most.
_AVERAGED = 200
#: The column of a record that names an image.
_VIEWS = ("frontal", "lateral")


class Kind(NamedTuple):
    """One kind of twin: its title, and the records' new inputs."""

    title: str
    change: Twin


def kinds(seed: int) -> dict[str, Kind]:
    """Return the kinds of twins; ``seed``: the order of the patients, and the findings that are flipped."""
    another = partial(exchange, seed=seed)

    def radiographs(records: pl.DataFrame) -> pl.DataFrame:
        return another(records, _VIEWS, ["context", "view"])

    def lateral(records: pl.DataFrame) -> pl.DataFrame:
        return another(records.drop_nulls("lateral"), ["lateral"], ["context"])

    def prior(records: pl.DataFrame) -> pl.DataFrame:
        return another(records.drop_nulls("prior_report"), ["prior_report"], ["context"])

    return {
        "another_radiograph": Kind("another patient's radiographs", radiographs),
        "mean_radiograph": Kind("the mean radiograph", _mean_radiographs),
        "no_lateral": Kind("no lateral view", partial(without, "lateral")),
        "another_lateral": Kind("another patient's lateral view", lateral),
        "no_prior": Kind("no previous report", partial(without, "prior_report")),
        "another_prior": Kind("another patient's previous report", prior),
        "flipped_prior": Kind("previous report with one finding flipped", partial(_flipped, seed)),
    }


def make_probe(records: pl.DataFrame, paths: Mapping[str, str], out: Path, seed: int, limit: int | None) -> dict:
    """Write the probe of some records into the folder ``out``, and return its manifest.

    Args:
        records: rows of ``records.parquet``. paths: file of each image id. seed: of all choices. limit: records of each
            context, chosen at random; None: all.

    Raises:
        DataError: there is no record, or an image cannot be read.
    """
    chosen = _sample(records, seed, limit)
    if chosen.is_empty():
        raise DataError("no record to make a probe of; choose another split or context")
    groups = {GIVEN: chosen} | {name: kind.change(chosen) for name, kind in kinds(seed).items()}
    key = pl.concat(
        [
            part.select(
                pl.lit(twin).alias("twin"),
                *("record_id", "study_id", "subject_id", "view", "frontal", "lateral", "prior_report"),
                *("indication", "history", "sections"),
                pl.col("report").alias("reference"),
                pl.col("context").alias("given"),
            )
            for twin, part in groups.items()
        ]
    ).join(chosen.select("record_id", "context"), on="record_id", how="left", maintain_order="left")
    # reports written for another probe do not pair with this one
    inputs = hash_json(key.to_dicts())[:8]
    key = key.select(pl.format("{}--{}--{}", pl.lit(inputs), "twin", "record_id").alias("probe_id"), pl.all())
    reports = {twin: _counts(part, chosen) for twin, part in groups.items()}
    manifest = {"seed": seed, "records": len(chosen), "reports": reports, "key": hash_json(key.to_dicts())}
    with atomic_directory(out) as folder:
        known = {image: str(Path(path).absolute()) for image, path in paths.items()}
        known |= _write_means(chosen, known, folder / IMAGES, out.absolute() / IMAGES, seed)
        file = {view: pl.col(view).replace_strict(known, return_dtype=pl.String) for view in _VIEWS}
        columns = ("probe_id", *file.values(), pl.col("prior_report").alias("prior"), "indication", "history")
        key.select(*columns, "view", "sections").write_csv(folder / INPUTS)
        key.write_parquet(folder / KEY)
        write_json(folder / MANIFEST, manifest)
    return manifest


def _sample(records: pl.DataFrame, seed: int, limit: int | None) -> pl.DataFrame:
    """Return at most ``limit`` records of each context, in the order of contexts and ids."""
    draw = np.random.default_rng(seed)
    parts = [records.clear()]
    for context in CONTEXTS:
        part = records.filter(context=context).sort("record_id")
        if limit is not None and limit < len(part):
            part = part[np.sort(draw.choice(len(part), limit, replace=False))]
        parts.append(part)
    return pl.concat(parts)


def _counts(part: pl.DataFrame, chosen: pl.DataFrame) -> dict[str, int]:
    """Return the number of twins, and of records that have none."""
    return {"reports": len(part), "without": len(chosen) - len(part)}


def _mean_radiographs(records: pl.DataFrame) -> pl.DataFrame:
    lateral = pl.when(pl.col("lateral").is_not_null()).then(pl.lit("mean-lateral")).alias("lateral")
    return records.with_columns(pl.format("mean-{}", "view").alias("frontal"), lateral)


def _write_means(
    records: pl.DataFrame, paths: Mapping[str, str], folder: Path, final: Path, seed: int
) -> dict[str, str]:
    """Write the mean radiograph of each view, of the records' median size, and return their files in ``final``."""
    images = {f"mean-{view}": part["frontal"] for (view,), part in records.group_by("view", maintain_order=True)}
    images |= {"mean-lateral": records["lateral"].drop_nulls()} if records["lateral"].count() else {}
    folder.mkdir()
    for name, column in images.items():
        ids = column.unique().sort().to_list()
        draw = np.random.default_rng(seed).permutation(len(ids))[:_AVERAGED]
        with Ticker(name.replace("-", " of "), len(draw)) as ticker:
            read = []
            for place in draw:
                read.append(open_image(paths[ids[place]]).convert("L"))
                ticker.advance()
        width, height = (int(np.median([image.size[axis] for image in read])) for axis in (0, 1))
        mean = np.mean([np.asarray(image.resize((width, height)), dtype=float) for image in read], axis=0)
        Image.fromarray(np.rint(mean).astype(np.uint8)).save(folder / f"{name}.png")
    return {name: str(final / f"{name}.png") for name in images}


def _flipped(seed: int, records: pl.DataFrame) -> pl.DataFrame:
    """Return the records whose previous report can be flipped in a finding, chosen at random."""
    draw = np.random.default_rng(seed)
    kept = records.drop_nulls("prior_report")
    priors = []
    with Ticker("flip previous reports", len(kept)) as ticker:
        for prior in kept["prior_report"]:
            findings = flippable(prior)
            priors.append(flip(prior, findings[draw.integers(len(findings))]) if findings else None)
            ticker.advance()
    return kept.with_columns(pl.Series("prior_report", priors, dtype=pl.String)).drop_nulls("prior_report")
