"""Profiles load strictly, params.yaml is the default one, and `pacer use` never loses an edit."""

from __future__ import annotations

import re
from functools import cache, reduce
from pathlib import Path
from typing import get_args

import pytest

from pacer.config import Params, load_params, parse_params
from pacer.config.decode import Score
from pacer.config.profiles import load_profile, profile_text
from pacer.core.errors import ConfigError
from pacer.metrics.clinical import CONVENTIONS
from pacer.metrics.score import ORIGINALS
from pacer.reporting.published import load_published

REPOSITORY = Path(__file__).parents[3]
PROFILES = sorted((REPOSITORY / "configs").glob("*.yaml"))


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_every_profile_loads(path: Path):
    load_profile(path)


def test_an_overlay_changes_its_values_and_keeps_the_comments_of_the_rest(tmp_path: Path):
    (tmp_path / "phantom.yaml").write_text(
        "# the default\n"
        "train:          # of all phases\n"
        "  seed: 1       # of order\n"
        "  limit: null   # all\n"
        "\n"
        "models:\n"
        "  vision: {provider: standin}\n"
        "  names: {}     # none\n"
    )
    (tmp_path / "paper.yaml").write_text(
        "# the paper\nextends: phantom\ntrain:\n  limit: 5   # five\nmodels:\n  names: {a: b}\n"
    )
    (tmp_path / "short.yaml").write_text("# short\nextends: paper\ntrain: {seed: 2}\n")
    assert profile_text(tmp_path / "phantom.yaml") == (tmp_path / "phantom.yaml").read_text()
    assert profile_text(tmp_path / "short.yaml") == (
        "# short\n"
        "train:          # of all phases\n"
        "  seed: 2       # of order\n"
        "  limit: 5      # five\n"
        "\n"
        "models:\n"
        "  vision: {provider: standin}\n"
        "  names: {a: b} # none\n"
    )


#: What the paper and LLM-RG4's code fix (docs/readings.md); the second column is the conventional SN protocol.
PUBLISHED = {
    "corpus.contexts": (["sn", "sw", "mn", "mw"], ["sn"]),
    "corpus.target": ("findings_and_impression", "findings"),
    "corpus.cleaner": ("upstream", "upstream"),
    "corpus.unseen_comparisons": ("keep", "keep"),
    "corpus.keep_empty_priors": (True, False),
    "features.depths": ([4, 8, 12], [4, 8, 12]),
    "features.prior_tokens": (100, 100),
    "anchors.sample_per_context": (2500, 2500),
    "anchors.llm.model": ("gpt-4.1-mini", "gpt-4.1-mini"),
    "anchors.llm.temperature": (0.0, 0.0),
    "prompt.before_tokens": (50, 50),
    "prompt.unknown_view": ("upstream", "upstream"),
    "trajectory.report_tokens": (100, 100),
    "commit.route": ("stochastic", "stochastic"),
    "refine.variant": ("patchwise", "patchwise"),
    "refine.max_scale": (0.5, 0.5),
    "refine.init_scale": (0.1, 0.1),
    "interface.num_queries": (128, 128),
    "interface.num_heads": (12, 12),
    "interface.d_hidden": (2048, 2048),
    "interface.dropout": (0.1, 0.1),
    "interface.query_std": (0.02, 0.02),
    "interface.fusion_init": ("random", "random"),
    "interface.mask_prior_padding": (False, False),
    "lora.rank": (32, 32),
    "lora.alpha": (64, 64),
    "lora.dropout": (0.1, 0.1),
    "lora.targets": (["q_proj", "v_proj"], ["q_proj", "v_proj"]),
    "train.lambda_tlw": (0.75, 0.75),
    "train.weight_decay": (0.01, 0.01),
    "train.max_grad_norm": (None, None),
    "train.checkpoint": ("last", "last"),
    "batches.mix": (False, False),
    "batches.window": (1, 1),
    "warmup.learning_rate": (3e-4, 3e-4),
    "warmup.batch_size": (24, 24),
    "warmup.accumulation": (2, 2),
    "warmup.updates": (14384, 14384),
    "warmup.warmup_updates": (359, 359),
    "parent.learning_rate": (3e-4, 3e-4),
    "parent.batch_size": (16, 16),
    "parent.accumulation": (2, 2),
    "parent.updates": (43152, 10788),
    "parent.warmup_updates": (2157, 539),
    "parent.rho_start": (0.1, 0.1),
    "parent.rho_end": (0.5, 0.5),
    "parent.rho_updates": (16000, 4000),
    "parent.lambda_q": (0.35, 0.35),
    "parent.lateral_start": ("random", "random"),
    "parent.prior_start": ("random", "random"),
    "calibrate.learning_rate": (1e-4, 1e-4),
    "calibrate.batch_size": (16, 16),
    "calibrate.accumulation": (2, 2),
    "calibrate.updates": (21576, 21576),
    "calibrate.warmup_updates": (2157, 2157),
    "calibrate.rho": (0.5, 0.5),
    "calibrate.lambda_q": (0.20, 0.20),
    "calibrate.lambda_cons": (0.05, 0.05),
    "calibrate.lambda_drift": (0.01, 0.01),
    "calibrate.gate_inputs": ("hze", "none"),
    "calibrate.rank": (16, 16),
    "calibrate.dropout": (0.05, 0.05),
    "calibrate.gate_bias": (-2.2, -2.2),
    "decode.num_beams": (3, 5),
    "decode.min_new_tokens": (80, 50),
    "decode.max_new_tokens": (260, 200),
    "decode.repetition_penalty": (2.0, 2.0),
    "decode.length_penalty": (2.0, 2.15),
    "score.convention": ("llm-rg4", "llm-rg4"),
}


