"""Profiles load strictly, params.yaml is the default one, and `pacer use` never loses an edit."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from pacer.cli.profiles import use_profile
from pacer.core.errors import ConfigError, DataError
from pacer.metrics.conventions import CONVENTIONS
from pacer.metrics.scoring import ORIGINALS
from pacer.params import load_params, parse_params
from pacer.params.score import Score
from pacer.reporting.published import load_published

REPOSITORY = Path(__file__).parents[2]
PROFILES = sorted((REPOSITORY / "configs").glob("*.yaml"))


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_every_profile_loads(path: Path):
    load_params(path)


def test_the_committed_parameters_are_the_phantom_profile():
    committed = subprocess.run(["git", "show", "HEAD:params.yaml"], cwd=REPOSITORY, capture_output=True, text=True)
    if committed.returncode:
        pytest.skip("not a git checkout")
    assert committed.stdout == (REPOSITORY / "configs" / "phantom.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_every_profile_has_the_same_keys_in_the_same_order(path: Path):
    def keys(text: str) -> list[str]:
        found = re.findall(r"^((?:  )*[a-z_0-9]+):", text, flags=re.MULTILINE)
        return [key for key in found if key.strip() not in ("sn", "sw", "mn", "mw")]

    assert keys(path.read_text()) == keys((REPOSITORY / "configs" / "phantom.yaml").read_text())


def test_the_published_profile_holds_the_papers_numbers():
    params = load_params(REPOSITORY / "configs" / "mimic_rg4.yaml")
    assert (params.warmup.updates, params.parent.updates, params.calibrate.updates) == (14384, 43152, 21576)
    assert (params.warmup.batch_size, params.warmup.accumulation) == (24, 2)
    assert (params.parent.rho_start, params.parent.rho_end, params.parent.rho_updates) == (0.1, 0.5, 16000)
    assert (params.lora.rank, params.lora.alpha, params.lora.dropout) == (32, 64, 0.1)
    assert (params.decode.num_beams, params.decode.min_new_tokens, params.decode.max_new_tokens) == (3, 80, 260)
    assert (params.calibrate.lambda_cons, params.calibrate.lambda_drift, params.train.lambda_tlw) == (0.05, 0.01, 0.75)
    single = load_params(REPOSITORY / "configs" / "mimic_rg4_sn.yaml")
    assert single.corpus.contexts == ["sn"] and single.corpus.target == "findings"
    assert (single.decode.num_beams, single.decode.length_penalty) == (5, 2.15)
    assert single.calibrate.gate_inputs == "none"


def test_the_published_profiles_decode_as_the_published_rows_were():
    for profile, table in (("mimic_rg4", "main"), ("mimic_rg4_sn", "conventional_sn")):
        decode = load_params(REPOSITORY / "configs" / f"{profile}.yaml").decode.model_dump()
        published = load_published()[table].decoding
        assert len(published) == 5 and {name: decode[name] for name in published} == published


@pytest.mark.parametrize(
    ("group", "key", "changes", "message"),
    [
        ("backbones", "text_standin", {"width": 32, "heads": 5}, "heads must divide it"),
        ("backbones", "language_standin", {"width": 36, "heads": 4}, "the width of a head must be even"),
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
    values = load_params(REPOSITORY / "configs" / "micro.yaml").model_dump()
    values[group][key] |= changes
    with pytest.raises(ConfigError, match=message):
        parse_params(values)


def test_the_ways_of_scoring_that_are_allowed_are_those_that_exist():
    allowed = {name: set(get_args(Score.model_fields[name].annotation)) for name in ("convention", "originals")}
    assert allowed == {"convention": set(CONVENTIONS), "originals": set(ORIGINALS)}


def test_the_published_profiles_clean_as_upstream_and_alter_no_target():
    for name in ("mimic_rg4", "mimic_rg4_sn"):
        corpus = load_params(REPOSITORY / "configs" / f"{name}.yaml").corpus
        assert (corpus.cleaner, corpus.unseen_comparisons, corpus.format) == ("upstream", "keep", "rg4")


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
            "format: r2gen knows no previous reports; contexts may hold sn and mn",
        ),
        ({"format": "table"}, "format: table needs corpus.table.file"),
        ({"format": "rg4", "annotations": {"mn": None}}, "annotations names no file for mn"),
        ({"format": "csv"}, "corpus.format"),
        ({"split": {"val": 0.5, "test": 0.6}}, "val \\+ test must not exceed 1; what they leave is train"),
        ({"source": "phantom", "format": "openi"}, "for a corpus of your own set source: files"),
        ({"openi": {"deidentified": "mask"}}, "corpus.openi.deidentified"),
    ],
)
def test_what_a_format_needs_is_checked_before_any_work(changes: dict, message: str):
    values = load_params(REPOSITORY / "configs" / "mimic_rg4.yaml").model_dump()
    for key, value in changes.items():
        values["corpus"][key] = values["corpus"][key] | value if isinstance(value, dict) else value
    with pytest.raises(ConfigError, match=message):
        parse_params(values)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("binary", r"not UTF-8 \(invalid start byte at byte 0\)"),
        ("latin-1", r"not UTF-8 \(.* at byte 3\)"),
        ("folder", "Is a directory"),
        ("pipe", "it is a pipe or a device, not a file"),
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
        "nested without end": b"[" * 100_000,
    }
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(content[kind])
    outcome = pacer("audit", "--params", "mine.yaml", "--out", "read")
    assert outcome.code == 1 and outcome.error.count("\n") == 1
    assert re.search(f"error: mine.yaml is no file of parameters: .*{said}.*; expected YAML in UTF-8", outcome.error)
    assert secret not in outcome.error and not (repository / "read").exists()


def test_use_copies_a_profile(pacer, repository: Path):
    outcome = pacer("use", "micro")
    assert outcome.code == 0
    assert (repository / "params.yaml").read_bytes() == (repository / "configs" / "micro.yaml").read_bytes()


def test_a_profile_is_put_in_use_where_one_can_write(repository: Path):
    with pytest.raises(DataError, match=r"/proc/params\.yaml cannot be written"):
        use_profile("micro", Path("/proc/params.yaml"), repository / "configs")


def test_use_without_a_name_marks_the_one_in_use(pacer):
    lines = pacer("use").out.splitlines()
    assert "* phantom" in lines and "  micro" in lines


def test_an_unknown_profile_is_one_line_that_lists_the_known_ones(pacer):
    outcome = pacer("use", "mimic_rg5")
    assert outcome.code == 1 and len(outcome.error.splitlines()) == 1
    assert (
        "there are micro, mimic_cxr, mimic_rg4, mimic_rg4_sn, openi, phantom; did you mean mimic_rg4?" in outcome.error
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
    assert outcome.code == 1 and "--force" in outcome.error
    assert params.read_text() == edited
    assert pacer("use", "micro", "--force").code == 0
    assert params.read_text() != edited


def test_a_comment_is_no_edit(pacer, repository: Path):
    with open(repository / "params.yaml", "a") as file:
        file.write("# a remark\n")
    assert pacer("use", "openi").code == 0


def test_a_profile_that_does_not_load_is_not_put_in_use(pacer, repository: Path):
    (repository / "configs" / "mine.yaml").write_text("corpus: {}\n")
    before = (repository / "params.yaml").read_text()
    outcome = pacer("use", "mine")
    assert outcome.code == 1 and "configs/mine.yaml" in outcome.error
    assert (repository / "params.yaml").read_text() == before


def test_a_traceback_is_shown_on_demand(pacer):
    outcome = pacer("use", "nothing", "--traceback")
    assert outcome.code == 1 and "Traceback" in outcome.error and "error: there is no profile" in outcome.error


def test_outside_the_repository_the_command_says_so(pacer, repository: Path, monkeypatch: pytest.MonkeyPatch):
    (repository / "empty").mkdir()
    monkeypatch.chdir(repository / "empty")
    outcome = pacer("use", "micro")
    assert outcome.code == 1 and "run this from the root of the repository" in outcome.error


def test_aliases_that_grow_do_not_make_the_error_grow(tmp_path: Path) -> None:
    """A few bytes of YAML stand for a value of gigabytes; what is wrong with it takes a line."""
    path = tmp_path / "params.yaml"
    layers = "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}' if n else 'lol'] * 9)}]\n" for n in range(9))
    path.write_text(
        layers + (REPOSITORY / "params.yaml").read_text().replace("contexts: [sn, sw, mn, mw]", "contexts: *x8", 1)
    )
    with pytest.raises(ConfigError, match=r"corpus\.contexts\.0 = ") as error:
        load_params(path)
    assert len(str(error.value)) < 20_000
