"""The training run of a stage, from input directories to a checkpoint directory."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path

import torch

from pacer.config import Params
from pacer.core.errors import CheckpointError
from pacer.core.io import hash_file, hash_json, publish, scratch_directory
from pacer.core.processes import open_accelerator, process_state
from pacer.features.encoder import open_features
from pacer.features.store import content_hash
from pacer.model.assemble import build_model, frozen_fingerprints, load_tokenizer
from pacer.model.checkpoint import (
    CheckpointRecord,
    checkpoint_hash,
    load_strictly,
    load_weights,
    package_versions,
    parent_reference,
    read_record,
    save_checkpoint,
    specification_of,
)
from pacer.model.pacer import Pacer
from pacer.training.examples import Examples, RecordTable
from pacer.training.loop import Log, train
from pacer.training.phases import Phase, phase_of

_log = logging.getLogger(__name__)

#: Settings of ``train`` that may change when a stopped run is resumed.
_FREE_TO_CHANGE = {"workers", "state_interval", "log_interval", "checkpointing"}

#: Settings that change the meaning of a checkpoint without changing its shapes.
_WEIGHT_SEMANTICS = ("features.depths", "refine.max_scale", "interface.num_heads", "lora.alpha")

#: Increased whenever the format of a stopped run's state changes; older states are not resumed.
_STATE_VERSION = 2

#: Opens the ``log`` callable of a run, given the run's scratch directory.
OpenLog = Callable[[Path], AbstractContextManager[Log]]

#: Builds a model with its starting weights; the argument is the type of the frozen language model.
Build = Callable[[torch.dtype], Pacer]


@dataclass(frozen=True)
class Inputs:
    """The inputs of a training run."""

    #: Output of the stage ``corpus``.
    corpus: Path
    #: Output of the stage ``backbones``.
    backbones: Path
    #: Output of the stage ``features``.
    features: Path
    #: ``emphasis.parquet``.
    emphasis: Path
    #: ``anchors.parquet``; None in the warm-up.
    anchors: Path | None = None
    #: The checkpoint to start from.
    start: Path | None = None


def run_phase(name: str, params: Params, inputs: Inputs, out: Path, open_log: OpenLog) -> None:
    """Train phase ``name`` and publish its checkpoint as ``out``, resuming from an earlier run's
    scratch directory."""
    phase = phase_of(name, params)
    settings = params.calibrate
    parent = inputs.start if name == "calibrate" else None
    record = CheckpointRecord(
        phase=name,
        step=phase.schedule.updates,
        model=specification_of(name, params),
        frozen=frozen_fingerprints(inputs.backbones),
        parent=parent_reference(out, parent) if parent else None,
        precision=read_record(parent).precision if parent else "float32",
        versions=package_versions(),
    )
    if name == "calibrate" and settings.trains == "calibrator" and settings.gate_inputs == "none":
        state = process_state()
        if state.is_main_process:
            with scratch_directory(out, "reference") as scratch:
                with open_log(scratch):
                    pass  # DVC expects the file of curves, even without an update
                record.write(scratch)
                publish(scratch, out)
        state.wait_for_everyone()
    else:
        run_training(
            phase, record, inputs, out, open_log, partial(starting_model, record, params, inputs)
        )


def starting_model(
    record: CheckpointRecord, params: Params, inputs: Inputs, dtype: torch.dtype
) -> Pacer:
    """Build the model of the phase that ``record`` names, with its starting weights (see
    :data:`Build`)."""
    torch.manual_seed(params.train.seed)
    model = build_model(inputs.backbones, record.model, dtype)
    started = None if inputs.start is None else _start_from(model, inputs.start, record)
    if record.phase == "parent" and started == "warmup":
        if params.parent.lateral_start == "frontal":
            model.interface.start_from_frontal("lateral")
        if params.parent.prior_start == "frontal":
            model.interface.start_from_frontal("prior")
    if record.phase == "calibrate" and params.calibrate.trains != "lora":
        model.merge_lora()
    return model


def run_training(
    phase: Phase,
    record: CheckpointRecord,
    inputs: Inputs,
    out: Path,
    open_log: OpenLog,
    build: Build,
    make_examples: Callable[..., Examples] = Examples,
) -> None:
    """Train and publish the checkpoint ``out``, resuming from an earlier run's scratch directory.
    ``record``: the record of the new checkpoint, without its precision. ``make_examples``: called
    like :class:`Examples`."""
    accelerator = open_accelerator(mixed_precision(phase.train.precision))
    half = accelerator.mixed_precision == "bf16"
    record = record.model_copy(update={"precision": "bfloat16" if half else "float32"})
    main = accelerator.is_main_process
    depends_on = {
        "state": _STATE_VERSION,
        "settings": phase.schedule.model_dump(),
        "train": phase.train.model_dump(exclude=_FREE_TO_CHANGE),
        "batches": phase.batches.model_dump(),
        "record": record.model_dump(exclude={"step", "parent", "versions"}),
        "records": hash_file(inputs.corpus / "records.parquet"),
        "emphasis": hash_file(inputs.emphasis),
        "anchors": hash_file(inputs.anchors) if inputs.anchors else None,
        "features": content_hash(inputs.features),
        "start": checkpoint_hash(inputs.start) if inputs.start else None,
    }
    with scratch_directory(out, hash_json(depends_on), main=main) as directory:
        model = build(torch.bfloat16 if half else torch.float32).to(accelerator.device)
        if phase.train.checkpointing == "on":
            model.checkpoint_blocks()
        table = RecordTable.read(
            inputs.corpus / "records.parquet",
            inputs.emphasis,
            inputs.anchors,
            phase.contexts,
            record.model.sides,
        )
        features = open_features(inputs.features, inputs.backbones, accelerator.device)
        examples = make_examples(table, load_tokenizer(inputs.backbones), features, record.model)
        if main:
            number = len(table.frame.filter(split="train"))
            _log.info(f"{phase.name}: {number:,} training records")
            before = read_record(inputs.start).precision if inputs.start else record.precision
            if before != record.precision:
                _log.warning(
                    f"{phase.name}: precision is {record.precision}, but {inputs.start} was "
                    f"trained in {before} (train.precision)"
                )
        with open_log(directory) if main else nullcontext(lambda values, step: None) as log:
            weights = train(model, examples, phase, accelerator, directory, log)
        accelerator.wait_for_everyone()  # no process reads the scratch directory any more
        if main:
            save_checkpoint(directory / "checkpoint", weights, record)
            publish(directory / "checkpoint", out, durable=True)
    accelerator.wait_for_everyone()
    accelerator.end_training()


def _start_from(model: torch.nn.Module, start: Path, new: CheckpointRecord) -> str:
    """Load the weights of ``start`` and return its phase; other parameters keep their initial
    values.

    A parent that starts from a finished model trains its Refine, interface and LoRA further,
    without its calibrator.
    """
    record, weights = load_weights(start)
    if record.frozen != new.frozen:
        names = ", ".join(
            name
            for name, fingerprint in new.frozen.items()
            if record.frozen.get(name) != fingerprint
        )
        raise CheckpointError(
            f"models/backbones does not have the models that {start} was trained with ({names}); "
            "set those in params.yaml, or train from the warm-up"
        )
    if new.phase == "parent" and record.phase != "warmup":
        different = []
        for key in _WEIGHT_SEMANTICS:
            value = attrgetter(key)(new.model)
            trained_with = attrgetter(key)(record.model)
            if value != trained_with:
                different.append(f"{key} is {value}; the weights need {trained_with}")
        if different:
            raise CheckpointError(f"{start} does not match the parameters: {'; '.join(different)}")
        weights = {
            name: tensor for name, tensor in weights.items() if not name.startswith("calibrator.")
        }
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in weights)
    load_strictly(model, weights, start)
    return record.phase


def mixed_precision(precision: str) -> str:
    """Return accelerate's name for ``train.precision`` on this machine; ``auto`` is bfloat16 on a
    GPU that supports it."""
    if precision == "auto":
        half = torch.cuda.is_available() and torch.cuda.is_bf16_supported(False)
        precision = "bfloat16" if half else "float32"
    return {"float32": "no", "bfloat16": "bf16"}[precision]
