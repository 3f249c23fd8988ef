"""docs/examples/slurm: a job for each row of a study, which waits for the rows before it and continues after a stop."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import REPOSITORY

#: In the place of Slurm's programs: each writes down its arguments, one by one between bars.
PROGRAM = '#!/bin/sh\n(printf "%s" "${0##*/}"; printf "|%s" "$@"; echo) >> calls\n'
ROWS = """\
pacer study run main --row PACER
pacer study run main --row 'PACER, select: agreement'  # after 1
pacer study run main --row '"R" (+ 1)'  # after 1, 2
"""


def start(folder: Path, script: str, *arguments: str, given: str = "", **endings: str) -> tuple[int, list[str]]:
    """Run a script; its exit code, and the calls of the programs that have these ``endings``."""
    for name, ending in endings.items():
        (folder / name).write_text(f"{PROGRAM}{ending}\n")
        (folder / name).chmod(0o755)
    variables = os.environ | {"SLURM_CPUS_PER_TASK": "12", "SLURM_JOB_ID": "7"}
    variables["PATH"] = f"{folder}:{variables['PATH']}"
    command = ["bash", str(REPOSITORY / "docs/examples/slurm" / script), *arguments]
    code = subprocess.run(command, cwd=folder, env=variables, input=given, text=True, check=False).returncode
    return code, (folder / "calls").read_text().splitlines()


def test_each_row_is_a_job_after_those_that_it_needs(tmp_path: Path) -> None:
    code, calls = start(tmp_path, "submit.sh", given=ROWS, sbatch="echo $((100 + $(wc -l < calls)))';here'")
    row = f"{REPOSITORY}/docs/examples/slurm/row.sh|pacer|study|run|main|--row"
    assert code == 0 and calls == [
        f"sbatch|--parsable|{row}|PACER",
        f"sbatch|--parsable|--dependency=afterok:101|{row}|PACER, select: agreement",
        f'sbatch|--parsable|--dependency=afterok:101:102|{row}|"R" (+ 1)',
    ]
    code, refused = start(tmp_path, "submit.sh", given=ROWS, sbatch="exit 1")
    assert code == 1 and refused == [*calls, calls[0]], "the rest is not submitted"


@pytest.mark.parametrize(("ending", "requeued"), [(0, False), (1, False), (130, True), (143, False)])
def test_a_job_that_was_stopped_at_its_limit_and_no_other_is_queued_again(
    tmp_path: Path, ending: int, requeued: bool
) -> None:
    code, calls = start(tmp_path, "row.sh", "pacer", "--row", "a b", srun=f"exit {ending}", scontrol="")
    assert calls == ["srun|--cpus-per-task=12|pacer|--row|a b", *["scontrol|requeue|7"] * requeued] and code == ending
