"""Check of the splits that a run's settings need."""

from __future__ import annotations

from collections.abc import Collection

from pacer.config.params import Params
from pacer.core.errors import DataError


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
