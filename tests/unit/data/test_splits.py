"""The split by subject."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.config.params import check_splits
from pacer.core.errors import DataError
from pacer.data.records import seeded_split
from tests.support.profiles import profile

#: The micro profile.
MICRO = profile("micro")


@pytest.mark.parametrize("seed", [0, 7, 42])
def test_shares_hold(seed: int) -> None:
    number, shares = 20_000, {"train": 0.7, "val": 0.1, "test": 0.2}
    counts = Counter(seeded_split(str(subject), seed, 0.1, 0.2) for subject in range(number))
    for split, share in shares.items():
        assert abs(counts[split] - number * share) < 4 * math.sqrt(number * share * (1 - share))


def test_seeds_differ() -> None:
    splits = [[seeded_split(str(n), seed, 0.5, 0.5) for n in range(200)] for seed in (1, 2)]
    assert 60 < sum(a == b for a, b in zip(*splits, strict=True)) < 140


@given(st.sets(st.tuples(st.sampled_from(["sn", "mw"]), st.sampled_from(["train", "val", "test"]))), st.booleans())
def test_what_a_run_needs_is_there_or_the_first_that_lacks_is_named(present: set[tuple[str, str]], best: bool) -> None:
    train = MICRO.train.model_copy(update={"checkpoint": "best" if best else "last"})
    params = MICRO.model_copy(update={"train": train})
    lacks = [split for split in ("train", "val")[: 1 + best] if ("sn", split) not in present]
    lacks += ["test"] if not present & {("sn", "test"), ("mw", "test")} else []
    contexts: dict[str, dict] = {"sn": {}, "mw": {}}
    for context in contexts:
        contexts[context] = {s: {"records": int((context, s) in present)} for s in ("train", "val", "test")}
    if not lacks:
        check_splits(contexts, params)
        return
    with pytest.raises(DataError, match=f"split {lacks[0]}.* has no record"):
        check_splits(contexts, params)