@pytest.mark.parametrize("key", PUBLISHED)
def test_the_published_profiles_hold_the_published_values(key: str):
    for name, value in zip(("mimic_rg4", "mimic_rg4_sn"), PUBLISHED[key], strict=True):
        assert reduce(getattr, key.split("."), _loaded(name)) == value


@cache
def _loaded(name: str) -> Params:
    return load_profile(REPOSITORY / "configs" / f"{name}.yaml")


def test_mimic_cxr_is_the_paper_but_for_its_corpus_and_marks():
    paper, own = (_loaded(name).model_dump() for name in ("mimic_rg4", "mimic_cxr"))
    assert {group for group in paper if paper[group] != own[group]} == {"corpus", "emphasis"}
    assert own["corpus"]["format"] == "mimic_cxr" and own["emphasis"]["source"] == "computed"


def test_the_published_profiles_decode_as_the_published_rows_were():
    for profile, table in (("mimic_rg4", "main"), ("mimic_rg4_sn", "conventional_sn")):
        decode = _loaded(profile).decode.model_dump()
        published = load_published()[table].decoding
        assert len(published) == 5 and {name: decode[name] for name in published} == published


@pytest.mark.parametrize(
    ("group", "key", "changes", "message"),
    [
        ("backbones", "text_standin", {"width": 32, "heads": 5}, "must be even and at least 4; width is 32, heads 5"),
        ("backbones", "language_standin", {"width": 36, "heads": 4}, "width / heads must be even"),
        (
            "backbones",
            "vision_standin",
            {"image_size": 14, "patch_size": 28},
            "patch_size 28 is larger than image_size 14",
        ),
        ("backbones", "vision_standin", {"images": 1}, "images"),
    ],
)
def test_what_would_fail_after_hours_is_refused_at_once(group: str, key: str, changes: dict, message: str):
    values = _loaded("micro").model_dump()
    values[group][key] = (values[group][key] or {}) | changes
    with pytest.raises(ConfigError, match=message):
        parse_params(values)


def test_the_ways_of_scoring_that_are_allowed_are_those_that_exist():
    allowed = {name: set(get_args(Score.model_fields[name].annotation)) for name in ("convention", "originals")}
    assert allowed == {"convention": set(CONVENTIONS), "originals": set(ORIGINALS)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"format": "openi", "contexts": ["sn"], "openi": {"reports": None, "projections": "p.csv"}},
            "format: openi needs corpus.openi.reports",
        ),
        ({"format": "openi", "openi": {"reports": "r.tgz"}}, "format: openi needs corpus.openi.projections"),
        (
            {"format": "mimic_cxr", "mimic_cxr": {"split": "s.csv"}},
            "format: mimic_cxr needs corpus.mimic_cxr.reports, corpus.mimic_cxr.metadata$",
        ),
        ({"format": "r2gen", "contexts": ["sn"]}, "format: r2gen needs corpus.r2gen.annotation"),
        (
            {"format": "r2gen", "r2gen": {"annotation": "a.json"}},
            r"format: r2gen has no previous reports; set contexts: \[sn\] or \[sn, mn\]",
        ),
        ({"format": "table"}, "format: table needs corpus.table.file"),
        ({"format": "rg4", "annotations": {"mn": None}}, "format: rg4 needs corpus.annotations.mn$"),
        ({"format": "csv"}, "corpus.format"),
        ({"split": {"val": 0.5, "test": 0.6}}, "val \\+ test must not exceed 1; the rest is train"),
        ({"source": "phantom", "format": "mimic_cxr"}, "source: phantom requires format: rg4"),
        ({"openi": {"split": "split.csv"}}, "corpus.openi.split"),
    ],
)
def test_what_a_format_needs_is_checked_before_any_work(changes: dict, message: str):
    values = _loaded("mimic_rg4").model_dump()
    for key, value in changes.items():
        values["corpus"][key] = values["corpus"][key] | value if isinstance(value, dict) else value
    with pytest.raises(ConfigError, match=message):
        parse_params(values)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("binary", "byte 0xff in position 0: invalid start byte"),
        ("latin-1", "byte 0xfc in position 3"),
        ("folder", "Is a directory"),
        ("control characters", "special characters are not allowed"),
        ("unclosed", "line 3: expected"),
        ("nested without end", "recursion"),
    ],
)
def test_what_is_no_file_of_parameters_is_one_sentence(pacer, repository: Path, kind: str, said: str):
    path = repository / "mine.yaml"
    secret = "Large right pneumothorax"
    content = {
        "binary": b"\xff\xd8\xff\xe0" + bytes(200),
        "latin-1": "# f\u00fcr uns\ncorpus: {}\n".encode("latin-1"),
        "control characters": bytes(132) + b"DICM",
        "unclosed": f"corpus:\n  root: [{secret}\n".encode(),
        "nested without end": b"[" * 5_000,
    }
    if kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(content[kind])
    outcome = pacer("audit", "--params", "mine.yaml", "--out", "read")
    assert outcome.code == 1 and outcome.error.count("\n") == 1
    assert re.search(f"error: mine.yaml cannot be read as YAML: .*{said}.*; correct the file", outcome.error)
    assert secret not in outcome.error and not (repository / "read").exists()


