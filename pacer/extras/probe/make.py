"""The inputs of a source-use test for any system: records as they are, and twins with one source
changed.

``inputs.csv`` has the files and texts of each record; a system writes one report per row.
``key.parquet`` says what each row is; it is not given to the system. In some twins a finding is
covered, in others a control region of the same size. A box consists of its upper left corner, width
and height, as fractions of the image.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from PIL import Image

from pacer.core.anchor import FINDINGS, normalize_finding
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.exchange import exchange
from pacer.core.io import atomic_directory, hash_json
from pacer.core.progress import Ticker
from pacer.core.schemas import TRUTH_SCHEMA, read_table
from pacer.decoding.controls import without
from pacer.images.radiographs import open_image
from pacer.metrics.ledger import read_findings
from pacer.tables.files import open_table

#: Bounds of the thorax in both directions, as fractions of a radiograph.
_THORAX = (0.08, 0.92)
#: A finding lies across a frontal view if its box extends beyond the midline by this on both sides.
_ACROSS = 0.06
#: Step of the search for a control region, as a fraction of the image.
_STEP = 0.02
#: Width of the ring around a covered box, as a fraction of the image.
_RING = 0.04
INPUTS = "inputs.csv"
KEY = "key.parquet"
IMAGES = "images"
#: Name of the group of unchanged records.
GIVEN = "as_given"
#: Maximum number of images that are averaged to a mean radiograph.
_AVERAGED = 200
#: The columns of a record that name an image.
_VIEWS = ("frontal", "lateral")
#: Columns of a record in the key; ``report`` is added as ``reference``.
_KEY_COLUMNS = (
    "record_id",
    "study_id",
    "subject_id",
    "view",
    "frontal",
    "lateral",
    "prior_report",
    "indication",
    "history",
    "sections",
)

#: Kinds of twins that a record has for each finding that its report affirms.
COVERED = "finding_covered"
ELSEWHERE = "elsewhere_covered"
#: The kinds of twins, with their titles.
TITLES = {
    "another_radiograph": "another patient's radiographs",
    "another_frontal": "another patient's frontal view",
    COVERED: "finding covered where it is",
    ELSEWHERE: "an equal area covered elsewhere",
    "mean_radiograph": "the mean radiograph",
    "no_lateral": "no lateral view",
    "another_lateral": "another patient's lateral view",
    "no_prior": "no previous report",
    "another_prior": "another patient's previous report",
}


class Box(NamedTuple):
    """A region of an image."""

    x: float
    y: float
    width: float
    height: float


#: Boxes by image id and finding.
Boxes = dict[str, dict[str, list[Box]]]


def boxes_of_truth(truth: Path, records: pl.DataFrame) -> Boxes:
    """Return the boxes of a generated corpus for the images of its records."""
    table = read_table(truth, TRUTH_SCHEMA, ["study_id", "boxes"])
    boxes = table.explode("boxes").drop_nulls("boxes").unnest("boxes")
    images = records.select("study_id", "frontal", "lateral").unpivot(
        index="study_id", variable_name="view", value_name="image"
    )
    named = boxes.join(
        images.drop_nulls("image").unique(), on=["study_id", "view"], maintain_order="left"
    )
    return _by_image(named.select("image", "finding", *Box._fields))


def read_boxes(path: Path, images: set[str]) -> Boxes:
    """Read a table of boxes: ``image`` (boxes of other images than ``images`` are ignored),
    ``finding``, ``x``, ``y``, ``width`` and ``height``. Raises a DataError if a column is missing;
    a finding is unknown; a value is not a number, or not a fraction of the image; or no box is on
    one of the images."""
    names = ("image", "finding", *Box._fields)
    file = open_table(path)
    missing = [name for name in names if name not in file.columns]
    if missing:
        raise DataError(
            f"{path} has no column {missing[0]}; a table of bounding boxes needs {', '.join(names)}"
        )
    table = file.frame(names)
    boxes = table.with_columns(pl.col(Box._fields).cast(pl.Float64, strict=False))
    inside = pl.all_horizontal(
        *(pl.col(start) >= 0 for start in ("x", "y")),
        *(pl.col(size) > 0 for size in ("width", "height")),
        pl.col("x") + pl.col("width") <= 1.001,
        pl.col("y") + pl.col("height") <= 1.001,
    ).fill_null(False)
    for place, finding, good in zip(
        file.places, table["finding"], boxes.select(inside).to_series(), strict=True
    ):
        if finding is None or normalize_finding(finding) is None:
            raise DataError(
                f"{path}, {place}: {finding!r:.40} is not a finding; choose from "
                f"{', '.join(FINDINGS)}"
            )
        if not good:
            raise DataError(
                f"{path}, {place}: x, y, width and height must be fractions of the image, with the "
                "box inside it; divide pixel coordinates by the image's width and height"
            )
    findings = [normalize_finding(finding) for finding in table["finding"]]
    known = boxes.with_columns(pl.Series("finding", findings, pl.String)).filter(
        pl.col("image").is_in(images)
    )
    if known.is_empty():
        raise DataError(
            f"{path}: no box matches an image in the records; `image` must be an id, e.g. "
            f"{min(images)}"
        )
    return _by_image(known)


def _by_image(rows: pl.DataFrame) -> Boxes:
    boxes: Boxes = {}
    for image, finding, *edges in rows.iter_rows():
        boxes.setdefault(image, {}).setdefault(finding, []).append(Box(*edges))
    return boxes


def control_region(boxes: list[Box], others: list[Box], *, frontal: bool) -> list[Box] | None:
    """Return a region with the shape of the finding's ``boxes``, outside of them and inside the
    thorax: the one that overlaps the image's other findings (``others``) least and, of several such
    regions, the one nearest to the mirror image of the boxes. None if there is no such region, or
    if the finding lies across the midline of a frontal view."""
    places = np.array(boxes)
    left = places[:, 0]
    right = left + places[:, 2]
    if frontal and left.min() < 0.5 - _ACROSS and right.max() > 0.5 + _ACROSS:
        return None
    mirrored = np.array([1 - right, places[:, 1], places[:, 2], places[:, 3]]).T
    steps = np.arange(-1, 1 + _STEP / 2, _STEP)
    shifts = np.array(np.meshgrid(steps, steps)).reshape(2, -1).T
    shifts = shifts[np.argsort(np.square(shifts).sum(axis=1), kind="stable")]
    starts = mirrored[None, :, :2] + shifts[:, None]
    ends = starts + mirrored[None, :, 2:]
    lowest = np.minimum(mirrored[:, :2].min(axis=0), _THORAX[0])
    highest = np.maximum((mirrored[:, :2] + mirrored[:, 2:]).max(axis=0), _THORAX[1])
    inside = (starts >= lowest - 1e-9) & (ends <= highest + 1e-9)
    free = inside.all(axis=(1, 2)) & (_overlap(starts, ends, places) < 1e-9)
    if not free.any():
        return None
    overlap = _overlap(starts, ends, np.array(others)) if others else np.zeros(len(starts))
    best = int(np.argmin(np.where(free, overlap, np.inf)))
    edges = np.concatenate([starts[best], mirrored[:, 2:]], axis=1)
    return [Box(*box) for box in edges.tolist()]


def _overlap(starts: np.ndarray, ends: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Return the area that regions share with boxes ``[m, 4]``; starts and ends ``[n, k, 2]`` ->
    ``[n]``."""
    low = np.maximum(starts[:, :, None], boxes[:, :2])
    high = np.minimum(ends[:, :, None], boxes[:, :2] + boxes[:, 2:])
    return np.clip(high - low, 0, None).prod(axis=-1).sum(axis=(1, 2))


