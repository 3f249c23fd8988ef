"""The editable package in a folder that has a package of the same name."""

from collections.abc import Callable
from pathlib import Path

from tests.integration.cli.test_installed import assert_many_are_scored, editable, run

__all__ = ["editable", "run"]  # fixtures


def test_processes_do_not_import_the_users_package(
    editable: Path, run: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "pacer").mkdir()
    (tmp_path / "pacer" / "__init__.py").touch()
    assert_many_are_scored(tmp_path, run)