def test_a_parameter_file_may_have_the_keys_alone_in_which_it_differs_from_a_profile(pacer, repository: Path):
    (repository / "mine.yaml").write_text("extends: micro\ntrain: {seed: 8}\n")
    assert load_profile("mine.yaml") == _loaded("micro").model_copy(
        update={"train": _loaded("micro").train.model_copy(update={"seed": 8})}
    )
    assert pacer("doctor", "--params", "mine.yaml").code == 0
    for text, message in (
        ("extends: mikro\n", "mine.yaml: extends 'mikro', but there is no "),
        ("extends: micro\ntrain: {sed: 8}\n", "mine.yaml: unknown key train.sed"),
        ("train: {seed: 8}\n", "corpus is missing"),
    ):
        (repository / "mine.yaml").write_text(text)
        outcome = pacer("doctor", "--params", "mine.yaml")
        assert outcome.code == 1 and message in outcome.error
    assert "nowhere.yaml does not exist" in pacer("doctor", "--params", "nowhere.yaml").error


def test_outside_the_repository_it_is_told_where_the_profile_was_sought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("extends: micro\n")
    looked = re.escape(f"no {tmp_path / 'micro.yaml'} or {tmp_path / 'configs' / 'micro.yaml'}")
    with pytest.raises(ConfigError, match=f"{looked}; name a profile .* run this from the root of the repository"):
        load_profile("mine.yaml")


def overlaid(tmp_path: Path, text: str) -> Params:
    (tmp_path / "mine.yaml").write_text(text)
    return load_profile(tmp_path / "mine.yaml")


@pytest.mark.parametrize("columns", [{}, {"view": "projection"}])
def test_columns_are_those_that_the_file_names_alone(tmp_path: Path, columns: dict[str, str]) -> None:
    """The profile's columns are an example; `{}` says that none differs."""
    text = f"extends: table\ncorpus: {{table: {{columns: {columns}}}}}\n"
    assert overlaid(tmp_path, text).corpus.table.columns == columns


