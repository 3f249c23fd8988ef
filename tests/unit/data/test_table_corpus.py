"""A corpus from a table of one's own studies, from the file to the records, the priors and the account of rows."""

from __future__ import annotations

import polars as pl
import pytest

from pacer.core.errors import DataError
from pacer.data.readers.table import _columns
from pacer.data.tables import CsvForm, open_table
from tests.support.corpus import Studies, lines_of, looks_of


def test_a_study_gives_every_context_that_its_sources_allow(studies: Studies) -> None:
    studies.add("b", "2180-03-01")
    studies.add("b", "2180-03-01", "LATERAL")
    studies.add("a", "2180-02-01")
    audit = studies.build()
    records = studies.records
    assert sorted(records["record_id"]) == ["mn-b", "mw-b", "sn-a", "sn-b", "sw-b"]
    assert records["report"].n_unique() == 2
    assert records.filter(pl.col("context").is_in(["sw", "mw"]))["prior_report"].to_list() == ["report of a ."] * 2
    assert records.filter(pl.col("context").is_in(["sn", "mn"]))["prior_report"].null_count() == 3
    assert studies.priors == [("b", "a", 29.0, "date")]
    said = "median 29 days, longest 29 days; 1 studies: 1 by date"
    assert lines_of(audit)["Time since the previous study"] == said


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


def test_one_image_of_two_patients_is_noticed(studies: Studies) -> None:
    studies.add("a", "2180-01-01", image="same.png", indication="Cough.")
    studies.add("b", "2180-02-01", image="same.png", subject="p2", split="test", findings="A 1.2 cm nodule.")
    studies.add("b", "2180-02-01", "LATERAL", image="side.png", subject="p2", split="test", findings="A 1.2 cm nodule.")
    audit = studies.build()
    lines = lines_of(audit)
    assert lines["Images used more than once"].startswith("1 in two patients, 1 in two splits, 1 in two studies (")
    assert (lines["With indication"], lines["With history"]) == ("sn: 50.0 %; mn: 0.0 %", "sn, mn: 0.0 %")


def test_a_table_in_the_form_of_a_hospital(studies: Studies) -> None:
    studies.add("a", "2180-01-01", findings="Erguß, klein; sonst\nunauffällig.")
    studies.add("b", "2180-02-01", findings="No change.")
    studies.build()
    plain = studies.records
    studies.delimiter, studies.encoding = "semicolon", "cp1252"
    studies.build()
    assert studies.records.equals(plain)
    assert "erguß" in plain["report"][0]


@pytest.mark.parametrize(
    ("form", "first", "second"),
    [
        ("DD.MM.YYYY", "3.5.2180", "03.12.2180"),
        ("DD/MM/YYYY", "03/05/2180", "3/12/2180 08:30"),
        ("MM/DD/YYYY", "05/03/2180", "12/3/2180 08:30"),
        ("DD.MM.YYYY", "2180-05-03", "03.12.2180"),
        ("DD-MM-YYYY", "3-5-2180", "03-12-2180 8:30"),
        ("MM-DD-YYYY", "05-03-2180", "12-3-2180"),
    ],
)
def test_dates_of_a_stated_form(studies: Studies, form: str, first: str, second: str) -> None:
    studies.add("a", first)
    studies.add("b", second)
    studies.dates = form
    studies.build()
    (prior,) = pl.read_parquet(studies.folder / "corpus" / "priors.parquet").to_dicts()
    assert (prior["study_id"], prior["prior_study_id"], prior["gap_days"]) == ("b", "a", 214)
    studies.add("c", "31.02.2180" if form.startswith("DD.") else "31/31/2180")
    studies.settings = {"max_bad_rows": 1}
    assert studies.build()["excluded"]["count"] == 1


def test_words_for_no_text_are_none(studies: Studies) -> None:
    word = "\u200bnull"
    studies.add("a", "2180-01-01", findings=word, impression="Clear.", indication=word)
    studies.add("b", "2180-02-01", findings=word, impression=word)
    studies.add("c", "2180-03-01", findings="Larger.", impression=word, history="Cough")
    audit = studies.build()
    records = {row["record_id"]: row for row in studies.records.to_dicts()}
    assert list(records) == ["sn-a", "sn-c", "sw-c"]
    assert (records["sn-a"]["report"], records["sn-a"]["sections"]) == ("clear .", "impression")
    assert records["sn-a"]["indication"] is None and records["sn-c"]["history"] == "Cough"
    assert records["sw-c"]["prior_report"] == "clear ."  # b has none
    assert audit["left_out"]["reasons"] == {"neither findings nor impression": 1}
    assert audit["notes"]["absent_words"] == {"texts": {"findings": 2, "impression": 2, "indication": 1}}


@pytest.mark.parametrize("rounded", ["1.23457E+12", "1,23457e+12", "1.2E+05"])
def test_patients_whose_ids_were_rounded_get_no_report_of_each_other(studies: Studies, rounded: str) -> None:
    studies.settings = {"max_bad_rows": 4}
    studies.add("s1", "2020-01-01", subject=rounded)
    studies.add("s2", "2020-01-05", subject=rounded)
    studies.add("s3", "2020-01-05", subject="101.0")
    studies.add(rounded, "2020-01-06", subject="101.0")
    studies.add("s4", "2020-01-07", subject="101.0")
    audit = studies.build()
    assert audit["excluded"]["count"] == 3
    assert all("has rounded" in reason for reason in audit["excluded"]["reasons"])
    # the study of a rounded id is an earlier one without a report
    assert studies.priors == [("s4", "s3", 2.0, "date")]
    assert f"{rounded}, an id that" in (studies.folder / "corpus" / "problems.csv").read_text()