def covered(image: Image.Image, boxes: list[Box]) -> Image.Image:
    """Return a grey image in which each box has the mean grey of the ring around it, with a soft
    edge."""
    pixels = np.array(image.convert("L"), dtype=float)
    height, width = pixels.shape
    reach = max(2.0, _RING * max(height, width))
    down = np.arange(height)[:, None] + 0.5
    across = np.arange(width)[None] + 0.5
    for box in boxes:
        left = box.x * width
        top = box.y * height
        right = left + box.width * width
        bottom = top + box.height * height
        rows = slice(max(0, int(top - reach)), int(bottom + reach) + 1)
        columns = slice(max(0, int(left - reach)), int(right + reach) + 1)
        sideways = np.maximum(left - across[:, columns], across[:, columns] - right)
        distance = np.maximum(sideways, np.maximum(top - down[rows], down[rows] - bottom))
        ring = (distance > 0) & (distance <= reach)
        share = np.clip(1 - distance / reach, 0, 1)
        part = pixels[rows, columns]
        if ring.any():
            pixels[rows, columns] = share * part[ring].mean() + (1 - share) * part
    return Image.fromarray(np.rint(pixels).astype(np.uint8))


def make_probe(
    records: pl.DataFrame,
    paths: Mapping[str, str],
    out: Path,
    seed: int,
    limit: int | None,
    boxes: Boxes,
) -> pl.DataFrame:
    """Write the probe of some records into the folder ``out``, and return its key.

    Args:
        paths: file of each image id.
        limit: number of records of each context, chosen at random; None: all.
        boxes: boxes of findings; without any, nothing is covered.

    Raises:
        DataError: there is no record, or an image cannot be read.
    """
    chosen = _sample(records, seed, limit)
    if chosen.is_empty():
        raise DataError("no records to make a probe from; choose a different split or context")
    pictures, covered_twins = _coverings(chosen, boxes)
    groups = {GIVEN: chosen} | _twins(chosen, seed) | covered_twins
    key = _key(groups, chosen)
    with atomic_directory(out) as folder:
        (folder / IMAGES).mkdir()
        known = {image: str(Path(path).absolute()) for image, path in paths.items()}
        written = [
            *_write_means(chosen, known, folder / IMAGES, seed),
            *_write_covered(pictures, known, folder / IMAGES),
        ]
        known |= {Path(name).stem: str(out.absolute() / IMAGES / name) for name in written}
        file = {view: pl.col(view).replace_strict(known, return_dtype=pl.String) for view in _VIEWS}
        key.select(
            "probe_id",
            *file.values(),
            pl.col("prior_report").alias("prior"),
            "indication",
            "history",
            "view",
            "sections",
        ).write_csv(folder / INPUTS)
        key.write_parquet(folder / KEY)
    return key


