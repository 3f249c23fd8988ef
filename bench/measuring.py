"""What the benches share: presets, a random language model, seconds, memory and tables."""

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from ruamel.yaml import YAML
from transformers import LlamaConfig, LlamaForCausalLM

from pacer.config.params import load_profile

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # decode.py measures the engine that tests compare with
PARAMS = load_profile(ROOT / "configs" / "mimic_rg4.yaml")
BOS, EOS = 1, 2
#: The sizes of a measurement; `presets.yaml` describes its fields.
Preset = SimpleNamespace


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table and an empty line; only the first column is aligned to the left."""
    lines = ["| " + " | ".join(row) + " |" for row in (header, *rows)]
    return [lines[0], "|---|" + "---:|" * (len(header) - 1), *lines[1:], ""]


def short(value: float, decimals: int = 3, sign: str = "") -> str:
    """Format a figure with a minus sign instead of a hyphen."""
    return f"{value:{sign}.{decimals}f}".replace("-", "−")


def options_of(doc: str | None, **arguments: dict[str, Any]) -> argparse.Namespace:
    """Parse the command line; a name without ``default`` is a position. ``doc`` is the help."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=doc, formatter_class=formatter)
    for name, settings in arguments.items():
        parser.add_argument(f"--{name}" if "default" in settings else name, **settings)
    return parser.parse_args()


def run(title: str, doc: str | None, measure: Callable[[Preset], list[str]]) -> None:
    """Measure the preset that the command line names; print the results as Markdown, with command,
    machine and versions, and write them to ``--out``."""
    presets = YAML(typ="safe").load(Path(__file__).with_name("presets.yaml"))[
        Path(sys.argv[0]).stem
    ]
    choice = {"choices": list(presets), "default": "cpu"}
    out = {"type": Path, "default": None, "help": "also write the results here"}
    options = options_of(doc, preset=choice, out=out)
    lines = measure(preset := Preset(**presets[options.preset]))
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "peft"))
    about = (
        f"`python {' '.join(sys.argv)}`, {time.strftime('%Y-%m-%d')}. {hardware(preset.device)}; "
        f"load average {os.getloadavg()[0]:.2f} at the end. Python {platform.python_version()}, "
        f"{versions}."
    )
    text = "\n".join([f"# {title}", "", about, "", *lines]).rstrip() + "\n"
    print(text)
    if options.out:
        options.out.write_text(text)


def hardware(device: str) -> str:
    """Describe the machine."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    gpu = torch.cuda.get_device_name(device) if device == "cuda" else "no GPU used"
    processor = models[0] if models else platform.machine()
    return f"{processor}, {os.cpu_count()} cores, {torch.get_num_threads()} threads; {gpu}"


def make_language(shape: Preset) -> LlamaForCausalLM:
    """Return a language model with random weights, made on the device in its type."""
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.ffn,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.groups,
        initializer_range=shape.spread,
        bos_token_id=BOS,
        eos_token_id=EOS,
    )
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    # made in float32 first, the largest needs twice the memory
    torch.set_default_dtype(getattr(torch, shape.dtype))
    try:
        with torch.device(shape.device):
            return LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)


class Meter:
    """Seconds and memory of calls on a device; ``clock``: on a CPU."""

    def __init__(self, device: str, clock: Callable[[], float] = time.perf_counter):
        self.on_gpu = device == "cuda"
        self._clock = time.perf_counter if self.on_gpu else clock

    def seconds(self, call: Callable[[], Any]) -> float:
        """Return the seconds of one call, including its work on the device."""
        self.wait()
        started = self._clock()
        call()
        self.wait()
        return self._clock() - started

    def in_turns(self, sides: Sequence[Callable[[], Any]], repeats: int) -> list[list[float]]:
        """Return the seconds of each side, ``repeats`` times; the sides take turns."""
        turns = [[self.seconds(side) for side in sides] for _ in range(repeats)]
        return [list(of_side) for of_side in zip(*turns, strict=True)]

    def peak(self, call: Callable[[], Any]) -> float:
        """Return the most MB that tensors hold during ``call``; on a CPU beyond those that were
        held before, from the allocations and releases that the profiler records."""
        if self.on_gpu:
            torch.cuda.reset_peak_memory_stats()
            call()
            self.wait()
            return torch.cuda.max_memory_allocated() / 1e6
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # no "USDT" lines before error messages
        cpu = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=cpu, profile_memory=True) as profile:
            call()
        events = profile.profiler.kineto_results.events()
        memory = [event for event in events if event.name() == "[memory]"]
        changes = [event.nbytes() for event in sorted(memory, key=lambda event: event.start_ns())]
        return max(accumulate(changes, initial=0)) / 1e6

    def wait(self) -> None:
        """Wait until the device has done its work."""
        if self.on_gpu:
            torch.cuda.synchronize()


def ratio(numerator: Sequence[float], denominator: Sequence[float]) -> str:
    """Return the ratio of the medians as text, with the range of the turns' ratios."""
    turns = [a / b for a, b in zip(numerator, denominator, strict=True)]
    value = statistics.median(numerator) / statistics.median(denominator)
    return f"{value:.2f} ({min(turns):.2f} to {max(turns):.2f})"
