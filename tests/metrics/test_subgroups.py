"""Groups of records: a planted gap is found, one that is not there is reported no more often than it may be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pacer.comparison.subgroups import LEAST_UNITS, Subgroup, subgroups
from pacer.core.errors import ConfigError, DataError
from pacer.metrics.cases import control_columns, external_columns
from pacer.metrics.chexbert.observations import OBSERVATIONS
from pacer.metrics.clinical import clinical_efficacy
from pacer.metrics.group_columns import with_groups, with_prior_days
from pacer.params.score import Groups
from pacer.reporting.score_tables import subgroup_table

VIEWS, SECTIONS = ("AP", "PA", "other"), ("findings", "findings+impression")


def made(seed: int, patients: int = 60, gap: float = 0.0, known: bool = True) -> pl.DataFrame:
    """Cases of patients with two examinations in two contexts; some patients are harder than others. ``gap``: share of
    the labels of AP reports that are drawn anew."""
    draw = np.random.default_rng(seed)
    rows = []
    for patient in range(patients):
        hard, sex = draw.uniform(0.05, 0.4), str(draw.choice(["F", "M"]))
        for study in range(2):
            labels = (draw.random(14) < 0.3).astype(int)
            view, sections = str(draw.choice(VIEWS)), str(draw.choice(SECTIONS))
            for context in ("sn", "mw"):
                wrong = draw.random(14) < max(hard, gap * (view == "AP"))
                rows.append(
                    {
                        "record_id": f"{context}-{patient}-{study}",
                        "context": context,
                        "study_id": f"{patient}-{study}",
                        "subject_id": str(patient) if known else "",
                        "reference": " ".join(["a"] * int(draw.integers(5, 40))),
                        "hypothesis": "a",
                        "reference_labels": labels.tolist(),
                        "hypothesis_labels": np.where(wrong, draw.random(14) < 0.3, labels).astype(int).tolist(),
                        "rougeL": float(draw.random()),
                        "view": view,
                        "sections": sections,
                        "prior_days": float(draw.integers(0, 500)) if context == "mw" else None,
                        "group.sex": sex,
                    }
                )
    return pl.DataFrame(rows)


def by_group(found: list[Subgroup]) -> dict[tuple[str, str], Subgroup]:
    return {(one.column, one.value): one for one in found}


def test_values_are_the_scores_of_the_groups_records() -> None:
    cases = made(0)
    found = by_group(subgroups(cases, "llm-rg4"))
    ap = cases.filter(view="AP")
    labels = [np.array(ap[f"{side}_labels"].to_list()) for side in ("reference", "hypothesis")]
    one = found["View", "AP"]
    assert one.score.value == pytest.approx(clinical_efficacy(*labels)["f1"])
    assert one.n == len(ap) and one.units == ap["subject_id"].n_unique()
    assert one.difference is not None and one.difference.second == one.score.value
    assert {column for column, _ in found} == {
        *("View", "Sections", "Previous report", "Age of the previous report", "Findings in the reference"),
        *("Reference", "Length of the reference", "sex"),
    }
    assert all(
        0 <= g.score.low <= g.score.value <= g.score.high <= 1 for g in found.values() if g.score.low is not None
    )
    ages = [value for column, value in found if column == "Age of the previous report"]
    assert ages[-1] == "over a year" and ages[-2] == "up to a year"
    sexes = [found["sex", "F"], found["sex", "M"]]
    assert sexes[0].difference is not None and sexes[1].difference is None
    normal = np.array(cases["reference_labels"].to_list())[:, OBSERVATIONS.index("No Finding")] == 1
    assert found["Reference", "normal"].n == normal.sum()
    rouge = by_group(subgroups(cases, "llm-rg4", "rougeL"))["View", "AP"]
    assert rouge.score.value == pytest.approx(ap["rougeL"].mean())
    with pytest.raises(ConfigError, match=r"'bleu4' is not one of f1, rougeL"):
        subgroups(cases, "llm-rg4", "bleu4")


def test_intervals_are_those_of_a_bootstrap_over_patients() -> None:
    cases, draw = made(1), np.random.default_rng(0)
    one = by_group(subgroups(cases, "llm-rg4", "rougeL"))["View", "PA"]
    patients = cases.partition_by("subject_id")
    drawn = []
    for _ in range(400):
        sample = pl.concat([patients[place] for place in draw.integers(0, len(patients), len(patients))])
        drawn.append(sample.filter(view="PA")["rougeL"].mean() - sample.filter(pl.col("view") != "PA")["rougeL"].mean())
    found = one.difference
    assert found is not None and found.low is not None and found.high is not None
    assert (found.high - found.low) / 4 == pytest.approx(np.std(drawn), rel=0.15)


@pytest.mark.slow
def test_a_planted_gap_is_found_and_one_that_is_not_there_seldom() -> None:
    """Of 150 worlds without a gap at most one in twenty has any group below .05 after correction, but for chance: 9 %
    is more than two standard errors above."""
    for seed in range(5):
        found = by_group(subgroups(made(seed, gap=0.7), "llm-rg4"))["View", "AP"]
        assert found.difference is not None and found.difference.difference is not None
        assert found.adjusted is not None and found.adjusted < 0.01 and found.difference.difference < -0.1
    skipped = ("Findings in the reference", "Reference")  # what there is to find differs
    false = 0
    for seed in range(150):
        tests = [
            g for g in subgroups(made(seed + 1000), "llm-rg4") if g.column not in skipped and g.adjusted is not None
        ]
        assert len(tests) > 10
        false += any(group.adjusted < 0.05 for group in tests)
    assert false / 150 < 0.09


def test_small_groups_and_unknown_values_are_not_tested() -> None:
    cases = made(2)
    few = pl.when(pl.int_range(pl.len()) < 4).then(pl.lit("rare")).when(pl.int_range(pl.len()) < 40)
    cases = cases.with_columns(few.then(None).otherwise(pl.lit("usual")).alias("group.site"))
    found = by_group(subgroups(cases, "llm-rg4"))
    rare = found["site", "rare"]
    assert rare.n == 4 and rare.units < LEAST_UNITS and rare.difference is None and rare.adjusted is None
    assert rare.score.value is not None and rare.score.low is None
    assert found["site", "usual"].n == len(cases) - 40, "records without a value stand in neither group"
    table = subgroup_table(list(found.values()))
    assert table.rows[-2][:3] == ("site", "rare", "4") and table.rows[-2][-1] == ""
    alone = subgroups(cases.with_columns(view=pl.lit("PA")), "llm-rg4")
    assert "View" not in {one.column for one in alone}, "one value is no group"


def test_patients_that_are_not_known_give_way_to_examinations() -> None:
    found = subgroups(made(3, known=False), "llm-rg4")
    one = by_group(found)["Previous report", "with"]
    assert one.units == one.n == 120 and one.unit == "study"
    table = subgroup_table(found)
    assert table.columns[3] == "Units: study" and "Patients are not known" in table.notes[0]
    assert not subgroup_table(subgroups(made(3), "llm-rg4")).notes


RECORDS = pl.DataFrame({"record_id": ["a", "b", "c"], "subject_id": ["1", "1", "2"], "study_id": ["7", "8", "9"]})


def table(folder: Path, text: str, columns: tuple[str, ...] = ("sex",), column: str = "patient") -> Groups:
    (folder / "patients.csv").write_text(text)
    return Groups(file=str(folder / "patients.csv"), id="subject_id", column=column, columns=[*columns])


def test_columns_of_a_users_table(tmp_path: Path) -> None:
    text = "patient,sex,band\np1,F,60-69\np1,F,60-69\n3,M,\n"
    found = with_groups(RECORDS, table(tmp_path, text, ("sex", "band")))
    assert found["group.sex"].to_list() == ["F", "F", None] and found["record_id"].to_list() == ["a", "b", "c"]
    assert found["group.band"].to_list() == ["60-69", "60-69", None]


def test_ids_fit_with_or_without_the_letter_on_either_side(tmp_path: Path) -> None:
    lettered = RECORDS.with_columns(subject_id="p" + pl.col("subject_id"))
    for text in ("patient,sex\np1,F\n", "patient,sex\n1,F\n"):
        assert with_groups(lettered, table(tmp_path, text))["group.sex"].to_list() == ["F", "F", None]
        assert with_groups(lettered, table(tmp_path, text))["subject_id"].to_list() == ["p1", "p1", "p2"]


def test_columns_may_be_named_as_ids_and_hold_a_slash(tmp_path: Path) -> None:
    columns = "race/ethnicity", "subject_id"
    found = with_groups(RECORDS, table(tmp_path, "patient,race/ethnicity,subject_id\n1,other,x\n", columns))
    assert found["group.race/ethnicity"].to_list() == ["other", "other", None]
    assert found["group.subject_id"].to_list() == ["x", "x", None] and not external_columns(found)
    assert not control_columns(found.with_columns(pl.lit(True).alias("group.was_unchanged")), "_unchanged")


@pytest.mark.parametrize(
    ("text", "column", "sentence"),
    [
        ("patient,gender\n1,F\n", "patient", "no column sex .*it has: patient, gender"),
        ("patient,sex\n8,F\n", "patient", "no record has a subject_id of its column patient"),
        ("patient,sex\n1,F\n1,M\n", "patient", "different values for subject_id 1"),
        ("id,sex\n1,F\n", "patient", "no column patient"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(tmp_path: Path, text: str, column: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        with_groups(RECORDS, table(tmp_path, text, column=column))


def test_ids_that_the_records_lack_are_asked_for(tmp_path: Path) -> None:
    records = RECORDS.with_columns(subject_id=pl.lit(None, pl.String))
    with pytest.raises(DataError, match=r"score\.groups: no record has a subject_id; name that column so"):
        with_groups(records, table(tmp_path, "patient,sex\n1,F\n"))


def test_a_column_of_many_values_is_refused(tmp_path: Path) -> None:
    records = pl.DataFrame({"subject_id": [str(number) for number in range(21)]})
    text = "patient,age\n" + "".join(f"{number},{number + 30}\n" for number in range(21))
    with pytest.raises(DataError, match="column age has 21 values, more than 20; give bands"):
        with_groups(records, table(tmp_path, text, ("age",)))


def test_days_since_the_previous_report(tmp_path: Path) -> None:
    records = RECORDS.with_columns(prior_report=pl.Series([None, "text", "text"]))
    assert with_prior_days(records, tmp_path / "priors.parquet") is records
    pl.DataFrame({"study_id": ["7", "8"], "gap_days": [3.0, 4.0]}).write_parquet(tmp_path / "priors.parquet")
    assert with_prior_days(records, tmp_path / "priors.parquet")["prior_days"].to_list() == [None, 4.0, None]
