"""What needs a GPU, in parts: the tests marked `gpu`, and the benches at the published model's shapes.

    make gpu                             # the parts not yet done for this GPU in bench/results/gpu.md
    make gpu PARTS="tests decode"        # these parts, done or not
    make gpu MINUTES=9                   # starts no part whose limit ends later; the next call continues from there
    python bench/gpu.py [PART ...] [--minutes M] [--out FILE]    # the same in the current environment

A part is a process with a time limit. When it ends, its output is appended to bench/results/gpu.md, which also records
whether it failed or ran out of time. Then the next part starts. A later call retries failed parts, after those never
tried. All limits together are 36 minutes, none is over 8. The exit code is 1 if a part failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import NamedTuple

import psutil

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "results" / "gpu.md"
#: The option of the benches for tiny shapes, and the device name in its results.
MINIATURE, MINIATURES = "--miniature", "a CPU, in miniature"
#: Number of last lines that are kept of a failed part's standard error, and of a plain output.
LINES = 40


@dataclass(frozen=True)
class Part:
    """One part: its name, its limit, and the arguments of Python; ``plain``: its output is not Markdown."""

    name: str
    minutes: float
    command: tuple[str, ...]
    plain: bool = False


def bench(name: str, minutes: float, script: str, *options: str) -> Part:
    """Return a part that runs a script of this folder."""
    return Part(name, minutes, (f"bench/{script}.py", *options))


PYTEST = ("-m", "pytest", "-q", "-rs", "--tb=short", "--continue-on-collection-errors", "-W", "default", "--color=no")
PARTS = (
    Part("tests", 8, (*PYTEST, "-m", "gpu", "tests"), plain=True),
    bench("steps", 8, "train", "--preset", "gpu"),
    bench("decode", 7, "decode", "--preset", "gpu"),
    bench("features", 3, "features", "--preset", "gpu"),
    bench("features-float32", 3, "features", "--preset", "gpu", "--precision", "float32"),
    bench("blocks", 3, "blocks"),
    bench("protocol", 4, "protocol"),
)
#: Sources of the protocol's rates per second: its option, the part, and the row with the number.
RATES = (
    ("--images", "features-float32", r"\| the stage, from JPG files to shards \| ([\d.,e+]+) \|"),
    ("--records", "decode", r"\| each side's best \| \d+ \| ([\d.,e+]+) \|"),
)
#: The tests of a miniature; a GPU runs the same test bodies.
SMALL_TESTS = ("-m", "not gpu", "tests/unit/training/test_prefetch.py")


class Ended(NamedTuple):
    """How a part ended, in words, whether that is a failure, and its standard output and error."""

    words: str
    failed: bool
    output: str
    errors: str


def describe() -> tuple[str, str]:
    """Return the name and details of the GPUs, from a separate process, so that this one takes none of their memory.

    Raises:
        SystemExit: there is no GPU.
    """
    code = (
        "import json, torch; n = torch.cuda.device_count(); p = [torch.cuda.get_device_properties(i) for i in range(n)]"
        "\nprint(json.dumps([[(q.name, q.total_memory) for q in p], torch.__version__, torch.version.cuda]))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if found.returncode or not (devices := json.loads(found.stdout)[0]):
        raise SystemExit(f"error: no CUDA device was found, and these parts need one\n{found.stderr[-2000:]}".rstrip())
    _, torch_version, cuda = json.loads(found.stdout)
    count = "" if len(devices) == 1 else f"{len(devices)} × "
    return f"{count}{devices[0][0]}", f"{devices[0][1] / 2**30:.0f} GiB, torch {torch_version}, CUDA {cuda}"


def section(results: str, part: str, device: str) -> str | None:
    """Return the newest section of a part on a device, or None."""
    found = re.split(rf"^## {re.escape(part)}: {re.escape(device)}$", results, flags=re.MULTILINE)
    return re.split(r"^## ", found[-1], flags=re.MULTILINE)[0] if len(found) > 1 else None


def turns(results: str, device: str) -> list[Part]:
    """Return the parts that are not done on a device: first those never tried, then those that failed."""
    newest = {part: section(results, part.name, device) for part in PARTS}
    failed = [part for part in PARTS if (text := newest[part]) and not re.match(r"\s*[\d-]+, done\b", text)]
    return [part for part in PARTS if newest[part] is None] + failed


def run(part: Part, command: Sequence[str], environment: dict[str, str]) -> Ended:
    """Run a part within its limit, and end all of its processes."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=errors,
            stdin=subprocess.DEVNULL,
        )
        try:
            code: int | None = process.wait(part.minutes * 60)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end(process)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read())
    if code is None:
        return Ended(f"ran out of its {part.minutes:g} minutes", True, *texts)
    if code not in (0, 1) or (code and not missed(*texts)):
        why = f"killed by {signal.Signals(-code).name}" if code < 0 else f"failed with exit code {code}"
        return Ended(why, True, *texts)
    return Ended("; ".join(filter(None, ["done", missed(*texts)])), False, *texts)


