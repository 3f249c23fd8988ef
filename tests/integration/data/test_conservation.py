"""No row disappears: whatever a record holds, it becomes a record, a named problem, or a counted omission."""

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from pacer.core.errors import DataError
from pacer.data.cleaning import CLEANERS
from tests.support.corpus import TinyCorpus, record

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.just("s"),
    st.just("\ud800"),
    st.lists(st.floats() | st.integers() | st.text(max_size=3), max_size=4),
    st.dictionaries(st.text(), st.none(), max_size=1),
    st.integers(10**300, 10**310),
)
FIELDS = [*record("mw", 1, 2), "study_id", "subject_id", "surplus"]
CHANGES = st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=4)
RECORDS = st.lists(st.tuples(st.integers(1, 4), CHANGES, st.booleans()) | ODD, max_size=6)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    files=st.fixed_dictionaries({c: st.fixed_dictionaries({"train": RECORDS, "test": RECORDS}) for c in ("sn", "mw")}),
    unseen=st.sampled_from(("keep", "strip")),
    target=st.sampled_from(["findings", "findings_and_impression"]),
    cleaner=st.sampled_from(sorted(CLEANERS)),
    limit=st.none() | st.integers(1, 3),
)
def test_rows_are_conserved(tmp_path_factory, files, unseen, target, cleaner, limit) -> None:
    root = tmp_path_factory.mktemp("corpus")
    tiny = TinyCorpus(root / "raw", root / "out")
    tiny.files = {c: {s: [_record(c, r) for r in rows] for s, rows in splits.items()} for c, splits in files.items()}
    for study in range(1, 5):
        for shift, name in enumerate(("frontal", "lateral")):  # each with its own grey: equal pictures are listed too
            path = tiny.root / "files" / f"p0/p7/s{study}/{name}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (16, 16), 20 * study + 100 * shift).save(path)
    tiny.settings = {
        "unseen_comparisons": unseen,
        "target": target,
        "cleaner": cleaner,
        "limit": limit,
        "max_bad_rows": 1000,
    }
    given_rows = sum(len(rows) for splits in tiny.files.values() for rows in splits.values())
    try:
        audit = tiny.build()
    except DataError as error:
        assert "no usable records are left" in str(error)
        return
    account = audit["rows"]
    assert sum(account["read"].values()) == given_rows
    # a used row gives one record here
    listed = pl.read_csv(tiny.out / "corpus" / "problems.csv", infer_schema=False)
    assert audit["records"] == account["used"]
    unused = listed.filter(pl.col("kind") != "doubted")  # those are used, such as one picture in two splits
    assert unused.height == account["bad"] + account["left_out"] == listed["rows"].cast(int).sum()
    assert tiny.records.height == audit["records"]


def _record(context, drawn):
    if not isinstance(drawn, tuple):
        return drawn
    study, changes, drop = drawn
    content = record(context, 7, study) | changes
    if drop and changes:
        del content[sorted(changes)[0]]
    return content
