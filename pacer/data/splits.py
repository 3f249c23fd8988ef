"""Seeded splits by subject for corpora without splits, independent of the other subjects; check of the splits that a
run needs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from pacer.config import Params
from pacer.core.errors import DataError


def seeded_split(subject_id: str, seed: int, val: float, test: float) -> str:
    """Return the split of a subject: ``train``, ``val`` or ``test``.

    A keyed hash maps the id to [0, 1); test is the lower end and val the upper end. So adding or removing subjects does
    not move others, and a larger share of val or test takes subjects only from train. Shares hold in expectation.
    """
    key = hashlib.blake2b(str(seed).encode()).digest()
    digest = hashlib.blake2b(subject_id.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest()
    # a float holds 53 bits exactly, so the value stays below 1
    place = (int.from_bytes(digest, "big") >> 11) / 2**53
    if place < test:
        return "test"
    return "val" if place >= 1 - val else "train"


def check_splits(present: Collection[tuple[str, str]], params: Params) -> None:
    """Check, before features are computed, that the pipeline will have records to train on and to decode.

    Args:
        present: (context, split) pairs that have records.

    Raises:
        DataError: a split that a later stage needs has no record.
    """
    needed = [("train", "the phases train on")]
    if params.train.checkpoint == "best":
        needed.append(("val", "train.checkpoint: best asks for"))
    for split, why in needed:
        if ("sn", split) not in present:
            raise DataError(
                f"split {split}, which {why}, has no record of context sn; fix the corpus's splits or corpus.split. "
                "To evaluate a trained model only, use `pacer audit`, `decode` and `score` (README)"
            )
    if not any(split == params.decode.split for _, split in present):
        raise DataError(f"split {params.decode.split} has no record; choose another decode.split")
