"""`pacer doctor`: what is missing, how to get it, and estimates that grow with the work."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from pacer.cli.costs import Counts, Machine, count_records, estimate
from pacer.cli.doctor import Finding, diagnose, weights
from pacer.corpus.source.files import point_to_files
from pacer.model.assemble import build_model, frozen_fingerprints
from pacer.model.checkpoint import CheckpointRecord, package_versions, save_checkpoint
from pacer.model.specification import specification_of
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


def found(title: str, params, root: Path = REPOSITORY / "tests") -> dict[str, Finding]:
    return {finding.what: finding for finding in diagnose(params, root).findings[title]}


@pytest.fixture
def free(monkeypatch) -> dict[str, int]:
    """``free["bytes"]`` is what the disk has free."""
    state = {"bytes": 10**13}
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**14, 0, state["bytes"]))
    return state


@pytest.fixture
def at_hand(backbones: Path):
    """Parameters whose frozen models are tiny ones in directories, with what ``groups`` change."""

    def params(**groups: dict):
        local = {role: {"provider": "local", "path": str(backbones / role)} for role in ("vision", "language", "text")}
        own = {"features": {"depths": [1, 2, 3]}, "interface": {"num_heads": 2}, "backbones": local}
        return changed("phantom", **{name: own.get(name, {}) | groups.get(name, {}) for name in own | groups})

    return params


def test_the_default_profile_lacks_nothing(pacer):
    outcome = pacer("doctor")
    assert outcome.code == 0, outcome.error
    for shown in (
        "Java (METEOR)",
        "CPU cores",
        "stand-in, made by the stage",
        "features",
        "GB free",
        "calibrate",
        "Memory",
    ):
        assert shown in outcome.out


def test_missing_weights_say_how_to_get_them(pacer):
    outcome = pacer("doctor", "--params", "configs/mimic_rg4.yaml")
    assert outcome.code == 1
    assert outcome.error.strip() == "error: a run would stop: see what is marked `missing` above"
    told = " ".join(outcome.out.split())
    command = "  hf download lmsys/vicuna-7b-v1.5 --revision 3321f76e3f527bd14065daf69dad9344000a201d"
    assert command in outcome.out.splitlines(), "it can be pasted"
    assert "13.5 GB" in told and "corpus.root" in told


def test_the_refusal_to_send_reports_is_seen_before_any_stage_and_before_the_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    params = load_params(REPOSITORY / "configs" / "mimic_rg4.yaml")
    labelling = found("Settings", params)["anchors.llm"]
    assert labelling.state == "missing" and "send_reports_to is not set" in labelling.detail

    def allowed(**changes):
        llm = params.anchors.llm.model_copy(update=changes)
        anchors = params.anchors.model_copy(update={"llm": llm})
        return found("Settings", params.model_copy(update={"anchors": anchors}))["anchors.llm"]

    assert "needs an API key" in allowed(send_reports_to="api.openai.com").detail
    assert "absent.jsonl does not exist" in allowed(provider="recorded", recorded="absent.jsonl").detail
    assert "absent.md cannot be read" in allowed(provider="none", prompt_file="absent.md").detail
    assert allowed(provider="none").state == "ok"
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    assert allowed(send_reports_to="api.openai.com").state == "ok"


@pytest.mark.parametrize("revision", ["main", "0" * 40])
def test_a_revision_is_pinned_by_a_commit(monkeypatch, tmp_path: Path, revision: str):
    monkeypatch.setattr("pacer.backbones.hub.locate", lambda backbone, role: tmp_path / ("0" * 40))
    params = changed("phantom", backbones={"text": {"provider": "hub", "id": "owner/model", "revision": revision}})
    text = weights(params)[2]
    assert text.state == ("note" if revision == "main" else "ok")
    assert ("revision main is a name that can move, the commit hash " + "0" * 40) in text.detail or revision != "main"


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ({}, "the phases and `decode` accept their settings"),
        ({"interface": {"num_heads": 3}}, "interface.num_heads (3) must divide the width of the vision encoder (16)"),
        (
            {"lora": {"targets": ["qkv"]}},
            "the language model has no qkv; its linear layers are down_proj, gate_proj, k_",
        ),
        ({"parent": {"start": "elsewhere"}}, "elsewhere is not a PACER checkpoint"),
    ],
)
def test_settings_that_a_late_stage_would_refuse(at_hand, groups: dict, said: str):
    diagnosis = diagnose(at_hand(**groups), REPOSITORY / "tests", gpu_memory=80e9)
    (model,) = (finding for finding in diagnosis.findings["Settings"] if finding.what == "model")
    assert said in model.detail and model.state == ("missing" if groups else "ok")


def test_a_start_that_the_parent_would_refuse(at_hand, backbones: Path, tmp_path: Path):
    record = CheckpointRecord(
        phase="warmup",
        step=1,
        model=specification_of("warmup", at_hand()),
        frozen=frozen_fingerprints(backbones),
        parent=None,
        versions=package_versions(),
    )
    model = build_model(backbones, record.model)
    save_checkpoint(tmp_path, {n: p for n, p in model.named_parameters() if p.requires_grad}, record)
    params = at_hand(parent={"start": str(tmp_path)}, train={"quantization": "nf4"})
    model = found("Settings", params)["model"]
    assert model.state == "missing" and "trained with train.quantization: none" in model.detail
    assert found("Settings", at_hand(parent={"start": str(tmp_path)}))["model"].state == "ok"


def test_a_language_model_that_the_beam_search_does_not_know(at_hand, backbones: Path, tmp_path: Path):
    other = shutil.copytree(backbones / "language", tmp_path / "other")
    config = json.loads((other / "config.json").read_text()) | {"model_type": "mistral"}
    (other / "config.json").write_text(json.dumps(config))
    local = {role: {"provider": "local", "path": str(backbones / role)} for role in ("vision", "text")}
    local["language"] = {"provider": "local", "path": str(other)}
    model = found("Settings", at_hand(backbones=local))["model"]
    assert model.state == "missing" and "decode.engine: generate" in model.detail
    assert found("Settings", at_hand(backbones=local, decode={"engine": "generate"}))["model"].state == "ok"


def test_files_of_a_model_that_cannot_be_used(at_hand, backbones: Path, tmp_path: Path):
    local = {role: {"provider": "local", "path": str(backbones / role)} for role in ("vision", "language", "text")}
    for role, config in (("text", {}), ("language", {"model_type": "unheard"})):
        broken = shutil.copytree(backbones / role, tmp_path / role)
        (broken / "config.json").write_text(json.dumps(config))
        models = local | {role: {"provider": "local", "path": str(broken)}}
        model = found("Settings", at_hand(backbones=models))["model"]
        assert model.state == "missing" and "cannot be read" in model.detail


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", ""),
        ("config.json", "[]"),
        ("config.json", "{}"),
        ("config.json", '{"hidden_size": "wide", "model_type": "llama"}'),
        ("tokenizer_config.json", ""),
        ("tokenizer_config.json", "[]"),
        ("tokenizer.json", ""),
        ("tokenizer.json", "{}"),
    ],
)
def test_damaged_files_of_a_language_model_with_its_sentencepiece_model(
    at_hand, backbones: Path, tmp_path: Path, monkeypatch, name: str, content: str
):
    monkeypatch.setattr("pacer.pretrained.tokenizer._sentencepiece", lambda model: None)
    broken = shutil.copytree(backbones / "language", tmp_path / "language")
    (broken / "tokenizer.model").touch()
    (broken / name).write_text(content)
    models = {role: {"provider": "local", "path": str(backbones / role)} for role in ("vision", "text")}
    models["language"] = {"provider": "local", "path": str(broken)}
    diagnosis = diagnose(at_hand(backbones=models), REPOSITORY / "tests", gpu_memory=80e9)
    told = [finding for title in ("Models", "Settings") for finding in diagnosis.findings[title]]
    assert any(finding.state == "missing" and "cannot be read" in finding.detail for finding in told), told


def test_a_tokenizer_is_checked_once(at_hand, backbones: Path, tmp_path: Path, monkeypatch):
    language, looked = shutil.copytree(backbones / "language", tmp_path / "language"), []
    (language / "tokenizer.model").touch()
    monkeypatch.setattr("pacer.backbones.hub.read_tokenizer", lambda path: looked.append(path))
    models = {"language": {"provider": "local", "path": str(language)}}
    for _ in range(2):
        found("Settings", at_hand(backbones=models))
        assert looked == [language]
    (language / "tokenizer.model").write_text("other")
    found("Settings", at_hand(backbones=models))
    assert looked == [language] * 2


def test_records_that_a_late_stage_would_miss(tmp_path: Path, records):
    root, params = tmp_path / "data", changed("openi", corpus={"root": str(tmp_path)}, decode={"split": "val"})
    (root / "source").mkdir(parents=True)
    (root / "corpus").mkdir()
    counts = {split: {"records": 2} for split in ("train", "val", "test")}
    audit = {"contexts": dict.fromkeys(("sn", "mn"), counts), "images": {"count": 4}}
    (root / "source" / "source.json").write_text(json.dumps({"root": str(tmp_path)}))
    (root / "corpus" / "audit.json").write_text(json.dumps(audit))
    own = records.filter(pl.col("context").is_in(["sn", "mn"])).cast({"emphasis": pl.List(pl.Float32)})
    for subject, state in ((pl.col("record_id"), "ok"), (pl.lit("one"), "missing")):
        own.with_columns(subject_id=subject).write_parquet(root / "corpus" / "records.parquet")
        decode = found("Settings", params, tmp_path)["records"]
        assert decode.state == state, decode
    assert "another_patient" in decode.detail
    own.filter(pl.col("split") == "val").write_parquet(root / "corpus" / "records.parquet")
    assert (
        "no record of context sn in split train, which the phases train on"
        in found("Settings", params, tmp_path)["records"].detail
    )
    own.filter(pl.col("split") == "train").write_parquet(root / "corpus" / "records.parquet")
    best = params.model_copy(update={"train": params.train.model_copy(update={"checkpoint": "best"})})
    assert "train.checkpoint: best asks for" in found("Settings", best, tmp_path)["records"].detail


def test_a_phase_that_ends_while_its_learning_rate_rises():
    short = changed("openi", parent={"updates": 50}, warmup={"updates": 75})  # the warm-up's own rise takes 75
    notes = {what: note for what, note in found("Settings", short).items() if what.endswith(".updates")}
    assert {what: note.state for what, note in notes.items()} == {"parent.updates": "note"}
    note = notes["parent.updates"]
    assert "parent.updates = 50 is below parent.warmup_updates = 150" in note.detail
    assert "rises to 0.00017 and never to 0.0005; set parent.warmup_updates to 50 at most" in note.detail


def test_more_gpus_than_records_in_a_micro_batch(monkeypatch, at_hand):
    monkeypatch.setattr("pacer.cli.doctor._gpus", lambda: (17, 17 * 132, Finding("GPU", "ok", "many")))
    model = found("Settings", at_hand())["model"]
    assert model.state == "missing" and "at least the number of processes, 17" in model.detail


def test_a_language_model_that_does_not_fit_into_memory(monkeypatch):
    params = load_params(REPOSITORY / "configs" / "mimic_rg4.yaml")
    for total, state in ((10, "missing"), (1000, "ok")):
        monkeypatch.setattr("os.sysconf", lambda name, total=total: total * 10**9 if name == "SC_PHYS_PAGES" else 1)
        monkeypatch.setattr("pacer.cli.doctor.CONTAINER", Path("absent"))
        assert found("Machine", params)["Memory"].state == state


def test_before_the_corpus_is_read_the_disk_is_judged_by_the_published_counts(free):
    params = load_params(REPOSITORY / "configs" / "mimic_rg4.yaml")
    diagnosis = diagnose(params, REPOSITORY / "tests")
    assert diagnosis.counts is not None and diagnosis.counts.origin == "published"
    assert diagnosis.counts.images == 269_402 and diagnosis.counts.all == 434_026
    assert found("Machine", params)["Disk"].state == "ok"
    free["bytes"] = 10**12
    cached = params.model_copy(update={"calibrate": params.calibrate.model_copy(update={"source_cache": "on"})})
    assert "about 2.0 TB" in found("Machine", cached)["Disk"].detail
    disk, mode = found("Machine", params)["Disk"], found("Settings", params)["features.mode"]
    assert disk.state == "missing" and "features need about 1.7 TB" in disk.detail
    assert mode.state == "note" and mode.detail.endswith("pixels; the states do not fit on the disk")


def test_the_cheaper_form_of_features_is_recommended(free, monkeypatch):
    params = load_params(REPOSITORY / "configs" / "mimic_rg4.yaml")
    on_cores = found("Settings", params)["features.mode"]
    assert on_cores.state == "ok" and ": states; it takes less time" in on_cores.detail
    monkeypatch.setattr("pacer.cli.doctor._gpus", lambda: (1, 132, Finding("GPU", "ok", "one")))
    on_gpu = found("Settings", params)["features.mode"]
    assert on_gpu.state == "note" and ": pixels; it takes less time" in on_gpu.detail
    assert "states 1.7 TB" in on_gpu.detail and "pixels 90.1 GB" in on_gpu.detail


def test_a_local_model_is_checked_for_what_its_role_needs(tmp_path: Path):
    (tmp_path / "config.json").write_text("{}")
    params = load_params(REPOSITORY / "configs" / "mimic_rg4.yaml").model_dump()
    params["backbones"]["chexbert"] = {"provider": "local", "path": str(tmp_path)}
    finding = weights(parse_params(params))[-1]
    assert finding.state == "missing" and "chexbert.pth" in finding.detail


def test_annotation_files_are_looked_for(tmp_path: Path):
    (tmp_path / "NLMCXR_reports.tgz").write_text("")
    params = changed("openi", corpus={"root": str(tmp_path), "images": "."})
    assert {what: finding.state for what, finding in found("Corpus", params).items()} == {
        "corpus.root": "ok",
        "openi.reports": "ok",
        "openi.projections": "missing",
        "images": "ok",
    }


def test_what_a_stage_would_refuse_is_not_ok(tmp_path: Path):
    """An annotation file that does not begin as one, and depths that do not end with the encoder's last block."""
    (tmp_path / "sn.json").write_text("not JSON")
    names = {"sn": "sn.json", "sw": None, "mn": None, "mw": None}
    corpus = {"source": "files", "root": str(tmp_path), "contexts": ["sn"], "annotations": names}
    params = changed("phantom", corpus=corpus, features={"depths": [3, 6]})
    assert found("Corpus", params)["annotations.sn"].state == "missing"
    features = found("Settings", params)["features"]
    assert features.state == "missing" and "must end with the encoder's last block, 12" in features.detail