def _key(groups: Mapping[str, pl.DataFrame], records: pl.DataFrame) -> pl.DataFrame:
    """Return the key: a row for each record of each kind of twin, with its ``probe_id``."""
    finding = pl.lit(None, pl.String).alias("finding")
    rows = [
        (part if "finding" in part.columns else part.with_columns(finding)).select(
            pl.lit(twin).alias("twin"),
            "finding",
            *_KEY_COLUMNS,
            pl.col("report").alias("reference"),
        )
        for twin, part in groups.items()
    ]
    key = pl.concat(rows).join(
        records.select("record_id", "context"), on="record_id", how="left", maintain_order="left"
    )
    # reports written for another probe do not pair with this one
    inputs = hash_json(key.to_dicts())[:8]
    of_finding = pl.col("finding").str.replace_all(" ", "_")
    name = pl.concat_str(
        pl.lit(inputs), "twin", of_finding, "record_id", separator="--", ignore_nulls=True
    )
    return key.select(name.alias("probe_id"), pl.all())


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
    """Return the records of each kind of :data:`TITLES`, with their new inputs; ``seed`` determines
    the order of the patients."""
    with_lateral = records.drop_nulls("lateral")
    with_prior = records.drop_nulls("prior_report")
    has_lateral = pl.col("lateral").is_not_null()
    mean_radiograph = records.with_columns(
        frontal=pl.format("mean-{}", "view"),
        lateral=pl.when(has_lateral).then(pl.lit("mean-lateral")),
    )
    return {
        "another_radiograph": exchange(records, _VIEWS, ["context", "view"], seed),
        "mean_radiograph": mean_radiograph,
        "no_lateral": without("lateral", records),
        "another_frontal": exchange(with_lateral, ["frontal"], ["context", "view"], seed),
        "another_lateral": exchange(with_lateral, ["lateral"], ["context"], seed),
        "no_prior": without("prior_report", records),
        "another_prior": exchange(with_prior, ["prior_report"], ["context"], seed),
    }


