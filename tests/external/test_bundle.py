"""A scored run in one archive: the same numbers come out, or one sentence says why not."""

from __future__ import annotations

import contextlib
import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pacer.core.seal import read_sealed

from pacer.core.errors import ConfigError, DataError
from pacer.core.io import hash_bytes, read_json
from pacer.external.bundle import MEMBERS, score_bundle, write_bundle
from pacer.metrics.cases import LABELS, case_table, scored_cases
from pacer.metrics.signature import flat
from pacer.records.findings import FINDINGS
from tests.cli.conftest import pacer, repository
from tests.metrics.test_scoring import REPORTS, Case, case

__all__ = ["case", "pacer", "repository"]

pytestmark = pytest.mark.slow

PARAMS = Path(__file__).resolve().parents[2] / "configs" / "phantom.yaml"


@pytest.fixture
def run(case: Case) -> Path:
    """A folder of scores with controls, originals, commitments, tokens and an external scorer's numbers."""
    case.records = case.records.with_columns(findings_original=pl.col("report_raw").str.to_uppercase())
    scorer = case.folder / "scorer.py"
    scorer.write_text(
        "import json, sys\n"
        "given = dict(zip(sys.argv[1::2], sys.argv[2::2]))\n"
        "rows = [json.loads(line) for line in open(given['--hypotheses'])]\n"
        "out = given['--out']\n"
        "scores = [{'record_id': row['record_id'], 'length': len(row['text']) / 3} for row in rows]\n"
        "open(out + '/scores.jsonl', 'w').writelines(json.dumps(row) + '\\n' for row in scores)\n"
        "json.dump({'name': 'mine', 'version': '1'}, open(out + '/about.json', 'w'))\n"
    )
    (case.predictions / "manifest.json").write_text(json.dumps({"settings": {"max_new_tokens": 7}}))
    truth = case.folder / "truth.parquet"
    case.score(external={"mine": f"python {scorer}"}, train_records=case.train, truth=truth)
    return case.folder / "metrics"


@pytest.fixture
def packed(run: Path, tmp_path: Path) -> Callable[..., Path]:
    (tmp_path / "dvc.lock").write_text("schema: '2.0'\n")

    def pack(name: str = "bundle.zip", **options: Any) -> Path:
        write_bundle(run, tmp_path / name, PARAMS, tmp_path / "dvc.lock", **options)
        return tmp_path / name

    return pack


def test_with_texts_every_number_comes_out_again(run, packed, tmp_path):
    path = packed()
    found = score_bundle(path, tmp_path / "again")
    scores = read_json(run / "scores.json")
    del scores["truth"]  # what the corpus alone knows
    assert (found.missing, found.equal) == (["truth"], len(flat(scores))) and found.scores == scores
    expected = {"bleu4", "original_bleu1", "truncated_rate", "unclosed_rate", "gate", "mine/length", "copied_share"}
    assert expected <= scores["mean"].keys()
    assert scores["controls"]["no_lateral"]["mn"]["unchanged_share"] == 0.25
    assert read_json(tmp_path / "again" / "scores.json") == scores
    assert read_json(tmp_path / "again" / "details.json") == read_json(run / "details.json")
    signature = read_sealed(tmp_path / "again" / "signature.json")
    about = signature.pop("bundle")
    assert signature == read_sealed(run / "signature.json")
    assert about == {"sha256": hash_bytes(path.read_bytes()), "texts": True, "missing": ["truth"]}
    written = pl.read_parquet(tmp_path / "again" / "cases.parquet")
    assert written.to_dicts() == pl.read_parquet(run / "cases.parquet").select(written.columns).to_dicts()


def test_without_texts_the_clinical_numbers_come_out_and_no_word_is_in_it(run, packed, tmp_path):
    path = packed(labels_only=True)
    found = score_bundle(path, tmp_path / "again")
    scores = read_json(run / "scores.json")
    assert found.scores["conventions"] == scores["conventions"] and found.scores["controls"] == scores["controls"]
    for context in ("sn", "mn", "mean"):
        for name in ("f1", "report_positive_f1", "anchor_agreement", "temporal_f1", "gate", "mine/length"):
            assert found.scores[context][name] == scores[context][name]
        assert "bleu1" not in found.scores[context] and "empty_rate" not in found.scores[context]
    assert {"bleu1", "cider", "meteor", "original_bleu4", "empty_rate", "copied_share"} <= set(found.missing)
    content = path.read_bytes().lower()
    texts = {*REPORTS, *pl.read_parquet(run / "cases.parquet")["findings_original"]}
    assert not any(text.lower().strip(" .").encode() in content for text in texts)
    assert any(REPORTS[0].encode() in packed(name).read_bytes() for name in ["whole.zip"]), "what it is about"


def test_the_bytes_follow_from_the_members(packed):
    assert packed("one.zip").read_bytes() == packed("two.zip").read_bytes()
    with zipfile.ZipFile(packed()) as archive:
        assert tuple(archive.namelist()) == MEMBERS


