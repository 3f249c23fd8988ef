"""Fill a feature store: encode every image and every distinct previous report once.

The processes of a run divide the shards and write them to a scratch directory. After an
interruption, the next run keeps all complete shards. The key of an entry covers the image's bytes
and everything else that determines its states (:func:`_recipes`). So entries of an earlier store or
run are reused if, and only if, none of this has changed.
"""

import logging
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from rich.filesize import decimal
from torch import Tensor

from pacer.backbones.families import patch_grid, prefix_tokens, vision_config
from pacer.backbones.pointers import fingerprint, resolve
from pacer.config import Features
from pacer.core.errors import DataError, PacerError
from pacer.core.io import (
    atomic_path,
    hash_bytes,
    hash_file,
    hash_json,
    publish,
    read_json,
    scratch_directory,
    write_json,
)
from pacer.core.processes import prefetch, process_state
from pacer.core.progress import Ticker
from pacer.display.numbers import Check, counted, number
from pacer.features.encoder import PREPARATION_VERSION, ImageEncoder, Preparation, TextEncoder
from pacer.features.shards import (
    INDEXES,
    Entry,
    Kind,
    Shards,
    Tensors,
    divide,
    shard_name,
    take_over,
    write_index,
    write_shard,
)
from pacer.features.store import (
    DTYPES,
    MANIFEST,
    ROUNDING_VERSION,
    Encoding,
    Place,
    as_stored,
    stacked,
    text_key,
)
from pacer.images.greyscale import NOTES, ImageError, reading_problem
from pacer.images.radiographs import open_image

_log = logging.getLogger(__name__)

#: Name of the scratch directory, the same for all settings, because keys decide which entries are
#: reused.
_SCRATCH = "store"
#: Fraction of the free disk space that may be filled.
_USABLE = 0.95
#: Number of unreadable images that an error names.
_NAMED = 20

#: Bytes of an entry, by its kind and ``features.mode``.
Sizes = dict[Kind, dict[str, int]]

#: Everything that determines an entry, besides the image or text itself.
Recipe = dict[str, str | int | list[int]]

#: Facts found while decoding an image: the hash of the pixels that the encoder gets, and notes on
#: anything that should be checked.
Look = tuple[str, list[str]]
_LOOKS = {"key": pl.String(), "picture": pl.String(), "notes": pl.List(pl.String())}


def build_store(
    config: Features,
    images: pl.DataFrame,
    prior_reports: Sequence[str],
    backbones: Path,
    out: Path,
    looks: dict[str, Look] | None = None,
) -> None:
    """Create or complete the store ``out``.

    Args:
        images: columns ``image_id`` and ``path``.
        prior_reports: cleaned texts, repeats allowed.
        looks: receives the look of each image that is decoded, by the key of its entry.

    Raises:
        DataError: states are not finite in the stored type, or images cannot be read
            (encoded entries are kept for the next run).
        PacerError: the disk is too small for the store, or another run is making it.
    """
    state = process_state()
    main = state.is_main_process
    device = torch.device(state.device or "cpu")
    vision = backbones / "vision"
    text = backbones / "text"
    encoders = {"vision": fingerprint(vision), "text": fingerprint(text)}
    settings = config.model_dump(include={"mode", "depths", "dtype", "precision"})
    encoding = Encoding(encoders=encoders, rounding=ROUNDING_VERSION, **settings)
    recipes = _recipes(encoding, config.prior_tokens, vision)
    paths = dict(images.select("image_id", "path").iter_rows())
    texts = {text_key(report): report for report in prior_reports}

    preparation = Preparation(resolve(vision))
    sizes = _entry_sizes(config, preparation, vision, text)

    with scratch_directory(out, _SCRATCH, main=main) as scratch:
        recipe = hash_json(recipes["images"])
        hashes, unreadable = _hashes(paths, config.workers, state)
        keys: dict[Kind, dict[str, str]] = {
            "images": {name: hash_json([recipe, content]) for name, content in hashes.items()},
            "priors": dict.fromkeys(texts, hash_json(recipes["priors"])),
        }
        # the first process searches; the others write nothing before they have its result
        found = [take_over(out, scratch, keys) if main else None]
        places: dict[Kind, dict[str, Place]] = broadcast_object_list(found)[0]
        shards = _missing_shards(keys, places, config.shard_size)
        sources: list[_Images | _Priors] = []
        if "images" in shards:
            sources.append(_Images(config, vision, paths, device))
        if "priors" in shards:
            sources.append(_Priors(config, text, texts, device))
        counts = {kind: sum(map(len, parts.values())) for kind, parts in shards.items()}
        size, free = _check_disk(counts, sizes, config.mode, out)
        if main and counts:
            what = " and ".join(f"{count:,} {kind}" for kind, count in counts.items())
            _log.info(
                f"features: {what} to encode; they need {decimal(size)}, and {decimal(free)} is "
                "free"
            )
        for source in sources:
            unreadable |= _encode(source, shards[source.kind], scratch, state)
            if looks is not None and isinstance(source, _Images):
                for name, look in gather_object(list(source.looks.items())):
                    looks[keys["images"][name]] = look
        _refuse_unreadable(unreadable)
        if main:
            for kind in INDEXES:
                write_index(scratch, kind, places[kind], keys[kind])
            manifest = {
                "recipes": recipes,
                "encoding": encoding.model_dump(),
                "images": len(paths),
                "priors": len(texts),
                "processor": str(preparation),
            }
            write_json(scratch / MANIFEST, manifest)
            publish(scratch, out)
        state.wait_for_everyone()


