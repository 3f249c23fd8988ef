"""Reading a corpus of MIMIC-RG4's size: seconds and peak memory.

    python bench/corpus.py                      # the paper's 424,411 train records and its val and test records
    python bench/corpus.py --records 100000     # the same mixture at another size

The script first writes annotation files of invented text in the released layout (not timed). Reading, cleaning and
auditing run in a separate process without opening images; its peak memory is reported by the operating system. Nothing
else should run meanwhile. Results are printed as JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl

from pacer.config import Corpus
from pacer.config.profiles import load_profile
from pacer.core.contexts import CONTEXTS, availability
from pacer.data.audit import PAPER_RECORDS

ROOT = Path(__file__).resolve().parents[1]
PAPER_TOTAL = sum(sum(splits.values()) for splits in PAPER_RECORDS.values())
SUBJECTS = "The lungs", "Heart size", "Lung volumes", "The left base", "A pacemaker", "The pleural space"
STATES = "is normal", "are clear", "is unchanged", "shows a 1.2 cm opacity", "could reflect atelectasis"


def sentences(rng: random.Random, count: int) -> str:
    number = rng.randrange(1000)
    return " ".join(f"{rng.choice(SUBJECTS)} {rng.choice(STATES)}, view {number}." for _ in range(count))


def invented_record(rng: random.Random, context: str, folder: str, study: int) -> dict[str, Any]:
    """Return a record in the format of the released files."""
    lateral, prior = availability(context)
    name = f"{rng.getrandbits(128):032x}"
    record: dict[str, Any] = {
        "id": f"{name}_{study}",
        "finding": sentences(rng, 5),
        "impression": sentences(rng, 2),
        "APPA_flag": rng.choice(("AP", "PA")),
        "APPA_imagepath": f"{folder}/{name}.jpg",
        "history": 0,
        "indication": sentences(rng, 1),
        "new_scores": [rng.randrange(2) for _ in range(rng.randrange(30, 100))],
    }
    if lateral:
        record["lateral_imagepath"] = f"{folder}/{name[::-1]}.jpg"
    if prior:
        image = f"{folder}/{name[4:]}.jpg"
        record |= {"last_finding": sentences(rng, 4), "last_impression": "s", "last_APPA_imagepath": image}
    return record


def write_annotations(folder: Path, records: int, seed: int = 3) -> None:
    """Write the four annotation files, with ``records`` in total, in the paper's mixture."""
    rng = random.Random(seed)
    for context in CONTEXTS:
        splits: dict[str, list[dict[str, Any]]] = {}
        for place, (split, count) in enumerate(PAPER_RECORDS[context].items()):
            numbers = range(max(round(count * records / PAPER_TOTAL), 1))
            studies = [50_000_000 + 3 * number + place for number in numbers]
            folders = [f"files/p1{place}/p1{place}{study // 9 % 1_000_000:06d}/s{study}" for study in studies]
            splits[split] = [invented_record(rng, context, *pair) for pair in zip(folders, studies, strict=True)]
        (folder / f"{context}.json").write_text(json.dumps(splits))


def unopened(image_ids: Iterable[str], *_: Any) -> pl.DataFrame:
    """Replace the inspection of images: report all as valid, each with a different size."""
    return pl.DataFrame({"image_id": image_ids}).with_columns(
        path=pl.col("image_id"),
        bytes=pl.int_range(1, pl.len() + 1, dtype=pl.Int64),
        width=pl.lit(1, pl.Int32),
        height=pl.lit(1, pl.Int32),
        problem=pl.lit(None, pl.String),
        part=pl.lit(None, pl.String),
        ignored=pl.lit(None, pl.String),
    )


def read(root: Path) -> None:
    """Build the corpus from the files below ``root``, and print the seconds and peak memory."""
    from pacer.data.build_corpus import build_corpus
    from pacer.data.source import point_to_files

    values = load_profile(ROOT / "configs" / "mimic_rg4.yaml").corpus.model_dump()
    values |= {"root": str(root), "images": ".", "annotations": {c: f"{c}.json" for c in CONTEXTS}}
    config, started = Corpus.model_validate(values), time.perf_counter()
    point_to_files(config, root / "source")
    with patch("pacer.data.build_corpus.inspect_images", unopened):
        audit = build_corpus(config, root / "source", root / "corpus")
    seconds = time.perf_counter() - started
    # not getrusage, whose peak would begin with that of the process that started this one
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    peak = int(status["VmHWM"].split()[0]) * 1024 / 1e6
    print(json.dumps({"records": audit["records"], "seconds": round(seconds, 1), "peak_megabytes": round(peak)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=PAPER_TOTAL)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_annotations(Path(folder), options.records)
        process = multiprocessing.get_context("spawn").Process(target=read, args=(Path(folder),))
        process.start()
        process.join()
    raise SystemExit(process.exitcode)


if __name__ == "__main__":
    main()
