from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial

import polars as pl
import pytest

from pacer.config import validated
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import write_jsonl
from pacer.data.cleaning import clean_report
from pacer.external.foreign import Protocol, pair_reports, score_reports
from pacer.external.report_files import REFERENCE_COLUMNS, ReportFile, read_reports
from pacer.metrics.chexbert.labeller import CheXbert
from pacer.metrics.inputs import DEFAULTS, ScoreInputs
from pacer.metrics.lines import single_line
from pacer.metrics.scoring import score_predictions
from pacer.reporting.signature import reading_notes, signature_line

AS_IS = DEFAULTS.model_copy(update={"originals": "as_is"})

REFERENCES = {"s1": "the heart is normal . no effusion .", "s2": "small left effusion .", "s3": "possible edema ."}
REPORTS = {"s3": "edema .", "s1": "the heart is normal . heart is clear .", "s2": "no effusion . no effusion ."}


def file(ids, texts, name="h.csv", **extra) -> ReportFile:
    return ReportFile(name, ids, texts, {}, extra)


def paired(references: ReportFile, hypotheses: ReportFile, **protocol):
    records, reports, counts = pair_reports(references, hypotheses, Protocol(**protocol))
    return dict(zip(records["record_id"], zip(records["report"], reports, strict=True), strict=True)), counts


def test_pairs_by_id_and_not_by_order():
    found, counts = paired(file(["a", "b"], ["1", "2"]), file(["b", "a"], ["two", "one"]))
    assert found == {"a": ("1", "one"), "b": ("2", "two")}
    assert counts == {"duplicate_references": 0, "duplicate_hypotheses": 0, "missing_hypotheses": 0}


def test_without_ids_pairs_by_position():
    assert paired(file(None, ["1", "2"]), file(None, ["one", ""]))[0] == {"1": ("1", "one"), "2": ("2", "")}


@pytest.mark.parametrize(
    "references, hypotheses, problem",
    [
        (file(["a"], ["1"]), file(None, ["one"]), "h.csv has no ids, h.csv has"),
        (file(None, ["1"]), file(None, ["one", "two"]), "has 1 rows and h.csv 2"),
        (file(["a", "b", "c"], ["1"] * 3), file(["a"], ["one"]), "h.csv has no report for b, c; to .* --missing empty"),
        (file(["a"], ["1"]), file(["a"], [None]), r'for a \(1 of these 1 have a row, which holds null: write ""'),
        (file(["a", "b"], ["1", "2"]), file(["a"], [None]), r"for a, b \(1 of these 2 have a row.*--missing empty"),
        (file(["a"], ["1"]), file(["a", "x"], ["one", "ten"]), "h.csv has ids that h.csv has not: x"),
        (
            file(["a"], ["1"]),
            file(["a", "a"], ["one", "two"]),
            "h.csv has more than one row for id a; --duplicates first",
        ),
        (file(["a"], [None]), file(["a"], ["one"]), "id a: the reference is missing"),
        (file([], []), file([], []), "holds no references"),
        (file(["a"], ["1"], context=["sn-x"]), file(["a"], ["one"]), "column context must hold sn, sw, mn, mw"),
    ],
)
def test_what_does_not_pair_is_refused(references, hypotheses, problem):
    with pytest.raises(DataError, match=problem):
        paired(references, hypotheses)


def test_an_extra_report_is_told_which_split_and_context_the_references_were_chosen_by():
    with pytest.raises(DataError, match=r"h\.csv has ids that h\.csv has not, split test, context sn: x"):
        paired(file(["a"], ["1"]), file(["a", "x"], ["one", "ten"]), split="test", context="sn")


@pytest.mark.parametrize("known, given", [("007", "7"), ("s1", " s1"), ("s1 ", "s1"), ("s51", "51"), ("51", "51.0")])
def test_ids_that_look_the_same_are_shown_in_quotes(known, given):
    with pytest.raises(DataError, match=f"'{given}' is not the same id as '{known}'"):
        paired(file(["a", known], ["1", "2"]), file(["a", given], ["one", "two"]))


