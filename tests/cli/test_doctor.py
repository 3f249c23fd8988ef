"""`pacer doctor`: what is missing, how to get it, and estimates that grow with the work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pacer.cli.costs import Counts, Machine, count_records, estimate
from pacer.cli.doctor import diagnose, weights
from pacer.corpus.source.files import point_to_files
from pacer.params import load_params, parse_params

REPOSITORY = Path(__file__).parents[2]
GIGABYTE = 1e9


def changed(name: str, **groups: dict):
    values = load_params(REPOSITORY / "configs" / f"{name}.yaml").model_dump()
    for group, changes in groups.items():
        values[group] |= changes
    return parse_params(values)


def seconds(costs) -> dict[str, float]:
    return {cost.stage: cost.seconds for cost in costs}


def test_the_default_profile_lacks_nothing(pacer):
    outcome = pacer("doctor")
    assert outcome.code == 0, outcome.error
    for shown in ("Java (METEOR)", "CPU cores", "stand-in, made by the stage", "features", "GB free", "calibrate"):
        assert shown in outcome.out


def test_missing_weights_say_how_to_get_them(pacer):
    outcome = pacer("doctor", "--params", "configs/mimic_rg4.yaml")
    assert outcome.code == 1
    assert outcome.error.strip() == "error: a run would stop: see what is marked `missing` above"
    told = " ".join(outcome.out.split())
    assert "hf download lmsys/vicuna-7b-v1.5 --revision 3321f76e3f527bd14065daf69dad9344000a201d" in told
    assert "13.5 GB" in told and "corpus.root" in told


def test_a_local_model_is_checked_for_what_its_role_needs(tmp_path: Path):
    (tmp_path / "config.json").write_text("{}")
    params = load_params(REPOSITORY / "configs" / "mimic_rg4.yaml").model_dump()
    params["backbones"]["chexbert"] = {"provider": "local", "path": str(tmp_path)}
    finding = weights(parse_params(params))[-1]
    assert finding.state == "missing" and "chexbert.pth" in finding.detail


def test_annotation_files_are_looked_for(tmp_path: Path):
    (tmp_path / "NLMCXR_reports.tgz").write_text("")
    found = {f.what: f.state for f in diagnose(changed("openi", corpus={"root": str(tmp_path), "images": "."})).data}
    assert found == {"corpus.root": "ok", "openi.reports": "ok", "openi.projections": "missing", "images": "ok"}


def test_what_a_stage_would_refuse_is_not_ok(tmp_path: Path):
    """An annotation file that does not begin as one, and depths that do not end with the encoder's last block."""
    (tmp_path / "sn.json").write_text("not JSON")
    names = {"sn": "sn.json", "sw": None, "mn": None, "mw": None}
    corpus = {"source": "files", "root": str(tmp_path), "contexts": ["sn"], "annotations": names}
    found = diagnose(changed("phantom", corpus=corpus, features={"depths": [3, 6]}))
    assert {f.what: f.state for f in found.data}["annotations.sn"] == "missing"
    (features,) = (f for f in found.weights if f.what == "features")
    assert features.state == "missing" and "must end with the encoder's last block, 12" in features.detail


def test_files_that_changed_since_they_were_described_are_named(tmp_path: Path):
    (tmp_path / "studies.csv").write_text("a")
    params = changed(
        "openi",
        corpus={
            "root": str(tmp_path),
            "format": "table",
            "images": ".",
            "table": {"file": "studies.csv", "columns": {}},
        },
    )
    point_to_files(params.corpus, tmp_path / "data" / "source")
    assert "source" not in {finding.what for finding in diagnose(params, tmp_path).data}
    (tmp_path / "studies.csv").write_text("b")
    note = next(finding for finding in diagnose(params, tmp_path).data if finding.what == "source")
    assert note.state == "note"
    assert "has changed since the source was made" in note.detail and "dvc repro -f source" in note.detail


def test_a_generated_corpus_is_counted_from_its_parameters():
    params = load_params(REPOSITORY / "configs" / "phantom.yaml")
    counts, world = count_records(params, Path("absent")), params.corpus.phantom
    assert counts is not None and not counts.measured
    assert sum(counts.records["sn"].values()) == pytest.approx(world.patients * world.studies_per_patient, abs=2)
    assert counts.records["sw"]["train"] < counts.records["sn"]["train"]


def test_files_are_counted_from_the_audit_of_the_same_corpus_only(tmp_path: Path):
    params = changed("openi", corpus={"root": str(tmp_path)})
    assert count_records(params, tmp_path) is None
    (tmp_path / "source").mkdir()
    (tmp_path / "corpus").mkdir()
    audit = {
        "contexts": {c: {"train": {"records": 7}, "test": {"records": 2}} for c in ("sn", "mn")},
        "images": {"count": 11},
    }
    (tmp_path / "corpus" / "audit.json").write_text(json.dumps(audit))
    for root, expected in ((str(tmp_path), 18), ("/another/corpus", None)):
        (tmp_path / "source" / "source.json").write_text(json.dumps({"root": root}))
        counts = count_records(params, tmp_path)
        assert (counts.all if counts else None) == expected


def test_the_papers_features_need_their_published_size():
    counts = Counts({"sn": {"train": 1, "val": 0, "test": 2357}}, images=269_402, measured=True)
    costs = estimate(load_params(REPOSITORY / "configs" / "mimic_rg4.yaml"), counts, Machine(16, 132))
    size = next(cost.bytes for cost in costs if cost.stage == "features")
    assert size == pytest.approx(1700 * GIGABYTE, rel=0.01)


def test_pixels_are_small_and_cost_an_encoder_pass_at_each_visit():
    counts = Counts({"sn": {"train": 424_411, "test": 6215}}, 269_402, measured=True)
    params = load_params(REPOSITORY / "configs" / "mimic_rg4.yaml")

    def costs(**changes):
        features = params.features.model_copy(update=changes)
        return {
            cost.stage: cost
            for cost in estimate(params.model_copy(update={"features": features}), counts, Machine(16, 132))
        }

    states, pixels, exact = costs(), costs(mode="pixels"), costs(dtype="float32")
    assert pixels["features"].bytes == pytest.approx(72e9, rel=0.01)
    assert exact["features"].bytes == states["features"].bytes * 2
    assert pixels["features"].seconds < states["features"].seconds
    assert pixels["parent"].seconds > states["parent"].seconds


def test_estimates_follow_the_work_and_the_machine():
    base, longer = changed("phantom"), changed("phantom", parent={"updates": 4500})
    counts = count_records(base, Path("absent"))
    assert counts is not None
    slow, fast = (seconds(estimate(base, counts, machine)) for machine in (Machine(2), Machine(8)))
    assert all(fast[stage] <= slow[stage] for stage in slow)
    assert seconds(estimate(longer, counts, Machine(2)))["parent"] > 5 * slow["parent"]
    without = changed("phantom", calibrate={"gate_inputs": "none"})
    assert "calibrate" not in seconds(estimate(without, counts, Machine(2)))
