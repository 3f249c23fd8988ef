"""What needs a GPU, in parts: the tests marked `gpu`, and the benches at the published model's
shapes.

    make gpu                                       # all parts
    make gpu PARTS="tests decode"                  # these
    python bench/gpu.py [PART ...]                 # the same in the current environment

A part is a process with a time limit; all limits together are nine minutes. When it ends, its
output is appended to bench/results/gpu.md, which also says whether it failed or ran out of time,
and the next part starts. The exit code is 1 if one did. If you stop it (Ctrl-C, SIGTERM), what the
running part has printed is appended as well.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from measuring import options_of

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "results" / "gpu.md"
PYTEST = "-m pytest -m gpu tests -q -rs --tb=short --continue-on-collection-errors -W default"
#: Name of each part, its limit in minutes, and the arguments of Python.
PARTS: dict[str, tuple[float, Sequence[str]]] = {
    "steps": (3.5, ("bench/train.py", "--preset", "gpu")),
    "decode": (2.5, ("bench/decode.py", "--preset", "gpu")),
    "tests": (2, f"{PYTEST} --color=no -n logical --maxprocesses 4".split()),
    "features": (1, ("bench/features.py", "--preset", "gpu")),
}


def describe() -> str:
    """Return the name of the GPU, from a separate process, so that this one takes none of its
    memory. Raises a SystemExit if there is none."""
    code = "import torch; print(torch.cuda.get_device_name(), '| torch', torch.__version__)"
    named = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if named.returncode:
        reason = named.stderr[-2000:].rstrip()
        raise SystemExit(f"error: no CUDA device was found, and these parts need one\n{reason}")
    return named.stdout.strip()


def run(name: str, device: str) -> tuple[str, str]:
    """Run a part within its limit, and end all of its processes.

    Returns:
        how it ended ("done" if well, "stopped" by Ctrl-C); and its section of the results.
    """
    limit, command = PARTS[name]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    offline = {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env=os.environ | offline,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=60 * limit)
        ending = f"exit code {process.returncode}" if process.returncode else "done"
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as reason:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        ending = "stopped" if isinstance(reason, KeyboardInterrupt) else "ran out of its time"
    minutes = (time.monotonic() - begun) / 60
    lines = [f"## {name}: {device}", "", f"{date.today()}, {ending} ({minutes:.1f} min).", ""]
    lines += [re.sub(r"^#", "###", output.strip(), flags=re.MULTILINE), ""]
    if ending != "done":
        lines += ["```", *errors.rstrip().splitlines()[-40:], "```", ""]
    return ending, "\n".join(lines) + "\n"


def main() -> None:
    parts = {"nargs": "*", "metavar": "PART", "help": f"{', '.join(PARTS)}; none: all"}
    options = options_of(__doc__, parts=parts)
    if unknown := set(options.parts) - PARTS.keys():
        raise SystemExit(f"error: no such part: {', '.join(unknown)}; parts: {', '.join(PARTS)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    device, failed = describe(), []
    for name in options.parts or PARTS:
        print(f"{name}: at most {PARTS[name][0]:g} minutes", flush=True)
        ending, text = run(name, device)
        with OUT.open("a") as file:
            file.write(text)
        print(text, flush=True)
        if ending != "done":
            failed.append(name)
        if ending == "stopped":
            break
    if failed:
        raise SystemExit(f"error: failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