def test_missing_reports_can_be_empty():
    found, counts = paired(file(["a", "b", "c"], ["1", "2", "3"]), file(["a", "c"], ["one", None]), missing="empty")
    assert found == {"a": ("1", "one"), "b": ("2", ""), "c": ("3", "")} and counts["missing_hypotheses"] == 2
    with pytest.raises(DataError, match="has not"):  # an id too many stays an error
        paired(file(["a"], ["1"]), file(["x"], ["ten"]), missing="empty")


@pytest.mark.parametrize("duplicates", ["error", "first"])
def test_no_context_is_taken_for_another(duplicates):
    references = file(["a", "b", "a"], ["1", "2", "3"], context=["sn", "sn", "mn"])
    with pytest.raises(DataError, match=r"has more than one context for id a; choose one with --context, sn"):
        paired(references, file(["a", "b"], ["one", "two"]), duplicates=duplicates)
    same = file(["a", "b", "a"], ["1", "2", "3"], context=["sn", "sn", "sn"])
    assert paired(same, file(["a", "b"], ["one", "two"]), duplicates="first")[0]["a"] == ("1", "one")


def test_duplicates_first_or_all():
    references, hypotheses = file(["a", "b"], ["1", "2"]), file(["a", "b", "a"], ["one", "two", "uno"])
    found, counts = paired(references, hypotheses, duplicates="first")
    assert found == {"a": ("1", "one"), "b": ("2", "two")} and counts["duplicate_hypotheses"] == 1
    found, _ = paired(references, hypotheses, duplicates="all")
    assert found == {"a": ("1", "one"), "a#2": ("1", "uno"), "b": ("2", "two")}
    both = file(["a", "a"], ["1", "2"])
    assert paired(both, both, duplicates="all")[0] == {"a": ("1", "1"), "a#2": ("2", "2")}
    with pytest.raises(DataError, match="id a has 2 references and 1 reports"):
        paired(both, file(["a"], ["one"]), duplicates="all")


def test_a_name_for_a_second_row_is_never_that_of_another_id():
    references, hypotheses = file(["c", "c#2"], ["1", "2"]), file(["c", "c#2", "c"], ["one", "two", "uno"])
    with pytest.raises(DataError, match="row 2 of id c would be named c#2, which is another id"):
        paired(references, hypotheses, duplicates="all")


def test_equal_scores_by_both_routes_with_line_breaks(tmp_path, chexbert_directory, one_meteor):
    """A text is scored in one line, whether it comes as a prediction of the pipeline or in a file of another system."""
    rows = [
        {
            "record_id": f"sn-{key}",
            "context": "sn",
            "split": "test",
            "study_id": key,
            "subject_id": "p",
            "report": text.replace(" .", "\n .", 1),
            "report_raw": text,
            "findings_original": None,
        }
        for key, text in REFERENCES.items()
    ]
    records = pl.DataFrame(rows, schema_overrides={"findings_original": pl.String})
    records.write_parquet(tmp_path / "records.parquet")
    reports = [{"record_id": f"sn-{key}", "report": text.replace(" ", "\n")} for key, text in REPORTS.items()]
    write_jsonl(tmp_path / "predictions/sn.jsonl", reports)
    chexbert, labels = chexbert_directory(), tmp_path / "labels.parquet"
    own = score_predictions(records, tmp_path / "predictions", tmp_path / "own", ScoreInputs(chexbert))
    for kept in (None, labels, labels):  # labels that this route made, and those of the same texts as read there
        foreign = score_reports(
            tmp_path / "records.parquet",
            tmp_path / "predictions/sn.jsonl",
            chexbert,
            tmp_path / "foreign",
            labels_path=kept,
        )
        assert foreign == own
    assert score_predictions(records, tmp_path / "predictions", tmp_path / "own", ScoreInputs(chexbert, labels)) == own
    write_jsonl(tmp_path / "predictions/sn.jsonl", [row | {"report": single_line(row["report"])} for row in reports])
    whole = records.with_columns(report=pl.Series(map(single_line, records["report"])))
    assert score_predictions(whole, tmp_path / "predictions", tmp_path / "lines", ScoreInputs(chexbert)) == own
    signatures = [json.loads((tmp_path / name / "signature.json").read_text()) for name in ("own", "foreign", "lines")]
    for signature in signatures[:2]:
        assert signature["counts"]["sn"]["texts_with_line_breaks"] == {"references": 3, "hypotheses": 3}
        assert "line-breaks:blanks-6" in signature_line(signature)
        assert signature["language"]["hypotheses"].endswith("line breaks and tabs are blanks")
    assert "texts_with_line_breaks" not in signatures[2]["counts"]["sn"]
    assert "line" not in signatures[2]["language"]["hypotheses"]
    assert len({signature["data"]["records"] for signature in signatures}) == 1