def test_residue_of_another_format_is_undone_or_counted(studies: Studies) -> None:
    studies.add("s1", "2020-01-01", findings="\\n1.  Heart normal.\\n2. Lungs clear.")
    studies.add("s2", "2020-01-02", findings="Heart &lt; 3 cm_x000D_\nwide.&nbsp;Lungs clear.")
    notes = studies.build()["notes"]
    assert notes["unescaped"] == {"texts": {"findings": 1}}
    written = {r"\n, \r or \t written out": 1}
    assert notes["residue"] == {"findings": written, "prior_findings": written}
    assert studies.records.filter(study_id="s2")["report"][0] == "heart < 3 cm wide . lungs clear ."


def test_dates_as_spreadsheets_write_them(studies: Studies) -> None:
    studies.dates = "MM/DD/YYYY"
    studies.add("s1", "5/6/2018 8:30")
    studies.add("s2", "5/6/2018 13:05")
    studies.add("s3", "5/6/2018 1:06:07 PM")
    studies.add("s4", "12/31/2018 0:00")
    studies.build()
    assert [(study, prior) for study, prior, *_ in studies.priors] == [("s2", "s1"), ("s3", "s2"), ("s4", "s3")]
    studies.add("s5", "13/6/2018 8:30")
    with pytest.raises(DataError, match="date: 13/6/2018 8:30, expected"):
        studies.build()


@pytest.mark.parametrize("empty", ["nan", "NaN", "None", "NULL", "NaT", "<NA>"])
def test_what_programs_write_for_nothing_is_an_empty_cell(studies: Studies, empty: str) -> None:
    studies.settings = {"max_bad_rows": 2}
    studies.add("s1", "2020-01-01", time=empty)
    studies.add("s2", "2020-01-02", subject=empty, time="8:30")
    studies.add("s3", "2020-01-03", time="1:05 PM", subject=empty)
    studies.add("s4", "2020-01-04", time="1:05 PM")
    assert studies.build()["excluded"]["reasons"] == {"subject: the id is missing": 2}
    assert studies.priors == [("s4", "s1", 3.0, "date")]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("NO CHANGE SINCE 5/2/2000. CLEAR.", "NO CHANGE SINCE 7-10-13. CLEAR.", True),
        ("Since ___ clear.", "Since [**2101-3-4**]  clear.", True),
        ("Since XXXX clear.", "Since __ clear.", True),
        ("Since May 2, 2000 clear.", "Since 10 July 2013 clear.", True),
        ("Since [DATE] clear.", "Since <DATE> clear.", True),
        ("Effusion in 2 views.", "Effusion in 3 views.", False),
        ("Effusion of 1-2 cm.", "Effusion of 2-3 cm.", False),
        ("Clear.", "Effusion.", False),
    ],
)
def test_two_texts_of_a_study(studies: Studies, one: str, other: str, same: bool) -> None:
    studies.settings = {"max_bad_rows": 9}
    studies.add("s1", "2020-01-01", findings=one)
    studies.add("s1", "2020-01-01", view="LATERAL", findings=other)
    studies.add("s2", "2020-01-02")
    audit = studies.build()
    assert audit["notes"].get("two_texts") == ({"table": {"studies": 1}} if same else None)
    texts = studies.records.filter(study_id="s1")["report_raw"].unique().to_list()
    assert texts == ([one] if same else [])


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


def test_another_separator_names_the_setting(studies: Studies) -> None:
    studies.add("s1", "2020-01-01")
    studies.delimiter = "semicolon"
    studies.build()
    table = studies.folder / "studies.csv"
    form = CsvForm("semicolon", settings="corpus.table.")
    plain = open_table(table, form)
    with pytest.raises(DataError, match=r"set corpus\.table\.delimiter: semicolon"):
        _columns(table, open_table(table).columns, {})
    table.write_text("sep=;\n" + table.read_text())
    for way in (form, CsvForm(), CsvForm("comma")):
        assert open_table(table, way)[2:] == plain._replace(numbers=[3])[2:]


@pytest.mark.parametrize("name", ["nth", "date"])
def test_a_number_of_order_instead_of_dates(studies: Studies, name: str) -> None:
    studies.columns = {"order": name}
    studies.settings = {"max_bad_rows": 1}
    for study, nth in (("s1", 10), ("s2", 9), ("s3", "9.5"), ("s4", "11")):
        studies.add(study, "")
        del studies.rows[-1]["date"]
        studies.rows[-1][name] = str(nth)
    assert studies.build()["excluded"]["reasons"] == {"order: expected a whole number of at most nine digits": 1}
    assert studies.priors == [("s1", "s2", None, "order"), ("s4", "s1", None, "order")]


def test_an_interval_of_over_100_years_deserves_a_look(studies: Studies) -> None:
    studies.add("s1", "1900-01-01")
    studies.add("s2", "2020-01-02")
    assert "Time since the previous study" in looks_of(studies.build())
