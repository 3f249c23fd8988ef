"""How stages are started on every GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LAUNCH = Path(__file__).resolve().parents[3] / "stages" / "launch.py"


CONFIGURATION = {"compute_environment": "LOCAL_MACHINE", "distributed_type": "NO", "mixed_precision": "no"}
CONFIGURATION |= {"num_processes": 1, "use_cpu": True}


@pytest.mark.parametrize(
    ("configured", "body", "code", "error"), [(True, "pass", 0, ""), (False, "sys.exit('it failed')", 1, "it failed\n")]
)
def test_a_script_is_started_with_its_arguments_and_nothing_else_is_said(
    configured: bool, body: str, code: int, error: str, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    words = f"    print(sys.argv[1:], os.environ.get('ACCELERATE_USE_CPU'))\n    {body}\n"
    script.write_text(f"import os, sys\ndef main():\n{words}")
    if configured:
        (tmp_path / "accelerate").mkdir()
        (tmp_path / "accelerate" / "default_config.yaml").write_text(json.dumps(CONFIGURATION))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ACCELERATE")}
    done = subprocess.run(
        [sys.executable, LAUNCH, script, "one", "--two"],
        capture_output=True,
        text=True,
        env=clean | {"HF_HOME": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""},
    )
    said = f"['one', '--two'] {True if configured else None}\n"
    assert (done.returncode, done.stdout) == (code, said) and done.stderr.endswith(error)
    assert configured or done.stderr == error


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "was killed (SIGKILL)"),
        ("sys.exit('it failed')", "failed (exit code 1)"),
    ],
)
def test_a_process_that_ends_ends_the_others_with_one_line(end: str, reason: str, tmp_path: Path) -> None:
    script, home = tmp_path / "script.py", tmp_path / "accelerate"
    last = f"    {end} if os.environ['RANK'] == '1' else time.sleep(600)\n"
    script.write_text(f"import os, signal, sys, time\ndef main():\n{last}")
    home.mkdir()
    several = CONFIGURATION | {"distributed_type": "MULTI_GPU", "num_machines": 1, "num_processes": 2}
    (home / "default_config.yaml").write_text(json.dumps(several | {"main_process_port": 0}))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ACCELERATE")}
    done = subprocess.run(
        [sys.executable, LAUNCH, script],
        capture_output=True,
        text=True,
        env=clean | {"HF_HOME": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""},
        timeout=120,
    )
    told = f"error: process 1 of this machine {reason}, so the others were ended; run the same command again"
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith(told), done.stderr
    assert "Traceback" not in done.stderr, done.stderr