#: Images to write, by id: the original image, and the region to cover.
_Pictures = dict[str, tuple[str, list | None]]


def _coverings(records: pl.DataFrame, boxes: Boxes) -> tuple[_Pictures, dict[str, pl.DataFrame]]:
    """Return, for each finding that a report affirms, the twins with the finding covered, and those
    with an equal area covered elsewhere. Findings for which one of the views has no control region
    are left out."""
    findings = read_findings(records["report"]).filter(state="positive").select("row", "finding")
    numbered = records.with_row_index("row")
    affirmed = numbered.join(findings, on="row", maintain_order="left_right").drop("row")
    pictures: _Pictures = {}
    rows: dict[str, list[dict]] = {COVERED: [], ELSEWHERE: []}
    for row in affirmed.iter_rows(named=True):
        finding = row["finding"]
        regions: dict[str, dict[str, list[Box] | None]] = {}
        for view in _VIEWS:
            of_image = dict(boxes.get(row[view], {}))
            place = of_image.pop(finding, None)
            if place:
                others = [box for of_finding in of_image.values() for box in of_finding]
                regions[view] = {
                    COVERED: place,
                    ELSEWHERE: control_region(place, others, frontal=view == "frontal"),
                }
        if regions and all(region[ELSEWHERE] is not None for region in regions.values()):
            for twin, twins in rows.items():
                changed = {view: hash_json([twin, finding, row[view]])[:16] for view in regions}
                pictures |= {changed[view]: (row[view], regions[view][twin]) for view in regions}
                twins.append(row | changed)
    return pictures, {twin: pl.DataFrame(twins, affirmed.schema) for twin, twins in rows.items()}


def _write_covered(pictures: _Pictures, paths: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Write the images in which a region is covered, and yield the names of their files."""
    with Ticker("coverings", len(pictures)) as ticker:
        for name, (image, region) in pictures.items():
            picture = covered(open_image(paths[image]), region or [])
            picture.save(folder / f"{name}.jpg", quality=95)
            yield f"{name}.jpg"
            ticker.advance()


def _write_means(
    records: pl.DataFrame, paths: Mapping[str, str], folder: Path, seed: int
) -> Iterator[str]:
    """Write the mean radiograph of each view, of the records' median size, and yield the names of
    the files."""
    columns = {
        f"mean-{view}": part["frontal"]
        for (view,), part in records.group_by("view", maintain_order=True)
    }
    if records["lateral"].count():
        columns["mean-lateral"] = records["lateral"].drop_nulls()
    for name, column in columns.items():
        ids = column.unique().sort().to_list()
        draw = np.random.default_rng(seed).permutation(len(ids))[:_AVERAGED]
        images = [open_image(paths[ids[place]]).convert("L") for place in draw]
        width = int(np.median([image.width for image in images]))
        height = int(np.median([image.height for image in images]))
        resized = [np.asarray(image.resize((width, height)), dtype=float) for image in images]
        mean = np.mean(resized, axis=0)
        Image.fromarray(np.rint(mean).astype(np.uint8)).save(folder / f"{name}.png")
        yield f"{name}.png"
