"""The inputs of a source-use test for any system: records as they are, and twins with one source changed.

``inputs.csv`` names files and texts; a system writes one report per row. ``key.parquet`` says what each row is; it
stays with the owner of the references.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image, ImageOps

from pacer.commitments.attributes import read_attributes
from pacer.commitments.rules.extract import extract_anchor
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.io import atomic_directory, hash_json, write_json
from pacer.core.progress import Ticker
from pacer.data.radiographs import open_image
from pacer.data.twins import exchange, without
from pacer.metrics.probe.covering import Boxes, control_region, covered

INPUTS, KEY, MANIFEST, IMAGES = "inputs.csv", "key.parquet", "manifest.json", "images"
#: The records as they are.
GIVEN = "as_given"
#: Images that a mean radiograph is made of, at most.
_AVERAGED = 200
#: The column of a record that names an image.
_VIEWS = ("frontal", "lateral")


#: Kinds of twins that a record has for each finding that its report affirms.
COVERED, ELSEWHERE, SAME_FINDING = "finding_covered", "elsewhere_covered", "same_finding"
MIRRORED = "mirrored_frontal"  # if a finding is on one side
#: The kinds of twins, with their titles.
TITLES = {
    "another_radiograph": "another patient's radiographs",
    "another_frontal": "another patient's frontal view",
    MIRRORED: "the frontal view mirrored (side)",
    SAME_FINDING: "another patient's radiographs with the same finding",
    COVERED: "finding covered where it is",
    ELSEWHERE: "an equal area covered elsewhere",
    "mean_radiograph": "the mean radiograph",
    "no_lateral": "no lateral view",
    "another_lateral": "another patient's lateral view",
    "no_prior": "no previous report",
    "another_prior": "another patient's previous report",
}


def make_probe(
    records: pl.DataFrame,
    paths: Mapping[str, str],
    out: Path,
    seed: int,
    limit: int | None,
    boxes: Boxes | None = None,
    states: pl.DataFrame | None = None,
) -> dict:
    """Write the probe of some records into the folder ``out``, and return its manifest.

    Args:
        records: rows of ``records.parquet``. paths: file of each image id. seed: of all choices. limit: records of each
            context, chosen at random; None: all. boxes: of findings; None: nothing is covered. states: ``study_id``,
            ``finding``, ``side`` and ``severity`` of all findings; None: as the reports have them.

    Raises:
        DataError: there is no record, or an image cannot be read.
    """
    chosen = _sample(records, seed, limit)
    if chosen.is_empty():
        raise DataError("no records to make a probe from; choose a different split or context")
    affirmed = _affirmed(chosen, states)
    groups = {GIVEN: chosen} | _twins(chosen, seed)
    groups[SAME_FINDING] = exchange(affirmed, _VIEWS, ["context", "view", "finding", "side", "severity"], seed)
    pictures, twins = _coverings(affirmed, boxes or {})
    sided = affirmed.filter(pl.col("side").is_in(["left", "right"])).select("record_id")
    turned = chosen.join(sided, on="record_id", how="semi", maintain_order="left")
    names = {image: hash_json([MIRRORED, image])[:16] for image in turned["frontal"]}
    pictures |= {name: (image, None) for image, name in names.items()}
    groups |= twins | {MIRRORED: turned.with_columns(pl.col("frontal").replace_strict(names, return_dtype=pl.String))}
    key = pl.concat(
        [
            part.select(
                pl.lit(twin).alias("twin"),
                pl.col("finding") if "finding" in part.columns else pl.lit(None, pl.String).alias("finding"),
                *("record_id", "study_id", "subject_id", "view", "frontal", "lateral", "prior_report"),
                *("indication", "history", "sections"),
                pl.col("report").alias("reference"),
            )
            for twin, part in groups.items()
        ]
    ).join(chosen.select("record_id", "context"), on="record_id", how="left", maintain_order="left")
    # reports written for another probe do not pair with this one
    inputs = hash_json(key.to_dicts())[:8]
    of_finding = pl.col("finding").str.replace_all(" ", "_")
    key = key.select(
        pl.concat_str(pl.lit(inputs), "twin", of_finding, "record_id", separator="--", ignore_nulls=True).alias(
            "probe_id"
        ),
        pl.all(),
    )
    sizes = {twin: len(affirmed) if "finding" in part.columns else len(chosen) for twin, part in groups.items()}
    reports = {twin: {"reports": len(part), "without": sizes[twin] - len(part)} for twin, part in groups.items()}
    uncovered = Counter(affirmed["finding"].to_list())
    uncovered.subtract(twins[COVERED]["finding"].to_list())
    manifest = {
        **{"seed": seed, "records": len(chosen), "reports": reports, "key": hash_json(key.to_dicts())},
        "boxes": bool(boxes),
        "not_covered": {finding: count for finding, count in uncovered.items() if count},
    }
    with atomic_directory(out) as folder:
        known = {image: str(Path(path).absolute()) for image, path in paths.items()}
        known |= _write_means(chosen, known, folder / IMAGES, out.absolute() / IMAGES, seed)
        known |= _write_coverings(pictures, known, folder / IMAGES, out.absolute() / IMAGES)
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


def _twins(records: pl.DataFrame, seed: int) -> dict[str, pl.DataFrame]:
    """Return the records of each kind of :data:`TITLES`, with their new inputs; ``seed``: the order of the patients."""
    with_lateral, with_prior = records.drop_nulls("lateral"), records.drop_nulls("prior_report")
    mean_lateral = pl.when(pl.col("lateral").is_not_null()).then(pl.lit("mean-lateral")).alias("lateral")
    return {
        "another_radiograph": exchange(records, _VIEWS, ["context", "view"], seed),
        "mean_radiograph": records.with_columns(pl.format("mean-{}", "view").alias("frontal"), mean_lateral),
        "no_lateral": without("lateral", records),
        "another_frontal": exchange(with_lateral, ["frontal"], ["context", "view"], seed),
        "another_lateral": exchange(with_lateral, ["lateral"], ["context"], seed),
        "no_prior": without("prior_report", records),
        "another_prior": exchange(with_prior, ["prior_report"], ["context"], seed),
    }


def _affirmed(records: pl.DataFrame, states: pl.DataFrame | None) -> pl.DataFrame:
    """Return a row for each record and finding that its report affirms, with ``finding``, ``side`` and ``severity``."""
    findings = [list(extract_anchor(report).positive) for report in records["report"]]
    rows = records.with_columns(pl.Series("finding", findings, pl.List(pl.String))).explode("finding")
    rows = rows.drop_nulls("finding")
    if states is not None:
        return rows.join(states, on=["study_id", "finding"], how="left", maintain_order="left")
    read = [read_attributes(report)[finding] for report, finding in rows.select("report", "finding").iter_rows()]
    return rows.with_columns(
        pl.Series(name, [" ".join(sorted(getattr(one, name))) for one in read]) for name in ("side", "severity")
    )


#: Pictures to write, by id: the image, and the region that is covered in it; None: it is mirrored.
_Pictures = dict[str, tuple[str, list | None]]


def _coverings(affirmed: pl.DataFrame, boxes: Boxes) -> tuple[_Pictures, dict[str, pl.DataFrame]]:
    """Return the twins in which the finding is covered, and those in which as much is covered elsewhere, for the rows
    that have both in every view that shows the finding."""
    pictures: _Pictures = {}
    rows: dict[str, list[dict]] = {COVERED: [], ELSEWHERE: []}
    for row in affirmed.iter_rows(named=True):
        finding, regions = row["finding"], {}
        for view in _VIEWS:
            there = dict(boxes.get(row[view], {}))
            if place := there.pop(finding, None):
                others = [box for of_finding in there.values() for box in of_finding]
                regions[view] = {COVERED: place, ELSEWHERE: control_region(place, others, frontal=view == "frontal")}
        if regions and all(region[ELSEWHERE] is not None for region in regions.values()):
            for twin, twins in rows.items():
                changed = {view: hash_json([twin, finding, row[view]])[:16] for view in regions}
                pictures |= {changed[view]: (row[view], regions[view][twin]) for view in regions}
                twins.append(row | changed)
    return pictures, {twin: pl.DataFrame(twins, affirmed.schema) for twin, twins in rows.items()}


def _write_coverings(pictures: _Pictures, paths: Mapping[str, str], folder: Path, final: Path) -> dict[str, str]:
    """Write the changed pictures; return their files in ``final``."""
    with Ticker("coverings", len(pictures)) as ticker:
        for name, (image, region) in pictures.items():
            picture = open_image(paths[image])
            changed = ImageOps.mirror(picture) if region is None else covered(picture, region)
            changed.save(folder / f"{name}.jpg", quality=95)
            ticker.advance()
    return {name: str(final / f"{name}.jpg") for name in pictures}


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
        read = [open_image(paths[ids[place]]).convert("L") for place in draw]
        width, height = (int(np.median([image.size[axis] for image in read])) for axis in (0, 1))
        mean = np.mean([np.asarray(image.resize((width, height)), dtype=float) for image in read], axis=0)
        Image.fromarray(np.rint(mean).astype(np.uint8)).save(folder / f"{name}.png")
    return {name: str(final / f"{name}.png") for name in images}
