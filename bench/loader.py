"""How fast training batches come from the feature store, against a plain sequential read of the same shards.

    python bench/loader.py [--images 192] [--folder FOLDER]

Makes a store of the paper's shapes ([3, 1369, 768] bfloat16 an image, 6.3 MB; [100, 768] a previous report) with
random content and prints GB/s of its readers, interleaved in one run: the shards one after another into one buffer;
``FeatureStore`` at random; and training batches (texts included) made when asked and made ahead by threads. Beside them
the same states at random from other formats: a Parquet file with a row of bytes for an image, and a ``torch.save`` file
for each. All of it first with the files in the page cache and then after asking the system to drop them.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast

from pacer.core.contexts import CONTEXTS
from pacer.core.io import write_json
from pacer.features.store import IMAGES, MANIFEST, PRIORS, FeatureStore, text_key
from pacer.model.pacer import Batch
from pacer.model.specification import specification_of
from pacer.parallel.prefetch import prefetch
from pacer.params import load_params
from pacer.phantom.tokenizer import phantom_tokenizer
from pacer.training.batches import Order, micro_batches
from pacer.training.examples import Draw, Examples
from pacer.training.record_table import RecordTable

SHARD, BATCH, REPEATS = 64, 16, 5
IMAGE, PRIOR = (3, 1369, 768), (100, 768)
WORDS = (
    "no",
    "acute",
    "effusion",
    "edema",
    "the",
    "heart",
    "is",
    "normal",
    "in",
    "size",
    "with",
    "mild",
    "left",
    "basal",
    "opacity",
    "and",
    "clear",
    "right",
    "lung",
)


def text(number: int, words: int) -> str:
    """Some words that follow from the number."""
    return " ".join(random.Random(number).choices(WORDS, k=words)) + " ."


def write_store(folder: Path, images: int) -> None:
    """Random states of ``images`` images and half as many previous reports."""
    places: dict[str, list] = {"image_id": [], "shard": [], "row": [], "key": []}
    for start in range(0, images, SHARD):
        count = min(SHARD, images - start)
        name = f"images-{start:06d}.safetensors"
        states = torch.randint(0, 255, (count, *IMAGE[:2], 2 * IMAGE[2]), dtype=torch.uint8).view(torch.bfloat16)
        save_file({"states": states}, folder / name)
        for row in range(count):
            for key, value in zip(places, (f"{start + row}.jpg", name, row, ""), strict=True):
                places[key].append(value)
        for row in range(count):
            torch.save(states[row].clone(), folder / f"{start + row}.pt")
        rows = pa.table({"states": [states[row].view(torch.uint8).numpy().tobytes() for row in range(count)]})
        # one row in a group: what is read at random is read alone; random bytes gain nothing from compression
        pq.write_table(
            rows, folder / f"images-{start:06d}.parquet", row_group_size=1, compression="NONE", use_dictionary=False
        )
    pl.DataFrame(places).write_parquet(folder / IMAGES)
    count = images // 2
    save_file(
        {
            "states": torch.zeros(count, *PRIOR, dtype=torch.bfloat16),
            "mask": torch.ones(count, PRIOR[0], dtype=torch.uint8),
        },
        folder / "priors-0.safetensors",
    )
    pl.DataFrame(
        {
            "text_key": [text_key(text(i, 40)) for i in range(count)],
            "shard": ["priors-0.safetensors"] * count,
            "row": list(range(count)),
            "key": [""] * count,
        }
    ).write_parquet(folder / PRIORS)
    write_json(folder / MANIFEST, {})


def records(images: int) -> RecordTable:
    """One record per image and context, its lateral view and previous report picked at random."""
    rng, rows = random.Random(0), []
    for i in range(images):
        for context in CONTEXTS:
            rows.append(
                {
                    "record_id": f"{context}-{i}",
                    "context": context,
                    "split": "train",
                    "view": "PA",
                    "frontal": f"{i}.jpg",
                    "lateral": f"{rng.randrange(images)}.jpg" if context[0] == "m" else None,
                    "report": text(i, 60),
                    "sections": "findings",
                    "prior_report": text(rng.randrange(images // 2), 40) if context[1] == "w" else None,
                    "indication": text(i, 12),
                    "history": None,
                    "emphasis": [0.0] * 50,
                }
            )
    empty = dict.fromkeys(("lateral", "prior_report", "history"), pl.String)
    anchors = pl.DataFrame(
        {
            "positive": [["edema"]] * len(rows),
            "negative": [["pneumothorax"]] * len(rows),
            "uncertain": [[]] * len(rows),
            "record_id": [row["record_id"] for row in rows],
        },
        schema_overrides={"uncertain": pl.List(pl.String)},
    )
    return RecordTable.of(pl.DataFrame(rows, schema_overrides=empty), anchors)


def drop_from_cache(folder: Path) -> None:
    """Ask the system to forget the shards' pages."""
    os.sync()
    for path in (path for kind in ("safetensors", "parquet", "pt") for path in folder.glob(f"*.{kind}")):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def sequential(folder: Path) -> int:
    """Read all image shards into one buffer; returns bytes."""
    read, buffer = 0, None
    for path in sorted(folder.glob("images-*.safetensors")):
        size = path.stat().st_size
        buffer = bytearray(size) if buffer is None or len(buffer) < size else buffer
        with open(path, "rb", buffering=0) as file:
            view = memoryview(buffer)[:size]
            while view:
                count = file.readinto(view)
                read, view = read + count, view[count:]
    return read


