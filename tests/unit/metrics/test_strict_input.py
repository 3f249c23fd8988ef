"""What arrives in users' files and would change scores in silence: each kind is refused, or read and told."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from pacer.core.errors import DataError
from pacer.metrics.columns import column_scores, read_score_columns
from pacer.metrics.report_files import HYPOTHESIS_COLUMNS, REFERENCE_COLUMNS, reports_of
from tests.support.metrics import paired

TEXTS = ["no effusion .", "the heart is large .", "a tube ."]
IDS = ["101", "102", "103"]


def written(path: Path, rows: list[dict]) -> Path:
    table = pl.DataFrame(rows, infer_schema_length=None)
    if path.suffix in (".csv", ".tsv"):
        table.write_csv(path, separator="," if path.suffix == ".csv" else "\t")
    elif path.suffix == ".parquet":
        table.write_parquet(path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text(json.dumps({row["id"]: row["report"] for row in rows}))
    return path


def rows(texts: list, ids: list = IDS, **further: list) -> list[dict]:
    columns = {"id": ids, **further, "report": texts}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl", "json"])
@pytest.mark.parametrize("nothing", ["", "  ", "\u00a0", None, "nan", "NaN", "None", "null", "N/A", "n/a", "<NA>"])
def test_a_reference_that_says_nothing_is_refused_or_left_out(tmp_path: Path, kind: str, nothing: str | None) -> None:
    references = written(tmp_path / f"r.{kind}", rows([TEXTS[0], nothing, TEXTS[2]]))
    reports = written(tmp_path / "h.csv", rows(TEXTS))
    with pytest.raises(DataError, match=r"the reference is missing for 102: blank, .*--missing-references leave-out"):
        paired(references, reports)
    found, counts = paired(references, reports, missing_references="leave-out")
    assert list(found) == ["101", "103"] and counts["left_out_references"] == 1


@pytest.mark.parametrize("nothing", ["", " ", "nan", "None", "NULL", "N/A"])
def test_reports_that_say_nothing_are_counted_and_named(tmp_path: Path, nothing: str) -> None:
    reports = written(tmp_path / "h.csv", rows([TEXTS[0], nothing, TEXTS[2]]))
    found, counts = paired(written(tmp_path / "r.csv", rows(TEXTS)), reports)
    assert counts["blank_hypotheses"] == "1 (102)" and not found["102"][1].strip()


@pytest.mark.parametrize("name", ["study_id", "Study_ID", "study", "image", "image_id", "dicom_id", "uid"])
def test_a_second_id_that_disagrees_within_a_pair_is_refused(tmp_path: Path, name: str) -> None:
    references = written(tmp_path / "r.csv", rows(TEXTS, ["0", "1", "2"], **{name: IDS}))
    reports = written(tmp_path / "h.csv", rows(TEXTS[::-1], ["0", "1", "2"], **{name: IDS[::-1]}))
    with pytest.raises(DataError, match=rf"pair by id, but their column {name.lower()} disagrees in 2 of 3 pairs, .*0"):
        paired(references, reports)
    found, _ = paired(references, reports, reference_id=name, hypothesis_id=name)
    assert all(reference == report for reference, report in found.values())
    same = written(tmp_path / "h.parquet", rows(TEXTS, [0, 1, 2], **{name: [101.0, 102.0, None]}))
    assert len(paired(references, same)[0]) == 3


def test_ids_that_were_decimals_get_the_hint(tmp_path: Path) -> None:
    references = written(tmp_path / "r.csv", rows(TEXTS, ["101.0", "102.0", "103.0"]))
    with pytest.raises(DataError, match=r"do not pair; .*ids such as 101\.0 beside 101 were decimal numbers"):
        paired(references, written(tmp_path / "h.csv", rows(TEXTS)))
    with pytest.raises(DataError, match=r"got 101\.0; a gap in the column made it a decimal number"):
        paired(written(tmp_path / "r.jsonl", rows(TEXTS, [101.0, 102.0, 103.0])), references)


@pytest.mark.parametrize("index", ["", " ", "Unnamed: 0", "__index_level_0__"])
def test_row_numbers_are_never_data(tmp_path: Path, index: str) -> None:
    columns = {index: ["0", "1", "2"], "record_id": IDS, "green": [0.5, 0.6, 0.7]}
    pl.DataFrame(columns).write_csv(tmp_path / "columns.csv")
    pl.DataFrame(columns).write_parquet(tmp_path / "columns.parquet")
    for kind in ("csv", "parquet"):
        assert read_score_columns(tmp_path / f"columns.{kind}", IDS, []).columns == ["green"]
    table = written(tmp_path / "r.csv", [{index: "0"} | row for row in rows(TEXTS)])
    assert list(paired(table, table)[0]) == IDS
    alone = written(
        tmp_path / "alone.csv", [{index: key, "report": text} for key, text in zip(IDS, TEXTS, strict=True)]
    )
    with pytest.raises(DataError, match="none is known as that of ids"):
        paired(alone, alone)


@pytest.mark.parametrize("word", ["nan", "NaN", "NAN", "-nan", "inf"])
def test_a_nan_among_the_numbers_of_a_column_is_an_error_in_any_spelling(tmp_path: Path, word: str) -> None:
    (tmp_path / "c.csv").write_text(f"record_id,green\n101,0.5\n102,{word}\n103,0.7\n")
    with pytest.raises(DataError, match=r"column green: (record 102 has no finite number|.*that of record 102 is not)"):
        read_score_columns(tmp_path / "c.csv", IDS, [])


@pytest.mark.parametrize("word", ["", "None", "null", "NULL", "N/A", "<NA>"])
def test_a_missing_value_leaves_a_column_a_score(tmp_path: Path, word: str) -> None:
    (tmp_path / "c.csv").write_text(f"record_id,green\n101,0.5\n102,{word}\n103,0.7\n")
    scores = column_scores(read_score_columns(tmp_path / "c.csv", IDS, []), [])
    assert scores == {"green": pytest.approx(0.6), "green_n": 2}


REPORTS = [text.replace("no", "small") for text in TEXTS]
SHAPES = {
    "texts": {key: text for key, text in zip(IDS, REPORTS, strict=True)},
    "wrapped": {key: [text] for key, text in zip(IDS, REPORTS, strict=True)},
    "rexrank": {
        key: {"study_id": f"s{key}", "gt": text, "model_prediction": report}
        for key, text, report in zip(IDS, TEXTS, REPORTS, strict=True)
    },
    "with ids": {
        f"case {key}": {"id": key, "gt": text, "pred": report}
        for key, text, report in zip(IDS, TEXTS, REPORTS, strict=True)
    },
    "columns": {"ids": IDS, "gts": TEXTS, "res": REPORTS},
    "wrapped columns": {"ids": IDS, "gts": [[text] for text in TEXTS], "res": [[text] for text in REPORTS]},
    "objects": [
        {"study_id": key, "ground_truth": text, "prediction": report}
        for key, text, report in zip(IDS, TEXTS, REPORTS, strict=True)
    ],
    "header": [["id", "gt", "pred"], *map(list, zip(IDS, TEXTS, REPORTS, strict=True))],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_json_of_other_systems_is_read_as_it_is(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "reports.json"
    path.write_text(json.dumps(SHAPES[shape]))
    found = reports_of(path, HYPOTHESIS_COLUMNS)
    assert dict(found.rows.select("id", "text").iter_rows()) == dict(zip(IDS, REPORTS, strict=True))
    if "wrapped" != shape != "texts":
        assert reports_of(path, REFERENCE_COLUMNS).rows["text"].to_list() == TEXTS
        named = reports_of(path, HYPOTHESIS_COLUMNS, None, reports_of(path, REFERENCE_COLUMNS).columns["text"])
        assert named.rows["text"].to_list() == TEXTS


@pytest.mark.parametrize("content", [[[text] for text in TEXTS], TEXTS])
def test_lists_of_texts_pair_by_position(tmp_path: Path, content: list) -> None:
    (tmp_path / "r.json").write_text(json.dumps(content))
    for source in (tmp_path / "r.json", content):
        found = reports_of(source, REFERENCE_COLUMNS)
        assert found.rows["text"].to_list() == TEXTS and "id" not in found.columns


@pytest.mark.parametrize("content", [[["a", "b"], ["c"]], {"ids": IDS, "res": TEXTS[:2]}, [{"id": 1}, "x"], 3, "x"])
def test_other_json_is_one_clear_error(tmp_path: Path, content: object) -> None:
    (tmp_path / "r.json").write_text(json.dumps(content))
    with pytest.raises(
        DataError, match=r"must be an object of ids and texts, .*evaluation\.md|must have the same length"
    ):
        reports_of(tmp_path / "r.json", HYPOTHESIS_COLUMNS)


def test_two_columns_that_pair_differently_are_refused(tmp_path: Path) -> None:
    """Row numbers of one file beside numbers of studies and images in the other: each pairs, so none is chosen."""
    references = written(tmp_path / "r.csv", rows(TEXTS))
    images = [IDS[2], IDS[0], IDS[1]]
    turned = [
        {"study_id": key, "image_id": image, "report": text}
        for key, image, text in zip(IDS, images, TEXTS, strict=True)
    ]
    reports = written(tmp_path / "h.csv", turned)
    with pytest.raises(DataError, match=r"pair by id and study_id, but the column image_id .* pairs as well"):
        paired(references, reports)
    assert paired(references, reports, hypothesis_id="study_id")[0]["101"] == (TEXTS[0], TEXTS[0])
    alike = written(tmp_path / "a.csv", [{**row, "image_id": row["study_id"]} for row in turned])
    assert paired(references, alike)[0]["101"] == (TEXTS[0], TEXTS[0])


def test_reports_that_are_their_references_are_counted(tmp_path: Path) -> None:
    """A file with the truth and the reports: its column `report` holds either."""
    references = written(tmp_path / "r.csv", rows(TEXTS))
    assert paired(references, rows(TEXTS))[1]["equal_hypotheses"] == 3
    assert "equal_hypotheses" not in paired(references, rows([TEXTS[0], TEXTS[0], TEXTS[0]]))[1]


def test_reports_that_repeat_their_prompt_are_counted(tmp_path: Path) -> None:
    references = written(tmp_path / "r.csv", rows(TEXTS))
    echoed = [f"[INST] Describe the film. [/INST] {TEXTS[0]}", *TEXTS[1:]]
    assert paired(references, rows(echoed))[1]["prompt_hypotheses"] == 1
    assert "prompt_hypotheses" not in paired(references, rows(TEXTS))[1]