def test_another_model_keeps_nothing_of_the_place_of_the_old_one(tmp_path: Path) -> None:
    model = "extends: small_gpu\nbackbones: {vision: %s}\n"
    with pytest.raises(ConfigError, match=r"backbones\.vision: provider: hub needs revision"):
        overlaid(tmp_path, model % "{id: facebook/dinov2-small}")
    kept = overlaid(tmp_path, model % "{revision: abc}").backbones.vision
    assert (kept.id, kept.revision) == ("microsoft/rad-dino", "abc")
    local = overlaid(tmp_path, model % "{provider: local, path: /models/mine}").backbones.vision
    assert (local.id, local.revision, local.path) == (None, None, "/models/mine")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("corpus: {table: studies.csv}", "corpus.table = 'studies.csv' must be a group of keys, such as {file: stud"),
        ("backbones: {language: Qwen/Q}", "backbones.language = 'Qwen/Q' must be a group of keys, such as {provider: "),
        ("score: f1", "score = 'f1' must be a group of keys (convention, originals, "),
        ("parent: 5", "parent = 5 must be a group of keys (learning_rate, batch_size, "),
    ],
)
def test_a_value_in_the_place_of_a_group_is_told_the_form(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        overlaid(tmp_path, f"extends: table\n{text}\n")


def test_a_missing_key_is_named(tmp_path: Path):
    """As in a parameter file of an older version, or one cut short."""
    lines = (REPOSITORY / "params.yaml").read_text().splitlines()
    cut = [line for line in lines if not line.startswith("  length_penalty:")]
    assert len(cut) == len(lines) - 1
    (tmp_path / "params.yaml").write_text("\n".join(cut))
    with pytest.raises(ConfigError, match=r"decode\.length_penalty is missing"):
        load_params(tmp_path / "params.yaml")


def test_params_yaml_has_every_key_because_dvc_reads_it(pacer, repository: Path):
    (repository / "params.yaml").write_text("extends: micro\n")
    outcome = pacer("doctor")
    assert outcome.code == 1 and "params.yaml must have every key, because DVC reads it" in outcome.error
    with pytest.raises(ConfigError, match="unknown key extends"):
        load_params(repository / "params.yaml")


def test_use_writes_the_whole_profile_whatever_was_in_use_before(pacer, repository: Path):
    for name in ("micro", "mimic_rg4_sn", "phantom"):
        assert pacer("use", name).code == 0
        assert load_params(repository / "params.yaml") == _loaded(name)
    assert (repository / "params.yaml").read_bytes() == (repository / "configs" / "phantom.yaml").read_bytes()


def test_use_takes_a_file_of_ones_own_and_refuses_it_as_strictly(pacer, repository: Path):
    mine = repository / "elsewhere" / "mine.yaml"
    mine.parent.mkdir()
    mine.write_text("extends: micro\ntrain: {seed: 8}\n")
    assert pacer("use", "elsewhere/mine.yaml").code == 0
    written = load_params(repository / "params.yaml")
    assert written == load_profile(mine) and written.train.seed == 8
    mine.write_text("extends: micro\ntrain: {sed: 8}\n")
    outcome = pacer("use", "elsewhere/mine.yaml", "--force")
    assert outcome.code == 1 and "elsewhere/mine.yaml: unknown key train.sed" in outcome.error
    assert load_params(repository / "params.yaml") == written
    assert "nowhere.yaml does not exist" in pacer("use", "nowhere.yaml", "--force").error


def test_use_without_a_name_marks_the_one_in_use(pacer):
    lines = pacer("use").out.splitlines()
    assert "* phantom" in lines and "  micro" in lines


def test_an_unknown_profile_is_one_line_that_lists_the_known_ones(pacer):
    outcome = pacer("use", "mimic_rg5")
    assert outcome.code == 1 and len(outcome.error.splitlines()) == 1
    assert outcome.error.endswith(
        "contains micro, mimic_cxr, mimic_rg4, mimic_rg4_sn, openi, phantom, small_gpu, table\n"
    )


@pytest.mark.parametrize(
    "edit",
    [lambda text: text.replace("lambda_cons: 0.05", "lambda_cons: 0.1"), lambda text: text + "\nnot yaml: ["],
    ids=["another value", "no longer valid"],
)
def test_an_edited_file_is_kept_unless_forced(pacer, repository: Path, edit):
    params = repository / "params.yaml"
    edited = edit(params.read_text())
    params.write_text(edited)
    outcome = pacer("use", "micro")
    assert outcome.code == 1 and "params.yaml equals no profile in configs" in outcome.error
    assert "and add --force" in outcome.error and params.read_text() == edited
    assert pacer("use", "micro", "--force").code == 0
    assert params.read_text() != edited


def test_a_comment_is_no_edit(pacer, repository: Path):
    with open(repository / "params.yaml", "a") as file:
        file.write("# a remark\n")
    assert pacer("use", "openi").code == 0


def test_a_profile_that_does_not_load_is_not_put_in_use(pacer, repository: Path):
    (repository / "configs" / "mine.yaml").write_text("corpus: {sources: files}\n")
    before = (repository / "params.yaml").read_text()
    outcome = pacer("use", "mine")
    assert outcome.code == 1 and "configs/mine.yaml" in outcome.error
    assert (repository / "params.yaml").read_text() == before


def test_a_traceback_is_shown_on_demand(pacer):
    outcome = pacer("use", "nothing", "--traceback")
    assert outcome.code == 1 and "Traceback" in outcome.error and "error: unknown profile" in outcome.error


def test_outside_the_repository_the_command_says_so(pacer, repository: Path, monkeypatch: pytest.MonkeyPatch):
    (repository / "empty").mkdir()
    monkeypatch.chdir(repository / "empty")
    outcome = pacer("use", "micro")
    assert outcome.code == 1 and "run this from the root of the repository" in outcome.error