@pytest.mark.parametrize("blank", ["", "  ", None, float("nan")])
def test_blank_cells_are_unknown(blank):
    extra = {
        "study_id": ["s", blank],
        "subject_id": [blank, blank],
        "context": [blank, blank],
        "report_raw": [blank, "two"],
        "findings_original": [blank, "two"],
    }
    records, _, _ = pair_reports(file(["a", "b"], ["1", "2"], **extra), file(["a", "b"], ["one", "two"]), Protocol())
    assert records["study_id"].to_list() == ["s", None] and records["subject_id"].to_list() == [None, None]
    assert set(records["context"]) == {"all"} and records["report_raw"].to_list() == ["1", "two"]
    assert records["findings_original"].to_list() == [None, "two"]


def test_an_id_is_a_study_only_where_its_column_says_so(tmp_path):
    hypotheses = file(["1", "2"], ["one", "two"])
    for column, studies in (("study_id", ["1", "2"]), ("image_id", [None, None])):
        pl.DataFrame({column: ["1", "2"], "report": ["x", "y"]}).write_csv(tmp_path / "r.csv")
        records, _, _ = pair_reports(read_reports(tmp_path / "r.csv", REFERENCE_COLUMNS), hypotheses, Protocol())
        assert records["study_id"].to_list() == studies


def test_rows_of_unknown_studies_are_all_kept(files, chexbert_directory, one_meteor):
    """The convention `nicolson` keeps the first row of a study; no row is lost where studies are not known."""
    scores = score_reports(files / "refs.csv", files / "test_result.json", chexbert_directory(), files / "out")
    assert scores["conventions"]["nicolson"]["all"]["n"] == 3
    signature = json.loads((files / "out" / "signature.json").read_text())
    assert signature["counts"]["all"]["studies"] is None
    assert pl.read_parquet(files / "out" / "cases.parquet")["study_id"].null_count() == 3


def test_the_protocols_change_the_reports():
    texts = [r"thinking \boxed{No effusion. No effusion. Heart (normal).}", "no box", r"\boxed{cut"]
    found, counts = paired(
        file(["a", "b", "c"], ["1", "2", "3"]),
        file(["a", "b", "c"], texts),
        extract="boxed",
        deduplicate=True,
        clean_hypotheses="upstream",
        clean_references="upstream",
    )
    assert found == {"a": ("1 .", clean_report("No effusion. Heart (normal).")), "b": ("2 .", ""), "c": ("3 .", "")}
    assert counts["boxes"] == {"closed": 1, "absent": 1, "unclosed": 1} and counts["reports_with_repeats"] == 1


def test_unknown_protocols_are_refused():
    with pytest.raises(ConfigError, match=r"missing = .*must be"):
        validated({"missing": "zero"}, "pacer score", Protocol)


@pytest.fixture
def files(tmp_path):
    pl.DataFrame({"id": list(REFERENCES), "report": list(REFERENCES.values())}).write_csv(tmp_path / "refs.csv")
    (tmp_path / "test_result.json").write_text(json.dumps({key: [text] for key, text in REPORTS.items()}))
    return tmp_path


