"""Profiles load strictly, params.yaml is the default one, and `pacer use` never loses an edit."""

import re
from functools import reduce
from pathlib import Path
from typing import get_args

import pytest

from pacer.config import Params, load_params
from pacer.config.decode import ScoreSettings
from pacer.config.params import closest_profile, load_profile, profile_text
from pacer.core.errors import ConfigError
from pacer.core.io import yaml_beside
from pacer.extras.studies.study import load_published
from pacer.metrics.conventions import CONVENTIONS
from pacer.metrics.runs import parameter_line, parameters_of
from tests.support.cases import listed_cases
from tests.support.profiles import profile

REPOSITORY = Path(__file__).parents[3]
PROFILES = sorted((REPOSITORY / "configs").glob("*.yaml"))


def overlaid(folder: Path, text: str) -> Params:
    (folder / "mine.yaml").write_text(text)
    return load_profile(folder / "mine.yaml")


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


TABLES = yaml_beside(__file__, "profiles.yaml")


@pytest.mark.parametrize("group", TABLES["published"])
def test_the_published_profiles_hold_the_published_values(group: str):
    four_contexts, conventional = TABLES["published"][group], TABLES["conventional"].get(group, {})
    for name, values in (
        ("mimic_rg4", four_contexts),
        ("mimic_rg4_sn", four_contexts | conventional),
    ):
        found = {
            key: reduce(getattr, key.split("."), getattr(profile(name), group)) for key in values
        }
        assert found == values, name


def test_mimic_cxr_is_the_paper_but_for_its_corpus_and_marks():
    paper, own = (profile(name).model_dump() for name in ("mimic_rg4", "mimic_cxr"))
    assert {group for group in paper if paper[group] != own[group]} == {"corpus", "emphasis"}
    assert own["corpus"]["format"] == "mimic_cxr" and own["emphasis"]["source"] == "computed"


def test_the_published_profiles_decode_as_the_published_rows_were():
    for name, table in (("mimic_rg4", "main"), ("mimic_rg4_sn", "conventional_sn")):
        decode = profile(name).decode.model_dump()
        published = load_published()[table]["decoding"]
        assert len(published) == 5 and {key: decode[key] for key in published} == published


def test_the_conventions_that_are_allowed_are_those_that_exist():
    assert set(get_args(ScoreSettings.model_fields["convention"].annotation)) == set(CONVENTIONS)


SECRET = "Large right pneumothorax"


@pytest.mark.parametrize("read", [load_profile, load_params])
@pytest.mark.parametrize(("content", "said"), listed_cases(__file__, "no_parameters"))
def test_what_is_no_file_of_parameters_is_one_sentence(
    tmp_path: Path, content: str, said: str, read
):
    path = tmp_path / "mine.yaml"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(
        ConfigError, match=rf"^.*mine.yaml cannot be read as YAML: .*{said}"
    ) as error:
        read(path)
    assert SECRET not in str(error.value) and "\n" not in str(error.value)


def test_files_that_extend_each_other(repository: Path):
    (repository / "other.yaml").write_text("extends: mine.yaml\n")
    with pytest.raises(
        ConfigError, match=r"circular `extends`: .*other.yaml and mine extend each other"
    ):
        overlaid(repository, "extends: other\n")


@pytest.mark.parametrize(("extended", "text", "message"), listed_cases(__file__, "refused"))
def test_what_cannot_work_is_refused_by_name(
    repository: Path, extended: str, text: str, message: str
):
    with pytest.raises(ConfigError, match=re.escape(message)):
        overlaid(repository, f"extends: {extended}\n{text}\n")


def test_outside_the_repository_it_is_told_where_the_profile_was_sought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("extends: micro\n")
    looked = re.escape(f"no {tmp_path / 'micro.yaml'} or {tmp_path / 'configs' / 'micro.yaml'}")
    with pytest.raises(
        ConfigError,
        match=f"{looked}; choose one .* run the command from the root of the repository",
    ):
        load_profile("mine.yaml")


@pytest.mark.parametrize("columns", [{}, {"view": "projection"}])
def test_columns_are_those_that_the_file_names_alone(
    tmp_path: Path, columns: dict[str, str]
) -> None:
    """The profile's columns are an example; `{}` says that none differs."""
    text = f"extends: table\ncorpus: {{table: {{columns: {columns}}}}}\n"
    assert overlaid(tmp_path, text).corpus.table.columns == columns


def test_another_model_keeps_nothing_of_the_place_of_the_old_one(tmp_path: Path) -> None:
    model = "extends: small_gpu\nbackbones: {vision: %s}\n"
    kept = overlaid(tmp_path, model % "{revision: abc}").backbones.vision
    assert (kept.id, kept.revision) == ("microsoft/rad-dino", "abc")
    local = overlaid(tmp_path, model % "{provider: local, path: /models/mine}").backbones.vision
    assert (local.id, local.revision, local.path) == (None, None, "/models/mine")


