"""The written corpus: MIMIC-RG4's layout, truth, emphasis and recorded answers."""

import json

import numpy as np
import polars as pl
import pytest
from PIL import Image

from pacer.config.corpus import Phantom
from pacer.core.contexts import CONTEXTS, availability
from pacer.core.io import hash_bytes, hash_file, read_json, read_jsonl
from pacer.data.cleaning import clean_report
from pacer.data.findings import FINDINGS
from pacer.data.schemas import EMPHASIS_POSITIONS, TRUTH_SCHEMA
from pacer.data.source import read_source
from pacer.phantom.generate import emphasis_scores, generate_phantom
from pacer.phantom.language import sample_texts
from pacer.phantom.tokenizer import phantom_tokenizer

CONFIG = Phantom(
    patients=40,
    studies_per_patient=2.4,
    lateral_fraction=0.6,
    image_size=56,
    vocabulary=900,
    val_fraction=0.1,
    test_fraction=0.2,
)
FIELDS = {"id", "finding", "impression", "APPA_flag", "APPA_imagepath", "history", "indication", "new_scores"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    directory = tmp_path_factory.mktemp("phantom")
    generate_phantom(CONFIG, 7, directory)
    return directory


@pytest.fixture(scope="module")
def records(corpus):
    return {context: read_json(corpus / f"{context}.json") for context in CONTEXTS}


def test_fields_are_exactly_those_of_the_context(records):
    for context, splits in records.items():
        lateral, prior = availability(context)
        fields = FIELDS | ({"lateral_imagepath"} if lateral else set())
        fields |= {"last_finding", "last_impression", "last_APPA_imagepath"} if prior else set()
        assert set(splits) == {"train", "val", "test"}
        for rows in splits.values():
            assert rows and all(set(row) == fields for row in rows)


def test_sentinels_and_flags(records):
    rows = [row for splits in records.values() for rows in splits.values() for row in rows]
    assert {row["APPA_flag"] for row in rows} == {"AP", "PA"}
    assert any(row["finding"] == "s" for row in rows) and any(row["impression"] == "s" for row in rows)
    assert not any(row["finding"] == row["impression"] == "s" for row in rows)
    assert any(row["history"] == 0 for row in rows) and any(isinstance(row["history"], str) for row in rows)
    assert any(row["indication"] == 0 for row in rows)
    assert max(len(row["new_scores"]) for row in rows) <= EMPHASIS_POSITIONS
    assert {value for row in rows for value in row["new_scores"]} == {0.0, 1.0}


def test_images_exist_and_paths_hold_subject_and_study(corpus, records):
    for splits in records.values():
        for row in splits["train"][:20]:
            for field in ("APPA_imagepath", "lateral_imagepath", "last_APPA_imagepath"):
                if field not in row:
                    continue
                group, subject, study, name = row[field].split("/")
                assert subject.startswith(group) and subject[0] == "p" and study[0] == "s" and name.endswith(".jpg")
                assert (study == f"s{row['id']}") == (not field.startswith("last"))
                with Image.open(corpus / "images" / row[field]) as image:
                    assert image.size == (56, 56) and image.mode == "L"


def test_truth_lists_every_study(corpus, records):
    truth = pl.read_parquet(corpus / "truth.parquet")
    assert dict(truth.schema) == TRUTH_SCHEMA
    assert set(truth["study_id"]) == {row["id"] for rows in records["sn"].values() for row in rows}
    for row in truth.iter_rows(named=True):
        assert all(row[name] for name in row["lateral_only"] + row["prior_only"])
        assert [state["finding"] for state in row["states"]] == [name for name in FINDINGS if row[name]]
        for box in row["boxes"]:
            assert row[box["finding"]] and box["finding"] not in row["prior_only"]
            assert box["view"] == "lateral" or box["finding"] not in row["lateral_only"]
            assert box["x"] + box["width"] <= 1 and box["y"] + box["height"] <= 1 and box["width"] * box["height"] > 0
        on_frontal = {box["finding"] for box in row["boxes"] if box["view"] == "frontal"}
        assert on_frontal == {name for name in FINDINGS if row[name]} - {*row["lateral_only"], *row["prior_only"]}


def test_answers_are_api_responses_for_every_train_record(corpus, records):
    answers = {row["record_id"]: row["response"] for row in read_jsonl(corpus / "answers.jsonl")}
    assert set(answers) == {f"{c}-{row['id']}" for c, splits in records.items() for row in splits["train"]}
    readable = 0
    for record_id, response in answers.items():
        assert response["object"] == "chat.completion"
        try:
            content = json.loads(response["choices"][0]["message"]["content"])
        except json.JSONDecodeError:
            continue
        readable += 1
        assert content["sample_uid"] == record_id
        assert set(content) == {"sample_uid", "positive", "negative", "uncertain", "rationale"}
    assert readable > 0.9 * len(answers)


def test_source_and_manifest_describe_the_files(corpus, records):
    source, manifest = read_source(corpus), read_json(corpus / "manifest.json")
    assert source.images == corpus / "images" and source.truth == corpus / "truth.parquet"
    assert read_json(corpus / "source.json")["files"]["mw"]["sha256"] == hash_file(corpus / "mw.json")
    assert manifest["tokenizer"]["sha256"] == hash_bytes(phantom_tokenizer(900).to_str().encode())
    counted = {context: {split: len(rows) for split, rows in splits.items()} for context, splits in records.items()}
    assert manifest["counts"]["records"] == counted
    assert manifest["counts"]["images"] == sum(1 for _ in (corpus / "images").rglob("*.jpg"))


def test_emphasis_marks_the_tokens_of_stating_sentences():
    tokenizer = phantom_tokenizer(900)
    for report in sample_texts(21, 200):
        cleaned = clean_report(report.text)
        encoding = tokenizer.encode(cleaned)
        scores = emphasis_scores(report, tokenizer)
        assert scores[0] == 0 and len(scores) == min(len(encoding.ids) + 1, EMPHASIS_POSITIONS)
        marked = np.array(scores[: len(encoding.ids)], dtype=bool)
        ids = np.array(encoding.ids)[: len(marked)]
        if len(encoding.ids) < EMPHASIS_POSITIONS:
            assert scores[-1] == 0
            expected = " ".join(clean_report(text) for text, findings in report.sentences if findings)
            assert tokenizer.decode(ids[marked].tolist()) == expected
