"""Fill a feature store: every image and every distinct previous report encoded once.

Work goes shard by shard in a scratch directory, divided among the processes of the run; whatever stops it, the next
start keeps the shards that are whole. The key of an entry covers the image's bytes and all that its states follow from
(:func:`pacer.encoding.works.recipes`), so entries of an earlier store or run are taken over exactly where nothing that
made them has changed.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import polars as pl
import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object

from pacer.core.errors import DataError, PacerError
from pacer.core.io import atomic_path, hash_file, hash_json, publish, scratch_directory, write_json
from pacer.core.progress import Ticker
from pacer.encoding.costs import announce
from pacer.encoding.plan import Work, divide
from pacer.encoding.shards import INDEXES, Note, Scratch, damage, finished
from pacer.encoding.works import encoding, image_work, prior_work, recipes
from pacer.features.store import MANIFEST, text_key
from pacer.parallel.processes import process_state
from pacer.params import Features

#: Name of the scratch directory. It is the same for all settings: entries are kept by their keys.
_SCRATCH = "shards"
#: Images that cannot be read and are shown; the list beside the store has all.
_SHOWN = 20
#: Image files that wait for a thread at a time.
_BLOCK = 256


def build_store(
    config: Features, images: pl.DataFrame, prior_reports: Sequence[str], backbones: Path, out: Path
) -> dict:
    """Make, complete or repair the store ``out`` and return its manifest.

    Args:
        images: columns ``image_id`` and ``path``. prior_reports: cleaned texts, repeats allowed.

    Raises:
        DataError: two images have one id, or images cannot be read: ``<out>.unreadable.csv`` lists all of them, and
            what could be encoded is kept for the next start. PacerError: the disk cannot hold the store, states are
            not finite in the stored type, or another run makes it.
    """
    state = process_state()
    main = state.is_main_process
    vision, text = backbones / "vision", backbones / "text"
    made_of = recipes(config, vision, text)
    repeated = images.filter(pl.col("image_id").is_duplicated())["image_id"]
    if len(repeated):
        raise DataError(f"{len(repeated)} images share an id with another, such as {repeated[0]}; ids must differ")
    paths = dict(images.select("image_id", "path").iter_rows())
    texts = {text_key(t): t for t in prior_reports}

    directory = scratch_directory(out, _SCRATCH) if main else nullcontext(Path(f"{out}.scratch") / _SCRATCH)
    with directory as folder, ThreadPoolExecutor(max(config.workers, 1)) as pool:
        scratch = Scratch(folder)
        hashes, unreadable = _hashes(paths, pool, state)
        recipe = hash_json(made_of["images"])
        keys = {
            "images": {name: hash_json([recipe, content]) for name, content in hashes.items()},
            "priors": dict.fromkeys(texts, hash_json(made_of["priors"])),
        }
        notes = _kept(out, scratch, keys, pool, state)
        kept = {
            kind: {entry.name for note in notes.values() if note.kind == kind for entry in note.entries}
            for kind in keys
        }
        new = {
            kind: divide(kind, [name for name in own if name not in kept[kind]], own, config.shard_size)
            for kind, own in keys.items()
        }
        works = _works(config, new, paths, hashes, texts, vision, text, state)
        announce([work.measure() for work in works], out, state)
        made: dict[str, Note] = {}
        for work in works:
            made |= work.do(scratch, main)
            unreadable |= work.unreadable
        _refuse_unreadable(unreadable, paths, out, state)
        notes |= dict(gather_object(list(made.items())))
        manifest = {
            "recipes": made_of,
            "encoding": encoding(config, vision, text),
            "images": len(paths),
            "priors": len(texts),
        }
        if main:
            manifest |= {
                "indexes": {
                    index: _write_index(scratch.store / index, column, kind, notes, keys[kind])
                    for kind, (index, column) in INDEXES.items()
                },
                "shards": {name: notes[name].shard._asdict() for name in sorted(notes)},
            }
            write_json(scratch.store / MANIFEST, manifest)
            publish(scratch.store, out)
        manifest = broadcast_object_list([manifest])[0]
    return manifest


def _hashes(
    paths: dict[str, str], pool: ThreadPoolExecutor, state: PartialState
) -> tuple[dict[str, str], dict[str, str]]:
    """Content hash of each image file, and why there is none; each process reads its share."""

    def read(name: str) -> tuple[str, str | None, str]:
        try:
            return name, hash_file(paths[name]), ""
        except FileNotFoundError:
            return name, None, "the file does not exist"
        except OSError as error:
            return name, None, f"the file cannot be read ({error.strerror})"
        except ValueError:
            return name, None, "no file can have this name"

    found = []
    own = list(paths)[state.process_index :: state.num_processes]
    with Ticker("hash images", len(own), shown=state.is_main_process) as ticker:
        for start in range(0, len(own), _BLOCK):
            found += pool.map(read, own[start : start + _BLOCK])
            ticker.advance(min(_BLOCK, len(own) - start))
    found = {name: (content, problem) for name, content, problem in gather_object(found)}
    unreadable = {name: found[name][1] for name in paths if found[name][0] is None}
    if unreadable and state.is_main_process:
        print(f"features: {len(unreadable):,} images cannot be read; the others are encoded first", flush=True)
    return {name: found[name][0] for name in paths if found[name][0] is not None}, unreadable


def _kept(
    out: Path, scratch: Scratch, keys: dict[str, dict[str, str]], pool: ThreadPoolExecutor, state: PartialState
) -> dict[str, Note]:
    """Shards that need not be made: what an earlier run left in scratch, then what the store ``out`` has undamaged.

    What is damaged is named on the console.
    """
    notes: dict[str, Note] = {}
    places: dict[str, Path] = {}
    if state.is_main_process:
        notes = scratch.kept(keys)
        places = dict.fromkeys(notes, scratch.store)
        missing = {kind: own.copy() for kind, own in keys.items()}
        for note in notes.values():
            for entry in note.entries:
                missing[note.kind].pop(entry.name, None)
        try:
            old = finished(out, missing)
            notes, places = notes | old, dict.fromkeys(old, out) | places
        except DataError as error:
            print(f"features: {error}: nothing of it is used, all is encoded again", flush=True)
    notes, places = broadcast_object_list([notes, places])
    own = list(notes)[state.process_index :: state.num_processes]
    damaged = []
    with Ticker("verify shards", len(own), shown=state.is_main_process and bool(own)) as ticker:
        for name, problem in zip(own, pool.map(lambda name: damage(places[name] / name, notes[name].shard), own)):
            if problem is None and places[name] == out:
                _take(scratch, out / name, notes[name])
            elif problem is not None:
                damaged.append((name, problem))
                if places[name] != out:
                    scratch.drop(name)
            ticker.advance()
    for name, problem in gather_object(damaged):
        note = notes.pop(name)
        if state.is_main_process:
            kind = "images" if note.kind == "images" else "previous reports"
            print(
                f"features: {places[name] / name} is damaged: {problem}; its {len(note.entries)} {kind} are encoded "
                "again",
                flush=True,
            )
    return notes


def _take(scratch: Scratch, shard: Path, note: Note) -> None:
    try:
        scratch.take(shard, note)
    except OSError as error:
        raise PacerError(f"{shard} can be neither linked nor copied to {scratch.store}: {error.strerror}") from None


def _works(
    config: Features,
    new: dict[str, dict],
    paths: dict[str, str],
    hashes: dict[str, str],
    texts: dict[str, str],
    vision: Path,
    text: Path,
    state: PartialState,
) -> list[Work]:
    """This process's share of the shards of each kind that has any; shards go to the processes in turn."""
    device = torch.device(state.device or "cpu")
    own = {kind: dict(list(shards.items())[state.process_index :: state.num_processes]) for kind, shards in new.items()}
    works = []
    if new["images"]:
        works.append(image_work(config, vision, own["images"], paths, hashes, device))
    if new["priors"]:
        works.append(prior_work(config, text, own["priors"], texts, device))
    return works


