"""The lines of a corpus's audit: what is counted, and what is marked."""

import polars as pl
import pytest

from pacer.data import audit
from pacer.data.account import Account
from pacer.data.schemas import PRIOR_SCHEMA
from tests.support.profiles import profile


def test_a_row_that_is_not_accounted_for_is_a_bug() -> None:
    rows = {"used": 3, "bad": 0, "left_out": 1, "beyond_limit": 2}
    assert audit._rows({"sn": 4, "mn": 2}, rows).detail == "6 (sn 4, mn 2): 3 used, 1 left out, 2 beyond the limit"
    with pytest.raises(RuntimeError, match="7 rows were read, but 6 are accounted for"):
        audit._rows({"table": 7}, rows)


def test_odd_previous_studies_are_marked() -> None:
    account = Account()
    account.empty_priors = 4
    rows = [("b", "a", 1.5), ("d", "c", 3.0)]
    priors, config = pl.DataFrame(rows, PRIOR_SCHEMA, orient="row"), profile("phantom").corpus
    gap, empty = audit._priors(priors, {}, config, account)
    assert gap.detail == "median 2.25 days, longest 3 days; 2 studies"
    assert empty == ("Previous reports empty after cleaning", "4", False)
    kept = config.model_copy(update={"keep_empty_priors": True})
    assert empty not in [*audit._priors(priors, {}, kept, account)]


@pytest.mark.parametrize(("val", "said"), [(0, "SN val, MN train; only train.checkpoint: best"), (4, "MN train")])
def test_an_empty_val_is_named_with_what_it_stops(val: int, said: str) -> None:
    counts = {"sn": {"train": 3, "val": val}, "mn": {"train": 0, "val": 2}}
    contexts = {c: {split: {"records": n} for split, n in splits.items()} for c, splits in counts.items()}
    check = audit._empty(contexts, ("train", "val"))
    assert check.detail.startswith(said) and check.detail.count(";") == (val == 0) and not check.good
