"""The folders that stages write: all of the pipeline's and the baselines', and none a link that
leaves the repository."""

import subprocess
import sys
from pathlib import Path

import pytest

from pacer.config.outputs import FOLDERS, check_folders
from pacer.core.errors import ConfigError
from pacer.core.io import parse_yaml

ROOT = Path(__file__).parents[3]


def test_the_folders_are_those_of_the_pipeline_and_the_baselines() -> None:
    stages = [
        parse_yaml((ROOT / name).read_text())["stages"]
        for name in ("dvc.yaml", "baselines/stages.yaml")
    ]
    outs = [
        out
        for part in stages
        for stage in part.values()
        for key in ("outs", "metrics")
        for out in stage.get(key, ())
    ]
    paths = {Path(out if isinstance(out, str) else next(iter(out))) for out in outs}
    homes = {path: [name for name in FOLDERS if path.is_relative_to(name)] for path in paths}
    assert all(homes.values()) and {name for names in homes.values() for name in names} == set(
        FOLDERS
    )


@pytest.mark.parametrize(
    "name", ["data", "models", "data/features", "models/parent", "baselines/models", "predictions"]
)
def test_a_link_out_of_the_repository_is_refused(tmp_path: Path, name: str) -> None:
    repository, disk = tmp_path / "repository", tmp_path / "disk"
    (repository / name).parent.mkdir(parents=True)
    disk.mkdir()
    (repository / name).symlink_to(disk)
    with pytest.raises(
        ConfigError, match=rf"link to {disk}.*remove the link.*cache dir --local {tmp_path}"
    ):
        check_folders(repository)


def test_links_inside_and_links_of_files_are_none_of_our_business(tmp_path: Path) -> None:
    """The user's raw images may be linked into data/, and DVC links single files to a cache on
    another disk."""
    repository = tmp_path / "repository"
    (repository / "store").mkdir(parents=True)
    (repository / "models").symlink_to("store")
    (repository / "data" / "anchors").mkdir(parents=True)
    (tmp_path / "cached").touch()
    (repository / "data" / "anchors" / "audit.json").symlink_to(tmp_path / "cached")
    (repository / "data" / "openi").symlink_to(tmp_path)
    check_folders(repository)


def test_git_ignores_outputs_that_are_links(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text((ROOT / ".gitignore").read_text())
    (tmp_path / "data").symlink_to(sys.prefix)
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert status.stdout == "?? .gitignore\n"
