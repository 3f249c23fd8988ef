"""Fill a feature store: every image and every distinct previous report encoded once.

Work goes shard by shard in a scratch directory, divided among the processes of the run; whatever stops it, the next
start keeps the shards that are whole. The key of an entry covers the image's bytes and all that its states follow from
(:func:`recipe_of`), so entries of an earlier store or run are taken over exactly where nothing that made them has
changed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

import polars as pl
import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from rich.filesize import decimal
from torch import Tensor

from pacer.backbones.pointers import fingerprint, resolve
from pacer.config import Features
from pacer.core.errors import BackboneError, DataError, PacerError
from pacer.core.hygiene import cell
from pacer.core.io import atomic_path, hash_file, hash_json, publish, scratch_directory, write_json
from pacer.core.prefetch import prefetch
from pacer.core.processes import process_state
from pacer.core.progress import Ticker
from pacer.data.radiographs import ImageError, reading_problem
from pacer.features import prepare
from pacer.features.encoder import ImageEncoder, TextEncoder
from pacer.features.shards import INDEXES, Entry, Kind, Tensors, divide, take_over, write_shard
from pacer.features.store import DTYPES, MANIFEST, ROUNDING_VERSION, Encoding, Place, as_stored, stacked, text_key

#: Name of the scratch directory. It is the same for all settings: entries are kept by their keys.
_SCRATCH = "store"
#: Part of the free disk that may be filled.
_USABLE = 0.95

Loaded = TypeVar("Loaded")
Item = TypeVar("Item")

#: What entries are encoded with, besides the image or text itself.
Recipe = dict[str, str | int | list[int]]


def build_store(
    config: Features, images: pl.DataFrame, prior_reports: Sequence[str], backbones: Path, out: Path
) -> None:
    """Make or complete the store ``out``.

    Args:
        images: columns ``image_id`` and ``path``. prior_reports: cleaned texts, repeats allowed.

    Raises:
        DataError: two images have one id, states are not finite in the stored type, or images cannot be read:
            ``<out>.unreadable.csv`` lists all of them, and what could be encoded is kept for the next start.
            PacerError: the disk cannot hold the store, or another run makes it.
    """
    state = process_state()
    main, device = state.is_main_process, torch.device(state.device or "cpu")
    vision, text = backbones / "vision", backbones / "text"
    encoders = {"vision": fingerprint(vision), "text": fingerprint(text)}
    encoding = Encoding(config.mode, encoders, config.depths, config.dtype, config.precision, ROUNDING_VERSION)
    recipes: dict[Kind, Recipe] = {kind: recipe_of(kind, encoding, config.prior_tokens, vision) for kind in INDEXES}
    repeated = images.filter(pl.col("image_id").is_duplicated())["image_id"]
    if len(repeated):
        raise DataError(f"{len(repeated)} images share an id with another, such as {repeated[0]}; ids must differ")
    paths = dict(images.select("image_id", "path").iter_rows())
    texts = {text_key(report): report for report in prior_reports}

    with scratch_directory(out, _SCRATCH, main=main) as scratch:
        unreadable: dict[str, str] = {}
        hashes = _hashes(paths, unreadable, config.workers, state)
        recipe = hash_json(recipes["images"])
        keys: dict[Kind, dict[str, str]] = {
            "images": {name: hash_json([recipe, content]) for name, content in hashes.items()},
            "priors": dict.fromkeys(texts, hash_json(recipes["priors"])),
        }
        # the first process looks, and the others write nothing before they know
        known = [take_over(out, scratch, keys) if main else None]
        places: dict[Kind, dict[str, Place]] = broadcast_object_list(known)[0]
        new: dict[Kind, dict[str, Sequence[Entry]]] = {}
        for kind, wanted in keys.items():
            entries = [Entry(name, key) for name, key in wanted.items() if name not in places[kind]]
            new[kind] = divide(kind, entries, config.shard_size)
            for shard, part in new[kind].items():
                places[kind] |= {entry.name: Place(shard, row) for row, entry in enumerate(part)}

        jobs: list[Job[Tensor] | Job[str]] = []
        if new["images"]:
            jobs.append(image_job(config, vision, new["images"], paths, device))
        if new["priors"]:
            jobs.append(prior_job(config, text, new["priors"], texts, device))
        _announce(jobs, config.mode, out, state)
        for job in jobs:
            unreadable |= job.run(scratch, state)
        _refuse_unreadable(unreadable, paths, out, state)
        if main:
            for kind in INDEXES:
                _write_index(scratch, kind, places[kind], keys[kind])
            about = {"recipes": recipes, "encoding": encoding._asdict(), "images": len(paths), "priors": len(texts)}
            write_json(scratch / MANIFEST, about)
            publish(scratch, out)
        state.wait_for_everyone()


def recipe_of(kind: Kind, encoding: Encoding, prior_tokens: int, vision: Path) -> Recipe:
    """The recipe of images or previous reports. Prepared pixels follow from the image processor, not the encoder.

    Raises:
        BackboneError: the encoder comes without its image processor.
    """
    stored: Recipe = {"dtype": encoding.dtype, "precision": encoding.precision, "rounding": encoding.rounding}
    if kind == "priors":
        return {"text": encoding.encoders["text"], "prior_tokens": prior_tokens, **stored}
    images: Recipe = {"mode": encoding.mode, "preparation": prepare.VERSION}
    if encoding.mode == "states":
        return images | {"vision": encoding.encoders["vision"], "depths": list(encoding.depths), **stored}
    processor = resolve(vision) / "preprocessor_config.json"
    if not processor.is_file():
        raise BackboneError(f"{processor} is missing; it says how images are prepared and comes with the encoder")
    return images | {"processor": hash_file(processor)}


def _hashes(paths: Mapping[str, str], unreadable: dict[str, str], workers: int, state: PartialState) -> dict[str, str]:
    """Content hash of each image file; each process reads its share, and all learn all. Why one of this process's share
    has none goes into ``unreadable``."""

    def read(name: str) -> str | None:
        try:
            return hash_file(paths[name])
        except (OSError, ValueError) as error:
            unreadable[name] = reading_problem(error)
            return None

    share = list(paths)[state.process_index :: state.num_processes]
    done: list[tuple[str, str | None]] = []
    with Ticker("hash images", len(share), shown=state.is_main_process and bool(share)) as ticker:
        for pair in zip(share, prefetch(read, share, max(workers, 1)), strict=True):
            done.append(pair)
            ticker.advance()
    hashes = dict(gather_object(done))
    return {name: hashes[name] for name in paths if hashes[name] is not None}


@dataclass
class Job(Generic[Loaded]):
    """The shards of one kind, and how their entries are encoded.

    Args:
        load: reads what an id stands for; raises ImageError where that cannot be read. encode: a batch of what was
            loaded, by id. sizes: bytes of an entry by ``features.mode``. workers: threads that load.
    """

    kind: Kind
    shards: Mapping[str, Sequence[Entry]]
    load: Callable[[str], Loaded]
    encode: Callable[[dict[str, Loaded]], Tensors]
    batch_size: int
    sizes: Mapping[str, int]
    workers: int = 0

    @property
    def count(self) -> int:
        """Entries of all shards."""
        return sum(map(len, self.shards.values()))

    def run(self, scratch: Path, state: PartialState) -> dict[str, str]:
        """Encode and write this process's share; a shard with an entry that cannot be read is omitted.

        Three things happen at a time: threads read the entries of the next batches, one thread encodes a batch, and the
        batch before it is written. A shard is not begun before the one before is whole, so a kill costs one at most.

        Returns:
            Why it cannot be read, by id.

        Raises:
            DataError: states are not finite. OSError: a shard cannot be written.
        """
        unreadable: dict[str, str] = {}

        def load(entry: Entry) -> Loaded | None:
            try:
                return self.load(entry.name)
            except ImageError as error:
                unreadable[entry.name] = error.problem
                return None

        def encode(batch: list[tuple[Entry, Loaded | None]]) -> Tensors:
            readable = {entry.name: value for entry, value in batch if value is not None}
            if len(readable) < len(batch):
                raise _Incomplete
            tensors = self.encode(readable)
            ticker.advance(len(batch))
            return tensors

        share = list(self.shards.items())[state.process_index :: state.num_processes]
        entries = [entry for _, part in share for entry in part]
        with (
            Ticker(f"encode {self.kind}", len(entries), shown=state.is_main_process) as ticker,
            closing(prefetch(load, entries, self.workers, ahead=2 * self.batch_size)) as loaded,
        ):
            for shard, part in share:
                pairs = zip(part, loaded)
                batches = prefetch(encode, _batched(pairs, self.batch_size), workers=1, ahead=1)
                with suppress(_Incomplete), closing(batches):
                    write_shard(scratch / shard, part, batches)
                for _ in pairs:  # the rest of an incomplete shard is read all the same, so that all errors are known
                    pass
        return unreadable


class _Incomplete(Exception):
    """A shard has an entry that cannot be read."""


def _batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    iterator = iter(items)
    return iter(lambda: list(islice(iterator, size)), [])


def image_job(
    config: Features,
    vision: Path,
    shards: Mapping[str, Sequence[Entry]],
    paths: Mapping[str, str],
    device: torch.device,
) -> Job[Tensor]:
    """Images to their states, or to their prepared pixels (``features.mode``)."""
    encoder = ImageEncoder(resolve(vision), config.depths, device, config.precision)

    def load(name: str) -> Tensor:
        return encoder.preparation.levels(paths[name])

    def states(levels: dict[str, Tensor]) -> Tensors:
        encoded = encoder.encode_levels(stacked(list(levels.values())))
        return {"states": as_stored(encoded, DTYPES[config.dtype], [f"image {name}" for name in levels]).cpu()}

    def pixels(levels: dict[str, Tensor]) -> Tensors:
        return {"pixels": stacked(list(levels.values()))}

    # a shard of pixels is one batch: its rows have one shape, three planes where any of its images is in colour
    encode, batch_size = (states, config.batch_size) if config.mode == "states" else (pixels, config.shard_size)
    size, model = encoder.preparation.pixels, encoder.model.config
    shape = size // model.patch_size**2, model.hidden_size, size
    sizes = {mode: image_bytes(config, mode, *shape) for mode in ("states", "pixels")}
    return Job("images", shards, load, encode, batch_size, sizes, max(config.workers, 1))


def prior_job(
    config: Features, text: Path, shards: Mapping[str, Sequence[Entry]], texts: Mapping[str, str], device: torch.device
) -> Job[str]:
    """Previous reports to their states, and the mask of the positions that are no padding."""
    encoder = TextEncoder(resolve(text), config.prior_tokens, device, config.precision)
    dtype, width = DTYPES[config.dtype], encoder.model.config.hidden_size

    def encode(batch: dict[str, str]) -> Tensors:
        states, mask = encoder.encode(list(batch.values()))
        stored = as_stored(states, dtype, [f"previous report {key}" for key in batch])
        return {"states": stored.cpu(), "mask": mask.to(torch.uint8).cpu()}

    size = config.prior_tokens * (width * dtype.itemsize + 1)
    sizes = dict.fromkeys(("states", "pixels"), size)
    return Job("priors", shards, texts.__getitem__, encode, config.batch_size, sizes)


def image_bytes(config: Features, mode: str, patches: int, width: int, pixels: int) -> int:
    """Bytes of an image in a store.

    Args:
        patches: N. width: d of the encoder. pixels: of a prepared image, which is taken to be grey.
    """
    return pixels if mode == "pixels" else len(config.depths) * patches * width * DTYPES[config.dtype].itemsize


def fits(size: float, free: float) -> bool:
    """Whether features of this many bytes may be put on a disk with this many free."""
    return size <= _USABLE * free


def _announce(jobs: Sequence[Job], mode: str, out: Path, state: PartialState) -> None:
    """Print what is to be encoded, and refuse what the disk cannot hold.

    Raises:
        PacerError: the disk cannot hold it (on all processes); the mode with which it could is named.
    """
    if not jobs:
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    free = broadcast_object_list([shutil.disk_usage(out.parent).free])[0]
    other_mode = "pixels" if mode == "states" else "states"
    size, other = (sum(job.count * job.sizes[name] for job in jobs) for name in (mode, other_mode))
    if state.is_main_process:
        what = " and ".join(f"{job.count:,} {job.kind}" for job in jobs)
        print(f"features: {what} to encode, {decimal(size)} of {decimal(free)} free", flush=True)
        if other != size:
            print(f"features: with features.mode: {other_mode} it would be {decimal(other)}", flush=True)
    if not fits(size, free):
        remedy = f"set features.mode: {other_mode}, or free some space"
        if not fits(other, free):
            remedy = "free some space: no other setting fits"
        raise PacerError(f"the features need {decimal(size)} more, but {out.parent} has {decimal(free)} free; {remedy}")


def _refuse_unreadable(unreadable: Mapping[str, str], paths: Mapping[str, str], out: Path, state: PartialState) -> None:
    """End all processes if images cannot be read on any; the first process lists them all in a file.

    Raises:
        DataError: there are some.
    """
    listing = Path(f"{out}.unreadable.csv")
    problems = dict(gather_object(list(unreadable.items())))
    rows = [(cell(name), cell(path), problems[name]) for name, path in paths.items() if name in problems]
    if state.is_main_process:
        listing.unlink(missing_ok=True)
        if rows:
            with atomic_path(listing) as temporary:
                pl.DataFrame(rows, ["image_id", "path", "problem"], orient="row").write_csv(temporary)
    # the launcher ends all processes with the first that ends, so none does before the list is there
    state.wait_for_everyone()
    if rows:
        name, _, problem = rows[0]
        raise DataError(
            f"{len(rows):,} image{'s' * (len(rows) != 1)} cannot be read, such as {name} ({problem}); {listing} lists "
            "all. Repair them and start again, which keeps what was encoded; or remove the files and raise "
            "corpus.max_bad_rows, which leaves their records out"
        )


def _write_index(folder: Path, kind: Kind, places: Mapping[str, Place], keys: Mapping[str, str]) -> None:
    """Write one kind's index in the order of the corpus, whatever the order of the work."""
    index, column = INDEXES[kind]
    rows = [(name, *places[name], key) for name, key in keys.items()]
    schema = {column: pl.String, "shard": pl.String, "row": pl.Int64, "key": pl.String}
    pl.DataFrame(rows, schema, orient="row").write_parquet(folder / index)