def test_files_that_changed_since_they_were_described_are_named(tmp_path: Path):
    (tmp_path / "studies.csv").write_text("a")
    params = changed(
        "openi",
        corpus={
            "root": str(tmp_path),
            "format": "table",
            "images": ".",
            "table": {"file": "studies.csv", "columns": {}, "delimiter": None, "encoding": "utf-8"},
        },
    )
    point_to_files(params.corpus, tmp_path / "data" / "source")
    assert "source" not in found("Corpus", params, tmp_path)
    (tmp_path / "studies.csv").write_text("b")
    note = found("Corpus", params, tmp_path)["source"]
    assert note.state == "note"
    assert "has changed since the source was made" in note.detail and "dvc repro -f source" in note.detail


def test_a_generated_corpus_is_counted_from_its_parameters():
    params = load_params(REPOSITORY / "configs" / "phantom.yaml")
    counts, world = count_records(params, Path("absent")), params.corpus.phantom
    assert counts is not None and counts.origin == "expected"
    assert sum(counts.records["sn"].values()) == pytest.approx(world.patients * world.studies_per_patient, abs=2)
    assert counts.records["sw"]["train"] < counts.records["sn"]["train"]


def test_mimic_cxr_is_planned_from_the_published_counts_before_it_is_read(tmp_path: Path):
    """1.7 TB of features must not be met with "ok" on a small disk."""
    for profile in ("mimic_rg4", "mimic_cxr"):
        counts = count_records(changed(profile, corpus={"root": str(tmp_path)}), tmp_path)
        assert counts is not None and counts.origin == "published" and counts.images == 269_402


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
    counts = Counts({"sn": {"train": 1, "val": 0, "test": 2357}}, images=269_402, origin="counted")
    costs = estimate(load_params(REPOSITORY / "configs" / "mimic_rg4.yaml"), counts, Machine(16, 132))
    size = next(cost.bytes for cost in costs if cost.stage == "features")
    assert size == pytest.approx(1700 * GIGABYTE, rel=0.01)


