"""The latent world, and the corpus that is written from it: numbers, layout, truth, emphasis and
recorded answers."""

import json
from itertools import combinations, pairwise
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from PIL import Image

from pacer.core.contexts import CONTEXTS, availability
from pacer.core.findings import FINDINGS
from pacer.core.io import hash_bytes, hash_file, read_json, read_jsonl
from pacer.core.schemas import EMPHASIS_POSITIONS, TRUTH_SCHEMA
from pacer.corpus.source import read_source
from pacer.phantom.generate import emphasis_scores, generate_phantom
from pacer.phantom.language import sample_texts
from pacer.phantom.tokenizer import phantom_tokenizer
from pacer.phantom.world import (
    DEVICES,
    FINDING_PRIORS,
    Draw,
    begin_finding,
    make_world,
    next_findings,
)
from pacer.text.cleaning.cleaners import clean_report
from tests.support.profiles import profile

LATERAL_CAPABLE = {name for name in FINDINGS if FINDING_PRIORS[name].lateral}
CHRONIC = {name for name in FINDINGS if FINDING_PRIORS[name].unseen}


def drawn(rng: np.random.Generator) -> list[Draw]:
    return [Draw(*row) for row in rng.random((len(FINDINGS), len(Draw._fields)))]


@pytest.fixture(scope="module")
def world():
    return make_world(5, 700, 2.4, 0.6, val_fraction=0.1, test_fraction=0.2)


@pytest.fixture(scope="module")
def studies(world):
    return [study for patient in world for study in patient.studies]


def test_same_seed_gives_the_same_world():
    assert make_world(9, 30) == make_world(9, 30)
    assert make_world(9, 30) != make_world(10, 30)
    first, other = ([patient.subject_id for patient in make_world(seed, 30)] for seed in (9, 10))
    assert len({*first, *other}) == 60


def test_splits_are_by_patient_and_of_the_asked_size(world):
    splits = [patient.split for patient in world]
    assert splits.count("val") == 70 and splits.count("test") == 140
    assert all(study.split == patient.split for patient in world for study in patient.studies)


def test_studies_of_a_patient_are_chained_in_time(world):
    for patient in world:
        assert patient.studies[0].prior is None
        for before, after in pairwise(patient.studies):
            assert after.prior is before


def chance(name, now, before):
    """Probability of a finding in a patient without traits: log-odds of its prevalence, shifted by
    those drawn before; and of one that was there to stay. In the long run as many begin as end."""
    prior = FINDING_PRIORS[name]
    shift = sum(value for other, value in (prior.given or {}).items() if other in now)
    rate = 1 / (1 + (1 / prior.prevalence - 1) * np.exp(-shift))
    if before is None:
        return rate
    return prior.persistence if name in before else rate * (1 - prior.persistence) / (1 - rate)


def test_prevalence_persistence_and_co_occurrence_are_those_of_the_table():
    rng, level = np.random.default_rng(3), dict.fromkeys(FINDINGS, 0.0)
    pairs = []
    for _ in range(4000):
        first = next_findings(drawn(rng), None, level, True, 0.0)
        second = next_findings(drawn(rng), SimpleNamespace(findings=first), level, True, 0.0)
        pairs += [(None, first), (first, second)]
    for name, prior in FINDING_PRIORS.items():
        groups = {"first": [], "stays": [], "begins": []}
        for before, now in pairs:
            one = now, name in now, chance(name, now, before)
            groups["first" if before is None else "stays" if name in before else "begins"].append(
                one
            )
        for kind, group in groups.items():
            for other in ("", *(prior.given or {})):
                known = [
                    (found, expected) for now, found, expected in group if not other or other in now
                ]
                found, expected = np.mean(known, axis=0)
                assert abs(found - expected) < 4 * np.sqrt(
                    expected * (1 - expected) / len(known)
                ), (name, kind, other)


