"""What a process notes and does to itself while it works: signals at chosen moments, gradients and
weights."""

import os
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from pacer.core.io import hash_bytes
from pacer.training import loop


class Points:
    """The moments before each call that gives a file its name, takes it away, or changes the
    weights.

    They are called by function and file ("out" for the name of the output). A file that is being
    written has one more, when half of it is there. Killed between two points a process leaves what
    it leaves when killed at the later one.
    """

    def __init__(self, task: dict[str, Any]):
        self.out = Path(task["out"])
        self.stop = task.get("stop") or {}
        if int(self.stop.get("rank", 0)) != int(os.environ.get("RANK", 0)):
            self.stop = {}
        self.watching = bool(task.get("watch"))
        self.counts: Counter[str] = Counter()
        self.passed: list[tuple[str, int]] = []
        for name, place in {"replace": 1, "rename": 1, "unlink": 0, "rmdir": 0}.items():
            self._wrap(os, name, f"os.{name}", file=place)
        self._wrap(torch, "save", "torch.save", file=1, halves=True)
        self._wrap(safetensors.torch, "serialize_file", "save_file", file=1, halves=True)
        self._wrap(torch.optim.AdamW, "step", "AdamW.step")
        self._wrap(loop, "validate", "validate")

    def _wrap(
        self, owner: Any, name: str, label: str, file: int | None = None, halves: bool = False
    ) -> None:
        real = getattr(owner, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            point = label if file is None else f"{label} {self._file_name(args[file])}"
            self.reach(point)
            if halves:
                if self._stops_at(f"half of {point}"):
                    real(*args, **kwargs)
                    os.truncate(args[file], os.path.getsize(args[file]) // 2)
                self.reach(f"half of {point}")
            return real(*args, **kwargs)

        setattr(owner, name, wrapped)

    def _stops_at(self, point: str) -> bool:
        return self.stop.get("point") == point and self.stop["number"] == self.counts[point]

    def reach(self, point: str) -> None:
        if self._stops_at(point):
            target = os.getppid() if self.stop.get("parent") else os.getpid()
            number, self.stop = signal.Signals[self.stop.get("signal", "SIGKILL")], {}  # only once
            os.kill(target, number)
        if self.watching:
            self.passed.append((point, self.counts[point]))
        self.counts[point] += 1

    def _file_name(self, path: Any) -> str:
        name = re.sub(r"\.\d+\.tmp$", ".tmp", os.path.basename(os.fspath(path)))
        return f"out{name[len(self.out.name) :]}" if name.startswith(self.out.name) else name


class Recorder:
    """Gradients and weights of each update, as the optimiser meets them."""

    def __init__(self) -> None:
        self.gradients: list[torch.Tensor] = []
        self.stepped: list[list[bool]] = []
        self.digests: list[str] = []
        step = torch.optim.AdamW.step

        def recorded(optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
            own = [p for group in optimizer.param_groups for p in group["params"]]
            self.stepped.append([p.grad is not None for p in own])
            gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in own]
            self.gradients.append(
                torch.cat([gradient.detach().flatten() for gradient in gradients])
            )
            result = step(optimizer, *args, **kwargs)
            self.digests.append(hash_bytes(b"".join(p.detach().numpy().tobytes() for p in own)))
            return result

        torch.optim.AdamW.step = recorded

    def save(self, path: str) -> None:
        torch.save(vars(self), path)