def test_pixels_are_small_and_cost_an_encoder_pass_at_each_visit():
    counts = Counts({"sn": {"train": 424_411, "test": 6215}}, 269_402, origin="counted")
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
    slow, fast, many = (seconds(estimate(base, counts, Machine(cores))) for cores in (2, 8, 64))
    assert all(fast[stage] <= slow[stage] for stage in slow)
    assert many["backbones"] == fast["backbones"] < slow["backbones"]  # four stand-ins, on one thread each
    assert seconds(estimate(longer, counts, Machine(2)))["parent"] > 5 * slow["parent"]
    without = changed("phantom", calibrate={"gate_inputs": "none"})
    assert "calibrate" not in seconds(estimate(without, counts, Machine(2)))


def test_decoding_and_validation_cost_more_than_their_operations_where_they_are_few():
    """A search reads all weights at every step, however few reports it writes; a short phase validates once too."""
    few = Counts({c: {"train": 12, "val": 12, "test": 2} for c in ("sn", "mn")}, 72, "counted")

    def cost(stage: str, counts: Counts = few, processors: int = 0, **groups: dict) -> float:
        return seconds(estimate(changed("openi", **groups), counts, Machine(1, processors)))[stage]

    one = cost("decode", decode={"batch_size": 1})
    assert one > 1.5 * cost("decode", decode={"batch_size": 4})
    assert cost("decode", decode={"batch_size": 1}, processors=132) < one, "a GPU's rate holds the wait"
    assert cost("decode", decode={"limit": 1}) < cost("decode")
    short = {"updates": 4, "batch_size": 4}
    without = few._replace(records={c: splits | {"val": 0} for c, splits in few.records.items()})
    assert cost("parent", parent=short) > 1.3 * cost("parent", without, parent=short)
    assert cost("parent", parent=short, train={"validation_records": 1}) < 1.3 * cost("parent", without, parent=short)
    assert cost("warmup", warmup=short) > cost("warmup", without, warmup=short)