def test_what_does_not_belong_together_is_refused(run, packed, tmp_path):
    params = tmp_path / "params.yaml"
    params.write_text(PARAMS.read_text().replace("convention: llm-rg4", "convention: r2gen"))
    with pytest.raises(ConfigError, match=r"score\.convention is r2gen in .*params.yaml, llm-rg4 in .*--params"):
        write_bundle(run, tmp_path / "b.zip", params, tmp_path / "dvc.lock")
    params.write_text(PARAMS.read_text().replace("originals: upstream", "originals: as_is"))
    with pytest.raises(DataError, match=r"b\.zip: sn\.original_bleu\d is .* by its cases and .* in its scores\.json"):
        write_bundle(run, tmp_path / "b.zip", params, tmp_path / "dvc.lock")
    with pytest.raises(DataError, match=r"holds no scored run \(FileNotFoundError\)"):
        write_bundle(tmp_path / "none", tmp_path / "b.zip", PARAMS, tmp_path / "dvc.lock")
    pl.read_parquet(run / "cases.parquet").drop("tokens").write_parquet(run / "cases.parquet")
    with pytest.raises(DataError, match="lacks tokens; score the run again"):
        write_bundle(run, tmp_path / "b.zip", PARAMS, tmp_path / "dvc.lock")
    assert not (tmp_path / "b.zip").exists()


def rewritten(
    path: Path, change: Callable[[dict[str, bytes]], None], attributes: int = 0o100644, packing: int = 0
) -> Path:
    """The archive with other members."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            member = zipfile.ZipInfo(name)
            member.external_attr, member.compress_type = attributes << 16, packing
            archive.writestr(member, content)
    return path


def signed(members: dict[str, bytes]) -> None:
    """Let bundle.json describe the members as they are."""
    about = json.loads(members["bundle.json"])
    about["members"] = {name: hash_bytes(content) for name, content in members.items() if name != "bundle.json"}
    members["bundle.json"] = json.dumps(about).encode()


@pytest.mark.parametrize("name", ["../cases.jsonl", "/etc/passwd", "more.json", "cases.jsonl/", "cases.jsonl\\x"])
def test_members_that_leave_or_are_unknown_are_refused(packed, tmp_path, name):
    path = rewritten(packed(), lambda members: members.update({name: b"x"}))
    with pytest.raises(DataError, match=r"which is no part of a bundle; it may hold bundle\.json"):
        score_bundle(path, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("attributes", "packing"),
    [(stat.S_IFLNK | 0o777, zipfile.ZIP_STORED), (stat.S_IFDIR, zipfile.ZIP_STORED), (0o100644, zipfile.ZIP_DEFLATED)],
)
def test_links_folders_and_what_could_swell_are_refused(packed, tmp_path, attributes, packing):
    path = rewritten(packed(), lambda members: None, attributes, packing)
    with pytest.raises(DataError, match="as a link, as a folder or compressed"):
        score_bundle(path, tmp_path / "again")


def test_a_large_archive_and_one_with_a_member_twice_are_refused(packed, tmp_path, monkeypatch):
    path = packed()
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        member = zipfile.ZipInfo("cases.jsonl")
        member.external_attr = 0o100644 << 16
        archive.writestr(member, b"x")
    with pytest.raises(DataError, match="holds a member twice"):
        score_bundle(path, tmp_path / "again")
    monkeypatch.setattr("pacer.external.bundle._LARGEST", 1000)
    with pytest.raises(DataError, match="has more than 1,000 bytes"):
        score_bundle(path, tmp_path / "again")


def test_a_changed_member_is_noticed_and_scores_that_do_not_follow_too(packed, tmp_path):
    def better(members: dict[str, bytes]) -> None:
        scores = json.loads(members["scores.json"])
        scores["mean"]["f1"] = 0.99
        members["scores.json"] = json.dumps(scores).encode()

    path = rewritten(packed(), better)
    with pytest.raises(DataError, match=r"the members are not those of bundle\.json"):
        score_bundle(path, tmp_path / "again")
    with pytest.raises(DataError, match=r"mean\.f1 is .* by its cases and 0\.99 in its scores\.json"):
        score_bundle(rewritten(path, signed), tmp_path / "again")
    for cut in (b"", b"PK", path.read_bytes()[:-30], path.read_bytes()[100:]):
        path.write_bytes(cut)
        with pytest.raises(DataError, match=r"bundle\.zip"):
            score_bundle(path, tmp_path / "again")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("reference_labels", [0] * 13),
        ("reference_labels", [7] * 14),
        ("hypothesis_labels", None),
        ("another_patient_labels", [[1]]),
        ("context", "xx"),
        ("context", None),
        ("record_id", "sn-test1"),
        ("anchor_positive", None),
        ("reference_negative", ["flu"]),
        ("reference", "\ud800"),
        ("mine/length", "x"),
        ("tokens", 1 << 80),
        ("fallback", "no"),
    ],
)
def test_cases_that_no_run_has_are_one_clear_error(packed, tmp_path, column, value):
    def change(members: dict[str, bytes]) -> None:
        rows = [json.loads(line) for line in members["cases.jsonl"].splitlines()]
        rows[2 if column == "anchor_positive" else 0][column] = value
        members["cases.jsonl"] = "".join(json.dumps(row) + "\n" for row in rows).encode()
        signed(members)

    with pytest.raises(DataError) as error:
        score_bundle(rewritten(packed(), change), tmp_path / "again")
    assert not any(text in str(error.value) for text in REPORTS)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_stands_in_a_case_is_scored_or_refused(packed, tmp_path, data):
    def change(members: dict[str, bytes]) -> None:
        rows = [json.loads(line) for line in members["cases.jsonl"].splitlines()]
        row = data.draw(st.sampled_from(rows))
        row[data.draw(st.sampled_from(sorted(row)))] = data.draw(VALUES)
        members["cases.jsonl"] = "".join(json.dumps(row) + "\n" for row in rows).encode()
        signed(members)

    whole, path = tmp_path / "whole.zip", tmp_path / "changed.zip"
    path.write_bytes(whole.read_bytes() if whole.exists() else packed("whole.zip", labels_only=True).read_bytes())
    with contextlib.suppress(DataError):
        assert score_bundle(rewritten(path, change), tmp_path / "again").equal


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
STATES = st.sampled_from([None, {"positive": [FINDINGS[0]], "negative": [], "uncertain": list(FINDINGS[1:3])}])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_cases_are_read_back_as_they_were(run, data):
    """The table of cases and what is scored are each other's inverse, whatever the texts, ids and gaps."""
    table = pl.read_parquet(run / "cases.parquet").head(4)
    drawn = {
        "record_id": data.draw(st.lists(TEXT, min_size=4, max_size=4, unique=True)),
        "study_id": data.draw(st.lists(st.none() | TEXT, min_size=4, max_size=4)),
        "gate": data.draw(st.lists(st.none() | st.floats(0, 1), min_size=4, max_size=4)),
        "unclosed": data.draw(st.lists(st.none() | st.booleans(), min_size=4, max_size=4)),
        "tokens": data.draw(st.lists(st.none() | st.integers(0, 999), min_size=4, max_size=4)),
    }
    anchors = data.draw(st.lists(STATES, min_size=4, max_size=4))
    states = {f"anchor_{name}": [a and a[name] for a in anchors] for name in ("positive", "negative", "uncertain")}
    table = table.with_columns(pl.Series(name, values, table[name].dtype) for name, values in (drawn | states).items())
    [(name, scored)] = scored_cases(table).items()
    assert name == "sn" and scored.has_texts and [p.anchor for p in scored.predictions] == anchors
    assert np.array_equal(scored.control_labels["another_patient"], table["another_patient_labels"].to_list())
    again = scored_cases(table.select(*LABELS, "mine/length"))[name]
    assert not again.has_texts and np.array_equal(again.labels, scored.labels)
    scored.language = type("Language", (), {"rouge": [0.0] * 4, "meteor": [0.0] * 4, "meteor_statistics": [[]] * 4})
    assert case_table({name: scored}, None).select(*LABELS).equals(table.select(*LABELS))


