"""The split of a corpus that names none: by subject, from a seed, the same whatever other subjects there are. And which
splits a run needs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from pacer.config import Params
from pacer.core.errors import DataError


def seeded_split(subject_id: str, seed: int, val: float, test: float) -> str:
    """The split of a subject: ``train``, ``val`` or ``test``.

    A keyed hash of the id places each subject on [0, 1): test is its lower end, val its upper end. So no subject moves
    when others come or go, and a larger share of one takes subjects from train alone. Shares hold in expectation.
    """
    key = hashlib.blake2b(str(seed).encode()).digest()
    digest = hashlib.blake2b(subject_id.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest()
    # 53 bits: all that a float holds exactly, so that the place stays below 1
    place = (int.from_bytes(digest, "big") >> 11) / 2**53
    if place < test:
        return "test"
    return "val" if place >= 1 - val else "train"


def check_splits(present: Collection[tuple[str, str]], params: Params) -> None:
    """Make sure that the pipeline will find records to train on and to decode, before features are computed for it.

    Args:
        present: context and split of the records that there are.

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
