"""A clone that somebody has used: the files that git knows, and what runs of their own left.

``python -m tests.support.used_clone FOLDER`` makes it; `.ci/run` runs the tests there, because no
test may depend on what a user has run, chosen or committed.
"""

import json
import subprocess
import sys
from pathlib import Path
from shutil import copy2
from typing import Any

from tests.support.profiles import yaml_of
from tests.support.real import DATA
from tests.support.repository import ROOT

#: Files of a run that git does not know; nothing reads them, so they have no valid content.
LEFT = ("data/source/source.json", "data/source/sn.json", "data/corpus/records.parquet")
LEFT += ("data/corpus/audit.json", "data/features/images.parquet", "data/anchors/anchors.parquet")
LEFT += ("models/backbones/language/config.json", "models/parent/config.json")
LEFT += ("models/calibrate/config.json", "models/lists/lists.json", "predictions/sn.jsonl")
LEFT += ("metrics/cases.parquet", "metrics/findings.parquet", "reports/index.html")
LEFT += ("reports/tables/scores.md", "baselines/metrics/simmlm/scores.json")


def make_used_clone(folder: Path) -> None:
    """Copy the project to a new folder and change there what a user's runs change."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        copy2(ROOT / name, folder / name, follow_symlinks=False)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    if DATA.is_dir():  # tests on real files look for it there
        (folder.parent / DATA.parent.name).symlink_to(DATA.parent)
    for path in folder.glob("metrics/**/*.json"):
        path.write_text(json.dumps(other(json.loads(path.read_text("utf-8")))), encoding="utf-8")
    lock = folder / "dvc.lock"
    lock.write_text(lock.read_text("utf-8").replace("md5: ", "md5: 0"), encoding="utf-8")
    (folder / "params.yaml").write_text(yaml_of("micro"), encoding="utf-8")
    copy2(folder / "baselines" / "micro.yaml", folder / "baselines" / "params.yaml")
    for name in LEFT:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("left by a run\n", encoding="utf-8")


def other(value: Any) -> Any:
    """Return a value of JSON with other numbers in it."""
    if isinstance(value, dict):
        return {key: other(one) for key, one in value.items()}
    if isinstance(value, list):
        return [other(one) for one in value]
    return value + 1 if type(value) in (int, float) else value


if __name__ == "__main__":
    make_used_clone(Path(sys.argv[1]))
