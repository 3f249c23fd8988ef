"""The worktrees that rows are made in, with git alone."""

import shutil

import pytest

from pacer.core.errors import ConfigError
from pacer.core.io import read_json
from pacer.studies.plan import Run, plan
from pacer.studies.study import load_study
from pacer.studies.worktree import Repository, Worktree
from tests.support.studies import TinyRepository


def first_run(tiny: TinyRepository) -> tuple[Worktree, Run]:
    """A slot as the repository is now, and the run that is to be made in it."""
    repository, state = Repository(tiny.folder), tiny.folder / "studies" / "results"
    run = plan(load_study(tiny.folder / "studies", "tiny"), repository.read, repository.hashes)[0]
    return Worktree(repository, state / "slots" / "0", "/the/cache", state / "stages"), run


def prepared(tiny: TinyRepository) -> tuple[Worktree, Run]:
    tree, run = first_run(tiny)
    tree.prepare("tiny", run)
    return tree, run


def test_a_worktree_is_as_the_study_found_it_but_for_what_git_ignores(tiny: TinyRepository) -> None:
    tiny.write("params.yaml", tiny.read("params.yaml").replace("weight_decay: 0.01", "weight_decay: 0.02"))
    tiny.write(".dvc/config.local", "['remote \"store\"']\n    url = /store\n")
    before = tiny.state()
    tree, run = prepared(tiny)
    assert tiny.state() == before
    text = (tree.tree / "params.yaml").read_text()
    assert "weight_decay: 0.02" in text and "seed: 10 " in text and "gate_inputs: none" in text
    config = (tree.tree / ".dvc" / "config.local").read_text()
    assert "url = /store" in config and "dir = /the/cache" in config
    assert read_json(tree.marker) == {"study": "tiny", "experiment": run.name}

    for path in ("code/stage.py", "metrics/scores.json", "models/weights.scratch/step"):
        (tree.tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree.tree / path).write_text("of a row")
    tiny.write("code/report.py", "# edited\n")
    tree, run = prepared(tiny)
    assert (tree.tree / "code/stage.py").read_text() == tiny.read("code/stage.py")
    assert (tree.tree / "code/report.py").read_text() == "# edited\n"
    assert not (tree.tree / "metrics").exists() and (tree.tree / "models/weights.scratch/step").exists()

    (tree.tree / "metrics").mkdir()
    for name in ("scores.json", "other.parquet"):
        (tree.tree / "metrics" / name).write_text("{}")
    tree.save(run)
    repository = Repository(tiny.folder)
    [(name, reference)] = repository.experiments().items()
    assert name == run.name and repository.read("metrics/scores.json", reference) == "{}"
    assert tiny.git("rev-parse", f"{reference}^") == tiny.git("rev-parse", "HEAD")
    assert "models" not in tiny.git("ls-tree", "--name-only", reference)
    assert "other.parquet" not in tiny.git("ls-tree", "-r", "--name-only", reference)


def test_what_dvc_records_of_a_stage_is_known_to_other_worktrees(tiny: TinyRepository) -> None:
    """And a lock that a killed DVC left half-written is none."""
    tree, run = prepared(tiny)
    entry = {"cmd": "python code/stage.py source", "outs": [{"path": "data/source", "md5": "a"}]}
    (tree.tree / "dvc.lock").write_text(f"schema: '2.0'\nstages: {{source: {entry}, score: {entry}}}\n")
    tree.record(run, ["source", "train"])
    (tree.tree / "dvc.lock").write_text("schema: '2.0'\nstages: {source: ")
    tree.prepare("tiny", run)
    assert "md5: a" in (tree.tree / "dvc.lock").read_text() and "score" not in (tree.tree / "dvc.lock").read_text()
    assert not tree.import_stages(run)


def test_the_users_own_data_are_found_by_their_relative_path(tiny: TinyRepository) -> None:
    text = tiny.read("params.yaml")
    for path in ("../beside", "own/files"):
        tiny.write(f"{path}/file", path)
    tiny.write(".gitignore", tiny.read(".gitignore") + "/own\n")
    text = text.replace("prompt_file: null", "prompt_file: own/files", 1)
    tiny.write("params.yaml", text.replace("root: null", "root: ../beside", 1))
    tree, _ = prepared(tiny)
    assert all((tree.tree / path / "file").read_text() == path for path in ("../beside", "own/files"))


@pytest.mark.parametrize("name", ["../..", "data", "code/../data", "linked"])
def test_a_path_above_the_repository_or_with_outputs_in_it_has_to_be_absolute(tiny: TinyRepository, name: str) -> None:
    """Through a link in the worktree DVC would delete the user's outputs."""
    tiny.write("data/source/records", "of the user")
    (tiny.folder / "linked").symlink_to("data")
    tiny.write("params.yaml", tiny.read("params.yaml").replace("root: null", f"root: {name}", 1))
    tree, run = first_run(tiny)
    with pytest.raises(ConfigError, match=f"{name} must be an absolute path: /"):
        tree.prepare("tiny", run)
    assert not (tree.tree / "data").exists() and not (tree.tree / "linked").exists()


def test_answers_of_a_stopped_stage_are_kept(tiny: TinyRepository) -> None:
    """DVC restores all other outs, and these too for another row or once the stage has ended."""
    tiny.write("dvc.yaml", tiny.read("dvc.yaml").replace("data/source", "data/answers"))
    tree, run = first_run(tiny)
    assert run.outs["data/answers"] == {"persist": True}
    tree.prepare("tiny", run)
    (tree.tree / "data").mkdir()
    (tree.tree / "data/answers").write_text("one\n")
    assert tree.outs_to_restore(run) == list(run.outs)
    tree.prepare("tiny", run)
    assert tree.outs_to_restore(run) == [out for out in run.outs if out != "data/answers"]
    assert (tree.tree / "data/answers").read_text() == "one\n"
    (tree.tree / "dvc.lock").write_text("schema: '2.0'\nstages: {source: {cmd: x}}\n")
    tree.record(run, ["source"])
    assert tree.outs_to_restore(run) == list(run.outs)


def test_a_copied_repository_makes_worktrees_of_its_own(tiny: TinyRepository) -> None:
    original, _ = prepared(tiny)
    (original.tree / "code/report.py").write_text("# of the original\n")
    copied = object.__new__(TinyRepository)
    copied.folder = tiny.folder.with_name("copy")
    shutil.copytree(tiny.folder, copied.folder, symlinks=True)
    tree, _ = prepared(copied)
    assert str(copied.folder) in (tree.tree / ".git").read_text()
    shutil.rmtree(tree.tree)  # by hand, so git still lists it
    assert prepared(copied)[0].tree.is_dir()
    (copied.folder / ".git/worktrees/tree/HEAD").unlink()  # killed while git made it
    assert prepared(copied)[0].tree.is_dir()
    assert (original.tree / "code/report.py").read_text() == "# of the original\n"


def test_a_study_of_others_scores_alone_runs_nothing(tiny: TinyRepository) -> None:
    tiny.write("mine.txt", "not known to git")
    assert Repository(tiny.folder).hashes([]) == {}
