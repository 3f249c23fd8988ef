"""Fail if the committed run is not of the committed code, or a figure of the docs is not that of its scores.

python bench/release_check.py            # both; make release-check
python bench/release_check.py --stale    # only name the stages that would run again
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def stale_stages(root: Path = ROOT) -> list[str]:
    """Return the stages that `dvc repro` would run in a clone without data.

    The list ends at the first stage whose inputs are not in the clone: `--allow-missing` fails there (dvc#9818).

    Raises:
        RuntimeError: `dvc` ends with another error.
    """
    command = [sys.executable, "-m", "dvc", "repro", "--allow-missing", "--dry"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    stages = re.findall(r"(?:Running stage|failed to reproduce) '([^']+)'", done.stdout + done.stderr)
    if done.returncode and not stages:
        raise RuntimeError(done.stderr)
    return list(dict.fromkeys(stages))


def main() -> None:
    if stale := stale_stages():
        print(f"dvc.lock is not of this code: {', '.join(stale)} and what follows would run again (`dvc repro`)")
    if "--stale" in sys.argv:
        return
    tests = [sys.executable, "-m", "pytest", "-q", "tests/unit/pipeline/test_figures.py"]
    figures = subprocess.run(tests, cwd=ROOT).returncode
    sys.exit(1 if stale or figures else 0)


if __name__ == "__main__":
    main()