def test_files_without_contexts_are_scored_as_one(files, chexbert_directory, one_meteor):
    scores = score_reports(files / "refs.csv", files / "test_result.json", chexbert_directory(), files / "out")
    assert list(scores) == ["all", "conventions"]
    assert "anchor_agreement" not in scores["all"] and 0 <= scores["all"]["report_agreement"] <= 1
    assert "unfounded_prior_wording_rate" not in scores["all"]
    cases = pl.read_parquet(files / "out" / "cases.parquet")
    assert cases["record_id"].to_list() == list(REFERENCES)
    assert cases["hypothesis"].to_list() == [REPORTS[key] for key in REFERENCES]
    signature = json.loads((files / "out" / "signature.json").read_text())
    assert signature["protocol"]["hypotheses"] == {"file": "test_result.json", "id": "the keys", "text": "the values"}
    assert len(signature["data"]["hypotheses"]) == 64 and signature["language"]["cleaner"] == "not recorded"
    assert "effusion" not in (files / "out" / "signature.json").read_text()


def test_labels_of_the_references_are_made_once(files, chexbert_directory, one_meteor, monkeypatch):
    def scored() -> dict:
        return score_reports(
            files / "refs.csv",
            files / "test_result.json",
            chexbert,
            files / "out",
            labels_path=files / "labels.parquet",
        )

    chexbert = chexbert_directory()
    first, seen = scored(), []
    call = CheXbert.__call__
    monkeypatch.setattr(CheXbert, "__call__", lambda self, texts: (seen.extend(texts), call(self, texts))[1])
    assert scored() == first
    assert sorted(seen) == sorted(REPORTS.values())
    refs = (files / "refs.csv").read_text()
    (files / "refs.csv").write_text(refs.replace("small", "large"))
    with pytest.raises(DataError, match="labels of another report for record s2"):
        scored()
    (files / "refs.csv").write_text(refs)
    (chexbert / "vocab.txt").write_text((chexbert / "vocab.txt").read_text().replace("edema", "oedema"))
    with pytest.raises(DataError, match="made by another labeller"):
        scored()


def test_duplicates_have_the_labels_of_their_id(files, chexbert_directory, one_meteor):
    chexbert, labels = chexbert_directory(), files / "labels.parquet"
    score_reports(files / "refs.csv", files / "test_result.json", chexbert, files / "out", labels_path=labels)
    rows = [{"id": key, "text": text} for key, text in (*REPORTS.items(), ("s1", "small left effusion ."))]
    write_jsonl(files / "h.jsonl", rows)
    score = partial(
        score_reports, files / "refs.csv", files / "h.jsonl", chexbert, files / "out", Protocol(duplicates="all")
    )
    assert score(labels_path=labels) == score() == score(labels_path=files / "new.parquet")
    (files / "refs.csv").write_text((files / "refs.csv").read_text() + "s1,small effusion .\n")
    with pytest.raises(DataError, match="labels of another report for record s1#2"):
        score(labels_path=labels)


def test_most_reports_empty_is_a_warning(files, chexbert_directory, one_meteor):
    for kept, warned in ((1, True), (2, False)):
        (files / "h.json").write_text(json.dumps(dict(list(REPORTS.items())[:kept])))
        score_reports(
            files / "refs.csv", files / "h.json", chexbert_directory(), files / "out", Protocol(missing="empty")
        )
        notes = reading_notes(json.loads((files / "out" / "signature.json").read_text()))
        assert ("warning: 2 of 3 reports are empty, 2 of them because they are missing" in notes) == warned
        assert len(notes) == 2 + warned