def _missing_shards(
    keys: Mapping[Kind, Mapping[str, str]], places: dict[Kind, dict[str, Place]], shard_size: int
) -> dict[Kind, Shards]:
    """Divide the entries that have no place into shards, by kind, and add their places. Kinds of
    which no entry is missing are left out."""
    missing: dict[Kind, Shards] = {}
    for kind, wanted in keys.items():
        entries = [Entry(name, key) for name, key in wanted.items() if name not in places[kind]]
        if not entries:
            continue
        missing[kind] = divide(kind, entries, shard_size)
        for shard, part in missing[kind].items():
            places[kind] |= {entry.name: Place(shard, row) for row, entry in enumerate(part)}
    return missing


def _recipes(encoding: Encoding, prior_tokens: int, vision: Path) -> dict[Kind, Recipe]:
    """Return the recipes of images and previous reports. Prepared pixels depend only on the image
    processor."""
    stored: Recipe = {
        "dtype": encoding.dtype,
        "precision": encoding.precision,
        "rounding": encoding.rounding,
    }
    images: Recipe = {"mode": encoding.mode, "preparation": PREPARATION_VERSION}
    if encoding.mode == "states":
        images |= {"vision": encoding.encoders["vision"], "depths": encoding.depths} | stored
        prefix = prefix_tokens(vision_config(resolve(vision)))
        if prefix != 1:
            images["prefix"] = prefix
    else:
        images["processor"] = hash_file(resolve(vision) / "preprocessor_config.json")
    priors: Recipe = {"text": encoding.encoders["text"], "prior_tokens": prior_tokens}
    return {"images": images, "priors": priors | stored}


