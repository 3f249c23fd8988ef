"""One training phase as a stage runs it: from directories of inputs to a checkpoint directory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator, InitProcessGroupKwargs

from pacer.core.errors import CheckpointError, DataError, PacerError
from pacer.core.io import atomic_path, hash_file, hash_json, publish, read_json, scratch_directory, write_json
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
    refer_to_parent,
    save_checkpoint,
)
from pacer.model.pacer import Pacer
from pacer.model.specification import specification_of
from pacer.parallel.processes import PATIENCE, process_state
from pacer.params import Params, Prompt
from pacer.training.examples import Examples
from pacer.training.loop import Log, Loss, train
from pacer.training.objective import objective
from pacer.training.phases import Phase, phase_of
from pacer.training.plan import plan_of
from pacer.training.record_table import RecordTable, write_record_table
from pacer.training.source_cache import open_source_cache

#: Files of the run's scratch directory: the phase's records, the tokens of each, and what was counted of them.
_RECORDS, _LENGTHS, _SURVEY = "records.arrow", "lengths.npy", "survey.json"

#: Settings of ``train`` that a stopped run may continue with other values of.
_NO_MATTER = {"workers", "state_interval", "log_interval"}

#: Makes the ``log`` callable of a run in the run's scratch directory.
OpenLog = Callable[[Path], AbstractContextManager[Log]]


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
    record = CheckpointRecord(
        phase=name,
        step=phase.updates,
        model=specification_of(name, params),
        frozen=frozen_fingerprints(backbones),
        parent=parent_reference(out, start) if name == "calibrate" and start is not None else None,
        versions=package_versions(),
    )
    if name == "calibrate" and params.calibrate.gate_inputs == "none":
        state = process_state()
        if state.is_main_process:
            with scratch_directory(out, "log") as directory, open_log(directory) as log:
                log({"updates": 0.0}, 0)
            refer_to_parent(out, record)
        state.wait_for_everyone()
        return

    def build(accelerator: Accelerator) -> Pacer:
        return _build(params, record, backbones, start, accelerator)

    def cache_sources(model: Pacer, examples: Examples, directory: Path, accelerator: Accelerator) -> None:
        examples.compressed = open_source_cache(
            params.calibrate.source_cache,
            plan_of(phase, params, examples).visits(params.train),
            model,
            examples,
            accelerator,
            directory / "sources",
            params.train.workers,
        )

    carry_out(
        phase,
        params,
        record,
        build,
        corpus=corpus,
        backbones=backbones,
        features=features,
        anchors=anchors,
        start=start,
        out=out,
        open_log=open_log,
        prepare=cache_sources if name == "calibrate" else None,
    )


def carry_out(
    phase: Phase,
    params: Params,
    record: CheckpointRecord,
    build: Callable[[Accelerator], Pacer],
    *,
    corpus: Path,
    backbones: Path,
    features: Path,
    anchors: Path | None,
    start: Path | None,
    out: Path,
    open_log: OpenLog,
    make_examples: Callable[..., Examples] = Examples,
    prepare: Callable[[Pacer, Examples, Path, Accelerator], None] | None = None,
    loss: Loss = objective,
) -> None:
    """Train the model that ``build`` makes as ``phase`` says, and publish it with ``record`` as ``out``.

    Args:
        make_examples: called as :class:`~pacer.training.examples.Examples`. prepare: called before the first update
            with model, examples and the run's scratch directory. loss: what is minimised.
    """
    accelerator = Accelerator(
        mixed_precision=mixed_precision(params.train.precision),
        kwargs_handlers=[InitProcessGroupKwargs(timeout=PATIENCE)],
    )
    main = accelerator.is_main_process
    groups = {phase.name, "train", "batches", "commit"}
    inputs = {
        "params": params.model_dump(include=groups, exclude={"train": _NO_MATTER}),
        "record": record.model_dump(exclude={"step", "parent", "versions"}),
        "precision": accelerator.mixed_precision,
        "records": hash_file(corpus / "records.parquet"),
        "anchors": hash_file(anchors) if anchors else None,
        "features": content_hash(features),
        "start": checkpoint_hash(start) if start else None,
    }
    fingerprint = hash_json(inputs)
    scratch = scratch_directory(out, fingerprint) if main else nullcontext(Path(f"{out}.scratch") / fingerprint[:16])
    with scratch as directory:
        model = build(accelerator)
        examples = _examples(
            corpus,
            anchors,
            backbones,
            features,
            phase,
            params,
            record.model.prompt,
            directory,
            accelerator,
            make_examples,
        )
        facts = read_json(directory / _SURVEY)
        if prepare is not None:
            prepare(model, examples, directory, accelerator)
        with open_log(directory) if main else nullcontext(lambda values, step: None) as log:
            if main:
                print(_padding(phase, params, facts), flush=True)
                log(facts, 0)
            weights = train(model, examples, phase, params, accelerator, directory, log, loss)
        accelerator.wait_for_everyone()  # nobody reads the scratch directory any more
        if main:
            checkpoint = directory / "checkpoint"
            save_checkpoint(checkpoint, weights, record)
            publish(checkpoint, out)
    accelerator.wait_for_everyone()
    accelerator.end_training()


def _build(
    params: Params, record: CheckpointRecord, backbones: Path, start: Path | None, accelerator: Accelerator
) -> Pacer:
    """The phase's model with its starting weights; with bfloat16 training the frozen language model is bfloat16."""
    torch.manual_seed(params.train.seed)
    half = accelerator.mixed_precision == "bf16"
    calibrate = record.phase == "calibrate"
    # Calibrate's parent is merged in float32 and rounded once, as decoding does
    dtype = torch.bfloat16 if half and not calibrate else torch.float32
    model = build_model(backbones, record.model, dtype)
    if start is not None:
        _start_from(model, start, record.frozen)
    if record.phase == "parent" and params.parent.start == "warmup":
        if params.parent.lateral_start == "frontal":
            model.interface.start_lateral_from_frontal()
        if params.parent.prior_start == "frontal":
            model.interface.start_prior_from_frontal()
    if calibrate:
        model.merge_lora()
        if half:
            model.language.to(torch.bfloat16)
    return model.to(accelerator.device)