def test_references_with_contexts_are_scored_by_context(files, chexbert_directory, one_meteor):
    rows = [
        {
            "record_id": f"{context}-{key}",
            "context": context,
            "split": split,
            "study_id": key,
            "report": text,
            "subject_id": "p",
            "findings_original": text.upper(),
        }
        for context in ("sn", "mw")
        for split in ("test", "train")
        for key, text in REFERENCES.items()
        if split == "test" or key == "s1"
    ]
    references = pl.DataFrame(rows).with_columns(
        record_id=pl.when(split="test").then("record_id").otherwise(pl.col("record_id") + "-train")
    )
    references.write_parquet(files / "records.parquet")
    reports = [
        {"record_id": f"{context}-{key}", "report": text} for context in ("mw", "sn") for key, text in REPORTS.items()
    ]
    (files / "h.jsonl").write_text("".join(json.dumps(row) + "\n" for row in reports))
    chexbert = chexbert_directory()
    scores = score_reports(files / "records.parquet", files / "h.jsonl", chexbert, files / "out", settings=AS_IS)
    assert list(scores) == ["sn", "mw", "mean", "conventions"]
    assert scores["sn"]["n"] == 3 and scores["sn"]["bleu1"] == scores["mw"]["bleu1"] == scores["mean"]["bleu1"]
    assert scores["sn"]["original_bleu1"] < scores["sn"]["bleu1"]
    assert "unfounded_prior_wording_rate" in scores["sn"] and "unfounded_prior_wording_rate" not in scores["mw"]
    alone = score_reports(
        files / "records.parquet",
        files / "test_result.json",
        chexbert,
        files / "out",
        Protocol(context="sn", reference_id="study_id"),
        settings=AS_IS,
    )
    assert {**alone["sn"]} == scores["sn"]
    with pytest.raises(DataError, match="sn-s1-train"):  # for which there is no report
        score_reports(files / "records.parquet", files / "h.jsonl", chexbert, files / "out", Protocol(split="all"))