def _hashes(
    paths: Mapping[str, str], workers: int, state: PartialState
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the hashes of the image files that can be read, and the reasons for the others. Each
    process reads its share, and gets the results of all processes."""

    def read(name: str) -> tuple[str, str | None, str]:
        try:
            return name, hash_file(paths[name]), ""
        except (OSError, ValueError) as error:
            return name, None, reading_problem(error)

    share = list(paths)[state.process_index :: state.num_processes]
    results: list[tuple[str, str | None, str]] = []
    with Ticker("hash images", len(share), shown=state.is_main_process and bool(share)) as ticker:
        for result in prefetch(read, share, max(workers, 1)):
            results.append(result)
            ticker.advance()
    contents = {}
    problems = {}
    for name, content, problem in gather_object(results):
        if content is None:
            problems[name] = problem
        else:
            contents[name] = content
    return {name: contents[name] for name in paths if name in contents}, problems


class _Images:
    """Images, and their encoding as states or prepared pixels (``features.mode``)."""

    kind: Kind = "images"

    def __init__(
        self, config: Features, vision: Path, paths: Mapping[str, str], device: torch.device
    ):
        self.encoder = ImageEncoder(resolve(vision), config.depths, device, config.precision)
        self.config = config
        self.paths = paths
        self.workers = max(config.workers, 1)
        self.looks: dict[str, Look] = {}
        # a shard of pixels is one batch, because its rows have one shape: three planes if any of
        # its images has colour
        self.batch_size = config.batch_size if config.mode == "states" else config.shard_size

    def load(self, name: str) -> Tensor:
        image = open_image(self.paths[name])
        levels = self.encoder.preparation.levels(image)
        notes = list(image.info.get(NOTES, ()))
        self.looks[name] = hash_bytes(levels.numpy().tobytes()), notes
        return levels

    def encode(self, batch: dict[str, Tensor]) -> Tensors:
        levels = stacked(list(batch.values()))
        if self.config.mode == "pixels":
            return {"pixels": levels}
        states = self.encoder.encode_levels(levels)
        names = [f"image {name}" for name in batch]
        return {"states": as_stored(states, DTYPES[self.config.dtype], names).cpu()}


class _Priors:
    """Previous reports, and their encoding as states and a mask of the positions without
    padding."""

    kind: Kind = "priors"
    workers = 0

    def __init__(
        self, config: Features, text: Path, texts: Mapping[str, str], device: torch.device
    ):
        self.encoder = TextEncoder(resolve(text), config.prior_tokens, device, config.precision)
        self.dtype = DTYPES[config.dtype]
        self.load = texts.__getitem__
        self.batch_size = config.batch_size

    def encode(self, batch: dict[str, str]) -> Tensors:
        states, mask = self.encoder.encode(list(batch.values()))
        stored = as_stored(states, self.dtype, [f"previous report {key}" for key in batch])
        return {"states": stored.cpu(), "mask": mask.to(torch.uint8).cpu()}


def _encode(
    source: _Images | _Priors, shards: Shards, scratch: Path, state: PartialState
) -> dict[str, str]:
    """Encode and write this process's share. Return the reasons why entries cannot be read, by id;
    these entries are left out of their shards.

    Three steps run in parallel: threads read the entries of the next shard, one thread encodes a
    batch, and the previous batch is written. A shard starts only after the previous one is
    complete, so a kill loses at most one.
    """
    unreadable: dict[str, str] = {}

    def load(entry: Entry) -> Any:
        try:
            return source.load(entry.name)
        except ImageError as error:
            unreadable[entry.name] = error.problem
            return None

    def encode(batch: Sequence[tuple[Entry, Any]]) -> Tensors:
        tensors = source.encode({entry.name: content for entry, content in batch})
        ticker.advance(len(batch))
        return tensors

    share = list(shards.values())[state.process_index :: state.num_processes]
    entries = [entry for part in share for entry in part]
    largest = max(map(len, share), default=0)
    with (
        Ticker(f"encode {source.kind}", len(entries), shown=state.is_main_process) as ticker,
        closing(prefetch(load, entries, source.workers, ahead=largest)) as loaded,
    ):
        for part in share:
            readable = [
                (entry, content) for entry, content in zip(part, loaded) if content is not None
            ]
            rows = [entry for entry, _ in readable]
            starts = range(0, len(readable), source.batch_size)
            batches = (readable[start : start + source.batch_size] for start in starts)
            if rows:
                with closing(prefetch(encode, batches, workers=1, ahead=1)) as encoded:
                    write_shard(scratch / shard_name(source.kind, rows), rows, encoded)
    return unreadable


def _entry_sizes(config: Features, preparation: Preparation, vision: Path, text: Path) -> Sizes:
    """Return the bytes of an entry, from the configurations of the encoders; prepared images are
    assumed to be grey."""
    encoder = vision_config(resolve(vision))
    value = DTYPES[config.dtype].itemsize
    patches = math.prod(patch_grid(encoder, *preparation.size))
    states = len(config.depths) * patches * encoder.hidden_size * value
    width = read_json(resolve(text) / "config.json")["hidden_size"]
    prior = config.prior_tokens * (width * value + 1)
    return {
        "images": {"states": states, "pixels": preparation.pixels},
        "priors": {"states": prior, "pixels": prior},
    }


def _check_disk(counts: Mapping[Kind, int], sizes: Sizes, mode: str, out: Path) -> tuple[int, int]:
    """Check that entries fit on the disk; return their size and the free space in bytes. Raises a
    PacerError in all processes if they do not fit; the message suggests the other mode if its
    entries would fit."""
    [free] = broadcast_object_list([shutil.disk_usage(out.parent).free])
    other_mode = "pixels" if mode == "states" else "states"
    size = sum(count * sizes[kind][mode] for kind, count in counts.items())
    other = sum(count * sizes[kind][other_mode] for kind, count in counts.items())
    if size > _USABLE * free:
        remedy = f"set features.mode: {other_mode}, or free" if other <= _USABLE * free else "free"
        raise PacerError(
            f"the features need another {decimal(size)}, but {out.parent} has {decimal(free)} "
            f"free; {remedy} some space"
        )
    return size, free


def _refuse_unreadable(unreadable: Mapping[str, str]) -> None:
    """Stop all processes if any of them cannot read an image. Raises a DataError if there are
    unreadable images; the message names the first ones."""
    problems = sorted(gather_object(list(unreadable.items())))
    if problems:
        named = "".join(f"\n  {name}: {problem}" for name, problem in problems[:_NAMED])
        more = f"\n  ... and {len(problems) - _NAMED:,} more" if len(problems) > _NAMED else ""
        images = "1 image" if len(problems) == 1 else f"{len(problems):,} images"
        raise DataError(
            f"{images} cannot be read. Repair the files "
            "and rerun the stage (it keeps what is already encoded), or remove them and raise "
            f"corpus.max_bad_rows to leave out the affected records:{named}{more}"
        )


def read_looks(path: Path) -> dict[str, Look]:
    """Return the looks of earlier runs by the key of the image's entry in the store; empty if there
    is no earlier run."""
    rows = pl.read_parquet(path, glob=False).iter_rows() if path.exists() else ()
    return {key: (picture, notes) for key, picture, notes in rows}


def write_looks(path: Path, looks: Mapping[str, Look]) -> None:
    """Write looks by the key of the image's entry in the store, in the order of the keys."""
    with atomic_path(path) as temporary:
        rows = [(key, *look) for key, look in sorted(looks.items())]
        pl.DataFrame(rows, _LOOKS, orient="row").write_parquet(temporary)


def picture_checks(pictures: Path, index: Path, records: pl.DataFrame) -> Iterator[Check]:
    """Yield the lines of an audit; none if nothing needs attention. ``pictures``: written by
    :func:`write_looks`. ``index``: of the images in the feature store. ``records``: those that name
    the images."""
    looks = pl.read_parquet(pictures, glob=False)
    images = pl.read_parquet(index, glob=False)
    images = images.join(looks, on="key", how="left", maintain_order="left")
    unseen = images["picture"].null_count()
    if unseen:
        yield Check(
            "Images reused from an earlier run, not checked by this version",
            number(unseen),
            good=False,
        )
    noted = images.explode("notes").drop_nulls("notes").group_by("notes", maintain_order=True)
    counts = noted.agg(pl.len(), pl.col("image_id").first()).iter_rows()
    odd = [f"{number(count)} × {note} (first: {first})" for note, count, first in counts]
    if odd:
        yield Check("Decoded images that need checking", ", ".join(odd), good=False)
    owners = {"two patients": "subject_id", "two splits": "split", "two studies": "study_id"}
    columns = list(owners.values())
    of_records = records.unpivot(["frontal", "lateral"], index=columns, value_name="image_id")
    repeated = images.drop_nulls("picture").filter(pl.col("key").n_unique().over("picture") > 1)
    uses = of_records.join(repeated, on="image_id", maintain_order="left")
    used = uses.group_by("picture", maintain_order=True).agg(
        pl.col(columns).n_unique() > 1,
        pl.col("image_id").unique(maintain_order=True).head(2),
    )
    totals = {name: int(used[column].sum()) for name, column in owners.items()}
    shared = counted(totals, "{} in {}")
    if shared:
        first = " and ".join(used.filter(pl.any_horizontal(columns))["image_id"][0])
        yield Check("The same picture in several files", f"{shared} (first: {first})", good=False)
