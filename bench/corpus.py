"""Reading a corpus of MIMIC-RG4's size: seconds, peak memory, and bytes a record in a training process.

    python bench/corpus.py                      # the paper's 424,411 train records and its val and test records
    python bench/corpus.py --records 100000     # the same mixture at another size

Annotation files of invented text in the released layout are written first (not timed). Reading, cleaning and auditing
run in a process of their own without opening images; its peak memory is the operating system's own figure. Another
process then maps the records as training does. Nothing else should run meanwhile. Results are printed as JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.contexts import CONTEXTS, availability
from pacer.corpus.audit import PAPER_RECORDS
from pacer.params import Corpus, load_params

ROOT = Path(__file__).resolve().parents[1]
PAPER_TOTAL = sum(sum(splits.values()) for splits in PAPER_RECORDS.values())

_SUBJECTS = (
    "The lungs",
    "Heart size",
    "The cardiomediastinal silhouette",
    "Lung volumes",
    "The left base",
    "The right hilum",
    "Osseous structures",
    "A dual lead pacemaker",
    "The pleural space",
    "An enteric tube",
)
_STATES = (
    "is within normal limits",
    "are clear",
    "is unchanged",
    "shows a 1.2 cm opacity",
    "is enlarged",
    "has increased since the prior study",
    "could reflect atelectasis",
    "shows no effusion",
    "is not seen",
    "projects over the stomach; its tip is not seen",
    "is stable",
    "appear grossly unremarkable",
)


def _text(rng: random.Random, sentences: int) -> str:
    number = rng.randrange(1000)
    return " ".join(f"{rng.choice(_SUBJECTS)} {rng.choice(_STATES)}, view {number}." for _ in range(sentences))


def write_annotations(folder: Path, records: int, seed: int = 3) -> int:
    """Write the four annotation files, ``records`` in all in the paper's mixture; returns their bytes."""
    rng = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for context in CONTEXTS:
        lateral, prior = availability(context)
        with open(folder / f"{context}.json", "w") as file:
            for place, (split, count) in enumerate(PAPER_RECORDS[context].items()):
                file.write("{" if place == 0 else ", ")
                file.write(f'"{split}": [')
                for number in range(max(round(count * records / PAPER_TOTAL), 1)):
                    study = 50_000_000 + 3 * number + place
                    folder_name = f"files/p1{place}/p1{place}{number // 3:06d}/s{study}"
                    name = f"{rng.getrandbits(128):032x}"
                    record: dict[str, Any] = {
                        "id": f"{name}_{study}",
                        "finding": _text(rng, 5),
                        "impression": _text(rng, 2),
                        "APPA_flag": rng.choice(("AP", "PA")),
                        "APPA_imagepath": f"{folder_name}/{name}.jpg",
                        "history": 0,
                        "indication": _text(rng, 1),
                        "new_scores": [rng.randrange(2) for _ in range(rng.randrange(30, 100))],
                    }
                    if lateral:
                        record["lateral_imagepath"] = f"{folder_name}/{name[::-1]}.jpg"
                    if prior:
                        record |= {
                            "last_finding": _text(rng, 4),
                            "last_impression": "s",
                            "last_APPA_imagepath": f"{folder_name}/{name[4:]}.jpg",
                        }
                    file.write((", " if number else "") + json.dumps(record))
                file.write("]")
            file.write("}")
        total += (folder / f"{context}.json").stat().st_size
    return total


def config_of(root: Path) -> Corpus:
    """The four files below ``root`` as a corpus."""
    values = load_params(ROOT / "configs" / "mimic_rg4.yaml").corpus.model_dump()
    values |= {"root": str(root), "images": ".", "annotations": {c: f"{c}.json" for c in CONTEXTS}}
    return Corpus.model_validate(values)


def _unopened(image_ids: list[str], folder: Path, check: str, journal: Path, ticker: Any) -> pl.DataFrame:
    """In place of looking at the images: all of them as they should be, none of another's size."""
    return pl.DataFrame({"image_id": image_ids}).with_columns(
        path=pl.col("image_id"),
        bytes=pl.int_range(1, pl.len() + 1, dtype=pl.Int64),
        width=pl.lit(1, pl.Int32),
        height=pl.lit(1, pl.Int32),
        problem=pl.lit(None, pl.String),
        part=pl.lit(None, pl.String),
    )