@pytest.mark.parametrize("finding", [name for name in FINDINGS if name != "support devices"])
def test_what_a_finding_looks_like_is_drawn_apart(finding):
    """But for a hedge, which severity decides too."""
    rng = np.random.default_rng(4)
    states = [begin_finding(finding, drawn(rng)[0], has_lateral=False) for _ in range(3000)]
    looks = {
        name: [getattr(state, name) for state in states]
        for name in ("severity", "side", "zone", "certainty")
    }
    values = [
        np.unique(values, return_inverse=True)[1]
        for values in (*looks.values(), *zip(*(s.position for s in states)))
    ]
    pairs = [pair for pair in combinations(range(len(values)), 2) if pair != (0, 3)]
    tied = [
        pair
        for pair in pairs
        if np.ptp(values[pair[0]])
        and np.ptp(values[pair[1]])
        and abs(np.corrcoef(values[pair[0]], values[pair[1]])[0, 1]) > 4.5 / np.sqrt(len(states))
    ]
    assert tied == [] and len(pairs) == 20


def test_devices_are_drawn_apart_from_what_they_look_like():
    rng = np.random.default_rng(6)
    states = [
        begin_finding("support devices", drawn(rng)[0], has_lateral=False) for _ in range(3000)
    ]
    several = [len(state.devices) > 1 for state in states]
    first, last = ([DEVICES.index(state.devices[at]) for state in states] for at in (0, -1))
    seen = [[state.severity for state in states], *zip(*(state.position for state in states))]
    for devices in (several, first, last):
        for values in seen:
            assert abs(np.corrcoef(devices, values)[0, 1]) < 4.5 / np.sqrt(len(states))
    assert abs(np.mean(several) - 0.35 * (1 - 1 / len(DEVICES))) < 0.03


def test_findings_are_correlated(studies):
    def share(name, given):
        return np.mean([name in s.findings for s in studies if given in s.findings])

    assert share("edema", "cardiomegaly") > 1.5 * np.mean(["edema" in s.findings for s in studies])
    assert share("pneumonia", "consolidation") > 1.5 * np.mean(
        ["pneumonia" in s.findings for s in studies]
    )


def test_lateral_only_findings(studies):
    states = [(study, state) for study in studies for state in study.findings.values()]
    assert all(
        study.has_lateral and state.finding in LATERAL_CAPABLE
        for study, state in states
        if state.lateral_only
    )
    for name in LATERAL_CAPABLE:
        share = np.mean([state.lateral_only for _, state in states if state.finding == name])
        assert 0.05 < share < 0.33, name
    fractures = [state for _, state in states if state.finding == "fracture"]
    assert all((state.kind == "vertebra") == state.lateral_only for state in fractures)


def test_what_the_previous_report_alone_tells(studies):
    continued = [
        (study, state) for study in studies for state in study.findings.values() if study.prior
    ]
    for study, state in continued:
        if state.prior_only:
            before = study.prior.findings[state.finding]
            assert state.finding in CHRONIC and not state.lateral_only
            assert (state.course, state.severity) == ("stable", before.severity)
    assert not any(study.prior_only for study in studies if study.prior is None)
    for name in CHRONIC:
        states = [
            s
            for study, s in continued
            if s.finding == name and s.course != "new" and not s.lateral_only
        ]
        assert abs(np.mean([state.prior_only for state in states]) - 0.4) < 0.12, name
    # so what the previous report says of them nearly always holds
    before = [
        (name, study)
        for study in studies
        if study.prior
        for name in study.prior.findings.keys() & CHRONIC - study.prior.lateral_only
    ]
    assert np.mean([name in study.findings for name, study in before]) > 0.88


def test_what_reports_leave_out_is_known_stable_and_slight(studies):
    states = [(study, state) for study in studies for state in study.findings.values()]
    for study, state in states:
        steps = state.stable_for
        if steps:
            before = study.prior.findings[state.finding]
            assert before.stable_for == steps - 1 and state.course == "stable"
        quiet = FINDING_PRIORS[state.finding].quiet
        assert state.left_out == (state.severity < 1 - (1 - quiet) ** steps)
        assert steps or not state.left_out
    # the longer it has been stable, the more is left out
    shares = [
        np.mean([state.left_out for _, state in states if state.stable_for == steps])
        for steps in (1, 2, 3)
    ]
    assert 0.2 < shares[0] < shares[1] < shares[2]