def at_random(folder: Path, images: int) -> int:
    """Every image once, in batches, in random order."""
    store = FeatureStore(folder)
    return sum(store.depth_states([f"{image}.jpg" for image in batch]).nbytes for batch in batches_of(images))


def batches_of(images: int) -> list[list[int]]:
    order = torch.randperm(images).tolist()
    return [order[start : start + BATCH] for start in range(0, images, BATCH)]


def from_parquet(folder: Path, images: int) -> int:
    """The same from a Parquet row for each image."""
    files = [pq.ParquetFile(path, memory_map=True) for path in sorted(folder.glob("images-*.parquet"))]
    read = 0
    for batch in batches_of(images):
        rows = [
            files[image // SHARD].read_row_group(image % SHARD)["states"].chunk(0)[0].as_buffer() for image in batch
        ]
        states = torch.from_numpy(np.stack([np.frombuffer(row, np.uint8) for row in rows]))
        read += states.view(torch.bfloat16).view(len(batch), *IMAGE).nbytes
    return read


def from_files(folder: Path, images: int) -> int:
    """The same from a file of ``torch.save`` for each image."""
    return sum(
        torch.stack([torch.load(folder / f"{image}.pt", weights_only=True) for image in batch]).nbytes
        for batch in batches_of(images)
    )


def bytes_of(batch: Batch) -> int:
    return sum(t.nbytes for t in (batch.frontal, batch.lateral, batch.prior) if t is not None)


def training(folder: Path, table: RecordTable, images: int, workers: int) -> int:
    """Training batches until about as many images were read as there are."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=phantom_tokenizer(900), bos_token="<s>", eos_token="</s>")
    published = specification_of("parent", load_params("configs/mimic_rg4.yaml"))
    examples = Examples(table, tokenizer, FeatureStore(folder), published)
    order = Order(table.rows("train", tuple(CONTEXTS)), BATCH, 1, False, random.randrange(1000), "parent")
    plan = micro_batches(order, lambda rows, visits: lambda numbers: rows)
    batches = max(4, 4 * round(images / BATCH / 6))  # rounds of four contexts read six images a place
    stream = prefetch(lambda micro: examples.drawn(micro, 0.5, Draw(1, "parent"), 0.35), plan, workers)
    return sum(bytes_of(batch) for batch in islice(stream, batches))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=192)
    parser.add_argument("--folder", type=Path, help="where the store is made, on the disk to measure")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as temporary:
        folder = Path(temporary)
        write_store(folder, arguments.images)
        table = records(arguments.images)
        readers: dict[str, Callable[[], int]] = {
            "shards one after another": lambda: sequential(folder),
            "store, at random": lambda: at_random(folder, arguments.images),
            "Parquet rows, at random": lambda: from_parquet(folder, arguments.images),
            "torch.load of a file each, at random": lambda: from_files(folder, arguments.images),
            "training batches": lambda: training(folder, table, arguments.images, 0),
            "training batches, 2 threads": lambda: training(folder, table, arguments.images, 2),
        }
        for state in ("in the page cache", "dropped from it"):
            rates: dict[str, list[float]] = {name: [] for name in readers}
            for _ in range(REPEATS):
                for name, read in readers.items():
                    if state == "dropped from it":
                        drop_from_cache(folder)
                    started = time.perf_counter()
                    count = read()
                    rates[name].append(count / (time.perf_counter() - started) / 1e9)
            base = median(rates["shards one after another"])
            for name, found in rates.items():
                print(
                    f"files {state}: {name}: {median(found):.2f} GB/s, {median(found) / base:.2f} of sequential",
                    flush=True,
                )


if __name__ == "__main__":
    main()
