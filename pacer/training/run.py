"""One training phase as a stage runs it: from directories of inputs to a checkpoint directory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, PartialState

from pacer.core.config import Params
from pacer.core.errors import CheckpointError
from pacer.core.io import hash_file, hash_json, publish, scratch_directory
from pacer.features.store import FeatureStore
from pacer.model.assemble import build_model, frozen_fingerprints, load_tokenizer
from pacer.model.checkpoint import (
    CheckpointRecord,
    load_strictly,
    load_weights,
    package_versions,
    parent_reference,
    refer_to_parent,
    save_checkpoint,
)
from pacer.training.examples import Examples
from pacer.training.loop import Log, train
from pacer.training.phases import phase_of
from pacer.training.record_table import RecordTable, write_record_table

#: The phase's records in the run's scratch directory.
_RECORDS = "records.arrow"

#: Makes the ``log`` callable of a run in the run's scratch directory.
OpenLog = Callable[[Path], AbstractContextManager[Log]]


def model_parameters(phase: str, params: Params) -> dict[str, Any]:
    """The parameters that the phase's model is built and decoded with, as its checkpoint records them."""
    groups = {
        "features": params.features.model_dump(include={"depths"}),
        "refine": params.refine.model_dump(),
        "interface": params.interface.model_dump(),
        "trajectory": params.trajectory.model_dump(),
    }
    if phase != "warmup":
        groups |= {"lora": params.lora.model_dump(), "prompt": params.prompt.model_dump(),
                   "commit": params.commit.model_dump()}
    if phase == "calibrate":
        groups["calibrate"] = params.calibrate.model_dump(
            include={"rank", "d_availability", "d_gate", "dropout", "gate_inputs", "gate_bias"})
    return groups


def run_phase(
    name: str,
    params: Params,
    *,
    corpus: Path,
    backbones: Path,
    features: Path,
    anchors: Path | None,
    start: Path | None,
    out: Path,
    open_log: OpenLog,
) -> None:
    """Train phase ``name`` and publish its checkpoint as ``out``; resumes what an earlier run left in scratch.

    Args:
        anchors: ``anchors.parquet`` (None in the warm-up). start: checkpoint of the phase before (None: none).
    """
    phase = phase_of(name, params)
    model_params = model_parameters(name, params)
    frozen = frozen_fingerprints(backbones)
    record = CheckpointRecord(name, phase.updates, model_params, frozen, None, package_versions())
    if name == "calibrate":
        assert start is not None
        record = CheckpointRecord(name, phase.updates, model_params, frozen, parent_reference(out, start),
                                  package_versions())
        if params.calibrate.gate_inputs == "none":
            state = PartialState()
            if state.is_main_process:
                with scratch_directory(out, "log") as directory, open_log(directory) as log:
                    log({"updates": 0.0}, 0)
                refer_to_parent(out, record)
            state.wait_for_everyone()
            return

    accelerator = Accelerator(mixed_precision=_precision(params.train.precision))
    torch.manual_seed(params.train.seed)
    model = build_model(backbones, model_params, lora=name != "warmup", calibrate=name == "calibrate")
    if start is not None:
        _start_from(model, start, frozen)
    if name == "parent" and params.parent.start == "warmup" and params.parent.lateral_start == "frontal":
        model.interface.start_lateral_from_frontal()
    if name == "calibrate":
        model.merge_lora()
    tokenizer = load_tokenizer(backbones)
    own_params = params.model_dump(include={name, "train", "batches", *model_params})
    inputs = {"params": own_params, "frozen": frozen, "records": hash_file(corpus / "records.parquet"),
              "anchors": hash_file(anchors) if anchors else None,
              "start": hash_file(start / "model.safetensors") if start else None}
    main = accelerator.is_main_process
    fingerprint = hash_json(inputs)
    scratch = scratch_directory(out, fingerprint) if main else nullcontext(Path(f"{out}.scratch") / fingerprint[:16])
    with scratch as directory:
        if main:
            write_record_table(corpus / "records.parquet", anchors, phase.contexts, directory / _RECORDS)
        accelerator.wait_for_everyone()
        examples = Examples(RecordTable.map(directory / _RECORDS), tokenizer, FeatureStore(features),
                            params.interface.num_queries, params.trajectory.report_tokens, model_params.get("prompt"))
        with open_log(directory) if main else nullcontext(lambda values, step: None) as log:
            if main:
                log(examples.survey(), 0)
            weights = train(model, examples, phase, params, accelerator, directory, log)
        if main:
            checkpoint = directory / "checkpoint"
            save_checkpoint(checkpoint, weights, record)
            publish(checkpoint, out)
    accelerator.end_training()


def _start_from(model: torch.nn.Module, start: Path, frozen: dict[str, str]) -> None:
    """Load the weights of the phase before; what that phase did not train keeps its initial value."""
    record, weights = load_weights(start)
    if record.frozen != frozen:
        raise CheckpointError(f"{start} was trained on other frozen models than those at hand; run its phase again")
    trained = dict.fromkeys(weights)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in trained)
    load_strictly(model, weights, start)


def _precision(precision: str) -> str:
    if precision == "auto":
        return "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "no"
    return {"float32": "no", "bfloat16": "bf16"}[precision]

