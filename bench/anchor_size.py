"""The stage `anchors` on a table of invented records: one build in this process, its seconds and peak memory as JSON.

python bench/anchor_size.py FOLDER    # FOLDER holds records.parquet; `bench/anchors.py` makes it
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from pacer.labelling.targets.build_anchors import build_anchors
from pacer.records.columns import TableWriter
from pacer.records.schemas import RECORD_SCHEMA

_WHERE = (
    "in the left base",
    "at the right apex",
    "bilaterally",
    "in the lingula",
    "since the prior study",
    "on the lateral view",
    "in the right lower lobe",
    "greater on the left",
)
_WHAT = (
    "There is no pneumothorax",
    "No focal consolidation, pleural effusion or pneumothorax is seen",
    "Heart size is normal",
    "The cardiomediastinal silhouette is unremarkable",
    "Mild pulmonary edema",
    "Small pleural effusion is unchanged",
    "Patchy opacity may reflect atelectasis or pneumonia",
    "The endotracheal tube ends above the carina",
    "Right PICC in place",
    "The lungs are clear",
    "Old rib fractures are noted",
    "Pleural effusions have resolved",
    "Osseous structures are intact",
)


def unlike(rng: random.Random) -> str:
    """A word that occurs once."""
    return "".join(rng.choices("bcdfghjklmnpqrstvwxz", k=7))


def invented(count: int, seed: int = 3) -> Iterator[str]:
    """Reports of eight sentences, half of which occur in no other report."""
    rng = random.Random(seed)
    for _ in range(count):
        yield " ".join(
            f"{rng.choice(_WHAT)} {rng.choice(_WHERE)}{f' {unlike(rng)}' if rng.random() < 0.5 else ''}."
            for _ in range(8)
        )


def write_records(path: Path, count: int) -> None:
    """``records.parquet`` with invented reports, each of which is in two contexts."""
    empty = dict.fromkeys(RECORD_SCHEMA)
    with TableWriter(path, RECORD_SCHEMA) as out:
        for number, text in enumerate(invented(-(-count // 2))):
            for context in ("sn", "mw")[: min(2, count - 2 * number)]:
                out.add(
                    empty
                    | {
                        "record_id": f"{context}-{number:032x}",
                        "context": context,
                        "split": "train",
                        "study_id": f"{number}",
                        "subject_id": f"{number}",
                        "report_raw": text,
                        "report": text.lower(),
                    }
                )


def _peak() -> float:
    """Megabytes that this program has held at most (Linux; the figure of getrusage would count the parent's, too)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1e6


def main() -> None:
    folder = Path(sys.argv[1])
    (folder / "cache.jsonl").write_text("")
    start, started, own = _peak(), time.perf_counter(), time.process_time()
    audit = build_anchors(folder / "records.parquet", folder / "cache.jsonl", folder / "anchors.parquet")
    print(
        json.dumps(
            {
                "records": audit["records"],
                "seconds": time.perf_counter() - started,
                "own_seconds": time.process_time() - own,
                "start_megabytes": start,
                "megabytes": _peak(),
            }
        )
    )


if __name__ == "__main__":
    main()
