"""What needs a GPU, in parts: the tests marked `gpu`, and the benches at the published model's shapes.

    make gpu                                       # all parts
    make gpu PARTS="tests decode"                  # these
    python bench/gpu.py [PART ...] [--out FILE]    # the same in the current environment

A part is a process with a time limit; all limits together are 33 minutes. When it ends, its output is appended to
bench/results/gpu.md, which also says whether it failed, missed a bar or ran out of time, and the next part starts. The
exit code is 1 if one did.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "results" / "gpu.md"
#: The option of the benches for tiny shapes, and the device name in its results.
MINIATURE, MINIATURES = "--miniature", "a CPU, in miniature"
PYTEST = ("-m", "pytest", "-q", "-rs", "--tb=short", "--continue-on-collection-errors", "-W", "default", "--color=no")
#: The tests of a miniature; a GPU runs the same test bodies.
SMALL_TESTS = (*PYTEST, "-m", "not gpu", "tests/unit/training/test_prefetch.py")
#: Name of each part, its limit in minutes, and the arguments of Python.
PARTS: dict[str, tuple[float, tuple[str, ...]]] = {
    "tests": (8, (*PYTEST, "-m", "gpu", "tests")),
    "steps": (8, ("bench/train.py", "--preset", "gpu")),
    "decode": (7, ("bench/decode.py", "--preset", "gpu")),
    "features": (3, ("bench/features.py", "--preset", "gpu")),
    "blocks": (3, ("bench/blocks.py",)),
    "protocol": (4, ("bench/protocol.py",)),
}
#: Sources of the protocol's rates per second: its option, the part, and the row with the number.
RATES = (
    ("--images", "features", r"\| the stage, from JPG files to shards \| ([\d.,e+]+) \|"),
    ("--records", "decode", r"\| \d+ \| ([\d.,e+]+) \| [\d.,e+]+ \|"),
)


class Ended(NamedTuple):
    """The exit code of a part, None if it ran out of time, and its standard output and error."""

    code: int | None
    output: str
    errors: str


def describe() -> str:
    """Return the name of the GPU, from a separate process, so that this one takes none of its memory.

    Raises:
        SystemExit: there is no GPU.
    """
    code = "import torch; print(torch.cuda.get_device_name(), '| torch', torch.__version__)"
    named = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if named.returncode:
        raise SystemExit(f"error: no CUDA device was found, and these parts need one\n{named.stderr[-2000:]}".rstrip())
    return named.stdout.strip()


def run(name: str, command: Sequence[str], environment: dict[str, str]) -> Ended:
    """Run a part within its limit, and end all of its processes."""
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        texts = process.communicate(timeout=60 * PARTS[name][0])
        return Ended(process.returncode, *texts)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return Ended(None, *process.communicate())


def written(name: str, device: str, ended: Ended, seconds: float) -> str:
    """Return the section of the results for a part that ended."""
    ending = "ran out of its time" if ended.code is None else f"exit code {ended.code}" if ended.code else "done"
    lines = [f"## {name}: {device}", "", f"{date.today()}, {ending} ({seconds / 60:.1f} min).", ""]
    lines += [re.sub(r"^#", "###", ended.output.strip(), flags=re.MULTILINE), ""]
    if ended.code != 0:
        lines += ["```", *ended.errors.rstrip().splitlines()[-40:], "```", ""]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; none: all")
    parser.add_argument("--out", type=Path, default=OUT, help="where the results are appended")
    parser.add_argument(MINIATURE, action="store_true", help="tiny shapes on the CPU: does it run?")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - PARTS.keys():
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    device = MINIATURES if options.miniature else describe()
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    outputs, failed = dict[str, str](), []
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for name in options.parts or PARTS:
        command = list(PARTS[name][1])
        if options.miniature:
            command = [*SMALL_TESTS] if name == "tests" else [*command, MINIATURE]
            environment["CUDA_VISIBLE_DEVICES"] = ""
        for option, source, pattern in RATES:
            if name == "protocol" and (rate := re.search(pattern, outputs.get(source, ""))):
                command += [option, rate[1].replace(",", "")]
        print(f"{name}: at most {PARTS[name][0]:g} minutes", flush=True)
        begun = time.monotonic()
        ended = run(name, command, environment)
        outputs[name] = ended.output
        text = written(name, device, ended, time.monotonic() - begun)
        with open(options.out, "a") as file:
            file.write(text)
        print(text, flush=True)
        failed += [name] if ended.code != 0 else []
    if failed:
        raise SystemExit(f"error: failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
