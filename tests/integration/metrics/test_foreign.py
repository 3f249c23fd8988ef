"""Scores of other systems' reports, and what is said of the reports and their files."""

import json
from functools import partial

import polars as pl
import pytest

from pacer import score
from pacer.backbones.chexbert import CheXbert
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import write_jsonl
from pacer.metrics.options import Scoring
from pacer.metrics.signature import reading_notes
from tests.integration.metrics.test_scoring import records_of
from tests.support.metrics import random_texts, score_predictions

REFERENCES = {
    "s1": "the heart is normal . no effusion .",
    "s2": "small left effusion .",
    "s3": "possible edema .",
}
REPORTS = {
    "s3": "edema .",
    "s1": "the heart is normal . heart is clear .",
    "s2": "no effusion . no effusion .",
}


@pytest.fixture
def files(tmp_path, quick_meteor):
    pl.DataFrame({"id": list(REFERENCES), "report": list(REFERENCES.values())}).write_csv(
        tmp_path / "refs.csv"
    )
    (tmp_path / "test_result.json").write_text(
        json.dumps({key: [text] for key, text in REPORTS.items()})
    )
    return tmp_path


def test_what_was_read_and_is_not_clean_is_told(files):
    """Capitals and the like with the option for them."""
    (files / "raw.csv").write_text(
        'id,report\ns1,Heart is normal.\ns2,"- effusion, no  edema ."\ns3,1.2 cm nodule .\n'
    )
    raw, clean, published = (
        " ".join(reading_notes(score(files / "refs.csv", files / "raw.csv", **protocol).signature))
        for protocol in ({}, {"clean_hypotheses": "decimals"}, {"clean_hypotheses": "iu_xray"})
    )
    assert (
        "2 of 3 hypotheses have capitals, or periods or commas without a space before them, which "
        "affect BLEU" in raw
    )
    assert 'clean_hypotheses="decimals"' in raw and "clean_references" not in raw
    assert not any(word in clean for word in ("capitals", "spaces"))
    assert "1 of 3 hypotheses have double spaces" in raw and "capitals" not in published
    assert (
        "hypotheses have double spaces" in published
        and 'clean_hypotheses="decimals", removes them all' in published
    )
    assert (
        "1 of 3 hypotheses have bullets" in raw
        and "bullets" not in clean
        and "references have" not in raw + clean
    )


def test_equal_scores_by_both_routes_with_line_breaks(tmp_path, chexbert_directory, quick_meteor):
    """A text is scored in one line, whether it comes as a prediction of the pipeline or in a file
    of another system."""
    records = records_of(("sn",)).with_columns(
        pl.col("report").str.replace(" .", "\n .", literal=True)
    )
    records.write_parquet(tmp_path / "records.parquet")
    texts = [
        "edema .",
        "the heart is normal . heart is clear .",
        "no effusion . no effusion .",
        "a tube .",
    ]
    reports = [
        {"record_id": key, "report": text.replace(" ", "\n")}
        for key, text in zip(records["record_id"], texts)
    ]
    write_jsonl(tmp_path / "predictions/sn.jsonl", reports)
    chexbert, labels = chexbert_directory(), tmp_path / "labels.parquet"
    own = score_predictions(records, tmp_path / "predictions", tmp_path / "own", Scoring(chexbert))
    for kept in (
        None,
        labels,
        labels,
    ):  # labels that this route made, and those of the same texts as read there
        sides = tmp_path / "records.parquet", tmp_path / "predictions/sn.jsonl"
        foreign = score(*sides, chexbert=chexbert, labels=kept)
        assert foreign.scores == own
    assert (
        score_predictions(
            records, tmp_path / "predictions", tmp_path / "own", Scoring(chexbert, labels)
        )
        == own
    )
    signature = json.loads((tmp_path / "own" / "signature.json").read_text())
    assert signature["data"]["records"] == foreign.signature.data["records"]


def test_scores_are_the_same_for_any_number_of_cores(files, monkeypatch, capfd):
    ids = list(map(str, range(50)))
    sides = (
        {key: text for key, text in zip(ids, random_texts(seed, 50, least=5))} for seed in (1, 2)
    )
    references, hypotheses = sides
    whole = score(references, hypotheses)
    monkeypatch.setattr("pacer.metrics.chunks._ROWS", 9)
    monkeypatch.setattr("pacer.metrics.chunks._ALONE", 9)
    for cores in (1, 2):
        monkeypatch.setattr("pacer.metrics.chunks.core_count", lambda cores=cores: cores)
        parts = score(references, hypotheses)
        assert parts.scores == whole.scores and parts.cases.equals(whole.cases)
        assert "reading reports: 100% 50/50" in capfd.readouterr().err


