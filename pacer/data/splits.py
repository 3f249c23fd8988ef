"""Seeded splits by subject for corpora without splits, independent of the other subjects."""

from __future__ import annotations

import hashlib


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