def missed(output: str, errors: str) -> str:
    """Return what a bench reports about missed bars; empty if it missed none."""
    last = errors.rstrip().rsplit("\n", 1)[-1]
    return last if last.startswith("missed:") else "a bar is missed" if "**missed**" in output else ""


def end(process: subprocess.Popen) -> None:
    """Kill a process that has not ended, and all its descendants."""
    if process.poll() is None:
        below = psutil.Process(process.pid).children(recursive=True)
        for own in (process, *below):
            try:
                own.kill()
            except psutil.NoSuchProcess:
                continue
        process.wait()


def written(part: Part, device: str, about: str, ended: Ended, seconds: float) -> str:
    """Return the section of the results for a part that ended."""
    took = f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"
    lines = [f"## {part.name}: {device}", "", f"{date.today()}, {ended.words} ({took}). {about}.", ""]
    if part.plain:
        lines += ["```", *ended.output.rstrip().splitlines()[-LINES:], "```", ""]
    elif ended.output.strip():
        lines += [re.sub(r"^#", "###", ended.output.strip(), flags=re.MULTILINE), ""]
    if ended.failed and ended.errors.strip():
        lines += ["```", *ended.errors.rstrip().splitlines()[-LINES:], "```", ""]
    return "\n".join(lines) + "\n"


def command_of(part: Part, results: str, device: str, miniature: bool) -> list[str]:
    """Return the arguments of Python for a part; the protocol gets the rates from the results."""
    command = list(part.command)
    if miniature:
        command = [*PYTEST, *SMALL_TESTS] if part.name == "tests" else [*command, MINIATURE]
    if part.name == "protocol":
        for option, source, pattern in RATES:
            if found := re.search(pattern, section(results, source, device) or ""):
                command += [option, found[1].replace(",", "")]
    return command


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = [part.name for part in PARTS]
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(names)}; none: those not done yet")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no part whose limit ends later")
    parser.add_argument("--out", type=Path, default=OUT, help="where the results are appended")
    parser.add_argument(MINIATURE, action="store_true", help="tiny shapes on the CPU: does it run?")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(names):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    device, about = (MINIATURES, "The figures mean nothing") if options.miniature else describe()
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    if options.miniature:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    started, failed = time.monotonic(), []
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if not options.out.exists():
        options.out.write_text("# On a GPU\n\nBy `make gpu`; a section is appended as its part ends.\n\n")
    named = [part for part in PARTS if part.name in options.parts]
    for done, part in enumerate(named or turns(options.out.read_text(), device)):
        results = options.out.read_text()
        if done and time.monotonic() - started + part.minutes * 60 > options.minutes * 60:
            print(f"{part.name} and what follows: in the next call", flush=True)
            break
        print(f"{part.name}: at most {part.minutes:g} minutes", flush=True)
        begun = time.monotonic()
        ended = run(part, command_of(part, results, device, options.miniature), environment)
        text = written(part, device, about, ended, time.monotonic() - begun)
        with open(options.out, "a") as file:
            file.write(text)
        print(text, flush=True)
        failed += [part.name] if ended.failed else []
    if failed:
        raise SystemExit(f"error: failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