def _examples(
    corpus: Path,
    anchors: Path | None,
    backbones: Path,
    features: Path,
    phase: Phase,
    params: Params,
    prompt: Prompt | None,
    directory: Path,
    accelerator: Accelerator,
    make: Callable[..., Examples],
) -> Examples:
    """The phase's records, measured; the first process writes what the others map."""

    opened = open_features(features, backbones, accelerator.device)

    def examples() -> Examples:
        return make(
            RecordTable.map(directory / _RECORDS),
            load_tokenizer(backbones),
            opened,
            params.interface.num_queries,
            params.trajectory.report_tokens,
            prompt,
        )

    if accelerator.is_main_process and not (directory / _SURVEY).exists():
        write_record_table(corpus / "records.parquet", anchors, phase.contexts, directory / _RECORDS)
        own = examples()
        if not any(len(rows) for rows in own.table.rows("train", phase.contexts).values()):
            raise DataError(
                f"{corpus} has no record of split train in {', '.join(phase.contexts)}, which {phase.name} "
                "trains on; look at the corpus audit"
            )
        counts, own.lengths = own.survey()
        with atomic_path(directory / _LENGTHS) as temporary, open(temporary, "wb") as file:
            np.save(file, own.lengths)
        write_json(directory / _SURVEY, counts | plan_of(phase, params, own).real_share())
    accelerator.wait_for_everyone()
    if not (directory / _SURVEY).exists():
        raise PacerError(
            f"process {accelerator.process_index} does not see {directory}, which the first process wrote; all nodes "
            "must run in one shared working tree"
        )
    own = examples()
    own.lengths = np.load(directory / _LENGTHS, mmap_mode="r")
    return own


def _padding(phase: Phase, params: Params, facts: dict[str, float]) -> str:
    return (
        f"{phase.name}: {facts['targets/reports']:.0f} records; real tokens over padded tokens in an epoch "
        f"{facts['batches/real_share']:.3f} (batches.window {params.batches.window}), in the published order "
        f"{facts['batches/published_real_share']:.3f}"
    )


def _start_from(model: torch.nn.Module, start: Path, frozen: dict[str, str]) -> None:
    """Load the weights of the phase before; what that phase did not train keeps its initial value."""
    record, weights = load_weights(start)
    if record.frozen != frozen:
        raise CheckpointError(f"{start} was trained on other frozen models than those at hand; run its phase again")
    trained = dict.fromkeys(weights)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in trained)
    load_strictly(model, weights, start)


def mixed_precision(precision: str) -> str:
    """What ``train.precision`` means on this machine, in accelerate's words."""
    if precision == "auto":
        return "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported(False) else "no"
    return {"float32": "no", "bfloat16": "bf16"}[precision]