def test_by_command_as_a_user_packs_and_scores_it(pacer, run: Path):
    made = pacer("bundle", ".", "--out", "supplement.zip", "--labels-only")
    assert made.code == 0, made.error
    assert (
        "numbers computed from the cases of supplement.zip are those of its scores.json; its cases do not" in made.out
    )
    assert (
        "note: there is no dvc.lock" in made.out
        and "8 cases and the parameters in params.yaml written to supplement.zip, SHA-256" in made.out
    )
    for name in ("supplement.zip", "whole.zip"):
        if name == "whole.zip":
            assert pacer("bundle", "metrics", "--out", name).code == 0
        done = pacer("score", "--bundle", name, "--out", f"again/{name}")
        assert done.code == 0 and "SN" in done.out and f"written to again/{name}" in done.out, done.error
    same = pacer("compare", "metrics", "again/whole.zip", "--resamples", "50")
    assert same.code == 0 and "the signatures also differ" not in same.out
    refused = pacer("compare", "metrics", "again/supplement.zip")
    assert refused.code == 1 and "lacks reference, hypothesis" in refused.error
    for wrong in (("--records", "r"), ("--context", "sn"), ("--extract", "boxed")):
        refused = pacer("score", "--bundle", "whole.zip", "--out", "x", *wrong)
        assert refused.code == 1 and "--bundle" in refused.error and refused.error.count("\n") == 1
    refused = pacer("score", "--bundle", "params.yaml", "--out", "x")
    assert refused.code == 1 and "params.yaml is no archive of `pacer bundle`" in refused.error