def test_courses_follow_the_previous_study(studies):
    for study in studies:
        for name, state in study.findings.items():
            before = study.prior.findings.get(name) if study.prior else None
            assert (state.course == "new") == (before is None)
            if before:
                assert (state.side, state.zone, state.kind) == (
                    before.side,
                    before.zone,
                    before.kind,
                )
                change = state.severity - before.severity
                assert {"worse": change > 0.15, "improved": change < -0.15, "stable": change == 0}[
                    state.course
                ]
        ended = study.prior.findings.keys() - study.findings.keys() if study.prior else set()
        assert study.resolved.keys() == ended


CONFIG = profile("micro").corpus.phantom
FIELDS = {
    "id",
    "finding",
    "impression",
    "APPA_flag",
    "APPA_imagepath",
    "history",
    "indication",
    "new_scores",
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    directory = tmp_path_factory.mktemp("phantom")
    generate_phantom(CONFIG, 7, directory, image_size=56, vocabulary=900)
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
    assert any(row["finding"] == "s" for row in rows) and any(
        row["impression"] == "s" for row in rows
    )
    assert not any(row["finding"] == row["impression"] == "s" for row in rows)
    assert any(row["history"] == 0 for row in rows) and any(
        isinstance(row["history"], str) for row in rows
    )
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
                assert (
                    subject.startswith(group)
                    and subject[0] == "p"
                    and study[0] == "s"
                    and name.endswith(".jpg")
                )
                assert (study == f"s{row['id']}") == (not field.startswith("last"))
                with Image.open(corpus / "images" / row[field]) as image:
                    assert image.size == (56, 56) and image.mode == "L"


def test_truth_lists_every_study(corpus, records):
    truth = pl.read_parquet(corpus / "truth.parquet")
    assert dict(truth.schema) == TRUTH_SCHEMA
    assert set(truth["study_id"]) == {row["id"] for rows in records["sn"].values() for row in rows}
    for row in truth.iter_rows(named=True):
        assert all(row[name] for name in row["lateral_only"] + row["prior_only"])
        assert [state["finding"] for state in row["states"]] == [
            name for name in FINDINGS if row[name]
        ]
        for box in row["boxes"]:
            assert row[box["finding"]] and box["finding"] not in row["prior_only"]
            assert box["view"] == "lateral" or box["finding"] not in row["lateral_only"]
            assert (
                box["x"] + box["width"] <= 1
                and box["y"] + box["height"] <= 1
                and box["width"] * box["height"] > 0
            )
        on_frontal = {box["finding"] for box in row["boxes"] if box["view"] == "frontal"}
        assert on_frontal == {name for name in FINDINGS if row[name]} - {
            *row["lateral_only"],
            *row["prior_only"],
        }


def test_answers_are_api_responses_for_every_train_record(corpus, records):
    answers = {row["record_id"]: row["response"] for row in read_jsonl(corpus / "answers.jsonl")}
    assert set(answers) == {
        f"{c}-{row['id']}" for c, splits in records.items() for row in splits["train"]
    }
    for record_id, response in answers.items():
        assert response["object"] == "chat.completion"
        content = json.loads(response["choices"][0]["message"]["content"])
        assert content["sample_uid"] == record_id
        assert set(content) == {"sample_uid", "positive", "negative", "uncertain", "rationale"}


def test_source_and_manifest_describe_the_files(corpus, records):
    source, manifest = read_source(corpus), read_json(corpus / "manifest.json")
    assert source.images == corpus / "images" and source.truth == corpus / "truth.parquet"
    assert read_json(corpus / "source.json")["files"]["mw"]["sha256"] == hash_file(
        corpus / "mw.json"
    )
    assert manifest["tokenizer"]["sha256"] == hash_bytes(phantom_tokenizer(900).to_str().encode())
    counted = {
        context: {split: len(rows) for split, rows in splits.items()}
        for context, splits in records.items()
    }
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
            expected = " ".join(
                clean_report(text) for text, findings in report.sentences if findings
            )
            assert tokenizer.decode(ids[marked].tolist()) == expected
