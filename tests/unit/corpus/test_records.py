"""Records: their prior, their split, their tables, columns of other patients, and the lines of
their audit."""

import math
from collections import Counter
from datetime import date, time, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.config.params import check_splits
from pacer.core.errors import DataError
from pacer.core.exchange import exchange
from pacer.core.schemas import PRIOR_SCHEMA, RECORD_SCHEMA, read_about, read_records, write_table
from pacer.corpus import audit
from pacer.corpus.account import Notes
from pacer.corpus.previous import CHOICE_SCHEMA, choose_previous
from pacer.corpus.records import seeded_split
from tests.support.cases import cases
from tests.support.made_records import few_records
from tests.support.profiles import profile

SCHEMA = {
    "study": pl.String,
    "day": pl.Date,
    "clock": pl.Time,
    "has_report": pl.Boolean,
    "subject": pl.String,
}
NONE = dict.fromkeys(CHOICE_SCHEMA)


def study(text: str, subject: str = "p") -> tuple[Any, ...]:
    """A study as in the file: ``a 5 8 empty`` is of day 5 at 8 o'clock, without a report; ``a - 8``
    has no day."""
    name, day, *more = text.split()
    when = None if day == "-" else date(2180, 1, 1) + timedelta(days=int(day))
    hours = [int(word) for word in more if word.isdigit()]
    return name, when, time(*hours) if hours else None, "empty" not in more, subject


def choices(studies: list[tuple[Any, ...]]) -> dict[str, dict[str, Any]]:
    frame = choose_previous(pl.DataFrame(studies, SCHEMA, orient="row"))
    return {row["study"]: {name: row[name] for name in CHOICE_SCHEMA} for row in frame.to_dicts()}


@cases(__file__, "choices")
def test_rules_of_the_prior(kind: str, case: dict[str, Any]) -> None:
    studies = [study(text) for text in case["studies"].split(", ")]
    for ordered in (studies, studies[::-1]):
        chosen = choices(ordered)[studies[0][0]]
        gap, expected = chosen.pop("gap_days"), NONE | case["choice"]
        assert gap == pytest.approx(expected.pop("gap_days"))
        assert chosen == expected


def test_subjects_have_priors_of_their_own() -> None:
    assert choices([study("s 5"), study("a 3", "q")]) == {"s": NONE, "a": NONE}


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


@given(
    st.sets(st.tuples(st.sampled_from(["sn", "mw"]), st.sampled_from(["train", "val", "test"]))),
    st.booleans(),
)
def test_what_a_run_needs_is_there_or_the_first_that_lacks_is_named(
    present: set[tuple[str, str]], best: bool
) -> None:
    train = MICRO.train.model_copy(update={"checkpoint": "best" if best else "last"})
    params = MICRO.model_copy(update={"train": train})
    lacks = [split for split in ("train", "val")[: 1 + best] if ("sn", split) not in present]
    lacks += ["test"] if not present & {("sn", "test"), ("mw", "test")} else []
    contexts: dict[str, dict] = {"sn": {}, "mw": {}}
    for context in contexts:
        contexts[context] = {
            s: {"records": int((context, s) in present)} for s in ("train", "val", "test")
        }
    if not lacks:
        check_splits(contexts, params)
        return
    with pytest.raises(DataError, match=f"split {lacks[0]}.* has no record"):
        check_splits(contexts, params)


RECORDS = few_records(".jpg")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "r.parquet"


def test_a_table_says_how_it_was_made(path: Path) -> None:
    write_table(path, RECORDS, RECORD_SCHEMA, {"cleaner": "iu_xray", "limit": None})
    assert read_about(path) == {"cleaner": "iu_xray", "limit": None}
    assert dict(pl.read_parquet(path).schema) == RECORD_SCHEMA
    RECORDS.write_parquet(path)
    assert read_about(path) == {}


