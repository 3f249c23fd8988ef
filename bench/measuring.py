"""Measurement in the benches: options, results, agreement of two sides, seconds in turns, peak memory, bars, tables."""

from __future__ import annotations

import argparse
import gc
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from shapes import Preset, RandomStates, make_model
from torch import Tensor

from pacer.model.pacer import Pacer

#: Losses and gradients by name.
Found = tuple[Mapping[str, Tensor], Mapping[str, Tensor]]


class Unequal(AssertionError):
    """The two sides of a comparison do not compute the same."""


def assert_close(what: str, ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], tolerance: float) -> None:
    """Assert that both sides have the same entries, each within ``tolerance`` times its norm, or times a hundredth of
    the largest norm, if that is more.

    Raises:
        Unequal: they differ, or a value is not finite.
    """
    if set(ours) != set(theirs):
        raise Unequal(f"{what}: only one side has {', '.join(sorted(set(ours) ^ set(theirs)))}")
    largest = max(float(value.double().norm()) for value in theirs.values())
    for name, expected in theirs.items():
        own, known = ours[name].double(), expected.double()
        difference, allowed = float((own - known).norm()), tolerance * max(float(known.norm()), 0.01 * largest)
        if not difference <= allowed:
            raise Unequal(f"{what}: {name} differs by {difference:.3g}, allowed are {allowed:.3g}")


def assert_agree(what: str, ours: Found, theirs: Found, tolerances: tuple[float, float]) -> None:
    """Apply :func:`assert_close` to the losses and to the gradients, each with its tolerance."""
    for kind, own, known, tolerance in zip(("loss", "gradient"), ours, theirs, tolerances):
        assert_close(f"{what}, {kind}", own, known, tolerance)


def within(tolerances: tuple[float, float]) -> str:
    """Describe the tolerances of :func:`assert_agree`."""
    return f"losses within {tolerances[0]:g}, gradients within {tolerances[1]:g}"


def in_turns(sides: Sequence[Callable[[Any], float]], items: Sequence[Any], repeats: int) -> list[list[float]]:
    """Return the seconds of each side over all ``items``, ``repeats`` times; the sides take turns item by item.

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


def ratio(numerator: Sequence[float], denominator: Sequence[float]) -> tuple[float, str]:
    """Return the ratio of the medians, and the same as text with the range of the turns' ratios."""
    value = statistics.median(numerator) / statistics.median(denominator)
    turns = [a / b for a, b in zip(numerator, denominator)]
    return value, f"{value:.2f} ({min(turns):.2f} to {max(turns):.2f})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table and a blank line; only the first column is aligned to the left."""
    rule = "|---|" + "---:|" * (len(header) - 1)
    return ["| " + " | ".join(header) + " |", rule, *("| " + " | ".join(row) + " |" for row in rows), ""]


def milliseconds(values: Sequence[float], count: int = 1) -> str:
    """Return the median of ``values`` in milliseconds, divided by ``count``."""
    return f"{1e3 * statistics.median(values) / count:,.1f}"


def megabytes(amount: float) -> str:
    """Return bytes as text in megabytes."""
    return f"{amount / 1e6:,.1f}"


def given(doc: str | None, presets: Mapping[str, Any], miniature: Callable[[Any], Any]) -> tuple[Any, Path | None]:
    """Return the preset that the command line names, and the file for the results."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--preset", choices=presets, default="cpu")
    parser.add_argument("--miniature", action="store_true", help="tiny shapes on the CPU: does it run?")
    parser.add_argument("--out", type=Path, help="also write the results here")
    options = parser.parse_args()
    preset = presets[options.preset]
    return miniature(preset) if options.miniature else preset, options.out


def publish(title: str, device: torch.device, lines: Sequence[str], out: Path | None) -> None:
    """Print the results as Markdown, below a title, the command, the machine and the versions; also write them."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "peft"))
    about = f"`python {' '.join(sys.argv)}`, {time.strftime('%Y-%m-%d')}. {hardware(device)}; load average"
    about += f" {os.getloadavg()[0]:.2f} at the end. Python {platform.python_version()}, {versions}."
    text = "\n".join([f"# {title}", "", about, "", *lines]).rstrip() + "\n"
    print(text)
    if out:
        out.write_text(text)


def device_of(preset: Preset) -> torch.device:
    """Return the device on which a preset is measured."""
    return torch.device(preset.device or ("cuda" if torch.cuda.is_available() else "cpu"))


def hardware(device: torch.device) -> str:
    """Describe the machine."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    words = f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"
    return f"{words}; {torch.cuda.get_device_name(device)}" if device.type == "cuda" else f"{words}; no GPU used"


@dataclass
class Bench:
    """One run: the preset on a device, the model, which is built on first use, and the bars judged so far."""

    preset: Preset
    device: torch.device
    started: float = field(default_factory=time.perf_counter)
    bars: list[list[str]] = field(default_factory=list)

    @cached_property
    def model(self) -> Pacer:
        """The model, with LoRA unmerged and with a calibrator."""
        self.say("building the model")
        return make_model(self.preset, self.device)

    @cached_property
    def states(self) -> RandomStates:
        """Image and text states of the samples."""
        return RandomStates(self.preset, self.model.router.num_depths)

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def say(self, text: str) -> None:
        """Print one line of progress."""
        print(f"[{time.perf_counter() - self.started:6.1f} s] {text}", file=sys.stderr, flush=True)

    def judge(self, name: str, value: float) -> None:
        """Record whether ``value`` meets the bar of this name, if the preset has one."""
        if name in self.preset.limits:
            sign, limit = self.preset.limits[name]
            met = value >= limit if sign == ">=" else value <= limit
            self.bars.append(
                [name, f"{'≥' if sign == '>=' else '≤'} {limit:.3g}", f"{value:.3g}", "met" if met else "**missed**"]
            )

    def pinned(self, batch: Any) -> Any:
        """Return the batch, in page-locked memory if it is for a GPU."""
        return batch.pin_memory() if self.on_gpu else batch

    def wait(self) -> None:
        """Wait until the device has finished its work."""
        if self.on_gpu:
            torch.cuda.synchronize(self.device)

    def seconds(self, call: Callable[[], Any]) -> float:
        """Return the seconds of one call, including its work on the device."""
        self.wait()
        started = time.perf_counter()
        call()
        self.wait()
        return time.perf_counter() - started

    def peak(self, call: Callable[[], Any]) -> int:
        """Return the most bytes that tensors hold during ``call``, beyond what they held before.

        On a CPU this is the largest running sum of the allocations and releases that the profiler records. The resident
        peak of a fresh process that returns freed blocks at once was 5 MB higher: the matrix library's buffers.
        """
        if self.on_gpu:
            self.wait()
            before = torch.cuda.memory_allocated(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
            call()
            self.wait()
            return torch.cuda.max_memory_allocated(self.device) - before
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # no "USDT" lines before error messages
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            call()
        events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
        changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
        return max(accumulate(changes, initial=0))
