"""DVC commands as a user types them, without a target, in a repository where no baseline was ever run."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.studies import ROOT, TinyRepository

#: The order is a day's work: experiments, going back, sharing, cleaning up. ``{store}`` is a remote.
COMMANDS = """
dvc repro
git add --all
git commit -qm base
dvc status
dvc exp run -n one -S calibrate.lambda_cons=0.1
dvc exp run -n two -S train.seed=7
dvc exp show --no-pager
dvc metrics diff
dvc params diff
dvc plots diff HEAD
git checkout .
dvc checkout
dvc exp apply one
dvc status
dvc exp branch two kept
dvc remote add --default --local store {store}
dvc push
git checkout .
dvc checkout
dvc gc -w -f
dvc pull
dvc status
dvc repro
"""
ANNOUNCED = "WARNING: This will remove all cache except items used in the workspace"


@pytest.fixture
def made(tiny: TinyRepository, monkeypatch: pytest.MonkeyPatch) -> TinyRepository:
    """The miniature's pipeline beside the project's own baselines."""
    shutil.copytree(ROOT / "baselines", tiny.folder / "baselines", dirs_exist_ok=True)
    shutil.copy(ROOT / ".dvcignore", tiny.folder)
    tiny.write("code/report.py", "from pathlib import Path\n\nPath('reports').write_text('a page')\n")
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "test")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "test@localhost")
    tiny.git("add", "--all")
    tiny.commit()
    return tiny


def test_plain_commands_end_well_and_warn_of_nothing(made: TinyRepository, tmp_path: Path) -> None:
    for line in COMMANDS.format(store=tmp_path / "store").strip().splitlines():
        done = subprocess.run(shlex.split(line), cwd=made.folder, capture_output=True, text=True, check=False)
        told = done.stdout + done.stderr
        assert done.returncode == 0, f"{line}\n{told}"
        warnings = [text for text in told.splitlines() if re.match("WARN|ERROR", text) and ANNOUNCED not in text]
        assert not warnings, f"{line}\n{told}"
        if line == "dvc status":
            assert "up to date" in told, f"{line}\n{told}"
