"""One training as a stage runs it: from directories of inputs to a checkpoint directory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from transformers import PreTrainedTokenizerBase

from pacer.config import Params
from pacer.config.training import Warmup
from pacer.core.errors import CheckpointError, DataError, PacerError
from pacer.core.io import atomic_path, hash_file, hash_json, publish, read_json, scratch_directory, write_json
from pacer.core.processes import open_accelerator, process_state
from pacer.features.online import open_features
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
    refer_to_parent,
    save_checkpoint,
    specification_of,
)
from pacer.model.pacer import FeatureSource, Pacer
from pacer.model.precision import automatic_dtype, language_parameters
from pacer.training.examples import Examples, RecordTable
from pacer.training.loop import Log, Loss, train
from pacer.training.losses import objective
from pacer.training.phases import Phase, phase_of
from pacer.training.sampler import Sampler

#: Files of the run's scratch directory: the tokens of each record, and what was counted of them.
_LENGTHS, _STATISTICS = "lengths.npy", "statistics.json"

#: Settings of ``train`` that a stopped run may continue with other values of.
_FREE_TO_CHANGE = {"workers", "state_interval", "log_interval", "checkpointing"}

#: Makes the ``log`` callable of a run in the run's scratch directory.
OpenLog = Callable[[Path], AbstractContextManager[Log]]


@dataclass(frozen=True)
class Inputs:
    """Where a training reads: outs of ``corpus``, ``backbones`` and ``features``, ``emphasis.parquet``,
    ``anchors.parquet`` (None in the warm-up), and the checkpoint that it starts from (None: none)."""

    corpus: Path
    backbones: Path
    features: Path
    emphasis: Path
    anchors: Path | None = None
    start: Path | None = None


class Training(ABC):
    """A model, its examples and its loss for the one loop; another training overrides what differs.

    Args:
        settings: of this training alone, which a stopped run must find unchanged. record: of the checkpoint to come.
    """

    def __init__(self, phase: Phase, settings: Warmup, record: CheckpointRecord, inputs: Inputs):
        self.phase, self.settings, self.record, self.inputs = phase, settings, record, inputs
        self.loss: Loss = objective

    @abstractmethod
    def build(self, accelerator: Accelerator) -> Pacer:
        """The model with its starting weights, on its device."""

    def examples(self, table: RecordTable, tokenizer: PreTrainedTokenizerBase, features: FeatureSource) -> Examples:
        """The source of batches."""
        return Examples(table, tokenizer, features, self.record.model)


class PhaseTraining(Training):
    """One of the three phases."""

    def __init__(self, name: str, params: Params, inputs: Inputs, out: Path):
        phase = phase_of(name, params)
        record = CheckpointRecord(
            phase=name,
            step=phase.schedule.updates,
            model=specification_of(name, params),
            frozen=frozen_fingerprints(inputs.backbones),
            parent=parent_reference(out, inputs.start) if name == "calibrate" and inputs.start else None,
            precision=read_record(inputs.start).precision if name == "calibrate" and inputs.start else None,
            versions=package_versions(),
        )
        super().__init__(phase, phase.schedule, record, inputs)
        self.params = params

    def build(self, accelerator: Accelerator) -> Pacer:
        """The phase's model with its starting weights; with bfloat16 training the frozen language model is bfloat16."""
        parent, start = self.params.parent, self.inputs.start
        torch.manual_seed(self.phase.train.seed)
        dtype = torch.bfloat16 if accelerator.mixed_precision == "bf16" else torch.float32
        model = build_model(self.inputs.backbones, self.record.model, dtype)
        started = None if start is None else _start_from(model, start, self.record)
        if self.phase.name == "parent" and started == "warmup":
            if parent.lateral_start == "frontal":
                model.interface.start_from_frontal("lateral")
            if parent.prior_start == "frontal":
                model.interface.start_from_frontal("prior")
        if self.phase.name == "calibrate" and self.params.calibrate.trains != "lora":
            model.merge_lora()
        return model.to(accelerator.device)


def run_phase(name: str, params: Params, inputs: Inputs, out: Path, open_log: OpenLog) -> None:
    """Train phase ``name`` and publish its checkpoint as ``out``; resumes what an earlier run left in scratch."""
    training, settings = PhaseTraining(name, params, inputs, out), params.calibrate
    if name == "calibrate" and settings.trains == "calibrator" and settings.gate_inputs == "none":
        state = process_state()
        if state.is_main_process:
            with scratch_directory(out, "log") as directory, open_log(directory) as log:
                log({"updates": 0.0}, 0)
            refer_to_parent(out, training.record)
        state.wait_for_everyone()
    else:
        run_training(training, out, open_log)