def test_params_yaml_has_every_key_because_dvc_reads_it(pacer, repository: Path):
    (repository / "params.yaml").write_text("extends: micro\n")
    outcome = pacer("doctor")
    assert (
        outcome.code == 1
        and "params.yaml cannot use `extends`, because DVC reads it" in outcome.error
    )
    with pytest.raises(ConfigError, match="unknown key extends"):
        load_params(repository / "params.yaml")


def test_a_broken_params_yaml_can_be_written_anew(pacer, repository: Path) -> None:
    """Earlier profiles had comments behind lists, which overrides by DVC broke."""
    path = repository / "params.yaml"
    path.write_text("decode:\n  controls:  # what the sources contribute\n[]  num_beams: 3\n")
    outcome = pacer("doctor")
    assert outcome.code == 1 and "params.yaml cannot be read as YAML: line 3" in outcome.error
    assert "write it anew: `pacer use PROFILE --force`" in outcome.error
    assert pacer("use", "micro", "--force").code == 0
    assert load_params(path) == profile("micro")


def test_use_writes_the_whole_profile_whatever_was_in_use_before(pacer, repository: Path):
    for name in ("micro", "mimic_rg4_sn", "phantom"):
        with open(repository / "params.yaml", "a") as file:
            file.write("# a remark, which is no edit\n")
        assert pacer("use", name).code == 0
        assert load_params(repository / "params.yaml") == profile(name)
    assert (repository / "params.yaml").read_bytes() == (
        repository / "configs" / "phantom.yaml"
    ).read_bytes()


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


def test_the_known_profiles_are_listed_without_a_name_and_after_an_unknown_one(pacer):
    known = [
        "micro",
        "mimic_cxr",
        "mimic_rg4",
        "mimic_rg4_sn",
        "openi",
        "phantom",
        "small_gpu",
        "table",
    ]
    assert pacer("use").out.splitlines() == known
    outcome = pacer("use", "mimic_rg5", "--traceback")
    assert outcome.code == 1 and "Traceback" in outcome.error
    outcome = pacer("use", "mimic_rg5")
    assert outcome.code == 1 and len(outcome.error.splitlines()) == 1
    assert outcome.error.endswith(f"contains {', '.join(known)}\n")


@pytest.mark.parametrize(("line", "reason"), listed_cases(__file__, "edits"))
def test_an_edited_file_is_kept_unless_forced(pacer, repository: Path, line: str, reason: str):
    params = repository / "params.yaml"
    edited = re.sub(r"^  lambda_cons: .*$", f"  {line}", params.read_text(), flags=re.MULTILINE)
    params.write_text(edited)
    outcome = pacer("use", "micro")
    assert outcome.code == 1 and reason in outcome.error and len(outcome.error.splitlines()) == 1
    assert (
        "`pacer use micro --force` overwrites it" in outcome.error and params.read_text() == edited
    )
    assert pacer("use", "micro", "--force").code == 0
    assert params.read_text() != edited


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_a_profile_is_closest_to_itself(path: Path, repository: Path):
    assert closest_profile(load_profile(path)) == (path.stem, {})


def test_the_closest_profile_has_the_fewest_other_values(repository: Path):
    params = overlaid(
        repository,
        "extends: table\n"
        "corpus: {root: /data/mine, table: {file: a.csv, columns: {subject: patient}}}\n"
        "train: {seed: 43}\n"
        "commit: {attributes: [side]}\n",
    )
    expected = {
        "corpus.root": "/data/mine",
        "corpus.table.file": "a.csv",
        "corpus.table.columns": {"subject": "patient"},
        "train.seed": 43,
        "commit.attributes": ["side"],
    }
    (repository / "configs" / "broken.yaml").write_text("extends: table\ntrain: {seed: no}\n")
    assert closest_profile(params) == ("table", expected)
    described = parameters_of(params)
    del expected["train.seed"]
    assert described == {"profile": "table", "seed": 43, "changed": expected}
    assert parameter_line(described).startswith("profile table, seed 43, with corpus.root=")
    assert 'commit.attributes=["side"]' in parameter_line(described)


def test_without_a_valid_profile_there_is_no_closest_one(repository: Path):
    params = load_params("params.yaml")
    for path in (repository / "configs").glob("*.yaml"):
        path.write_text("train: {seed: no}\n")
    with pytest.raises(ConfigError, match=r"no profile in .*configs is valid"):
        closest_profile(params)