def _refuse_unreadable(unreadable: dict[str, str], paths: dict[str, str], out: Path, state: PartialState) -> None:
    """End all processes if images cannot be read on any; the first process lists them all in a file.

    Raises:
        DataError: there are some.
    """
    listing = Path(f"{out}.unreadable.csv")
    found = dict(gather_object(list(unreadable.items())))
    rows = [(name, path, found[name]) for name, path in paths.items() if name in found]
    if state.is_main_process:
        listing.unlink(missing_ok=True)
        if rows:
            with atomic_path(listing) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([("image_id", "path", "problem"), *rows])
    # the launcher ends all processes with the first that ends, so none does before the list is there
    state.wait_for_everyone()
    if not rows:
        return
    if not state.is_main_process:
        raise DataError(f"{len(rows):,} images cannot be read; {listing} lists them")
    shown = "; ".join(f"{name} ({problem})" for name, _, problem in rows[:_SHOWN])
    more = f"; and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
    raise DataError(
        f"{len(rows):,} images cannot be read: {shown}{more}. {listing} lists all. Mend them and start again, which "
        "keeps what was encoded; or leave their records out: corpus.check_images: full, and raise corpus.max_bad_rows"
    )


def _write_index(path: Path, column: str, kind: str, notes: dict[str, Note], keys: dict[str, str]) -> str:
    """Write one kind's index in the order of the corpus, whatever the order of the work; returns its SHA-256."""
    places = {
        entry.name: (name, entry.row) for name, note in notes.items() if note.kind == kind for entry in note.entries
    }
    table = pl.DataFrame(
        {
            column: list(keys),
            "shard": [places[name][0] for name in keys],
            "row": [places[name][1] for name in keys],
            "key": list(keys.values()),
        },
        schema={column: pl.String, "shard": pl.String, "row": pl.Int64, "key": pl.String},
    )
    with atomic_path(path) as temporary:
        table.write_parquet(temporary)
    return hash_file(path)