def test_some_columns_of_the_records(path: Path) -> None:
    write_table(path, RECORDS.head(1), RECORD_SCHEMA)
    assert read_records(path, ["split"]).to_dicts() == [{"split": "train"}]
    assert read_records(path, ["split", "record_id"]).columns == ["split", "record_id"]
    assert dict(read_records(path).schema) == RECORD_SCHEMA
    write_table(path, pl.concat([RECORDS, RECORDS.head(1)]), RECORD_SCHEMA)
    with pytest.raises(DataError, match="record sn-0 appears twice"):
        read_records(path, ["split"])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (RECORDS.drop("view"), r"missing columns \['view'\]"),
        (RECORDS.with_columns(more=1), r"unknown \['more'\]"),
        (RECORDS.with_columns(view=1), "column view has type Int32 instead of String"),
        ("no table", "not a readable Parquet file"),
        (None, "does not exist"),
    ],
    ids=["missing column", "unknown column", "other type", "no table", "no file"],
)
def test_records_are_read_strictly(
    path: Path, table: pl.DataFrame | str | None, message: str
) -> None:
    if isinstance(table, pl.DataFrame):
        table.write_parquet(path)
    elif table is not None:
        path.write_text(table)
    with pytest.raises(DataError, match=message):
        read_records(path)


@given(st.data(), st.integers(0, 5))
def test_exchanged_inputs_are_of_another_patient(data: st.DataObject, seed: int) -> None:
    patients = data.draw(
        st.lists(st.sampled_from("abcde"), min_size=len(RECORDS), max_size=len(RECORDS))
    )
    records = RECORDS.with_columns(subject_id=pl.Series(patients), frontal=pl.col("record_id"))
    owner = dict(records.select("record_id", "subject_id").iter_rows())
    context = dict(records.select("record_id", "context").iter_rows())
    twins = exchange(records, ["frontal"], ["context"], seed)
    for record_id, frontal in twins.select("record_id", "frontal").iter_rows():
        assert owner[record_id] != owner[frontal] and context[record_id] == context[frontal]
    others = records.filter(pl.col("record_id").is_in(twins["record_id"].to_list())).drop("frontal")
    assert twins.drop("frontal").sort("record_id").equals(others.sort("record_id"))
    assert sorted(twins["frontal"]) == sorted(twins["record_id"])  # each given once
    for (name,), part in records.group_by("context"):
        most = max(part["subject_id"].value_counts()["count"].to_list())
        assert (name in twins["context"].to_list()) == (2 * most <= len(part))


def test_a_seed_chooses_other_donors() -> None:
    first, again, other = (exchange(RECORDS, ["frontal"], ["context"], seed) for seed in (0, 0, 1))
    assert first.equals(again) and not first.sort("record_id").equals(other.sort("record_id"))


def test_a_row_that_is_not_accounted_for_is_a_bug() -> None:
    rows = {"used": 3, "bad": 0, "left_out": 1, "previous_only": 0, "beyond_limit": 2}
    assert (
        audit._rows({"sn": 4, "mn": 2}, rows).detail
        == "6 (sn 4, mn 2): 3 used, 1 left out, 2 beyond the limit"
    )
    with pytest.raises(RuntimeError, match="7 rows were read, but 6 are accounted for"):
        audit._rows({"table": 7}, rows)


def test_odd_previous_studies_are_marked() -> None:
    notes = Notes(empty_priors=4)
    rows = [("b", "a", 1.5), ("d", "c", 3.0)]
    priors, config = pl.DataFrame(rows, PRIOR_SCHEMA, orient="row"), profile("phantom").corpus
    gap, empty = audit._priors(priors, {}, config, notes)
    assert gap.detail == "median 2.25 days, longest 3 days; 2 studies"
    assert empty == ("Previous reports empty after cleaning", "4", False)
    kept = config.model_copy(update={"keep_empty_priors": True})
    assert empty not in [*audit._priors(priors, {}, kept, notes)]


@pytest.mark.parametrize(
    ("val", "said"), [(0, "SN val, MN train; only train.checkpoint: best"), (4, "MN train")]
)
def test_an_empty_val_is_named_with_what_it_stops(val: int, said: str) -> None:
    counts = {"sn": {"train": 3, "val": val}, "mn": {"train": 0, "val": 2}}
    contexts = {
        c: {split: {"records": n} for split, n in splits.items()} for c, splits in counts.items()
    }
    check = audit._empty(contexts, ("train", "val"))
    assert (
        check.detail.startswith(said) and check.detail.count(";") == (val == 0) and not check.good
    )