def _read(root: Path, results: Any) -> None:
    from pacer.corpus.build_corpus import build_corpus
    from pacer.corpus.source.files import point_to_files

    started = time.perf_counter()
    config = config_of(root)
    point_to_files(config, root / "source")
    audit = build_corpus(config, root / "source", root / "corpus", inspect=_unopened)
    seconds = time.perf_counter() - started
    peak = round(peak_memory() / 1e6)
    results.put({"records": audit["records"], "seconds": round(seconds, 1), "peak_megabytes": peak})


def _write_table(root: Path, results: Any) -> None:
    """What a phase maps: records, their lengths, and a feature store's index of every image and previous report."""
    import numpy as np

    from pacer.core.io import write_json
    from pacer.features.store import IMAGES, MANIFEST, PRIORS, text_key
    from pacer.training.record_table import write_record_table

    records = root / "corpus" / "records.parquet"
    write_record_table(records, records, None, CONTEXTS, root / "records.arrow")
    table = pl.read_parquet(records, columns=["frontal", "lateral", "prior_report"])
    np.save(root / "lengths.npy", np.full((table.height, 2), 300, dtype=np.int32))
    images = pl.concat([table["frontal"], table["lateral"]]).drop_nulls().unique()
    priors = table["prior_report"].drop_nulls().unique().map_elements(text_key, return_dtype=pl.String)
    for name, keys, column in ((IMAGES, images, "image_id"), (PRIORS, priors, "text_key")):
        frame = pl.DataFrame({column: keys}).with_row_index("row")
        frame.with_columns(
            shard=pl.format("{}-{}.safetensors", pl.lit(column), pl.col("row") // 512),
            row=(pl.col("row") % 512).cast(pl.Int64),
        ).write_parquet(root / name)
    write_json(root / MANIFEST, {})
    results.put({"images": len(images), "priors": len(priors)})


def _hold(root: Path, results: Any) -> None:
    """What a training process keeps: mapped records and lengths, the store's index, and the order of an epoch."""
    from itertools import islice

    import numpy as np

    from pacer.features.store import FeatureStore
    from pacer.training.batches import Order, micro_batches
    from pacer.training.record_table import RecordTable

    before = _own_memory()
    table = RecordTable.map(root / "records.arrow")
    lengths = np.load(root / "lengths.npy", mmap_mode="r")
    store = FeatureStore(root)
    order = Order(table.rows("train", CONTEXTS), 16, 32, False, 1, "parent")
    stream = micro_batches(order, lambda rows, visits: lambda numbers: lengths[rows, 0])
    started, read = time.perf_counter(), 0
    for micro in islice(stream, max(order.micro_batches_per_epoch // 10, 1)):
        for row in micro.rows:
            table.row(int(row))
        read += len(micro.rows)
    seconds = time.perf_counter() - started
    held = (_own_memory() - before) / len(table)
    del store
    results.put({"resident_bytes_per_record": round(held), "microseconds_per_row": round(1e6 * seconds / read)})


def _own_memory(figure: str = "RssAnon") -> int:
    """Bytes of memory that belong to this process alone; pages of mapped files do not (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(figure)).split()[1])


def peak_memory() -> int:
    """Most bytes that this process had in memory so far, its children apart (Linux).

    ``ru_maxrss`` would begin with the peak of the process that started this one.
    """
    return _own_memory("VmHWM")


def measure(target: Any, *arguments: Any) -> dict[str, Any]:
    """Run ``target`` in a fresh process and return what it reports."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=target, args=(*arguments, results))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"the measured process ended with code {process.exitcode}")
    return results.get()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=PAPER_TOTAL)
    parser.add_argument("--folder", type=Path, help="keep the generated files here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = arguments.folder or Path(temporary)
        size = write_annotations(root, arguments.records)
        found = measure(_read, root)
        found |= measure(_write_table, root)
        print(json.dumps(found | measure(_hold, root) | {"annotation_megabytes": round(size / 1e6)}))


if __name__ == "__main__":
    main()