@pytest.fixture
def pacer(capsys, monkeypatch) -> Callable[..., str]:
    """What a command prints, or what it says where it fails."""
    from pacer.cli import main

    def run(*arguments) -> str:
        monkeypatch.setattr(sys, "argv", ["pacer", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return printed.out if not ended.value.code else printed.err

    monkeypatch.setenv("COLUMNS", "200")
    return run


def test_the_command_scores_and_compares(files, chexbert_directory, one_meteor, pacer):
    chexbert = chexbert_directory()
    told = pacer(
        "score",
        "--references",
        files / "refs.csv",
        "--hypotheses",
        files / "test_result.json",
        "--out",
        files / "one",
        "--chexbert",
        chexbert,
        "--deduplicate",
    )
    assert "METEOR" in told and "nicolson" in told and "ce:llm-rg4" in told and "deduplicated:sentences" in told
    (files / "test_result.json").write_text(json.dumps(REFERENCES))
    pacer(
        "score",
        "--references",
        files / "refs.csv",
        "--hypotheses",
        files / "test_result.json",
        "--out",
        files / "two",
        "--chexbert",
        chexbert,
    )
    told = pacer("compare", files / "one", files / "two", "--resamples", "50")
    assert "95 % interval" in told and "3 records, resampled by record (3)" in told
    found = json.loads(pacer("compare", files / "one", files / "two", "--resamples", "50", "--json"))
    assert found["scores"]["all"]["bleu4"]["second"] == pytest.approx(1.0)
    for wrong in (
        ["--references", "r.csv"],
        ["--references", "r.csv", "--predictions", "p"],
        [],
        ["--records", "r", "--predictions", "p", "--missing", "empty"],
    ):
        assert "--references and --hypotheses" in pacer("score", "--out", files / "three", *wrong)


def test_copies_of_train_are_called_so_and_columns_are_scored(files, chexbert_directory, one_meteor, pacer):
    rows = [
        {
            "id": f"{split}{number}",
            "split": split,
            "view": "AP",
            "subject_id": str(number),
            "report": f"{text} {split} .",
        }
        for split in ("test", "train")
        for number, text in enumerate(REFERENCES.values())
    ]
    write_jsonl(files / "refs.jsonl", rows)
    write_jsonl(files / "copied.jsonl", [{"id": f"test{number}", "report": rows[-1]["report"]} for number in range(3)])
    (files / "columns.csv").write_text("record_id,sex,words\ntest0,F,1\ntest1,M,2\ntest2,F,\n")
    sides = ("--references", files / "refs.jsonl", "--hypotheses", files / "copied.jsonl")
    command = ("score", *sides, "--chexbert", chexbert_directory(), "--out", files / "out", "--columns")
    told = pacer(*command, files / "columns.csv")
    assert "Many reports are identical: ALL 100% (references 33%)." in told
    assert "Many reports are copied from the training split: ALL 100% (references 0%)." in told
    lines = [line.split() for line in told.splitlines()]
    assert ["ALL", "1.500", "2"] in lines, "the mean over two records"
    lines = [line.split() for line in pacer("compare", files / "out", files / "out", "--resamples", "9").splitlines()]
    assert next(line for line in lines if line[:2] == ["sex", "F"])[2] == "2"
    assert next(line for line in lines if line[:2] == ["ALL", "CE"]) and not any(line[:1] == ["View"] for line in lines)
    (files / "columns.csv").write_text("record_id,sex\ntest0,F\n")
    assert "missing in" in pacer(*command, files / "columns.csv")


def test_a_split_or_context_that_the_references_do_not_tell_is_refused(files, chexbert_directory):
    for column, wanted in (("split", "test"), ("context", "sn")):
        with pytest.raises(DataError, match=f"refs.csv has no column {column}, so {column} {wanted} cannot be chosen"):
            score_reports(
                files / "refs.csv",
                files / "test_result.json",
                chexbert_directory(),
                files / "out",
                Protocol(**{column: wanted}),
            )


def test_a_column_is_not_scored_against_itself(files, chexbert_directory, one_meteor):
    table = pl.DataFrame(
        {"id": ["a", "b"], "findings": ["edema .", "no effusion ."], "prediction": ["edema .", "effusion ."]}
    )
    table.write_csv(files / "both.csv")
    (files / "same.csv").symlink_to(files / "both.csv")
    score = partial(score_reports, files / "both.csv", files / "same.csv", chexbert_directory(), files / "out")
    assert score()["all"]["n"] == 2
    with pytest.raises(DataError, match=r"are the same column findings of .*both.csv"):
        score(Protocol(hypothesis_text="findings"))


def test_the_signature_says_of_foreign_files_only_what_is_true(files, chexbert_directory, one_meteor):
    def signature(references="refs.csv", **protocol):
        score_reports(files / references, files / "test_result.json", chexbert, files / "out", Protocol(**protocol))
        return json.loads((files / "out" / "signature.json").read_text())

    chexbert = chexbert_directory()
    plain = signature()
    assert "clean" not in plain["clinical"]["references"] + plain["language"]["hypotheses"]
    assert plain["language"]["references"].startswith("the texts of their file") and plain["protocol"]["split"] is None
    assert "cleaned" not in plain["language"]["references"]
    assert plain["pairing"] == "by record id, one to one; all records kept"
    assert signature(clean_references="iu_xray")["language"]["references"].startswith(
        "the texts of their file, cleaned once by `cleaner`"
    )
    records = pl.DataFrame(
        {
            "record_id": list(REFERENCES),
            "split": ["test", "test", "val"],
            "report_raw": ["a", "b", "c"],
            "report": list(REFERENCES.values()),
        }
    )
    about = json.dumps({"cleaner": "iu_xray", "target": "findings"})
    records.write_parquet(files / "records.parquet", metadata={"pacer": about})
    (files / "test_result.json").write_text(json.dumps({key: REPORTS[key] for key in list(REFERENCES)[:2]}))
    own = signature("records.parquet")
    assert own["language"]["references"] == "the complete cleaned reports" and own["language"]["cleaner"] == "iu_xray"
    assert own["protocol"]["split"] == "test"
    with pytest.raises(ConfigError, match="clean already"):
        signature("records.parquet", clean_references="iu_xray")
    raw = signature("records.parquet", reference_text="report_raw", clean_references="iu_xray")
    assert raw["language"]["cleaner"] == "iu_xray" and raw["language"]["target"] == "not recorded"


def test_the_command_says_how_files_without_ids_were_read(files, chexbert_directory, one_meteor, pacer):
    (files / "gts.csv").write_text("the heart is normal .\nno effusion .\n")
    (files / "res.csv").write_text('the heart is normal .\n"no\neffusion ."\n')
    sides = ("--references", files / "gts.csv", "--hypotheses", files / "res.csv")
    told = pacer("score", *sides, "--out", files / "one", "--chexbert", chexbert_directory())
    for line in (
        "references: gts.csv, text: the only column (2 rows, no header), paired by position",
        "hypotheses: res.csv, text: the only column (2 rows, no header), paired by position",
        "line-breaks:blanks-1",
    ):
        assert line in told
