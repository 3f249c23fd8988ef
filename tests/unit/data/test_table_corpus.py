"""A corpus from a table of one's own studies, from the file to the records, the priors and the account of rows."""

from __future__ import annotations

import polars as pl
import pytest

from pacer.core.errors import DataError
from tests.support.corpus import Studies, lines_of


def test_a_row_falls_with_its_last_record(studies: Studies) -> None:
    studies.add("a", "2180-01-01")
    studies.add("b", "2180-02-01")
    studies.add("b", "2180-02-01", "LATERAL")
    (studies.folder / "images" / "b-LATERAL.png").unlink()
    studies.settings["max_bad_rows"] = 2
    audit = studies.build()
    assert sorted(studies.records["record_id"]) == ["sn-a", "sn-b", "sw-b"]
    assert (audit["rows"]["used"], audit["rows"]["bad"], audit["excluded"]["count"]) == (3, 0, 1)

    (studies.folder / "images" / "b-PA.png").unlink()
    audit = studies.build()
    assert studies.records["record_id"].to_list() == ["sn-a"]
    assert (audit["rows"]["used"], audit["rows"]["bad"]) == (1, 2)
    assert audit["excluded"] == {"count": 2, "reasons": {"image: the file does not exist": 2}}
    assert studies.priors == []

    studies.settings["max_bad_rows"] = 1
    with pytest.raises(DataError, match=r"2 unusable rows, corpus\.max_bad_rows allows 1"):
        studies.build()


def test_a_previous_study_needs_no_image(studies: Studies) -> None:
    studies.add("a", "2180-01-01", image=None)
    studies.add("b", "2180-02-01")
    audit = studies.build()
    assert sorted(studies.records["record_id"]) == ["sn-b", "sw-b"]
    assert audit["left_out"]["reasons"] == {"no image: its report can only be a previous one": 1}


def test_untouched_findings_are_joined_on_the_study(studies: Studies) -> None:
    studies.add("s50000001", "2180-01-01")
    studies.add("s50000002", "2180-02-01", subject="p2")
    reports = studies.folder / "reports" / "p10" / "p1"
    reports.mkdir(parents=True)
    (reports / "s50000001.txt").write_text(" FINAL REPORT\n FINDINGS:  The 1.2 cm\n nodule.\n\n IMPRESSION:  None.\n")
    studies.settings["original_references"] = "reports"
    audit = studies.build()
    found = dict(studies.records.select("record_id", "findings_original").rows())
    assert found == {"sn-s50000001": "The 1.2 cm nodule.", "sn-s50000002": None}
    assert lines_of(audit)["Original references"] == "for 1 of 2 records"


def test_backslashes_in_paths_are_read_where_the_file_is_there(studies: Studies) -> None:
    (studies.folder / "images" / "p1").mkdir()
    studies.add("s1", "2020-01-01", image="p1/a.png")
    studies.rows[0]["image"] = "p1\\a.png"
    studies.build()
    images = pl.read_parquet(studies.folder / "corpus" / "images.parquet")
    assert images.select("image_id", "path").row(0) == ("p1\\a.png", str(studies.folder / "images" / "p1/a.png"))
    studies.rows[0]["image"] = "..\\a.png"
    with pytest.raises(DataError, match="outside the folder"):
        studies.build()
