"""Measurement in the benches: presets, agreement of two sides, seconds in turns, peak memory,
tables."""

import argparse
import gc
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from ruamel.yaml import YAML
from torch import Tensor

PRESETS = Path(__file__).with_name("presets.yaml")
#: The sizes of a measurement; the file says what its fields are.
Preset = SimpleNamespace


class Unequal(AssertionError):
    """The two sides of a comparison do not compute the same."""


def assert_close(
    what: str, ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], tolerance: float
) -> None:
    """Assert that both sides have the same entries, each within ``tolerance`` times its norm, or
    times a hundredth of the largest norm, if that is more.

    Raises:
        Unequal: they differ, or a value is not finite.
    """
    if set(ours) != set(theirs):
        raise Unequal(f"{what}: only one side has {', '.join(sorted(set(ours) ^ set(theirs)))}")
    largest = max(float(value.double().norm()) for value in theirs.values())
    for name, expected in theirs.items():
        computed, known = ours[name].double(), expected.double()
        difference, allowed = (
            float((computed - known).norm()),
            tolerance * max(float(known.norm()), 0.01 * largest),
        )
        if not difference <= allowed:
            raise Unequal(f"{what}: {name} differs by {difference:.3g}, allowed are {allowed:.3g}")


def in_turns(
    sides: Sequence[Callable[[Any], float]], items: Sequence[Any], repeats: int
) -> list[list[float]]:
    """Return the seconds of each side over all ``items``, ``repeats`` times; the sides take turns
    item by item.

    Args:
        sides: each takes one item and returns its seconds. items: each with one entry per side.
    """
    gc.collect()
    totals = [[0.0] * repeats for _ in sides]
    for repeat in range(repeats):
        for item in items:
            for place, side in enumerate(sides):
                totals[place][repeat] += side(item[place])
    return totals


def ratio(numerator: Sequence[float], denominator: Sequence[float]) -> str:
    """Return the ratio of the medians as text, with the range of the turns' ratios."""
    turns = [a / b for a, b in zip(numerator, denominator)]
    value = statistics.median(numerator) / statistics.median(denominator)
    return f"{value:.2f} ({min(turns):.2f} to {max(turns):.2f})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table and an empty line; only the first column is aligned to the left."""
    rule = "|---|" + "---:|" * (len(header) - 1)
    return [
        "| " + " | ".join(header) + " |",
        rule,
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
    ]


def options_of(doc: str | None, *arguments: tuple[str, dict[str, Any]]) -> argparse.Namespace:
    """Return what the command line gives for ``arguments``, each with the settings of
    ``add_argument``; ``doc`` is the help."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, settings in arguments:
        parser.add_argument(name, **settings)
    return parser.parse_args()


def preset_of(script: str, doc: str | None) -> tuple[Preset, Path | None]:
    """Return the script's preset that the command line names, and the file for the results."""
    presets = YAML(typ="safe").load(PRESETS.read_text(encoding="utf-8"))[script]
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--preset", choices=presets, default="cpu")
    parser.add_argument("--out", type=Path, help="also write the results here")
    options = parser.parse_args()
    return Preset(**presets[options.preset]), options.out


def publish(title: str, device: str, lines: Sequence[str], out: Path | None) -> None:
    """Print the results as Markdown, below a title, the command, the machine and the versions; also
    write them."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "peft"))
    about = (
        f"`python {' '.join(sys.argv)}`, {time.strftime('%Y-%m-%d')}. {hardware(device)}; "
        "load average"
    )
    about += (
        f" {os.getloadavg()[0]:.2f} at the end. Python {platform.python_version()}, {versions}."
    )
    text = "\n".join([f"# {title}", "", about, "", *lines]).rstrip() + "\n"
    print(text)
    if out:
        out.write_text(text)


def hardware(device: str) -> str:
    """Describe the machine."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    words = (
        f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, "
        f"{torch.get_num_threads()} threads"
    )
    return (
        f"{words}; {torch.cuda.get_device_name(device)}"
        if device == "cuda"
        else f"{words}; no GPU used"
    )


class Meter:
    """Seconds and memory of calls on a device; ``clock``: on a CPU."""

    def __init__(self, device: str, clock: Callable[[], float] = time.perf_counter):
        self.on_gpu = device == "cuda"
        self.started = time.perf_counter()
        self._clock = time.perf_counter if self.on_gpu else clock

    def say(self, text: str) -> None:
        """Print one line of progress."""
        print(f"[{time.perf_counter() - self.started:6.1f} s] {text}", file=sys.stderr, flush=True)

    def seconds(self, call: Callable[[], Any]) -> float:
        """Return the seconds of one call, including its work on the device."""
        self.wait()
        started = self._clock()
        call()
        self.wait()
        return self._clock() - started

    def peak(self, call: Callable[[], Any]) -> float:
        """Return the most MB that tensors hold during ``call``; on a CPU beyond those that were
        held before.

        On a CPU this is the largest running sum of the allocations and releases that the profiler
        records. The resident peak of a fresh process that returns freed blocks at once was 5 MB
        higher: the matrix library's buffers.
        """
        if self.on_gpu:
            torch.cuda.reset_peak_memory_stats()
            call()
            self.wait()
            return torch.cuda.max_memory_allocated() / 1e6
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # no "USDT" lines before error messages
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
        ) as profile:
            call()
        events = [
            event
            for event in profile.profiler.kineto_results.events()
            if event.name() == "[memory]"
        ]
        changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
        return max(accumulate(changes, initial=0)) / 1e6

    def product_rate(self, size: int = 8192) -> float:
        """Return the TFLOP/s of a GPU in products of two bfloat16 matrices [size, size], the median
        of ten."""
        factors = torch.randn(2, size, size, device="cuda", dtype=torch.bfloat16)
        seconds = [self.seconds(lambda: factors[0] @ factors[1]) for _ in range(13)][3:]
        return 2 * size**3 / statistics.median(seconds) / 1e12

    def wait(self) -> None:
        """Wait until the device has done its work."""
        if self.on_gpu:
            torch.cuda.synchronize()
