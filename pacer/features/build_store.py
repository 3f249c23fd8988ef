"""Fill a feature store: every image and every distinct previous report encoded once.

Work goes shard by shard in a scratch directory, divided among the processes of the run; whatever stops it, the next
start keeps the shards that are whole. The key of an entry covers the image's bytes and all that its states follow from
(:func:`pacer.features.recipes.recipes`), so entries of an earlier store or run are taken over exactly where nothing
that made them has changed.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object

from pacer.config import Features
from pacer.core.errors import DataError
from pacer.core.hygiene import cell
from pacer.core.io import atomic_path, hash_file, hash_json, publish, scratch_directory, write_json
from pacer.core.prefetch import prefetch
from pacer.core.processes import process_state
from pacer.core.progress import Ticker
from pacer.data.radiographs import reading_problem
from pacer.features.encode import encode_images, encode_priors
from pacer.features.plan import WORDS, Need, announce
from pacer.features.recipes import encoding_of, recipes
from pacer.features.shards import INDEXES, Entry, Kind, Scratch, ShardRecord, damage, finished
from pacer.features.store import MANIFEST, text_key

#: Name of the scratch directory. It is the same for all settings: entries are kept by their keys.
_SCRATCH = "shards"
#: Images that cannot be read and are shown; the list beside the store has all.
_SHOWN = 20


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
    device, main = torch.device(state.device or "cpu"), state.is_main_process
    vision, text = backbones / "vision", backbones / "text"
    encoding = encoding_of(config, vision, text)
    made_of = recipes(config, encoding, vision)
    repeated = images.filter(pl.col("image_id").is_duplicated())["image_id"]
    if len(repeated):
        raise DataError(f"{len(repeated)} images share an id with another, such as {repeated[0]}; ids must differ")
    paths = dict(images.select("image_id", "path").iter_rows())
    texts = {text_key(t): t for t in prior_reports}

    with scratch_directory(out, _SCRATCH, main=main) as folder:
        scratch = Scratch(folder)
        unreadable: dict[str, str] = {}
        hashes = _hashes(paths, unreadable, config.workers, state)
        recipe = hash_json(made_of.images)
        keys: dict[Kind, dict[str, str]] = {
            "images": {name: hash_json([recipe, content]) for name, content in hashes.items()},
            "priors": dict.fromkeys(texts, hash_json(made_of.priors)),
        }
        notes = _kept(out, scratch, keys, state)
        new = {kind: _divided(kind, keys[kind], notes, config.shard_size) for kind in keys}
        # shards go to the processes in turn
        own = {kind: dict(list(new[kind].items())[state.process_index :: state.num_processes]) for kind in new}
        encoders = []
        if new["images"]:
            encoders.append(encode_images(config, vision, own["images"], paths, hashes, device))
        if new["priors"]:
            encoders.append(encode_priors(config, text, own["priors"], texts, device))
        entries = {kind: sum(map(len, shards.values())) for kind, shards in new.items()}
        needs = [Need(encoder.kind, entries[encoder.kind], encoder.sizes) for encoder in encoders]
        announce(needs, config.mode, out, state)
        made: dict[str, ShardRecord] = {}
        for encoder in encoders:
            made |= encoder.run(scratch, main)
            unreadable |= encoder.unreadable
        _refuse_unreadable(unreadable, paths, out, state)
        notes |= dict(gather_object(list(made.items())))
        if main:
            for kind, (index, column) in INDEXES.items():
                _write_index(scratch.store / index, column, kind, notes, keys[kind])
            manifest = {
                "recipes": made_of._asdict(),
                "encoding": encoding._asdict(),
                "images": len(paths),
                "priors": len(texts),
                "shards": {name: notes[name].shard._asdict() for name in sorted(notes)},
            }
            write_json(scratch.store / MANIFEST, manifest)
            publish(scratch.store, out)
        state.wait_for_everyone()


def _hashes(paths: dict[str, str], unreadable: dict[str, str], workers: int, state: PartialState) -> dict[str, str]:
    """Content hash of each image file; each process reads its share, and all learn all. Why one of this process's share
    has none goes into ``unreadable``."""

    def read(name: str) -> str | None:
        try:
            return hash_file(paths[name])
        except (OSError, ValueError) as error:
            unreadable[name] = reading_problem(error)
        return None

    names, done = list(paths)[state.process_index :: state.num_processes], []
    with Ticker("hash images", len(names), shown=state.is_main_process and bool(names)) as ticker:
        for found in zip(names, prefetch(read, names, max(workers, 1)), strict=True):
            done.append(found)
            ticker.advance()
    every = dict(gather_object(done))
    return {name: content for name in paths if (content := every[name]) is not None}


def _kept(out: Path, scratch: Scratch, keys: dict[Kind, dict[str, str]], state: PartialState) -> dict[str, ShardRecord]:
    """Shards that need not be made: what an earlier run left in scratch, then what the store ``out`` has undamaged.

    The first process looks and tells the others. What is damaged is named on the console.
    """
    kept: dict[str, ShardRecord] = {}
    if state.is_main_process:
        notes = scratch.left()
        try:
            notes |= finished(out)
        except DataError as error:
            print(f"features: {error}: nothing of it is used, all is encoded again", flush=True)
        missing = {kind: wanted.copy() for kind, wanted in keys.items()}
        for path, note in notes.items():
            held = [entry for entry in note.entries if missing[note.kind].get(entry.name) == entry.key]
            if not held:
                continue
            if problem := damage(path, note.shard):
                print(
                    f"features: {path} is damaged: {problem}; its {len(held)} {WORDS[note.kind]} are encoded again",
                    flush=True,
                )
                continue
            for entry in held:
                del missing[note.kind][entry.name]
            kept[path.name] = note._replace(entries=held)
            if path.parent == out:
                scratch.take(path, kept[path.name])
        scratch.keep(kept)  # the other processes write nothing before the plan, for which they wait for this one
    return broadcast_object_list([kept])[0]


def _divided(
    kind: Kind, keys: dict[str, str], notes: dict[str, ShardRecord], shard_size: int
) -> dict[str, list[Entry]]:
    """Shards of the entries that no note has, in order. A shard's name follows from its entries and their keys."""
    known = {entry.name for note in notes.values() if note.kind == kind for entry in note.entries}
    names = [name for name in keys if name not in known]
    parts = [names[start : start + shard_size] for start in range(0, len(names), shard_size)]
    return {
        f"{kind}-{hash_json([[name, keys[name]] for name in part])[:16]}.safetensors": [
            Entry(name, row, keys[name]) for row, name in enumerate(part)
        ]
        for part in parts
    }