def test_files_without_contexts_are_scored_as_one(files, chexbert_directory):
    found = score(
        files / "refs.csv",
        files / "test_result.json",
        chexbert=chexbert_directory(),
        out=files / "out",
    )
    scores, signature = found.scores, found.signature
    assert list(scores) == ["all"]
    assert not {"anchor_positive_f1", "unfounded_prior_wording_rate"} & scores["all"].keys()
    conventions = json.loads((files / "out" / "conventions.json").read_text())
    assert conventions == found.conventions
    assert conventions["nicolson"]["all"]["n"] == 3, "no study is known, so each row is one"
    assert dict(found.cases.select("record_id", "hypothesis").iter_rows()) == REPORTS
    assert signature.protocol["hypotheses"] == {
        "file": "test_result.json",
        "id": "id",
        "text": "text",
    }
    assert len(signature.data["hypotheses"]) == 64 and signature.language["cleaner"] == "none"
    assert "effusion" not in (files / "out" / "signature.json").read_text()


def test_averages_by_convention_go_with_the_labels(files, chexbert_directory):
    """Also from a folder that holds other files, which is not replaced as a whole."""
    (files / "out").mkdir()
    (files / "out" / "note.txt").write_text("kept")
    for chexbert in (chexbert_directory(), None):
        found = score(
            files / "refs.csv",
            files / "test_result.json",
            chexbert=chexbert,
            out=files / "out",
            force=True,
        )
        written = {path.name for path in (files / "out").iterdir()}
        assert {"scores.json", "note.txt"} < written
        assert ("conventions.json" in written) == bool(found.conventions) == bool(chexbert)


def test_labels_of_the_references_are_made_once(files, chexbert_directory, monkeypatch):
    chexbert, labels = chexbert_directory(), files / "labels.parquet"
    scored = partial(
        score, files / "refs.csv", files / "test_result.json", chexbert=chexbert, labels=labels
    )
    first, seen = scored().scores, []
    call = CheXbert.__call__
    monkeypatch.setattr(
        CheXbert, "__call__", lambda self, texts: (seen.extend(texts), call(self, texts))[1]
    )
    assert scored().scores == first
    assert sorted(seen) == sorted(REPORTS.values())
    refs = (files / "refs.csv").read_text()
    (files / "refs.csv").write_text(refs.replace("small", "large"))
    with pytest.raises(
        DataError, match=r"no labels for the reference of record s2: .*; regenerate it"
    ):
        scored()
    (files / "refs.csv").write_text(refs)
    (chexbert / "vocab.txt").write_text(
        (chexbert / "vocab.txt").read_text().replace("edema", "oedema")
    )
    with pytest.raises(DataError, match="comes from a labeller other"):
        scored()


def test_references_with_contexts_are_scored_by_context(files):
    rows = [
        {
            "record_id": f"{context}-{key}{'-train' * (split == 'train')}",
            "context": context,
            "split": split,
        }
        | {
            "study_id": key,
            "report": text,
            "subject_id": "p",
            "findings_original": f"Stable. {text}",
        }
        for context in ("sn", "mw")
        for split in ("test", "train")
        for key, text in REFERENCES.items()
        if split == "test" or key == "s1"
    ]
    pl.DataFrame(rows).write_parquet(files / "records.parquet")
    reports = [
        {"record_id": f"{context}-{key}", "report": text}
        for context in ("mw", "sn")
        for key, text in REPORTS.items()
    ]
    write_jsonl(files / "h.jsonl", reports)
    scored = partial(score, files / "records.parquet")
    scores = scored(files / "h.jsonl").scores
    assert list(scores) == ["sn", "mw", "mean"]
    assert (
        scores["sn"]["n"] == 3
        and scores["sn"]["bleu1"] == scores["mw"]["bleu1"] == scores["mean"]["bleu1"]
    )
    assert scores["sn"]["original_bleu1"] < scores["sn"]["bleu1"]
    assert (
        "unfounded_prior_wording_rate" in scores["sn"]
        and "unfounded_prior_wording_rate" not in scores["mw"]
    )
    alone = scored(files / "test_result.json", context="sn", reference_id="study_id").scores
    assert alone["sn"] == scores["sn"]
    with pytest.raises(DataError, match="sn-s1-train"):  # for which there is no report
        scored(files / "h.jsonl", split="all")


def test_the_signature_says_of_foreign_files_only_what_is_true(files):
    def signature(references="refs.csv", **protocol):
        return score(files / references, files / "test_result.json", **protocol).signature

    assert (signature().language["cleaner"], signature().protocol["split"]) == ("none", None)
    assert signature(clean_references="iu_xray").language["cleaner"] == "iu_xray"
    records = {
        "record_id": list(REFERENCES),
        "split": ["test", "test", "val"],
        "report_raw": ["a", "b", "c"],
    }
    about = json.dumps({"cleaner": "iu_xray", "target": "findings"})
    records["report"] = list(REFERENCES.values())
    pl.DataFrame(records).write_parquet(files / "records.parquet", metadata={"pacer": about})
    (files / "test_result.json").write_text(
        json.dumps({key: REPORTS[key] for key in list(REFERENCES)[:2]})
    )
    own = signature("records.parquet")
    assert own.language["cleaner"] == "iu_xray" and own.protocol["split"] == "test"
    with pytest.raises(ConfigError, match="already clean"):
        signature("records.parquet", clean_references="iu_xray")
    raw = signature("records.parquet", reference_text="report_raw", clean_references="iu_xray")
    assert raw.language["cleaner"] == "iu_xray" and raw.language["target"] == "not recorded"
