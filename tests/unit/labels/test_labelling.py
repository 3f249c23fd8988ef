"""Labelling: the stratified sample, the request, what an answer is keyed by, and the providers."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pacer.core.anchor import Anchor
from pacer.core.errors import DataError, PacerError
from pacer.core.findings import FINDINGS
from pacer.core.io import hash_bytes
from pacer.core.schemas import RECORD_SCHEMA
from pacer.labels.labelling import MAX_IN_A_ROW
from pacer.labels.questions import system_prompt
from pacer.labels.sampling import SAMPLE_SCHEMA, STRATA, sample_records
from pacer.text.rules import EXTRACTORS, extract_anchor
from tests.support.endpoint import Reply, answer, completion, good
from tests.support.labelling import build, cached, record

pytestmark = pytest.mark.usefixtures("messages")


def test_success_and_request_of_the_paper(
    endpoint, label, sample, records, tmp_path, capfd
) -> None:
    audit = label()
    estimate = (
        "labelling: 6 requests to send: about 0.01 M input tokens (characters / 4), at "
        "most 0.00 M output tokens"
    )
    assert estimate in capfd.readouterr().err
    assert (audit["prompt_tokens"], audit["completion_tokens"]) == (6000, 600)
    assert (audit["sampled"], audit["answered"], audit["reused"]) == (6, 6, 0)
    assert audit["statuses"] == {"ok": 6}
    assert audit["models"] == {"served-1": 6}
    lines = cached(tmp_path)
    assert [line["record_id"] for line in lines] == sorted(sample["record_id"])
    assert lines[0]["anchor"] == {"positive": ["edema"], "negative": [], "uncertain": []}
    assert audit["prompt"] == hash_bytes(system_prompt(None).encode())
    assert {line["request_hash"] for line in lines} == set(
        endpoint.paid
    )  # the key is the hash of what was sent
    assert [path.name for path in tmp_path.iterdir()] == ["llm_cache.jsonl"]

    request = endpoint.requests[0]
    assert (request["model"], request["temperature"], request["max_tokens"]) == (
        "gpt-4.1-mini",
        0.0,
        600,
    )
    assert request["response_format"] == {"type": "json_object"}
    assert request["messages"][0] == {"role": "system", "content": system_prompt(None)}
    content = json.loads(request["messages"][1]["content"])
    row = records.row(by_predicate=pl.col("record_id") == content["sample_uid"], named=True)
    strata = sample.row(by_predicate=pl.col("record_id") == content["sample_uid"], named=True)[
        "strata"
    ]
    assert list(content) == ["sample_uid", "scenario", "report", "regex_anchor", "risk_buckets"]
    assert content["scenario"] == row["context"]
    assert content["report"] == row["report_raw"]
    assert content["regex_anchor"] == extract_anchor(content["report"]).as_dict()
    assert content["risk_buckets"] == strata


def test_what_cannot_be_used_is_counted_and_said(endpoint, label, capfd) -> None:
    """Each good answer of the server has one name outside the 13."""
    endpoint.replies = lambda asked, _: Reply(
        body=completion("", "length") if asked["scenario"] == "mw" else completion(answer(asked))
    )
    audit = label()
    assert (audit["statuses"], audit["names_outside"]) == ({"cut_off": 3, "ok": 3}, 3)
    said = capfd.readouterr().err
    assert "cut off: 3 of 6 records, which the rules label; raise anchors.llm.max_tokens" in said
    assert "names outside the 13 findings that are left out: 3" in said


def test_the_candidate_is_that_of_the_chosen_rules(endpoint, label, records) -> None:
    label(records=records.with_columns(report_raw=pl.lit("Likely edema.")), rules="paper")
    content = json.loads(endpoint.requests[0]["messages"][1]["content"])
    assert content["regex_anchor"] == {"positive": ["edema"], "negative": [], "uncertain": []}


def test_a_rationale_is_never_printed(endpoint, label, capfd) -> None:
    endpoint.replies = lambda asked, _: Reply(
        body=completion(answer(asked, rationale={"edema": "an invented phrase"}))
    )
    assert "invented" not in json.dumps(label()) + "".join(capfd.readouterr())


def test_an_answer_is_used_as_long_as_the_question_is_the_same(
    endpoint, asking, label, sample, records, tmp_path
) -> None:
    """Changes of prompt, report and settings ask again; old answers stay and come back with their
    question; other parameters never ask."""
    label()
    first = (tmp_path / "llm_cache.jsonl").read_text()
    for change in ({"concurrency": 1}, {"timeout": 3.0}, {"unanswered": "rules"}):
        assert label(**change)["reused"] == 6
    assert (tmp_path / "llm_cache.jsonl").read_text() == first
    assert sum(endpoint.seen.values()) == 6

    (tmp_path / "prompt.md").write_text("Answer in JSON.")
    audit = label(prompt_file=str(tmp_path / "prompt.md"))
    assert (audit["reused"], audit["older_answers"], audit["answered"]) == (0, 6, 6)
    lines = cached(tmp_path)
    assert len(lines) == 12 and sum(line["current"] for line in lines) == 6
    anchors, _ = build(records, tmp_path / "llm_cache.jsonl")
    assert anchors.filter(origin="llm").height == 6

    changed = (
        pl.when(pl.col("record_id") == sample["record_id"][0])
        .then(pl.lit("New."))
        .otherwise("report_raw")
    )
    assert label(records=records.with_columns(changed.alias("report_raw")))["reused"] == 5
    for change in ({"max_tokens": 500}, {"model": "other"}, {"temperature": 0.5}):
        assert label(**change)["reused"] == 0
    before = sum(endpoint.seen.values())
    assert label()["reused"] == 6
    assert sum(endpoint.seen.values()) == before


def test_an_answer_does_not_depend_on_what_the_rules_read(
    endpoint, label, monkeypatch, tmp_path
) -> None:
    label()
    first = (tmp_path / "llm_cache.jsonl").read_text()
    monkeypatch.setitem(EXTRACTORS, "careful", lambda _: Anchor(FINDINGS))
    for rules in ("careful", "paper"):
        assert label(rules=rules)["reused"] == 6
    assert sum(endpoint.seen.values()) == 6
    assert (tmp_path / "llm_cache.jsonl").read_text() == first


#: The reports of ``llm_cache_0_4.jsonl``: answers that version 0.4 has stored, of requests with the
#: candidates of its careful rules and of its paper's rules.
REPORTS_OF_0_4 = (
    "The heart is mildly enlarged. Small left pleural effusion with adjacent atelectasis. No "
    "pneumothorax.",
    "ET tube 4 cm above the carina. Bibasilar opacities may represent pneumonia. No effusion or "
    "pneumothorax. Heart size is normal.",
    "Right upper lobe nodule, unchanged. No focal consolidation, effusion or edema. No acute "
    "fracture.",
    "Interval removal of the chest tube. Tiny apical pneumothorax. Pleural thickening. The "
    "mediastinum is not widened.",
)
CHANGED = {
    "as they are": lambda anchor: anchor,
    "three further findings": lambda anchor: Anchor.of(
        {*anchor.positive, *[one for one in FINDINGS if anchor.polarity(one) is None][:3]},
        anchor.negative,
        anchor.uncertain,
    ),
    "denials are hedges": lambda anchor: Anchor.of(
        anchor.positive, anchor.negative[3:], {*anchor.uncertain, *anchor.negative[:3]}
    ),
    "nothing affirmed": lambda anchor: Anchor.of((), anchor.negative, anchor.uncertain),
}


@pytest.fixture
def cache_of_0_4(label, tmp_path) -> Callable[..., dict[str, Any]]:
    """The audit of a labelling of the records with answers of version 0.4."""
    source = Path(__file__).with_name("llm_cache_0_4.jsonl")
    (tmp_path / "llm_cache.jsonl").write_bytes(source.read_bytes())

    def make(rules: str, report: str = "", **changes: Any) -> dict[str, Any]:
        records = pl.DataFrame(
            [
                record("sn", f"{rules}{number}", "train", report or text)
                for number, text in enumerate(REPORTS_OF_0_4)
            ],
            RECORD_SCHEMA,
        )
        sample = records.select("record_id", "context", strata=pl.lit(["negation", "common"]))
        return label(sample, records, rules=rules, **changes)

    return make


@pytest.mark.parametrize("rules", ["careful", "paper"])
@pytest.mark.parametrize("changed", CHANGED)
def test_answers_of_0_4_are_found_if_the_rules_read_otherwise(
    cache_of_0_4, endpoint, rules, changed, monkeypatch, tmp_path
) -> None:
    read = EXTRACTORS[rules]
    monkeypatch.setitem(EXTRACTORS, rules, lambda text: CHANGED[changed](read(text)))
    before = cached(tmp_path)
    audit = cache_of_0_4(rules)
    assert (audit["reused"], audit["older_answers"], endpoint.seen) == (4, 4, {})
    lines = cached(tmp_path)
    assert [line["request_hash"] for line in lines] == [line["request_hash"] for line in before]
    assert [line["question_hash"] is not None for line in lines] == [
        rules in line["record_id"] for line in lines
    ]
    # from now on they have their key
    monkeypatch.setitem(EXTRACTORS, rules, lambda _: Anchor(FINDINGS))
    assert cache_of_0_4(rules)["reused"] == 4 and cached(tmp_path) == lines


def test_answers_of_0_4_to_another_question_are_not_used(cache_of_0_4, endpoint, tmp_path) -> None:
    audit = cache_of_0_4("careful", report="No effusion.")
    assert (audit["reused"], audit["older_answers"]) == (0, 8)
    assert cache_of_0_4("paper", max_tokens=500)["reused"] == 0
    assert sum(endpoint.seen.values()) == 8 and len(cached(tmp_path)) == 16
    assert [cache_of_0_4(rules)["reused"] for rules in ("careful", "paper")] == [4, 4]


def test_an_answer_that_0_4_bought_twice_is_kept(cache_of_0_4, endpoint, tmp_path) -> None:
    """Its rules had changed in between: of both answers, one gets the key."""
    twice = json.loads((tmp_path / "llm_cache.jsonl").read_text().splitlines()[0])
    cache_of_0_4("careful")
    again = twice | {"request_hash": twice["request_hash"][::-1]}
    with (tmp_path / "llm_cache.jsonl").open("a") as file:
        file.write(json.dumps(again) + "\n")
    audit = cache_of_0_4("careful")
    assert (audit["reused"], audit["older_answers"], endpoint.seen) == (4, 5, {})


def test_other_providers_keep_paid_answers_and_use_none(
    label, records, labelling, tmp_path
) -> None:
    label()
    audit = label(config=labelling())
    assert (audit["answered"], audit["older_answers"]) == (0, 6)
    anchors, _ = build(records, tmp_path / "llm_cache.jsonl")
    assert set(anchors["origin"]) == {"rules"}
    assert label()["reused"] == 6


def test_recorded_answers(label, sample, labelling, tmp_path) -> None:
    ids = sample["record_id"].to_list()
    lines = [
        {"record_id": i, "response": completion(answer({"sample_uid": i}))}
        for i in [*ids[:4], "sn-unsampled"]
    ]
    lines.append({"record_id": ids[4], "response": completion(answer({"sample_uid": ids[0]}))})
    path = tmp_path / "answers.jsonl"
    # with a byte order mark and without a line end, as some editors write it
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8-sig")
    config = labelling(provider="recorded", recorded=str(path))
    for _ in range(2):
        audit = label(config=config)
        assert (audit["answered"], audit["older_answers"]) == (5, 0)
        assert audit["statuses"] == {"ok": 4, "unreadable": 1}
    path.write_text("".join(json.dumps(lines[0]) + "\n" for _ in range(2)))
    with pytest.raises(DataError, match=rf"record {ids[0]} has two answers"):
        label(config=config)
    path.write_text(json.dumps({"record_id": ids[0]}) + "\n")
    with pytest.raises(DataError, match="line 1: response is missing"):
        label(config=config)


def test_recorded_answers_and_paid_ones_to_the_same_questions(
    endpoint, label, sample, records, labelling, tmp_path
) -> None:
    """Recorded answers are never taken for the endpoint's, and put none of those aside."""
    path = tmp_path / "answers.jsonl"
    lines = [
        {"record_id": i, "response": completion(answer({"sample_uid": i}, positive=[]))}
        for i in sample["record_id"]
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    recorded = labelling(provider="recorded", recorded=str(path))
    label(config=recorded)
    audit = label()
    assert (audit["reused"], audit["models"]) == (0, {"served-1": 6})
    assert sum(endpoint.paid.values()) == 6 and len(cached(tmp_path)) == 6
    audit = label(config=recorded)
    assert (audit["older_answers"], len(cached(tmp_path))) == (6, 12)
    anchors, _ = build(records, tmp_path / "llm_cache.jsonl")
    assert anchors.filter(origin="llm")["positive"].list.len().sum() == 0
    assert label()["reused"] == 6
    assert len(cached(tmp_path)) == 6


def test_a_file_that_dvc_linked_to_its_cache_does_not_grow(label, sample, tmp_path) -> None:
    label(sample.head(2))
    in_cache = tmp_path / "in_cache"
    os.link(tmp_path / "llm_cache.jsonl", in_cache)
    before = in_cache.read_bytes()
    assert label()["reused"] == 2
    assert in_cache.read_bytes() == before


@pytest.mark.parametrize(
    ("reply", "result", "status"),
    [
        (
            Reply(400, {"error": {"message": "unsupported parameter"}}),
            "HTTP 400",
            None,
        ),  # asked again
        (Reply(500, {}), "HTTP 500", None),
        (Reply(body=b"<html>login</html>"), "HTTP 200 without a completion", None),
        (
            Reply(body=completion("I cannot.")),
            "unreadable; set anchors.llm.response_format: json_schema",
            "unreadable",
        ),  # an answer, which is kept
        (Reply(body=completion("", "length")), "cut off; raise anchors.llm.max_tokens", "cut_off"),
    ],
)
def test_an_endpoint_that_gives_no_usable_answer_does_not_use_up_the_sample(
    endpoint, label, records, monkeypatch, reply, result, status
) -> None:
    """Whatever was answered earlier: 20 in a row end the run, and the endpoint is asked again when
    it is well."""
    sample = sample_records(records, 40, seed=1)
    label(sample.head(1))
    monkeypatch.setattr("pacer.labels.endpoint.ATTEMPTS", 1)
    endpoint.replies = lambda *_: reply
    with pytest.raises(
        PacerError,
        match=rf"127.0.0.1:\d+ gave no usable answer for 20 records in a row.*: {result}",
    ):
        label(sample, concurrency=1)
    assert sum(endpoint.seen.values()) == 1 + MAX_IN_A_ROW
    endpoint.replies = good
    audit = label(sample)
    stored = {status: 20} if status else {}
    assert audit["statuses"] == {"ok": sample.height - sum(stored.values())} | stored


def test_an_answer_that_arrives_after_the_stop_hides_nothing(endpoint, label, records) -> None:
    """One of two requests at a time is answered late."""
    sample = sample_records(records, 40, seed=1)
    late = sample["record_id"][0]

    def reply(asked: dict[str, Any], _: int) -> Reply:
        if asked["sample_uid"] != late:
            return Reply(400, {})
        while endpoint.seen.total() < 1 + MAX_IN_A_ROW:
            time.sleep(0.01)
        time.sleep(0.2)
        return good(asked)

    endpoint.replies = reply
    with pytest.raises(PacerError, match="for 20 records in a row, most recently"):
        label(sample, concurrency=2)


def test_refusals_between_answers_are_believed_and_said(endpoint, label, records, capfd) -> None:
    sample = sample_records(records, 40, seed=1)
    well = set(sample["record_id"].to_list()[10::15])
    endpoint.replies = lambda asked, _: (
        good(asked) if asked["sample_uid"] in well else Reply(400, {})
    )
    audit = label(sample, concurrency=1)
    assert audit["statuses"] == {"ok": len(well)}
    refused = sample.height - len(well)
    assert audit["troubles"] == {"HTTP 400": refused}
    assert f"HTTP 400: {refused} of {sample.height} records" in capfd.readouterr().err


def test_size_schema_and_split(records: pl.DataFrame) -> None:
    sample = sample_records(records, 20, seed=3)
    assert dict(sample.schema) == SAMPLE_SCHEMA
    assert sample.group_by("context").len().sort("context").rows() == [("mw", 12), ("sn", 20)]
    chosen = records.join(sample, on="record_id", how="semi")
    assert set(chosen["split"]) == {"train"}
    assert sample["record_id"].n_unique() == 32


def test_function_of_seed_and_records_not_of_their_order(records: pl.DataFrame) -> None:
    sample = sample_records(records, 20, seed=3)
    assert sample_records(records.reverse(), 20, seed=3).equals(sample)
    assert not sample_records(records, 20, seed=4).equals(sample)
    assert sample_records(records, 0, seed=3).height == 0


def test_strata_name_what_a_report_shows(records: pl.DataFrame) -> None:
    sample = sample_records(records, 40, seed=3).join(
        records.select("record_id", "report_raw"), on="record_id"
    )
    strata = {row["report_raw"]: set(row["strata"]) for row in sample.iter_rows(named=True)}
    assert strata == {
        "Possible pneumonia. No effusion.": {"uncertainty", "negation", "common_findings"},
        "Right PICC. Heart size is normal.": {"devices"},
        "Unchanged small left effusion.": {"common_findings", "temporal_comparison"},
        "Lungs clear.": set(),
    }


def test_rare_strata_are_emphasised(records: pl.DataFrame) -> None:
    """Ten of forty reports show nothing of interest; they come last."""
    sample = sample_records(records, 20, seed=3).filter(context="sn")
    assert sample.filter(pl.col("strata").list.len() == 0).height == 0
    for stratum in STRATA:
        assert sample.filter(pl.col("strata").list.contains(stratum)).height >= 4


@pytest.mark.parametrize("column", ["study_id", "subject_id"])
def test_held_out_study_or_subject_is_refused(records: pl.DataFrame, column: str) -> None:
    leak = pl.when(pl.col("record_id") == "sn-train0sn").then(pl.lit(f"{column[:-3]}-test1sn"))
    leaked = records.with_columns(leak.otherwise(column).alias(column))
    with pytest.raises(
        DataError, match=f"1 {column}s in the labelling sample also occur in val or test"
    ):
        sample_records(leaked, 40, seed=3)
