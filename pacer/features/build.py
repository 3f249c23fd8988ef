"""Fill a feature store: every image and every distinct previous report encoded once.

Work goes shard by shard in a scratch directory; a stopped run continues at the next shard. The key of an entry covers
the image's bytes, the encoder's files, the depths and the type, so entries of an earlier store are taken over exactly
where nothing that made them has changed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import polars as pl
import torch
from accelerate import PartialState
from safetensors.torch import save_file

from pacer.core.config import Features
from pacer.core.errors import DataError, PacerError
from pacer.core.io import atomic_path, hash_file, hash_json, publish, scratch_directory, write_json
from pacer.core.pointers import fingerprint, resolve
from pacer.core.processes import process_state
from pacer.core.progress import Ticker
from pacer.features.encoder import ImageEncoder, TextEncoder
from pacer.features.store import IMAGES, MANIFEST, PRIORS, text_key

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def build_store(
    config: Features, images: pl.DataFrame, prior_reports: Sequence[str], backbones: Path, out: Path
) -> dict:
    """Make or complete the store ``out`` and return its manifest.

    Args:
        images: columns ``image_id`` and ``path``. prior_reports: cleaned texts, repeats allowed.

    Raises:
        DataError: images cannot be read; all of them are named. PacerError: the disk cannot hold the store.
    """
    state = process_state()
    device = torch.device(state.device or "cpu")
    vision, text = backbones / "vision", backbones / "text"
    shared = config.model_dump(include={"mode", "dtype"})
    recipes = {"images": {"vision": fingerprint(vision), "depths": config.depths, **shared},
               "priors": {"text": fingerprint(text), "prior_tokens": config.prior_tokens, **shared}}
    paths = dict(images.select("image_id", "path").iter_rows())
    image_recipe, prior_recipe = hash_json(recipes["images"]), hash_json(recipes["priors"])
    keys = {i: hash_json([image_recipe, hash_file(path)]) for i, path in paths.items()}
    texts = {text_key(t): t for t in prior_reports}

    fingerprint_ = hash_json([recipes, config.shard_size, keys, sorted(texts)])
    main = state.is_main_process
    scratch = scratch_directory(out, fingerprint_) if main else nullcontext(Path(f"{out}.scratch") / fingerprint_[:16])
    with scratch as directory:
        state.wait_for_everyone()
        old_images, old_priors = _take_over(out, directory, keys, dict.fromkeys(texts, prior_recipe), main)
        new = [i for i in paths if i not in old_images]
        new_texts = [k for k in texts if k not in old_priors]
        if new:
            encoder = ImageEncoder(resolve(vision), config.depths, device)
            placed = _placed("images", new, config.shard_size)
            missing = [i for i in new if not (directory / placed[i][0]).exists()]
            if missing:
                _check_disk(encoder, config, paths[missing[0]], len(missing), out)
            _encode_images(encoder, config, new, paths, directory, state)
        if new_texts:
            _encode_texts(TextEncoder(resolve(text), config.prior_tokens, device), config, new_texts, texts,
                          directory, state)
        state.wait_for_everyone()
        manifest = {"recipes": recipes, "images": len(paths), "priors": len(texts)}
        if main:
            _write_index(directory, IMAGES, "image_id", old_images, _placed("images", new, config.shard_size), keys)
            _write_index(directory, PRIORS, "text_key", old_priors, _placed("priors", new_texts, config.shard_size),
                         dict.fromkeys(texts, prior_recipe))
            write_json(directory / MANIFEST, manifest)
            publish(directory, out)
        state.wait_for_everyone()
    return manifest


def _placed(kind: str, names: Sequence[str], shard_size: int) -> dict[str, tuple[str, int]]:
    """Shard file and row of each new entry; the file name tells its content, so shards of two runs never collide."""
    placed = {}
    for start in range(0, len(names), shard_size):
        part = names[start : start + shard_size]
        shard = f"{kind}-{hash_json(list(part))[:16]}.safetensors"
        placed |= {name: (shard, row) for row, name in enumerate(part)}
    return placed


def _encode_images(
    encoder: ImageEncoder, config: Features, new: list[str], paths: dict[str, str], directory: Path, state: PartialState
) -> None:
    shards = [new[i : i + config.shard_size] for i in range(0, len(new), config.shard_size)]
    unreadable: list[str] = []
    with Ticker("encode images", len(new)) as ticker, ThreadPoolExecutor(max(config.workers, 1)) as pool:
        for number, names in enumerate(shards):
            shard = directory / _placed("images", names, len(names))[names[0]][0]
            if number % state.num_processes != state.process_index:
                continue
            if shard.exists():
                ticker.advance(len(names))
                continue
            parts = []
            for start in range(0, len(names), config.batch_size):
                batch = names[start : start + config.batch_size]
                pixels = list(pool.map(lambda name: _prepared(encoder, name, paths[name], unreadable), batch))
                readable = [p for p in pixels if p is not None]
                if not unreadable and readable:
                    parts.append(encoder.encode(torch.stack(readable)).to(DTYPES[config.dtype]))
                ticker.advance(len(batch))
            if not unreadable:
                with atomic_path(shard) as temporary:
                    save_file({"states": torch.cat(parts)}, temporary)
    if unreadable:
        raise DataError(f"{len(unreadable)} images cannot be read: {'; '.join(sorted(unreadable)[:20])}")


def _prepared(encoder: ImageEncoder, name: str, path: str, unreadable: list[str]) -> torch.Tensor | None:
    try:
        return encoder.prepare(path)
    except DataError as error:
        unreadable.append(f"{name} ({error})")
        return None


def _encode_texts(
    encoder: TextEncoder, config: Features, new: list[str], texts: dict[str, str], directory: Path, state: PartialState
) -> None:
    with Ticker("encode previous reports", len(new)) as ticker:
        for number, start in enumerate(range(0, len(new), config.shard_size)):
            names = new[start : start + config.shard_size]
            shard = directory / _placed("priors", names, len(names))[names[0]][0]
            if number % state.num_processes == state.process_index and not shard.exists():
                encoded = [encoder.encode([texts[k] for k in names[i : i + config.batch_size]])
                           for i in range(0, len(names), config.batch_size)]
                with atomic_path(shard) as temporary:
                    save_file({"states": torch.cat([s for s, _ in encoded]).to(DTYPES[config.dtype]),
                               "mask": torch.cat([m for _, m in encoded]).to(torch.uint8)}, temporary)
            ticker.advance(len(names))


def _take_over(
    out: Path, directory: Path, image_keys: dict[str, str], prior_keys: dict[str, str], main: bool
) -> tuple[dict[str, tuple[str, int]], dict[str, tuple[str, int]]]:
    """Entries of an earlier store whose key is still right; their shards are linked into ``directory``."""
    if not (out / MANIFEST).exists():
        return {}, {}
    images, priors = (
        {name: (shard, row)
         for name, shard, row, key in pl.read_parquet(out / index).select(column, "shard", "row", "key").iter_rows()
         if wanted.get(name) == key and (out / shard).exists()}
        for index, column, wanted in ((IMAGES, "image_id", image_keys), (PRIORS, "text_key", prior_keys))
    )
    if main:
        for shard in {s for s, _ in [*images.values(), *priors.values()]}:
            if not (directory / shard).exists():
                try:
                    os.link(out / shard, directory / shard)
                except OSError:  # another file system, or one without hard links
                    shutil.copy2(out / shard, directory / shard)
    return images, priors


def _write_index(
    directory: Path, name: str, column: str, old: dict[str, tuple[str, int]], new: dict[str, tuple[str, int]],
    keys: dict[str, str],
) -> None:
    entries = old | new
    table = pl.DataFrame(
        {column: list(entries), "shard": [s for s, _ in entries.values()], "row": [r for _, r in entries.values()],
         "key": [keys[k] for k in entries]},
        schema={column: pl.String, "shard": pl.String, "row": pl.Int64, "key": pl.String},
    )
    with atomic_path(directory / name) as temporary:
        table.write_parquet(temporary)


def _check_disk(encoder: ImageEncoder, config: Features, path: str, count: int, out: Path) -> None:
    """Print what the new images need, and refuse a plan that cannot fit."""
    size = encoder.encode(encoder.prepare(path)[None]).to(DTYPES[config.dtype]).nbytes
    out.parent.mkdir(parents=True, exist_ok=True)
    need, free = size * count, shutil.disk_usage(out.parent).free
    print(f"features: {count} images x {size / 1e6:.2f} MB = {need / 1e9:.2f} GB, {free / 1e9:.1f} GB free", flush=True)
    if need > 0.95 * free:
        raise PacerError(
            f"the features need {need / 1e9:.1f} GB, {free / 1e9:.1f} GB are free at {out.parent}; free space, use "
            "fewer features.depths or a smaller features.dtype"
        )