def _refuse_unreadable(unreadable: dict[str, str], paths: dict[str, str], out: Path, state: PartialState) -> None:
    """End all processes if images cannot be read on any; the first process lists them all in a file.

    Raises:
        DataError: there are some.
    """
    listing = Path(f"{out}.unreadable.csv")
    found = dict(gather_object(list(unreadable.items())))
    rows = [(cell(name), cell(path), found[name]) for name, path in paths.items() if name in found]
    if state.is_main_process:
        listing.unlink(missing_ok=True)
        if rows:
            with atomic_path(listing) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([("image_id", "path", "problem"), *rows])
    # the launcher ends all processes with the first that ends, so none does before the list is there
    state.wait_for_everyone()
    if not rows:
        return
    number = f"{len(rows):,} image{'s' * (len(rows) != 1)}"
    if not state.is_main_process:
        raise DataError(f"{number} cannot be read; {listing} lists them")
    shown = "; ".join(f"{name} ({problem})" for name, _, problem in rows[:_SHOWN])
    more = f"; and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
    raise DataError(
        f"{number} cannot be read: {shown}{more}. {listing} lists all. Repair them and run the stage "
        "again, which reuses what is encoded; or remove them and raise corpus.max_bad_rows to leave their records out"
    )


def _write_index(path: Path, column: str, kind: Kind, notes: dict[str, ShardRecord], keys: dict[str, str]) -> None:
    """Write one kind's index in the order of the corpus, whatever the order of the work."""
    places = {
        entry.name: (name, entry.row) for name, note in notes.items() if note.kind == kind for entry in note.entries
    }
    table = pl.DataFrame(
        [(name, *places[name], key) for name, key in keys.items()],
        {column: pl.String, "shard": pl.String, "row": pl.Int64, "key": pl.String},
        orient="row",
    )
    with atomic_path(path) as temporary:
        table.write_parquet(temporary)