def run_training(training: Training, out: Path, open_log: OpenLog) -> None:
    """Train and publish the checkpoint as ``out``; resumes what an earlier run left in scratch."""
    phase, inputs = training.phase, training.inputs
    accelerator = open_accelerator(mixed_precision(phase.train.precision, language_parameters(inputs.backbones)))
    half = accelerator.mixed_precision == "bf16"
    record = training.record.model_copy(update={"precision": "bfloat16" if half else "float32"})
    main = accelerator.is_main_process
    depends_on = {
        "settings": training.settings.model_dump(),
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
        model = training.build(accelerator)
        model.set_attention(phase.train.attention)
        if phase.train.checkpointing == "on":
            model.checkpoint_blocks()
        examples = _examples(training, directory, accelerator)
        counts = read_json(directory / _STATISTICS)
        with open_log(directory) if main else nullcontext(lambda values, step: None) as log:
            if main:
                print(_opening(phase, counts), flush=True)
                log(counts, 0)
            weights = train(model, examples, phase, accelerator, directory, log, training.loss)
        accelerator.wait_for_everyone()  # nobody reads the scratch directory any more
        if main:
            save_checkpoint(directory / "checkpoint", weights, record)
            publish(directory / "checkpoint", out, durable=True)
    accelerator.wait_for_everyone()
    accelerator.end_training()


def _examples(training: Training, directory: Path, accelerator: Accelerator) -> Examples:
    """The examples of a training, which the first process measures for all."""
    phase, inputs = training.phase, training.inputs
    records = inputs.corpus / "records.parquet"
    table = RecordTable.read(records, inputs.emphasis, inputs.anchors, phase.contexts)
    if not any(len(rows) for rows in table.rows("train", phase.contexts).values()):
        raise DataError(
            f"{inputs.corpus} has no record of split train in {', '.join(phase.contexts)}, which {phase.name} "
            "trains on; look at the corpus audit"
        )
    features = open_features(inputs.features, inputs.backbones, accelerator.device)
    examples = training.examples(table, load_tokenizer(inputs.backbones), features)
    if accelerator.is_main_process and not (directory / _STATISTICS).exists():
        counts, examples.lengths = examples.statistics()
        with atomic_path(directory / _LENGTHS) as temporary, open(temporary, "wb") as file:
            np.save(file, examples.lengths)
        write_json(directory / _STATISTICS, counts | Sampler(phase, examples).padding_efficiency())
    accelerator.wait_for_everyone()
    if not (directory / _STATISTICS).exists():
        raise PacerError(
            f"process {accelerator.process_index} does not see {directory}, which the first process wrote; all nodes "
            "must run in one shared working tree"
        )
    examples.lengths = np.load(directory / _LENGTHS)
    return examples


def _opening(phase: Phase, counts: dict[str, float]) -> str:
    words = (
        f"{phase.name}: {counts['targets/reports']:.0f} records; real tokens over padded tokens in an epoch "
        f"{counts['batches/real_share']:.3f} (batches.window {phase.batches.window}), in LLM-RG4's order "
        f"{counts['batches/published_real_share']:.3f}"
    )
    if phase.losses.lambda_tlw and not counts["targets/emphasised"]:
        words += f"\n{phase.name}: L_TLW is 0: no target has emphasised tokens; emphasis.source: computed marks them"
    if phase.schedule.updates < phase.schedule.warmup_updates:
        words += (
            f"\nwarning: {phase.name}.updates = {phase.schedule.updates} is below {phase.name}.warmup_updates = "
            f"{phase.schedule.warmup_updates}: the learning rate never reaches {phase.schedule.learning_rate:.2g}"
        )
    return words


def _start_from(model: torch.nn.Module, start: Path, new: CheckpointRecord) -> str:
    """Load the weights of the phase before, and name it; what it did not train keeps its initial value."""
    record, weights = load_weights(start)
    if record.frozen != new.frozen:
        raise CheckpointError(f"{start} was trained on frozen models other than the current ones; run its phase again")
    if record.model.quantization != new.model.quantization:
        before, now = (quantization or "none" for quantization in (record.model.quantization, new.model.quantization))
        raise CheckpointError(
            f"{start} was trained with train.quantization: {before}, and the settings say {now}; all phases train on "
            f"one frozen model: set train.quantization: {before}, or start from another checkpoint"
        )
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in weights)
    load_strictly(model, weights, start)
    return record.phase


def mixed_precision(precision: str, parameters: float) -> str:
    """What ``train.precision`` means on this machine for a language model of so many parameters, in accelerate's words;
    for ``auto`` see :func:`~pacer.model.precision.automatic_dtype`."""
    if precision == "auto":
        dtype = automatic_dtype("cuda" if torch.cuda.is_available() else "cpu", parameters)
        precision = str(dtype).removeprefix("torch.")
    return {"float32": "no", "bfloat16": "bf16"}[precision]
